"""What the search by slopes knows of two workloads on one board."""

from __future__ import annotations

from typing import Literal

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.bounds import Least
from edgetune.search.gradient import Asking, State
from edgetune.search.pairs import Half, half_violations, judge_pair
from edgetune.search.search_state import power_limit_w, slope_figures, state_of, waits_too_long, with_slack
from edgetune.search.space import Levels, Space
from edgetune.search.strategies.strategy import PointResult, Suggestion


class PairSearchState:
    """Two workloads in one mode: how much of the background fits between the batches of the urgent one.

    A point is a mode and a batch size of the urgent workload; it is measured as two halves, and one of the background
    serves every batch size of its mode. The half that draws more power, where both were first measured, is measured
    first from then on, and slopes are its slopes. A half that already rules the point out spares the other.
    """

    def __init__(self, space: Space, problem: Problem) -> None:
        assert space.background is not None
        self._space, self._problem, self._limit_w = space, problem, power_limit_w(problem)
        self._background_size = space.background.batch_size
        batch = next((i for i, axis in enumerate(space.axes) if axis.name == "batch_size"), None)
        self._mode = {
            levels: tuple(0 if axis == batch else level for axis, level in enumerate(levels))
            for levels in space.levels.values()
        }
        self._size = {levels: point.batch_size for point, levels in space.levels.items()}
        self._partners = {space.partner(point): self._mode[levels] for point, levels in space.levels.items()}
        self._urgent: dict[Levels, PointResult] = {}
        self._background: dict[Levels, PointResult] = {}
        self._least_urgent, self._least_background = Least(space), Least(space)
        self._found: dict[Levels, tuple[float, float]] = {}
        self._draws_more: Literal["urgent", "background"] | None = None

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of a half; of two instances of one network a point may be both halves."""
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
        """Return how a point stands to the power budget: over when a half is, within when both are."""
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
        """Return the point that leaves most room to the background, of equals the one of the lowest latency."""
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
            if not known and self.state(levels) == "unknown":
                yield Suggestion(half, f"{reason}; {which}")
            if self._draws_more is not None and not self.worthwhile(levels):
                return
        self._compare(levels)

    def serves(self, levels: Levels) -> bool:
        """Return whether the urgent workload alone, as far as is known, keeps up and answers in time here."""
        point = self._space.at(levels)
        if point is None or waits_too_long(self._problem, point.batch_size):
            return False
        half = Half(point.batch_size, self._least_urgent.minibatch_s(levels), None)
        return not half_violations(self._problem, urgent=half)

    def measure_urgent(self, levels: Levels, reason: str) -> Asking:
        """Ask for the urgent half of a point unless it has been told of."""
        point = self._space.at(levels)
        if point is not None and levels not in self._urgent:
            yield Suggestion(point, f"{reason}; the urgent workload")

    def _halves(self, levels: Levels) -> tuple[PointResult | None, PointResult | None]:
        mode = self._mode.get(levels)
        return self._urgent.get(levels), None if mode is None else self._background.get(mode)

    def _compare(self, levels: Levels) -> None:
        """Note which half draws more, where both were measured for the first time."""
        urgent, background = self._halves(levels)
        if self._draws_more or urgent is None or background is None or not (urgent.power_w and background.power_w):
            return
        self._draws_more = "urgent" if urgent.power_w > background.power_w else "background"

    def _judge(self, levels: Levels) -> None:
        """Take note of a point that keeps every budget; measured again, it may no longer."""
        self._found.pop(levels, None)
        if self.state(levels) != "within":
            return
        size, (urgent, background) = self._size[levels], self._halves(levels)
        judged = judge_pair(self._problem, _half(size, urgent), _half(self._background_size, background))
        if judged.feasible:
            self._found[levels] = (judged.objective or 0.0, judged.second)

    def _value(self, levels: Levels | None) -> tuple[float, float]:
        return (-1.0, 0.0) if levels is None else self._found[levels]


def _half(batch_size: int, result: PointResult | None) -> Half:
    assert result is not None
    assert result.minibatch_s is not None
    return Half(batch_size, result.minibatch_s, result.power_w)
