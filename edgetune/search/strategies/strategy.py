"""What a strategy is: it is asked for the next point to measure and told what came of it, nothing else.

A strategy sees the offered points as data, the problem and a seed. It never sees a device, a file, the clock or the
loop, so the same object searches on a live board, on a recorded table and in a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point
from edgetune.search.problem import Judgement
from edgetune.search.space import Space


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The next point to measure, why, and what the strategy believes of it, if it believes anything.

    Args:
        point: One of the offered points, not measured and not known yet.
        reason: Why this one, a few words for the trace.
        predicted_minibatch_s: Time per minibatch it expects, s.
        predicted_power_w: Power it expects, W.
    """

    point: Point
    reason: str
    predicted_minibatch_s: float | None = None
    predicted_power_w: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a point.

    Args:
        judgement: Objective, feasibility and violations; its ``unknown`` says why a measurement failed.
        minibatch_s: Time per minibatch, s; ``None`` when the measurement failed.
        power_w: Mean power, W; ``None`` when not measured.

    Raises:
        ValueError: for a figure that is not a finite number above zero: a failure is told as ``None`` and a reason.
    """

    judgement: Judgement
    minibatch_s: float | None = None
    power_w: float | None = None

    def __post_init__(self) -> None:
        for name in ("minibatch_s", "power_w"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a finite number above zero, not {value}")


class Strategy(Protocol):
    """A way of searching. One file each, in this folder; one row in ``STRATEGIES``.

    The driver first tells the points that are known from earlier, then asks and tells in turn.
    """

    name: ClassVar[str]
    """What people write after ``--strategy``."""

    default_max_points: ClassVar[int | None]
    """Points it may measure when nobody says; ``None`` for all of them."""

    def __init__(self, space: Space, problem: Problem, *, seed: int) -> None:
        """Start a search; raises ``InputError`` for a problem that this strategy does not solve."""

    def ask(self) -> Suggestion | None:
        """Return the next point to measure, never one it was told of; ``None`` when it has no more to ask."""

    def tell(self, point: Point, outcome: Outcome) -> None:
        """Take note of what came of a point: one just asked for, or one known from earlier."""
