"""Throttling on a Jetson, which clocks do not show: over-current events, and cooling devices that slow the board.

    OC1  under-voltage of the input       \\  a measurement that saw one is no measurement of the mode
    OC2  average power over its limit     /
    OC3  a peak over its limit: about 1 ms at half the clock. In MAXN_SUPER 1 to 30 a second even near idle, 0.9 % of
         the time (board measurements): a rate to be told with the result, not a fault. Counted in batches of 2 s.

Sources: kernel attributes ``oc*_event_cnt`` (hwmon ``soctherm_oc``, cumulative since boot, world-readable); NVIDIA
Jetson Linux guide r36.4 for their meaning. ``thermal_trip_event`` of the ``*-throttle-alert`` devices is the state that
their cooling device shows too, no count.
"""

from __future__ import annotations

from edgetune.devices.device import Absent
from edgetune.devices.sysfs import Sysfs

_SERIOUS = frozenset({"oc1", "oc2"})

_ALERT = "-throttle-alert"
"""How NVIDIA's throttling devices end: ``cpu-throttle-alert``, ``soc012-throttle-alert``, ..."""

_FREQUENCY_CAPS = ("cpufreq-", "devfreq-", "thermal-cpufreq-", "thermal-devfreq-")
"""How the kernel's own begin (drivers/thermal/cpufreq_cooling.c, devfreq_cooling.c; the longer names before 5.8).
A fan is a cooling device too, and slows nothing."""


class BoardThrottle:
    """Over-current counters and throttling devices of a board.

    Args:
        sysfs: Where they are.
        counters: File of each over-current counter, by name, e.g. ``oc3``.
        cooling: State file of each throttling device, by its type.
    """

    def __init__(self, sysfs: Sysfs, counters: dict[str, str], cooling: dict[str, str]) -> None:
        self._sysfs = sysfs
        self._counters = counters
        self._cooling = cooling
        self._serious: dict[str, int] = {}
        self._seen = 0

    def counts(self) -> dict[str, int]:
        """Return every over-current counter since boot, those left out that do not answer now."""
        found = {name: self._sysfs.read_int(path) for name, path in self._counters.items()}
        return {name: count for name, count in found.items() if count is not None}

    def slight_counts(self) -> dict[str, int]:
        """Return the counters of events too slight to spoil a measurement."""
        return {name: count for name, count in self.counts().items() if name not in _SERIOUS}

    def active(self) -> list[str]:
        """Return the devices that slow the board now, by type."""
        return [kind for kind, path in self._cooling.items() if (self._sysfs.read_int(path) or 0) > 0]

    def read(self) -> int:
        """Return the serious events since boot, plus one for every time that a device was seen slowing the board.

        A device that slows the board from one reading to the next thus counts as an event between them.
        """
        serious = {name: count for name, count in self.counts().items() if name in _SERIOUS}
        self._serious.update(serious)  # one that does not answer now stays as it was
        self._seen += len(self.active())
        return sum(self._serious.values()) + self._seen


def open_board_throttle(sysfs: Sysfs) -> BoardThrottle | Absent:
    """Return the board's throttling, or why nothing shows it."""
    counters: dict[str, str] = {}
    for path in sysfs.glob("sys/class/hwmon/hwmon*/oc*_event_cnt"):
        folder, _, file = path.rpartition("/")
        if _text(sysfs, f"{folder}/name") == "soctherm_oc":
            counters[file.removesuffix("_event_cnt")] = path
    cooling: dict[str, str] = {}
    for path in sysfs.glob("sys/class/thermal/cooling_device*/type"):
        folder, kind = path.rpartition("/")[0], _text(sysfs, path)
        if kind.endswith(_ALERT) or kind.startswith(_FREQUENCY_CAPS):
            cooling[f"{kind} ({folder.rpartition('/')[2]})" if kind in cooling else kind] = f"{folder}/cur_state"
    if not counters and not cooling:
        return Absent("this kernel shows neither over-current counters nor throttling devices")
    if all(sysfs.read_int(path) is None for path in (*counters.values(), *cooling.values())):
        return Absent("neither the over-current counters nor the throttling devices of this kernel answer")
    return BoardThrottle(sysfs, counters, cooling)


def _text(sysfs: Sysfs, path: str) -> str:
    """Return the text of a file, empty when there is none."""
    try:
        return sysfs.read(path)
    except OSError:
        return ""
