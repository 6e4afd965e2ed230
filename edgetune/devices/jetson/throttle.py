r"""Throttling of a board: counters of over-current events, and devices that slow it now.

Clocks do not show throttling; over-current events and active cooling devices do:

    OC1  under-voltage of the input       \  one such event makes a measurement invalid for its mode
    OC2  average power over its limit     /
    OC3  a peak over its limit: about 1 ms at half the clock. In MAXN_SUPER 1 to 30 a second even near idle, 0.9 % of
         the time (board measurements): a rate to report with the result, not a fault. Counted in batches of 2 s.

Sources: kernel attributes ``oc*_event_cnt`` (hwmon ``soctherm_oc``, cumulative since boot, world-readable); NVIDIA
Jetson Linux guide r36.4 for their meaning. ``thermal_trip_event`` of the ``*-throttle-alert`` devices is the state of
their cooling device, not a count.
"""

from edgetune.devices.capabilities import Absent
from edgetune.devices.sysfs import Sysfs

_SERIOUS = frozenset({"oc1", "oc2"})


_ALERT = "-throttle-alert"
"""Suffix of NVIDIA's throttling devices: ``cpu-throttle-alert``, ``soc012-throttle-alert``, ..."""


_FREQUENCY_CAPS = ("cpufreq-", "devfreq-", "thermal-cpufreq-", "thermal-devfreq-")
"""Prefixes of the kernel's own (drivers/thermal/cpufreq_cooling.c, devfreq_cooling.c; the longer names before 5.8).
A fan is also a cooling device but slows nothing."""


class BoardThrottle:
    """Over-current counters and throttling devices of a board.

    Args:
        sysfs: The board's files.
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
        """Return every readable over-current counter since boot, by name."""
        found = {name: self._sysfs.read_int(path) for name, path in self._counters.items()}
        return {name: count for name, count in found.items() if count is not None}

    def slight_counts(self) -> dict[str, int]:
        """Return the counters of events too slight to invalidate a measurement."""
        return {name: count for name, count in self.counts().items() if name not in _SERIOUS}

    def active(self) -> list[str]:
        """Return the types of the devices that slow the board now."""
        return [kind for kind, path in self._cooling.items() if (self._sysfs.read_int(path) or 0) > 0]

    def read(self) -> int:
        """Return the serious events since boot, plus one for every read that found a device slowing the board.

        So a device that slows the board across two reads counts as an event between them.
        """
        serious = {name: count for name, count in self.counts().items() if name in _SERIOUS}
        self._serious.update(serious)  # an unreadable counter keeps its last value
        self._seen += len(self.active())
        return sum(self._serious.values()) + self._seen


def open_board_throttle(sysfs: Sysfs) -> BoardThrottle | Absent:
    """Return the board's throttle counter, or the reason why there is none."""
    counters: dict[str, str] = {}
    for path in sysfs.glob("sys/class/hwmon/hwmon*/oc*_event_cnt"):
        folder, _, file = path.rpartition("/")
        if sysfs.text(f"{folder}/name") == "soctherm_oc":
            counters[file.removesuffix("_event_cnt")] = path
    cooling: dict[str, str] = {}
    for path in sysfs.glob("sys/class/thermal/cooling_device*/type"):
        folder, kind = path.rpartition("/")[0], sysfs.text(path)
        if kind.endswith(_ALERT) or kind.startswith(_FREQUENCY_CAPS):
            cooling[f"{kind} ({folder.rpartition('/')[2]})" if kind in cooling else kind] = f"{folder}/cur_state"
    if not counters and not cooling:
        return Absent("this kernel shows neither over-current counters nor throttling devices")
    if all(sysfs.read_int(path) is None for path in (*counters.values(), *cooling.values())):
        return Absent("neither the over-current counters nor the throttling devices of this kernel answer")
    return BoardThrottle(sysfs, counters, cooling)
