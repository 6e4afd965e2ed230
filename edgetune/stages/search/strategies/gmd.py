"""Fulcrum's gradient search: find the knob that saves most time per watt, and halve its open range.

    power                     ..over budget..
      |        o  high end   /
      |      x   <- too much: drop what is above
      |    o     <- within budget: keep, drop what is below
      |  o  middle
      +----------------------> one knob, the others held

Gradient-based multi-dimensional search (GMD; Fulcrum, 2025) for the fastest training within a power budget:

1. Measure the middle of every knob's table.
2. Measure one point per knob, the others held: at its low end when the middle is over the budget, else at its high end.
   Time and power over that step are the knob's two slopes; their ratio says what a watt buys.
3. Take the knob with the best ratio. Measure the middle of what is left of it, keep it if it is within budget, drop the
   half that monotone power rules out, update the slope; take the next knob when this one is exhausted.
4. Back-track while there are points left; branch and bound drops what cannot be within budget or cannot be faster.

Where the published text leaves a choice, these were made:

- The middle is that of the table, by index, the lower of two. Without a power budget the top is measured instead.
- Raising knobs, the best ratio is most time saved per watt, as printed; lowering them, most watts saved per second
  lost, because the aim is to come within the budget at the least cost. Printed is the largest ratio of time to power
  there too (``gmd-study``): over 108 budgets of three simulated networks it ends 13.7 % above the optimum in the mean,
  this one 8.2 %.
- A power change below 2 % is no slope; a knob without one comes last.
- While the point held is within budget a knob is raised, else lowered; one that is within budget nowhere on its line
  stays at its lowest value.
- Back-tracking first goes on from the best point found, all knobs open again; then starts from the middle once more
  with each other knob taken first; then lowers one knob of the best point half-way and raises the others; then takes
  what is nearest to the best point. Points measured before cost nothing.
- What monotone power and time rule out, and what they do not, is in ``search.bounds``.
- Several batch sizes are one more knob; time is always per sample.
- On a table with holes a knob has only the points offered on its line, and the middle is the nearest point offered.
  A failed measurement rules out itself alone.

Inference (11 points), for the lowest latency:

1. At the smallest batch the same search over modes, for the least time within the power budget. Points that cannot keep
   up or answer in time by what is known are left out.
2. If nothing there keeps up with the arrivals or the latency budget: the modes within power at larger and larger
   batches, fastest first, until one does. A batch that takes the whole latency budget to fill is never tried.
3. From what was found the knobs go on at its batch size, and back-track.

Two workloads (15 points, each measured for both: 30 measurements), for the most background work:

1. The largest batch that the top of every knob can serve in time: of the urgent workload alone, largest first.
2. The same search over modes at that batch; within budget means both powers, and the slopes are those of the workload
   that draws more at the middle.
3. Smaller batches, from the best mode found: its background half is known already.

There the published text leaves more choices:

- Points known from earlier come first: the search goes on from the best of them that keeps every budget, before any
  slope is measured. A new arrival rate so begins where the last one ended.
- A point within power that is too slow is within: knobs are raised from it. One that is over power and too slow rules
  out everything above and below it.
- The smallest batch is left after its slopes when what the knobs save by themselves, added up, does not keep up. Where
  all modes within power are over it at a larger batch, knobs are lowered there before a still larger one is tried.
- Slopes are those of the smallest (largest) batch; at another batch they only say which knob comes first.
- The half of the workload that draws more is measured first, and the other one not at all where that settles the point.

It uses no random numbers, so that the seed has no effect.
"""

from collections.abc import Generator
from functools import partial
from typing import ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.stages.search.problem import PAIRS, objective_of
from edgetune.stages.search.space import Levels, Space
from edgetune.stages.search.strategies.gmd_state import InferenceSearchState, PairSearchState, TrainingSearchState
from edgetune.stages.search.strategies.gradient import Gradient
from edgetune.stages.search.strategy import NO_HINTS, Asking, Hints, PointResult, SteppedStrategy, Suggestion

_SOLVED = {"train": "throughput", "infer": "latency", "train+infer": "throughput", "infer+infer": "throughput"}


