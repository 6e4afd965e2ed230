"""The measurements of ``gmd`` for each kind of problem, and the points that they rule out.

Raising a clock never makes a network slower and nearly always draws more power. So a point over the budget rules out
the points above it, and a point within the budget makes those below it pointless. ``Bounds`` applies this to training;
``Least`` gives lower bounds of time and power, for problems in which time decides more than which point is faster.
The rules are exact where time and power are monotone.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.stages.search.problem import Half, half_violations, judge_pair, peak_latency_s
from edgetune.stages.search.space import Levels, Space
from edgetune.stages.search.strategies.gradient import State
from edgetune.stages.search.strategy import Asking, PointResult, Suggestion

OVER_BUDGET_SLACK = 0.03
"""Share by which a point must exceed the budget to rule out others: measured power scatters by 2 to 3 %."""


class Bounds:
    """The points of a space that measured points rule out.

    Power is assumed to rise with every axis but the memory clock: a faster memory shortens the waits of a launch-bound
    network on an idle GPU, and saves up to 10 % of power. Throughput is assumed to fall with no axis.

    Args:
        space: The offered points.
        limit_w: Power budget less its margin, W; infinite for none.
    """

    def __init__(self, space: Space, limit_w: float) -> None:
        self._limit_w = limit_w
        self._memory = next((i for i, axis in enumerate(space.axes) if axis.name == "mem_mhz"), None)
        self._over: set[Levels] = set()
        self._within: set[Levels] = set()

    def note(self, levels: Levels, power_w: float | None) -> None:
        """Record a measured point and its power, W; ``None`` rules nothing out.

        Measured again, the later power counts.
        """
        self._over.discard(levels)
        self._within.discard(levels)
        if power_w is None:
            if self._limit_w == float("inf"):
                self._within.add(levels)
        elif power_w <= self._limit_w:
            self._within.add(levels)
        elif power_w > self._limit_w * (1 + OVER_BUDGET_SLACK):
            self._over.add(levels)

    def rules_out(self, levels: Levels) -> bool:
        """Return whether this point would be over the budget, or no faster than one measured within it."""
        return any(_below(levels, within) for within in self._within) or any(
            _below(over, levels) and (self._memory is None or over[self._memory] == levels[self._memory])
            for over in self._over
        )


class Least:
    """The least time and power that each point of one workload can have, by the points measured so far.

    Time is assumed not to rise when a knob is raised, and not to fall when a batch grows; power as in ``Bounds``, with
    the batch size as one of the axes.

    Args:
        space: The points, for their axes.
        rows: Number of each place; by default of those of the space.
    """

    def __init__(self, space: Space, rows: Mapping[Levels, int] | None = None) -> None:
        names = [axis.name for axis in space.axes]
        self._rows = space.rows if rows is None else rows
        self._places = np.array(list(self._rows), dtype=np.int16).reshape(len(self._rows), len(names))
        self._turned = np.array([1 if name == "batch_size" else -1 for name in names], dtype=np.int16)
        self._memory = names.index("mem_mhz") if "mem_mhz" in names else None
        self._told: dict[Levels, tuple[float, float | None]] = {}
        self._times_s, self._powers_w = np.zeros((2, len(self._rows)))

    def note(self, levels: Levels, minibatch_s: float, power_w: float | None) -> None:
        """Record the figures of a measured point, s and W; measured again, the later ones count."""
        again = levels in self._told
        self._told[levels] = (minibatch_s, power_w)
        if again:
            self._times_s, self._powers_w = np.zeros((2, len(self._rows)))
        for place, (time_s, drawn_w) in self._told.items() if again else [(levels, (minibatch_s, power_w))]:
            away = self._places - np.array(place, dtype=np.int16)
            slower = (away * self._turned >= 0).all(axis=1)
            np.maximum(self._times_s, time_s, out=self._times_s, where=slower)
            if drawn_w is not None:
                above = (away >= 0).all(axis=1)
                if self._memory is not None:
                    above &= away[:, self._memory] == 0
                np.maximum(self._powers_w, drawn_w, out=self._powers_w, where=above)

    def minibatch_s(self, levels: Levels) -> float:
        """Return a lower bound of the time of a minibatch at an offered point, s; 0 without measurements."""
        return float(self._times_s[self._rows[levels]])

    def power_w(self, levels: Levels) -> float:
        """Return a lower bound of the power of an offered point, W; 0 without measurements."""
        return float(self._powers_w[self._rows[levels]])


def _below(low: Levels, high: Levels) -> bool:
    """Return whether ``low`` is at most ``high`` on every axis."""
    return all(a <= b for a, b in zip(low, high, strict=True))


def power_limit_w(problem: Problem) -> float:
    """Return the power budget less its margin, W; infinite for none."""
    return float("inf") if problem.power_budget_w is None else problem.power_budget_w * (1 - problem.margin)


class _WorkloadState:
    """The results of one workload, and their consequences for any objective."""

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
        """Ask for a point unless its result is known."""
        point = self._space.at(levels)
        if point is not None and levels not in self._told:
            yield Suggestion(point, reason)


class TrainingSearchState(_WorkloadState):
    """Training: throughput counts; per sample, faster is better, whatever the batch size."""

    def __init__(self, space: Space, problem: Problem) -> None:
        super().__init__(space, problem)
        self._bounds = Bounds(space, self._limit_w)

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point."""
        levels = self._space.levels[point]
        self._told[levels] = result
        if result.minibatch_s is not None:
            self._bounds.note(levels, result.power_w)

    def state(self, levels: Levels) -> State:
        """Return whether a point is within the power budget; one that could not be judged has failed."""
        if levels not in self._told:
            return "unknown"
        feasible = self._told[levels].judgement.feasible
        return "failed" if feasible is None else "within" if feasible else "over"

    def worthwhile(self, levels: Levels) -> bool:
        """Return whether a point is not measured yet and not ruled out."""
        return levels not in self._told and not self._bounds.rules_out(levels)


