"""The interface of a strategy: ``ask`` returns the next point to measure, ``tell`` takes its result.

A strategy sees the offered points as data, the problem and a seed. It never sees a device, a file, the clock or the
loop, so the same object searches on a live board, on a recorded table and in a test.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.problem import Judgement
from edgetune.stages.search.space import Space


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The next point to measure, the reason, and what the strategy predicts, if it predicts.

    Args:
        point: One of the offered points, not measured and not known yet.
        reason: The reason, a few words for the trace.
        predicted_minibatch_s: Predicted time per minibatch, s.
        predicted_power_w: Predicted power, W.
    """

    point: Point
    reason: str
    predicted_minibatch_s: float | None = None
    predicted_power_w: float | None = None


Asking = Generator[Suggestion, None, None]
"""Points to measure, one after the other; the result of each is known when the next is asked for."""


@dataclass(frozen=True, slots=True)
class PointResult:
    """The result of a point.

    Args:
        judgement: Objective, feasibility and violations; its ``unknown`` says why a measurement failed.
        minibatch_s: Time per minibatch, s; ``None`` when the measurement failed.
        power_w: Mean power, W; ``None`` when not measured.
        late_s: See ``Half``.

    Raises:
        ValueError: a figure is not a finite number above zero; a failure has none, and its judgement a reason.
    """

    judgement: Judgement
    minibatch_s: float | None = None
    power_w: float | None = None
    late_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("minibatch_s", "power_w"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a finite number above zero, not {value}")


LEAST_POINTS = 5
"""Fewer points of a relative than this say nothing."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Prior knowledge; a strategy may ignore it, and must not treat it as a measurement.

    Args:
        power_noise: Relative standard deviation of one power reading; 0 where a reading repeats exactly.
        relatives: Rows of other networks on the same device.
    """

    power_noise: float = 0.0
    relatives: tuple[ProfileRow, ...] = ()


NO_HINTS = Hints()


class AskTell(Protocol):
    """The interface that the driver uses: it first tells the known points, then asks and tells in turn."""

    def ask(self) -> Suggestion | None:
        """Return the next point to measure, never one with a known result; ``None`` at the end."""

    def tell(self, point: Point, result: PointResult) -> None:
        """Record the result of a point: one just asked for, or one known from earlier.

        A point measured again to confirm its power is told again with the mean of its readings, which replaces the
        earlier result.
        """


@runtime_checkable
class GainForecast(Protocol):
    """What a strategy may add to the interface: the expected gain of more measurements."""

    def expected_gain(self, count: int) -> float | None:
        """Return the expected gain of ``count`` more measurements as a share of the best objective.

        ``None`` while the strategy cannot say.
        """


@runtime_checkable
class AsksMany(Protocol):
    """What a strategy may add to the interface: several points at a time, for several boards."""

    def ask_many(self, count: int) -> list[Suggestion]:
        """Return up to ``count`` different points, to be measured before any of them is told; none at the end."""


class Strategy(AskTell, Protocol):
    """A search strategy: each is a subclass and a row in ``STRATEGIES``."""

    name: ClassVar[str]
    """Its name after ``--strategy``."""

    learns_halves: ClassVar[bool] = False
    """Whether it asks for both halves of two workloads by itself; otherwise ``BothHalves`` does so."""

    budget_free: ClassVar[bool] = False
    """Whether it ignores budgets while it measures, so that its measurements answer any budget."""

    takes_names: ClassVar[bool] = False
    """Whether it can choose among modes that differ in their names only; other strategies need an order."""

    judges_columns: ClassVar[bool] = False
    """Whether it takes budgets on columns other than time and power, and objectives that count tokens."""

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return the default number of points for this problem; ``None`` for all points."""
        return {"train": 10, "accuracy": 10, "infer": 12}.get(problem.kind, 15)

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        """Start a search; raises ``InputError`` for a problem that this strategy does not solve."""


class SteppedStrategy(Strategy):
    """A strategy written as a generator of suggestions, which goes on when it has the result of the last."""

    _asking: Asking

    def ask(self) -> Suggestion | None:
        """Return the next point, or ``None`` when the generator has ended."""
        return next(self._asking, None)


class DelegatingStrategy(Strategy):
    """A strategy that has a searcher for each kind of problem."""

    learns_halves: ClassVar[bool] = True
    _search: AskTell

    def ask(self) -> Suggestion | None:
        """Return the next point of the searcher."""
        return self._search.ask()

    def tell(self, point: Point, result: PointResult) -> None:
        """Pass the result of a point on to the searcher."""
        self._search.tell(point, result)
