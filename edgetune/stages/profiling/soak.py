"""Long measurements: a soak of minutes or hours, and the first answer after idling.

    time of a minibatch  ____________________/~~~~~~~~~~~~~~~~~~~~~~~~~~~~
                         cool and fast      | throttled, then settled: the figures of the row

A soak samples for a given time whatever the interval of the median, and keeps what the device reads once a second.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, Runner
from edgetune.devices.telemetry import read_telemetry
from edgetune.stages.profiling.disturbances import DeviceWatch
from edgetune.stages.profiling.options import ProfileOptions, gap_repeats
from edgetune.stats import median
from edgetune.units import format_duration, format_si

_WINDOWS = 60
"""Windows of equally many minibatches whose medians are compared; the last quarter of them is the settled level."""
_FIRST_WINDOWS = 3
"""Windows of the figures at first: as many as the median of the first of them takes in."""
_WITHIN = 0.02
"""A window within this fraction of the settled level belongs to it: the default target of an interval."""
_NOISES = 3
"""On a noisy machine: within so many times the typical difference of two neighbouring windows."""


def settled_from(times_s: Sequence[float]) -> int | None:
    """Return the index of the first minibatch of the settled part of a soak; ``None`` if it had not settled.

    Medians of five neighbouring windows take out a lone interruption. The settled part begins after the last window
    whose median is off the level of the last quarter; a soak whose last quarter itself is off has not settled.

    Args:
        times_s: Times of consecutive minibatches, s; at least one for each window.
    """
    if len(times_s) < _WINDOWS:
        return None
    edges = [len(times_s) * place // _WINDOWS for place in range(_WINDOWS + 1)]
    raw = [median(times_s[low:high]) for low, high in pairwise(edges)]
    medians = [median(raw[max(place - 2, 0) : place + 3]) for place in range(_WINDOWS)]
    last = _WINDOWS // 4
    level = median(medians[-last:])
    noise = median([abs(after - before) for before, after in pairwise(raw[-last:])])
    allowed = max(_WITHIN * level, _NOISES * noise)
    off = [place for place, each in enumerate(medians) if abs(each - level) > allowed]
    first = off[-1] + 1 if off else 0
    return None if first > _WINDOWS - last else edges[first]


class SoakWatch(DeviceWatch):
    """Keeps what ``DeviceWatch`` reads, and the clocks; a mode that changes ends a soak as it ends a measurement."""

    def __init__(self, device: Device, asked: Mode) -> None:
        super().__init__(device, asked)
        self._time_ns: list[int] = []
        self._temp_c: list[float] = []
        self._events: list[int] = []
        self._clocks_mhz: dict[str, list[float]] = {}
        self._begun = None if isinstance(device.throttle, Absent) else device.throttle.read()
        self.poll_now()

    @property
    def needed(self) -> bool:
        """A soak always reads the device."""
        return True

    def poll_now(self) -> None:
        """Read the device and keep the readings; a reading that fails leaves out its column."""
        super().poll_now()
        device = self._device
        self._time_ns.append(device.clock.now_ns())
        if (now_c := self._temperature_c()) is not None:
            self._temp_c.append(now_c)
        if self._begun is not None and not isinstance(device.throttle, Absent):
            self._events.append(device.throttle.read() - self._begun)
        for name, mhz in read_telemetry(device).get("clocks_mhz", {}).items():
            if isinstance(mhz, int | float):
                self._clocks_mhz.setdefault(name, []).append(float(mhz))

    def columns(self, origin_ns: int) -> dict[str, Any]:
        """Return the columns of a profile's row; times count from ``origin_ns``."""
        count = len(self._time_ns)
        whole = {name: values for name, values in self._clocks_mhz.items() if len(values) == count}
        return {
            "look_s": tuple((each - origin_ns) / 1e9 for each in self._time_ns),
            "look_temp_c": tuple(self._temp_c) if len(self._temp_c) == count else None,
            "look_throttle_events": tuple(self._events) if len(self._events) == count else None,
            "look_clocks": tuple(whole) or None,
            "look_clocks_mhz": tuple(each for values in whole.values() for each in values) or None,
        }


def after_idling(device: Device, runner: Runner, options: ProfileOptions) -> dict[str, Any]:
    """Return the columns of the first minibatch after each gap of ``options.idle_gaps_s``: median, s."""
    firsts_s = []
    for gap_s in options.idle_gaps_s:
        found: list[float] = []
        for _ in range(gap_repeats(gap_s)):
            device.clock.sleep_s(gap_s)
            first = runner.run(1)
            found.append((first.end_ns[0] - first.start_ns[0]) / 1e9)
        firsts_s.append(median(found))
    return {"idle_gap_s": options.idle_gaps_s, "idle_minibatch_s": tuple(firsts_s)} if firsts_s else {}


def soak_sentence(row: ProfileRow) -> str | None:
    """Return what a row's soak showed, of its first window and of its settled part; ``None`` if it was none."""
    times_s, looks_s = row.times_s or (), row.look_s
    if looks_s is None or not times_s:
        return None
    ends_s = list(accumulate(times_s))
    settled = settled_from(times_s)
    first_s = median(times_s[: max(1, bisect_left(ends_s, ends_s[-1] * _FIRST_WINDOWS / _WINDOWS))])
    last_s = median(times_s[settled if settled is not None else -len(times_s) // 4 :])
    settled_s = None if settled is None else ends_s[settled] - times_s[settled]
    parts = [
        f"{format_si(first_s, 's')} at first, {format_si(last_s, 's')} at the end ({last_s / first_s - 1:+.1%})",
        "not settled" if settled_s is None else f"settled after {format_duration(settled_s)}",
    ]
    if row.look_temp_c:
        parts.append(f"{row.look_temp_c[0]:.0f} to {row.look_temp_c[-1]:.0f} C")
    clocks = ((name, own[0], own[-1]) for name, own in clocks_of(row).items() if own)
    parts += [f"{name} {first:g} to {last:g} MHz" for name, first, last in clocks if last < (1 - _WITHIN) * first]
    throttled_s = next((at for at, count in zip(looks_s, row.look_throttle_events or (), strict=False) if count), None)
    if throttled_s is not None:
        parts.append(f"throttled from {format_duration(max(throttled_s, 0.0))} on")
    return f"soak of {format_duration(ends_s[-1])}: {'; '.join(parts)}"


def clocks_of(row: ProfileRow) -> dict[str, tuple[float, ...]]:
    """Return the clocks that a soak looked at, by the device's names, MHz, one for each look."""
    names, all_mhz, count = row.look_clocks or (), row.look_clocks_mhz or (), len(row.look_s or ())
    return {name: all_mhz[place * count : (place + 1) * count] for place, name in enumerate(names)}
