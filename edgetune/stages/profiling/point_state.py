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


OnState = Callable[[str], None]
"""Takes what is done now, in words."""
COOLING = "cooling: "
"""Beginning of the state of a wait."""


def cooling(now_c: float | None, to_c: float) -> str:
    """Describe a wait: degrees Celsius now (``None``: no sensor answers) and the target."""
    return f"{COOLING}{'temperature unknown' if now_c is None else f'{now_c:.0f} C'}, to {to_c:g} C"


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
        interval_s = median_interval(times_s)
        ends = "" if interval_s is None else " ({}, {})".format(*(format_si(end, "s") for end in interval_s))
        left = f", at most {format_duration(round(left_s))} left" if left_s >= 1 else ""
        self.on_state(f"{format_si(median(times_s), 's')}{ends}, {count} minibatches{left}: {self.point}")
        self._last_s = self.clock_s()

    def _left_s(self, count: int, elapsed_s: float) -> float:
        """Return the longest time that sampling can still take, s."""
        options = self.options
        if options.minibatches is not None and options.soak_s is None:
            return (options.minibatches - count) * elapsed_s / count
        return (options.soak_s or options.max_sampling_s) - elapsed_s
