"""Temperatures of a Jetson: its thermal zones, some of which belong to blocks that are switched off.

A zone of a power-gated block (CV on Orin, the GPU on Thor) answers EAGAIN and has no temperature then. Old BSPs show
-256 degrees for the same. ``PMIC-Die`` shows a constant 100 degrees on every board (board captures) and is left out.
Source: kernel Documentation/driver-api/thermal/sysfs-api.rst; values in thousandths of a degree Celsius.
"""

from __future__ import annotations

from edgetune.devices.device import Absent
from edgetune.devices.sysfs import Sysfs

_IGNORED = frozenset({"PMIC-Die"})

_JUNCTION = ("tj-thermal", "tj-therm")
"""The zone in which the firmware gives the hottest junction: JetPack 6 and later, and JetPack 5 (Orin, Thor)."""


class BoardThermometer:
    """The thermal zones of a board.

    Args:
        sysfs: Where they are.
        zones: Folder of each zone, by its name.
    """

    def __init__(self, sysfs: Sysfs, zones: dict[str, str]) -> None:
        self._sysfs = sysfs
        self._zones = zones
        self._junction = next((zones[name] for name in _JUNCTION if name in zones), None)

    def read_all(self) -> dict[str, float | None]:
        """Return every zone's temperature, degrees Celsius; ``None`` for those that have none now."""
        return {name: _read_c(self._sysfs, f"{folder}/temp") for name, folder in self._zones.items()}

    def read_c(self) -> float | None:
        """Return the hottest junction, else the hottest zone, degrees Celsius; ``None`` when no zone answers now."""
        if self._junction is not None:
            junction_c = _read_c(self._sysfs, f"{self._junction}/temp")
            if junction_c is not None:
                return junction_c
        return max((value for value in self.read_all().values() if value is not None), default=None)

    @property
    def critical_c(self) -> float | None:
        """Temperature at which the board switches itself off: the junction's, else the lowest of any zone."""
        if self._junction is not None:
            junction_c = self._critical_c(self._junction)
            if junction_c is not None:
                return junction_c
        found = (self._critical_c(folder) for folder in self._zones.values())
        return min((value for value in found if value is not None), default=None)

    def _critical_c(self, folder: str) -> float | None:
        """Return the lowest critical trip point of a zone."""
        found = []
        for path in self._sysfs.glob(f"{folder}/trip_point_*_type"):
            try:
                kind = self._sysfs.read(path)
            except OSError:
                continue
            if kind == "critical":
                found.append(_read_c(self._sysfs, path.removesuffix("_type") + "_temp"))
        return min((value for value in found if value is not None), default=None)


def _read_c(sysfs: Sysfs, path: str) -> float | None:
    """Return degrees Celsius, or ``None``: below zero stands for a sensor that is off."""
    value = sysfs.read_int(path)
    return None if value is None or value < 0 else value / 1000


def open_board_thermometer(sysfs: Sysfs) -> BoardThermometer | Absent:
    """Return the board's zones, those included that do not answer now, or why there are none."""
    zones: dict[str, str] = {}
    for path in sysfs.glob("sys/class/thermal/thermal_zone*/type"):
        folder = path.rpartition("/")[0]
        try:
            name = sysfs.read(path)
        except OSError:
            continue
        if name not in _IGNORED:
            zones[f"{name} ({folder.rpartition('/')[2]})" if name in zones else name] = folder
    if not zones:
        return Absent("this kernel shows no thermal zones")
    return BoardThermometer(sysfs, zones)
