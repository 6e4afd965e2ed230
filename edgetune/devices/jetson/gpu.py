"""The GPU clock: its devfreq folder, which every release calls otherwise, and its limits.

The folder is found as NVIDIA's jetson_clocks and jtop find it: the devfreq entry whose device has the GPU's device-tree
node, else one whose node has a GPU's name, else one that is called ``gpu``. On Thor it is ``gpu-gpc-0``.

A GPU that sleeps is kept awake (``power/control`` on) while its limits change, as nvpmodel does. Its ``cur_freq`` may
then be stale, zero or an error, so that the limits alone say what is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from edgetune.devices.control import Snapshot
from edgetune.devices.jetson.board_files import (
    BoardFiles,
    ClockLimits,
    LimitFiles,
    do_all,
    pinned,
    read_limits,
    set_limits,
    snapshot_limits,
)
from edgetune.devices.sysfs import Sysfs

CLASS = "sys/class/devfreq"
DEVFREQ_GRAIN_HZ = 1000
"""devfreq keeps kHz from Linux 5.5 on: lower limits are rounded down, upper ones up."""
_NODE = "sys/devices/platform/gpu.0/of_node/compatible"
_NODE_NAMES = frozenset({"gv11b", "gp10b", "ga10b", "gb10b", "gpu"})
THOR = "gpu-gpc-0"
"""Its presence tells Thor's driver from nvgpu. Source: jetson_stats, jtop/core/hw_detect.py."""


@dataclass(frozen=True, slots=True)
class GpuFiles:
    """Where the GPU is set.

    Args:
        limits: Its limits, Hz.
        power: What keeps it awake (``on``) or lets it sleep (``auto``); ``None`` where there is none.
        table_hz: Its clocks, Hz, ascending.
    """

    limits: LimitFiles
    power: str | None
    table_hz: tuple[int, ...]

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return (*self.limits.paths, *([] if self.power is None else [self.power]))


def find_gpu(sysfs: Sysfs) -> GpuFiles | str:
    """Return where the GPU is set, or why it cannot be."""
    folder = _folder(sysfs)
    if folder is None:
        return (
            "the kernel shows no GPU clock below /sys/class/devfreq; it may not until the GPU was first used: "
            "sudo jetson_clocks --show uses it"
        )
    table = devfreq_table(sysfs, folder)
    if not table:
        return f"/{folder}/available_frequencies lists no clock"
    candidates = (f"{folder}/device", "sys/devices/gpu.0", "sys/devices/platform/gpu.0")
    power = next((f"{device}/power/control" for device in candidates if sysfs.text(f"{device}/power/control")), None)
    return GpuFiles(devfreq_limits(folder), power, table)


def devfreq_limits(folder: str) -> LimitFiles:
    """Return the limits of a devfreq folder, Hz."""
    return LimitFiles(f"{folder}/min_freq", f"{folder}/max_freq", DEVFREQ_GRAIN_HZ)


def devfreq_table(sysfs: Sysfs, folder: str) -> tuple[int, ...]:
    """Return the clocks of a devfreq folder, Hz, ascending; none when it does not tell."""
    try:
        return tuple(sorted(map(int, sysfs.text(f"{folder}/available_frequencies").split())))
    except ValueError:
        return ()


def _folder(sysfs: Sysfs) -> str | None:
    entries = sysfs.glob(f"{CLASS}/*")
    wanted = sysfs.text(_NODE)
    rules = (
        lambda entry: entry.endswith(f"/{THOR}"),
        lambda entry: wanted != "" and sysfs.text(f"{entry}/device/of_node/compatible") == wanted,
        lambda entry: sysfs.text(f"{entry}/device/of_node/name").strip("\0") in _NODE_NAMES,
        lambda entry: "gpu" in entry.rpartition("/")[2],
    )
    return next((entry for rule in rules for entry in entries if rule(entry)), None)


class GpuClock:
    """The GPU's limits.

    Args:
        files: The board's files.
        where: The GPU's among them.
    """

    def __init__(self, files: BoardFiles, where: GpuFiles) -> None:
        self._files = files
        self._where = where

    def snapshot(self) -> Snapshot:
        """Return its limits and whether it may sleep.

        Raises:
            DeviceError: one cannot be read.
        """
        found = snapshot_limits(self._files, self._where.limits)
        if self._where.power is not None:
            found[self._where.power] = self._files.read(self._where.power)
        return found

    def apply(self, hz: int | None, found: Snapshot) -> None:
        """Pin the GPU, or give it the limits found.

        Args:
            hz: Clock, Hz; ``None`` for as found.
            found: Snapshot.

        Raises:
            DeviceError: it could not be woken, or a limit was refused, ignored or clamped; all else was done.
        """
        wanted = self._where.limits.in_snapshot(found) if hz is None else ClockLimits(hz, hz)
        power = self._where.power if self._where.power in found else None  # what cannot be put back is not touched
        steps: list[Callable[[], None]] = []
        if wanted is not None:
            steps.append(partial(self._set, wanted, power))
        if power is not None:
            steps.append(partial(self._files.set, power, found[power]))
        do_all(*steps)

    def _set(self, wanted: ClockLimits, power: str | None) -> None:
        """Set the limits unless they are in place, the GPU awake; where it cannot be woken they are set all the same.

        Raises:
            DeviceError: it could not be woken, or a limit was refused, ignored or clamped.
        """
        if read_limits(self._files, self._where.limits) == wanted:
            return
        wake = [] if power is None else [partial(self._files.set, power, "on")]
        do_all(*wake, partial(set_limits, self._files, self._where.limits, wanted))

    def read_hz(self) -> int | None:
        """Return the clock that the GPU is pinned to, Hz; ``None`` when it is not.

        Raises:
            DeviceError: its limits cannot be read.
        """
        return pinned(read_limits(self._files, self._where.limits), self._where.limits, self._where.table_hz)
