"""What the search by slopes knows of each kind of problem: training and inference (two workloads: ``pair_ground``).

Each ground remembers the figures it was told, says how a point stands to the power budget, and rules out the points
that monotone time and power do not let be better than the best. The rules are exact where time and power are monotone.
"""

from __future__ import annotations

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.bounds import OVER_BUDGET_SLACK, Bounds, Least
from edgetune.search.gradient import Asking, State
from edgetune.search.pairs import Half, half_violations
from edgetune.search.problem import peak_latency_s
from edgetune.search.space import Levels, Space
from edgetune.search.strategies.strategy import PointResult, Suggestion


def power_limit_w(problem: Problem) -> float:
    """Return the power budget less its margin, W; infinite for none."""
    return float("inf") if problem.power_budget_w is None else problem.power_budget_w * (1 - problem.margin)


class _WorkloadState:
    """What one workload's measured points have in common, whatever counts."""

    def __init__(self, space: Space, problem: Problem) -> None:
        self._space, self._problem, self._limit_w = space, problem, power_limit_w(problem)
        self._told: dict[Levels, PointResult] = {}

    def slope_figures(self, levels: Levels) -> tuple[float, float] | None:
        """Return time per sample, s, and power, W."""
        return slope_figures(self._space, levels, self._told.get(levels))

    def best(self) -> Levels | None:
        """Return the best point that keeps every budget."""
        found = [levels for levels, result in self._told.items() if result.judgement.feasible]
        return max(found, key=lambda levels: (self._told[levels].judgement.objective or 0.0, levels), default=None)

    def measure(self, levels: Levels, reason: str) -> Asking:
        """Ask for a point unless it has been told of."""
        point = self._space.at(levels)
        if point is not None and levels not in self._told:
            yield Suggestion(point, reason)


class TrainingSearchState(_WorkloadState):
    """Training: throughput counts; per sample, faster is better, whatever the batch size."""

    def __init__(self, space: Space, problem: Problem) -> None:
        super().__init__(space, problem)
        self._bounds = Bounds(space, self._limit_w)

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of a point."""
        levels = self._space.levels[point]
        self._told[levels] = result
        if result.minibatch_s is not None:
            self._bounds.note(levels, result.power_w)

    def state(self, levels: Levels) -> State:
        """Return how a point stands to the power budget; one that could not be judged has failed."""
        if levels not in self._told:
            return "unknown"
        feasible = self._told[levels].judgement.feasible
        return "failed" if feasible is None else "within" if feasible else "over"

    def worthwhile(self, levels: Levels) -> bool:
        """Return whether a point is not measured yet and not ruled out."""
        return levels not in self._told and not self._bounds.rules_out(levels)


class InferenceSearchState(_WorkloadState):
    """Inference: requests arrive one by one, and the latency of the slowest counts.

    A point within the power budget that is too slow is *within*: what helps is more speed, not less.
    """

    def __init__(self, space: Space, problem: Problem) -> None:
        super().__init__(space, problem)
        self._least = Least(space)

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of a point."""
        levels = self._space.levels[point]
        self._told[levels] = result
        if result.minibatch_s is not None:
            self._least.note(levels, result.minibatch_s, result.power_w)

    def state(self, levels: Levels) -> State:
        """Return how a point stands to the power budget, however slow it is."""
        return "unknown" if levels not in self._told else state_of(self._told[levels], self._limit_w)

    def worthwhile(self, levels: Levels) -> bool:
        """Return whether a point is not measured yet, may keep every budget and may have a lower latency."""
        point = self._space.at(levels)
        if point is None or levels in self._told or self._least.power_w(levels) > with_slack(self._limit_w):
            return False
        half = Half(point.batch_size, self._least.minibatch_s(levels), None)
        if waits_too_long(self._problem, point.batch_size) or half_violations(self._problem, urgent=half):
            return False
        best = self.best()
        objective = -peak_latency_s(self._problem, half.batch_size, half.minibatch_s)
        return best is None or objective > (self._told[best].judgement.objective or 0.0)

    def promises(self, base: Levels) -> bool:
        """Return whether a point would keep up and answer in time if what each knob saves by itself added up."""
        point, told = self._space.at(base), self._told.get(base)
        if point is None or told is None or told.minibatch_s is None:
            return True
        savings_s: dict[int, float] = {}
        for levels, result in self._told.items():
            moved = [axis for axis, (a, b) in enumerate(zip(levels, base, strict=True)) if a != b]
            is_knob = len(moved) == 1 and self._space.axes[moved[0]].name != "batch_size"
            if is_knob and result.minibatch_s is not None:
                saved_s = told.minibatch_s - result.minibatch_s
                savings_s[moved[0]] = max(saved_s, savings_s.get(moved[0], 0.0))
        least_s = max(told.minibatch_s - sum(savings_s.values()), 0.0)
        return not half_violations(self._problem, urgent=Half(point.batch_size, least_s, None))

    def fastest_within(self) -> list[Levels]:
        """Return the points measured within power, the fastest per sample first."""
        within = [levels for levels in self._told if self.state(levels) == "within"]
        return sorted(within, key=lambda levels: (self.slope_figures(levels) or (0.0, 0.0), levels))


def waits_too_long(problem: Problem, batch_size: int) -> bool:
    """Return whether a batch of this size takes the whole latency budget to fill, however fast it then runs."""
    if problem.latency_budget_s is None or problem.arrival_rate_per_s is None:
        return False
    limit_s = problem.latency_budget_s * (1 - problem.margin)
    return (batch_size - 1) / problem.arrival_rate_per_s >= limit_s


def with_slack(limit_w: float) -> float:
    """Return the power from which a point rules out those above it, W."""
    return limit_w * (1 + OVER_BUDGET_SLACK)


def state_of(result: PointResult, limit_w: float) -> State:
    """Return how a measured workload stands to the power budget by itself."""
    if result.minibatch_s is None or (result.power_w is None and limit_w < float("inf")):
        return "failed"
    return "over" if result.power_w is not None and result.power_w > limit_w else "within"


def slope_figures(space: Space, levels: Levels, result: PointResult | None) -> tuple[float, float] | None:
    """Return time per sample, s, and power, W, of a measured point of the space; ``None`` if there are none."""
    point = space.at(levels)
    if point is None or result is None or result.minibatch_s is None or result.power_w is None:
        return None
    return result.minibatch_s / point.batch_size, result.power_w
