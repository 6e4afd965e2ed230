"""Power and energy of a window of time, from timestamped readings on the clock that timed the work.

A reading is the mean over the refresh interval that ends at its time stamp. Only intervals that lie wholly inside the
window count: one that straddles its start still carries the idle board or the settling of the sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.artifacts.profile import PowerSample
from edgetune.devices.device import PowerReading

MINIMUM_SAMPLES = 5
"""Fresh readings below which a mean is not given."""

_MISSED = 1.5
"""A gap longer than this many refresh intervals means that readings were missed; the later one covers its own only."""


@dataclass(frozen=True, slots=True)
class PowerFigures:
    """Power over a window.

    Args:
        samples: Fresh readings that cover the window.
        power_w: Their mean, weighted by the time each covers, W; ``None`` when there are too few.
        peak_w: The highest of them, W.
        reason: Why there is no power.
    """

    samples: int
    power_w: float | None = None
    peak_w: float | None = None
    reason: str | None = None


def power_figures(readings: Sequence[PowerReading], *, start_ns: int, end_ns: int, refresh_s: float) -> PowerFigures:
    """Return mean and peak power between two readings of the clock.

    Args:
        readings: Fresh readings of the sensor, oldest first.
        start_ns, end_ns: The window, settling time already left out, on the device's clock.
        refresh_s: The sensor's refresh interval, s.
    """
    refresh_ns = round(refresh_s * 1e9)  # integers: a float cannot hold a clock that has run for months
    weighted = covered_ns = peak_w = 0.0
    samples = 0
    before_ns: int | None = None
    for reading in readings:
        gap_ns = refresh_ns if before_ns is None else reading.time_ns - before_ns
        length_ns = refresh_ns if gap_ns > _MISSED * refresh_ns else gap_ns
        before_ns = reading.time_ns
        if reading.time_ns - length_ns < start_ns or reading.time_ns > end_ns or length_ns <= 0:
            continue
        samples += 1
        weighted += reading.power_w * length_ns
        covered_ns += length_ns
        peak_w = max(peak_w, reading.power_w)
    if samples < MINIMUM_SAMPLES:
        return PowerFigures(samples, reason=f"too few power samples: {samples}, {MINIMUM_SAMPLES} needed")
    return PowerFigures(samples, power_w=weighted / covered_ns, peak_w=peak_w)


def power_trace(readings: Sequence[PowerReading], start_ns: int) -> tuple[PowerSample, ...]:
    """Return the readings with times counted from ``start_ns``, s."""
    return tuple(PowerSample((reading.time_ns - start_ns) / 1e9, reading.power_w) for reading in readings)
