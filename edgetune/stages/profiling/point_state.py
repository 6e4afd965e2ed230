"""The state of the point that is measured now, for people who wait for it: cooling, loading, sampling."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.artifacts.profile import Point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stats import median, median_interval
from edgetune.units import format_duration, format_si

_EVERY_S = 0.4
"""Shortest time between two reports of one point, s."""

_MOST = 1000
"""Most minibatches of a running median, the last ones: it then takes a millisecond."""


@dataclass(frozen=True, slots=True)
class Cooling:
    """The state of a wait: degrees Celsius now (``None``: no sensor answers) and the target."""

    now_c: float | None
    to_c: float

    def __str__(self) -> str:
        """Return the reason of the wait."""
        now = "temperature unknown" if self.now_c is None else f"{self.now_c:.0f} C"
        return f"cooling: {now}, to {self.to_c:g} C"


@dataclass(frozen=True, slots=True)
class Loading:
    """The mode is set and the workload loaded, or a command is run for the first time."""

    point: Point

    def __str__(self) -> str:
        """Return the point."""
        return f"loading {self.point}"


@dataclass(frozen=True, slots=True)
class Sampling:
    """The minibatches so far.

    Args:
        point: What is measured.
        minibatches: Number of minibatches.
        median_s: Median of the second half, s, whatever the warm-up will be.
        interval_s: Its 95 % confidence interval, s; ``None`` below six minibatches.
        left_s: The longest time that sampling can still take, s.
    """

    point: Point
    minibatches: int
    median_s: float
    interval_s: tuple[float, float] | None
    left_s: float

    def __str__(self) -> str:
        """Return the figures, what remains, and the point."""
        ends = "" if self.interval_s is None else " ({}, {})".format(*(format_si(end, "s") for end in self.interval_s))
        left = f", at most {format_duration(round(self.left_s))} left" if self.left_s >= 1 else ""
        return f"{format_si(self.median_s, 's')}{ends}, {self.minibatches} minibatches{left}: {self.point}"


@dataclass(frozen=True, slots=True)
class Several:
    """What each board of a fleet does, a line each."""

    boards: tuple[str, ...]

    def __str__(self) -> str:
        """Return the lines."""
        return "\n".join(self.boards)


PointState = Cooling | Loading | Sampling | Several
OnState = Callable[[PointState], None]


@dataclass(slots=True)
class SamplingReport:
    """Reports the sampling of a point between calls of its runner, at most every ``_EVERY_S``.

    Args:
        on_state: Takes the state.
        point: What is measured.
        options: How long it may take.
        clock_s: Returns the time, s.
    """

    on_state: OnState
    point: Point
    options: ProfileOptions
    clock_s: Callable[[], float] = time.monotonic
    _last_s: float = float("-inf")

    def note(self, start_ns: Sequence[int], end_ns: Sequence[int]) -> None:
        """Report minibatches by their start and end, unless the last report is recent."""
        if self.clock_s() - self._last_s < _EVERY_S:
            return
        count = len(end_ns)
        first = max(count // 2, count - _MOST)
        times_s = [(end - start) / 1e9 for start, end in zip(start_ns[first:], end_ns[first:], strict=True)]
        left_s = self._left_s(count, (end_ns[-1] - start_ns[0]) / 1e9)
        self.on_state(Sampling(self.point, count, median(times_s), median_interval(times_s), max(left_s, 0.0)))
        self._last_s = self.clock_s()

    def _left_s(self, count: int, elapsed_s: float) -> float:
        """Return the longest time that sampling can still take, s."""
        options = self.options
        if options.minibatches is not None and options.soak_s is None:
            return (options.minibatches - count) * elapsed_s / count
        return (options.soak_s or options.max_sampling_s) - elapsed_s
