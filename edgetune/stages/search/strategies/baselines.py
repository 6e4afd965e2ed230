"""The strategies ``exhaustive`` (the true optimum) and ``random`` (the baseline).

Fulcrum's strategies as printed (2025), where edgetune's differ: to reproduce its figures, not to search with.

    name           differs from   in
    gmd-study      gmd            the knob of the largest ratio of time to power is taken also over the budget; both
                                  halves of a pair are measured, and at each step the one that draws more gives the
                                  slopes; no back-tracking but the study's, by increasing latency: larger batches in
                                  inference, smaller ones in pairs
    als-study      als            one network keeps its weights; 5 points per batch size first; the farthest of the
                                  front of unmeasured points are chosen at once; nothing is drawn where it has too few
    nn-study       nn             the loss of the study; all points drawn, modes with every batch size; no picks
    random-study   random         modes are drawn, and each is measured with every batch size

Budgets count measurements of a mode: of two workloads a point is two halves, of which one serves every batch size.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.stages.search.problem import PAIRS
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategies.als import Als, Region, front
from edgetune.stages.search.strategies.gmd import Gmd
from edgetune.stages.search.strategies.gmd_state import InferenceSearchState, PairSearchState
from edgetune.stages.search.strategies.nn import Array, NetworkSearch, Nn, Predictions
from edgetune.stages.search.strategy import NO_HINTS, Asking, Hints, PointResult, Strategy, Suggestion

if TYPE_CHECKING:
    from edgetune.stages.search.strategies.power_train_network import ContinuedNetwork


class _Listed(Strategy):
    """Points in a given order, without those whose result is known."""

    reason: ClassVar[str]
    takes_names: ClassVar[bool] = True
    judges_columns: ClassVar[bool] = True

    def __init__(self, points: Iterable[Point]) -> None:
        self._left = iter(dict.fromkeys(points))
        self._told: set[Point] = set()

    def ask(self) -> Suggestion | None:
        """Return the next point whose result is not known."""
        point = next((point for point in self._left if point not in self._told), None)
        return None if point is None else Suggestion(point, self.reason)

    def tell(self, point: Point, result: PointResult) -> None:
        """Remember that the point is done."""
        del result
        self._told.add(point)


class Exhaustive(_Listed):
    """Every offered point, of two workloads both halves, in the order of the space. The seed has no effect."""

    name: ClassVar[str] = "exhaustive"
    reason: ClassVar[str] = "every point is measured"
    learns_halves: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del problem, seed, hints
        halves = [[point] if space.background is None else [point, space.partner(point)] for point in space.points]
        super().__init__(chain.from_iterable(halves))

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return ``None``: all of them."""
        del problem
        return None


class Random(_Listed):
    """Offered points drawn without replacement, each as likely as any other; the seed decides which."""

    name: ClassVar[str] = "random"
    reason: ClassVar[str] = "drawn at random"
    budget_free: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del problem, hints
        points = list(space.points)
        random.Random(seed).shuffle(points)
        super().__init__(points)

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 50, the smallest of the three budgets (50, 150, 250) that Fulcrum gives its random baseline."""
        del problem
        return 50


def modes_at_random(space: Space, seed: int) -> list[Point]:
    """Return all points, mode by mode in random order: every batch size of a mode, then its background half."""
    by_mode = sorted(range(len(space.points)), key=lambda row: _mode_key(space, row))
    modes = [[space.points[row] for row in rows] for _, rows in groupby(by_mode, lambda row: _mode_key(space, row))]
    random.Random(seed).shuffle(modes)
    if space.background is None:
        return [point for points in modes for point in points]
    return [point for points in modes for point in (*points, space.partner(points[0]))]


def _mode_key(space: Space, row: int) -> tuple[int, ...]:
    levels = space.levels[space.points[row]]
    return tuple(level for level, axis in zip(levels, space.axes, strict=True) if axis.name != "batch_size")


class RandomStudy(Random):
    """Modes at random, each with every batch size; the seed decides which."""

    name: ClassVar[str] = "random-study"
    reason: ClassVar[str] = "a mode drawn at random, with every batch size"
    learns_halves: ClassVar[bool] = True
    takes_names: ClassVar[bool] = False

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        super().__init__(space, problem, seed=seed, hints=hints)
        self._left = iter(modes_at_random(space, seed))

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return the study's smaller budgets: 50 for training, else 30 modes with 5 batch sizes and a background."""
        return 50 if problem.kind in ("train", "accuracy") else 180 if problem.kind in PAIRS else 150