class Gmd(SteppedStrategy):
    """The gradient search, as one course per kind of problem."""

    name: ClassVar[str] = "gmd"
    learns_halves: ClassVar[bool] = True
    as_printed: ClassVar[bool] = False
    """Whether the order of the knobs and the half that gives the slopes are the study's."""

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del seed, hints
        if _SOLVED.get(problem.kind) != objective_of(problem):
            raise InputError(
                f"gmd knows the throughput of training or of two workloads and the latency of inference, not "
                f"{objective_of(problem)} of {problem.kind}",
                "--strategy exhaustive or random for other problems and objectives",
            )
        self._space, self._has_budget = space, problem.power_budget_w is not None
        knobs = [i for i, axis in enumerate(space.axes) if axis.name != "batch_size"]
        self._batch = next(iter(set(range(len(space.axes))) - set(knobs)), None)
        self._state: TrainingSearchState | InferenceSearchState | PairSearchState
        if problem.kind in PAIRS:
            self._state = pairs = PairSearchState(space, problem, each_step=self.as_printed)
            self._gradient = Gradient(space, pairs, knobs, largest=self.as_printed)
            self._asking = self._serve_both(pairs)
        elif problem.kind == "infer":
            self._state = requests = InferenceSearchState(space, problem)
            self._gradient = Gradient(space, requests, knobs, largest=self.as_printed)
            self._asking = self._serve(requests)
        else:
            self._state = TrainingSearchState(space, problem)
            self._gradient = Gradient(space, self._state, range(len(space.axes)), largest=self.as_printed)
            self._asking = self._train()

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return Fulcrum's budgets: 10 for training, 11 for inference, 15 for two workloads (30 measurements)."""
        return {"train": 10, "accuracy": 10, "infer": 11}.get(problem.kind, 30)

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point; one known from earlier replaces its measurement."""
        self._state.tell(point, result)

    def _train(self) -> Asking:
        """Search for the fastest training: batch sizes, where there are several, are one more knob."""
        centre = yield from self._begin()
        if centre is not None:
            yield from self._gradient.back_track(centre)
            yield from self._gradient.what_is_left()

    def _serve(self, state: InferenceSearchState) -> Asking:
        """Search for the lowest latency: the smallest batch first, larger ones if no point keeps up."""
        yield from self._go_on_from_best()
        sizes = self._batches()
        centre = yield from self._centre(sizes[0])
        if centre is not None:
            yield from self._gradient.probe(centre)
            if state.promises(centre):
                yield from self._gradient.descend(centre)
            yield from self._larger_batches(state, sizes[1:])
            yield from self._go_on_from_best()
            yield from self._gradient.back_track(centre)
            yield from self._larger_batches(state, sizes[1:])
        yield from self._gradient.what_is_left()

    def _larger_batches(self, state: InferenceSearchState, sizes: list[int]) -> Asking:
        """Try the modes within power at larger and larger batches, fastest first, unless a point keeps up already."""
        for size in sizes:
            if state.best() is not None:
                return
            over = None
            for mode in state.fastest_within():
                levels = self._at_batch(mode, size)
                if not state.worthwhile(levels):
                    continue
                yield from state.measure(
                    levels, "too slow at smaller batches: the fastest within power, at a larger one"
                )
                if state.state(levels) == "within":
                    over = None
                    break  # what is too slow here, slower modes are as well
                over = levels
            if over is not None:
                yield from self._gradient.descend(over)

    def _serve_both(self, state: PairSearchState) -> Asking:
        """Search for the most background work: the largest batch that can be served first, then smaller ones."""
        yield from self._go_on_from_best()
        left = self._batches()
        size = yield from self._largest_served(state, left)
        centre = yield from self._begin(size)
        if centre is not None:
            while left:
                yield from self._smaller_batch(state, centre, left.pop(), "a smaller batch")
            yield from self._gradient.back_track(centre)
        yield from self._gradient.what_is_left()

    def _smaller_batch(self, state: PairSearchState, centre: Levels, size: int, reason: str) -> Asking:
        """Measure the best mode, or the centre's, at a smaller batch, and go on from there."""
        smaller = self._at_batch(state.best() or centre, size)
        if state.worthwhile(smaller):
            yield from state.measure(smaller, reason)
        yield from self._gradient.descend(smaller)

    def _largest_served(self, state: PairSearchState, left: list[int]) -> Generator[Suggestion, None, int]:
        """Return the largest batch that the top of every knob serves in time, and take it and larger ones off ``left``.

        Without one it is the smallest.
        """
        while True:
            size = left.pop()
            points = filter(partial(self._has_batch, size), self._space.rows)
            top = max(points, key=lambda levels: (sum(levels), levels))
            if state.serves(top):
                yield from state.measure_urgent(top, "the largest batch that the top of every knob serves in time?")
            if state.serves(top) or not left:
                return size

    def _begin(self, size: int | None = None) -> Generator[Suggestion, None, Levels | None]:
        """Measure the centre, slopes from there, and along the knobs; return the centre, ``None`` if all fail."""
        centre = yield from self._centre(size)
        if centre is not None:
            yield from self._gradient.probe(centre)
            yield from self._gradient.descend(centre)
        return centre

    def _centre(self, size: int | None = None) -> Generator[Suggestion, None, Levels | None]:
        """Measure the middle of every knob, or without a power budget the top; return it, ``None`` if all fail.

        With ``size``, a batch size as a level, only points of that size are measured.
        """
        tops = tuple(len(axis.values) - 1 for axis in self._space.axes)
        if self._has_budget:
            wanted, reason = tuple(top // 2 for top in tops), "the middle of every knob"
        else:
            wanted, reason = tops, "the top of every knob, for there is no power budget"
        return (yield from self._gradient.start(wanted, reason, partial(self._has_batch, size)))

    def _go_on_from_best(self) -> Asking:
        best = self._state.best()
        if best is not None:
            yield from self._gradient.descend(best)

    def _batches(self) -> list[int]:
        """Return the batch sizes as levels, ascending."""
        return [0] if self._batch is None else list(range(len(self._space.axes[self._batch].values)))

    def _has_batch(self, size: int | None, levels: Levels) -> bool:
        return self._batch is None or size is None or levels[self._batch] == size

    def _at_batch(self, levels: Levels, size: int) -> Levels:
        return tuple(size if axis == self._batch else level for axis, level in enumerate(levels))