class InferenceSearchState(_WorkloadState):
    """Inference: requests arrive one by one, and the latency of the slowest counts.

    A point within the power budget that is too slow counts as *within*, because a faster point is needed.
    """

    def __init__(self, space: Space, problem: Problem) -> None:
        super().__init__(space, problem)
        self._least = Least(space)

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point."""
        levels = self._space.levels[point]
        self._told[levels] = result
        if result.minibatch_s is not None:
            self._least.note(levels, result.minibatch_s, result.power_w)

    def state(self, levels: Levels) -> State:
        """Return whether a point is within the power budget, however slow it is."""
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
        """Return whether a point would keep up and answer in time if the savings of each knob added up."""
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
    """Return whether one measured workload is within the power budget."""
    if result.minibatch_s is None or (result.power_w is None and limit_w < float("inf")):
        return "failed"
    return "over" if result.power_w is not None and result.power_w > limit_w else "within"


def slope_figures(space: Space, levels: Levels, result: PointResult | None) -> tuple[float, float] | None:
    """Return time per sample, s, and power, W, of a measured point of the space; ``None`` if there are none."""
    point = space.at(levels)
    if point is None or result is None or result.minibatch_s is None or result.power_w is None:
        return None
    return result.minibatch_s / point.batch_size, result.power_w


class PairSearchState:
    """Two workloads in one mode: how much of the background fits between the batches of the urgent one.

    A point is a mode and a batch size of the urgent workload; it is measured as two halves, and one of the background
    serves every batch size of its mode. The half that draws more power, where both were first measured, is measured
    first from then on, and slopes are its slopes. A half that already rules the point out spares the other.

    With ``each_step`` both halves of every point are measured, and which one draws more is decided anew at each
    (Fulcrum, 2025, section 5.1.4).
    """

    def __init__(self, space: Space, problem: Problem, *, each_step: bool = False) -> None:
        assert space.background is not None
        self._each_step = each_step
        self._space, self._problem, self._limit_w = space, problem, power_limit_w(problem)
        self._background_size = space.background.batch_size
        batch = next((i for i, axis in enumerate(space.axes) if axis.name == "batch_size"), None)
        self._mode = {
            levels: levels if batch is None else (*levels[:batch], 0, *levels[batch + 1 :]) for levels in space.rows
        }
        modes = {mode: row for row, mode in enumerate(dict.fromkeys(self._mode.values()))}
        self._partners = dict(zip(space.partners, self._mode.values(), strict=True))
        self._urgent: dict[Levels, PointResult] = {}
        self._background: dict[Levels, PointResult] = {}
        self._least_urgent, self._least_background = Least(space), Least(space, modes)
        self._found: dict[Levels, tuple[float, float]] = {}
        self._draws_more: Literal["urgent", "background"] | None = None

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a half; of two instances of one network a point may be both halves."""
        mode = self._partners.get(point)
        if point in self._space.levels:
            levels = self._space.levels[point]
            self._urgent[levels] = result
            if result.minibatch_s is not None:
                self._least_urgent.note(levels, result.minibatch_s, result.power_w)
            self._judge(levels)
        if mode is not None:
            self._background[mode] = result
            if result.minibatch_s is not None:
                self._least_background.note(mode, result.minibatch_s, result.power_w)
            for levels in [levels for levels in self._urgent if self._mode[levels] == mode]:
                self._judge(levels)

    def state(self, levels: Levels) -> State:
        """Return whether a point is within the power budget: over when a half is, within when both are."""
        states = [state_of(half, self._limit_w) for half in self._halves(levels) if half is not None]
        for settled in ("failed", "over"):
            if settled in states:
                return settled
        return "within" if len(states) == 2 else "unknown"

    def worthwhile(self, levels: Levels) -> bool:
        """Return whether a point is not settled, may keep every budget and may leave more room than the best."""
        point = self._space.at(levels)
        if point is None or self.state(levels) != "unknown":
            return False
        mode = self._mode[levels]
        power_w = max(self._least_urgent.power_w(levels), self._least_background.power_w(mode))
        if power_w > with_slack(self._limit_w) or waits_too_long(self._problem, point.batch_size):
            return False
        urgent = Half(point.batch_size, self._least_urgent.minibatch_s(levels), None)
        background_s = self._least_background.minibatch_s(mode)
        if not background_s:
            return not half_violations(self._problem, urgent=urgent)
        most = judge_pair(self._problem, urgent, Half(self._background_size, background_s, None))
        return not most.violations and ((most.objective or 0.0), most.second) > self._value(self.best())

    def slope_figures(self, levels: Levels) -> tuple[float, float] | None:
        """Return time per sample, s, and power, W, of the workload that draws more."""
        if levels not in self._mode or self._draws_more is None:
            return None
        urgent, background = self._halves(levels)
        if self._draws_more == "urgent":
            return slope_figures(self._space, levels, urgent)
        if background is None or background.minibatch_s is None or background.power_w is None:
            return None
        return background.minibatch_s / self._background_size, background.power_w

    def best(self) -> Levels | None:
        """Return the point that leaves most time to the background, of equal ones that of the lowest latency."""
        return max(self._found, key=lambda levels: (self._value(levels), levels), default=None)

    def measure(self, levels: Levels, reason: str) -> Asking:
        """Ask for the halves of a point that are not known, until one of them settles it or rules it out."""
        point = self._space.at(levels)
        if point is None:
            return
        halves = [(point, "the urgent workload"), (self._space.partner(point), "the background workload")]
        for half, which in halves if self._draws_more == "urgent" else reversed(halves):
            known = half in self._partners and self._partners[half] in self._background
            known = known or (half in self._space.levels and self._space.levels[half] in self._urgent)
            if not known and (self._each_step or self.state(levels) == "unknown"):
                yield Suggestion(half, f"{reason}; {which}")
            if self._draws_more is not None and not self._each_step and not self.worthwhile(levels):
                return
        self._compare(levels)

    def fastest_within(self) -> list[Levels]:
        """Return the points measured within power, those of the lowest latency first."""
        within = [levels for levels in self._urgent if self.state(levels) == "within"]
        return sorted(within, key=lambda levels: (self._urgent[levels].minibatch_s or 0.0, levels))

    def serves(self, levels: Levels) -> bool:
        """Return whether the urgent workload alone may keep up and answer in time at a point, by known bounds."""
        point = self._space.at(levels)
        if point is None or waits_too_long(self._problem, point.batch_size):
            return False
        half = Half(point.batch_size, self._least_urgent.minibatch_s(levels), None)
        return not half_violations(self._problem, urgent=half)

    def measure_urgent(self, levels: Levels, reason: str) -> Asking:
        """Ask for the urgent half of a point unless its result is known."""
        point = self._space.at(levels)
        if point is not None and levels not in self._urgent:
            yield Suggestion(point, f"{reason}; the urgent workload")

    def _halves(self, levels: Levels) -> tuple[PointResult | None, PointResult | None]:
        mode = self._mode.get(levels)
        return self._urgent.get(levels), None if mode is None else self._background.get(mode)

    def _compare(self, levels: Levels) -> None:
        """Record which half draws more: where both are first measured, or at each point."""
        urgent, background = self._halves(levels)
        decided = self._draws_more and not self._each_step
        if decided or urgent is None or background is None or not (urgent.power_w and background.power_w):
            return
        self._draws_more = "urgent" if urgent.power_w > background.power_w else "background"

    def _judge(self, levels: Levels) -> None:
        """Record a point that keeps every budget; measured again, it may no longer."""
        self._found.pop(levels, None)
        if self.state(levels) != "within":
            return
        urgent, background = self._halves(levels)
        size = self._space.points[self._space.rows[levels]].batch_size
        judged = judge_pair(self._problem, _half(size, urgent), _half(self._background_size, background))
        if judged.feasible:
            self._found[levels] = (judged.objective or 0.0, judged.second)

    def _value(self, levels: Levels | None) -> tuple[float, float]:
        return (-1.0, 0.0) if levels is None else self._found[levels]


def _half(batch_size: int, result: PointResult | None) -> Half:
    assert result is not None
    assert result.minibatch_s is not None
    return Half(batch_size, result.minibatch_s, result.power_w, result.late_s)