class _TaughtOn(NetworkSearch):
    """Keeps one network per workload, which goes on from its weights."""

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        super().__init__(space, problem, seed=seed, hints=hints)
        self._networks: dict[int, ContinuedNetwork] = {}

    def _taught(self, inputs: Array, rows: Sequence[int], measured: Array) -> Array:
        from edgetune.stages.search.strategies.power_train_network import ContinuedNetwork

        return self._networks.setdefault(len(inputs), ContinuedNetwork(self._seed)).predict(inputs, rows, measured)


class NnStudy(_TaughtOn, Nn):
    """Modes at random teach the network; problems are answered from its predictions."""

    name: ClassVar[str] = "nn-study"

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 250, and of two workloads the background halves of their 50 modes."""
        return 300 if problem.kind in PAIRS else 250

    def _search(self) -> Asking:
        self._left = iter(modes_at_random(self._space, self._seed))
        while (yield from self._draw()):
            pass


class AlsStudy(_TaughtOn, Als):
    """Active learning of the front."""

    name: ClassVar[str] = "als-study"

    def _search(self) -> Asking:
        training = self._problem.kind in ("train", "accuracy")
        for point in self._first(training):
            if point not in self._told:
                yield Suggestion(point, "drawn at random to teach the network")
        for _ in range(8 if training else 3 if self._partners else 6):
            yield from self._round()

    def _first(self, training: bool) -> Iterator[Point]:
        """Return 10 points at random, or 5 of each batch size; of two workloads both halves."""
        drawn = list(self._space.points)
        random.Random(self._seed).shuffle(drawn)
        sizes: dict[int, int] = {}
        for point in drawn[:10] if training else drawn:
            sizes[point.batch_size] = sizes.get(point.batch_size, 0) + 1
            if training or sizes[point.batch_size] <= 5:
                yield point
                yield from [self._space.partner(point)] if self._partners else []

    def _farthest(self, region: Region, learnt: Predictions) -> Asking:
        rows, cost, power_w = region
        measured_w = np.array(self._measured_w())
        reason = "on the predicted front, its power farthest from any measured"
        unmeasured = np.array([row for row in rows if self._halves(int(row), learnt, reason)], dtype=np.intp)
        left = [int(row) for row in front(unmeasured, cost, power_w)]
        gaps = {row: float(np.abs(measured_w - power_w[row]).min(initial=np.inf)) for row in left}
        chosen = sorted(left, key=lambda row: (-gaps[row], row))[: 10 if self._partners else 5]
        asked = {half.point: half for row in chosen for half in self._halves(row, learnt, reason)}
        yield from asked.values()


class GmdStudy(Gmd):
    """The gradient search by the study's ratio, and without back-tracking but for the study's own."""

    name: ClassVar[str] = "gmd-study"
    as_printed: ClassVar[bool] = True

    def _train(self) -> Asking:
        yield from self._begin()

    def _serve(self, state: InferenceSearchState) -> Asking:
        sizes = self._batches()
        if (yield from self._begin(sizes[0])) is not None:
            yield from self._larger_batches(state, sizes[1:])

    def _serve_both(self, state: PairSearchState) -> Asking:
        left = self._batches()
        size = yield from self._largest_served(state, left)
        if (yield from self._begin(size)) is None:
            return
        while left and state.best() is None:
            smaller = left.pop()
            for mode in state.fastest_within():
                yield from state.measure(self._at_batch(mode, smaller), "a smaller batch, for nothing was found")
                if state.best() is not None:
                    return
