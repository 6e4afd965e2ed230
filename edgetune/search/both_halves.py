"""Two workloads for strategies that know of one: each point they ask for is measured as its two halves in turn.

A half that breaks a constraint by itself settles the point, so the other half is not measured; a background half
measured once serves every batch size of its mode.
"""

from __future__ import annotations

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.pairs import Half, half_violations, judge_pair
from edgetune.search.problem import Judgement
from edgetune.search.space import Space
from edgetune.search.strategies.strategy import AskTell, PointResult, Suggestion


class BothHalves:
    """A strategy over points of the urgent workload, asked for halves and told of halves."""

    def __init__(self, inner: AskTell, space: Space, problem: Problem) -> None:
        self._inner, self._space, self._problem = inner, space, problem
        self._told: dict[Point, PointResult] = {}
        self._asked: Suggestion | None = None
        self._settled: set[Point] = set()

    def ask(self) -> Suggestion | None:
        """Return the next half of the point that the strategy asked for last, else a half of its next point."""
        while True:
            if self._asked is None:
                self._asked = self._inner.ask()
            if self._asked is None:
                return None
            point = self._asked.point
            if not self._settle(point):
                return self._half(self._asked, point if point not in self._told else self._space.partner(point))
            self._asked = None

    def tell(self, point: Point, result: PointResult) -> None:
        """Take note of a half; where that settles points, the strategy is told of them."""
        self._told[point] = result
        partner = self._space.partner(point)
        urgent = [p for p in self._told if p in self._space.levels and self._space.partner(p) == partner]
        for p in urgent if point == partner else [point]:
            self._settled.discard(p)
            self._settle(p)
        if self._asked is not None and self._asked.point in self._settled:
            self._asked = None

    def _settle(self, point: Point) -> bool:
        """Tell the strategy of a point once its halves say enough; return whether they do."""
        if point not in self._settled:
            result = self._outcome(point)
            if result is None:
                return False
            self._settled.add(point)
            self._inner.tell(point, result)
        return True

    def _outcome(self, point: Point) -> PointResult | None:
        partner = self._space.partner(point)
        outcomes = [self._told[half] for half in (point, partner) if half in self._told]
        for result in outcomes:
            if result.minibatch_s is None:
                return PointResult(Judgement(None, None, unknown=result.judgement.unknown))
        urgent, background = self._figures(point), self._figures(partner)
        if urgent is not None and background is not None:
            powers = [half.power_w for half in (urgent, background) if half.power_w is not None]
            judgement = judge_pair(self._problem, urgent, background)
            return PointResult(judgement, urgent.minibatch_s, max(powers) if len(powers) == 2 else None)
        broken = half_violations(self._problem, urgent=urgent) if urgent else []
        if background and not broken:
            broken = half_violations(self._problem, background=background)
        if not broken:
            return None
        known = urgent or background
        assert known is not None
        return PointResult(Judgement(None, False, tuple(broken)), known.minibatch_s, known.power_w)

    def _figures(self, point: Point) -> Half | None:
        result = self._told.get(point)
        if result is None or result.minibatch_s is None:
            return None
        return Half(point.batch_size, result.minibatch_s, result.power_w)

    def _half(self, asked: Suggestion, point: Point) -> Suggestion:
        if point == asked.point:
            return asked
        return Suggestion(point, f"{asked.reason}; the background workload there")
