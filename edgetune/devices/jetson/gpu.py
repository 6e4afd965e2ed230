"""The GPU clock: its devfreq folder, whose name depends on the release, and its limits.

The folder is found as NVIDIA's jetson_clocks and jtop find it: the devfreq entry whose device has the GPU's device-tree
node, else one whose node has a GPU's name, else one that has such a name itself. On Thor it is ``gpu-gpc-0``.

A sleeping GPU is kept awake (``power/control`` on) while its limits change, as nvpmodel does. Its ``cur_freq`` may then
be stale, zero or an error, so the setting is read from the limits alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from edgetune.devices.board_files import BoardFiles, ClockLimits, LimitFiles, do_all
from edgetune.devices.control import Snapshot
from edgetune.devices.sysfs import Sysfs

CLASS = "sys/class/devfreq"
DEVFREQ_GRAIN_HZ = 1000
"""devfreq keeps kHz from Linux 5.5 on: lower limits are rounded down, upper ones up."""
_NODE = "sys/devices/platform/gpu.0/of_node/compatible"
_NODE_NAMES = frozenset({"gv11b", "gp10b", "ga10b", "gb10b", "gpu"})
THOR = "gpu-gpc-0"
"""The devfreq folder of Thor's driver, absent with nvgpu. Source: jetson_stats, jtop/core/hw_detect.py."""


@dataclass(frozen=True, slots=True)
class GpuClock:
    """The GPU's limits.

    Args:
        limits: Files of the limits, Hz.
        power: File that keeps the GPU awake (``on``) or lets it sleep (``auto``); ``None`` where there is none.
        table: Clocks, Hz, ascending.
    """

    per_mhz: ClassVar[int] = 1_000_000
    limits: LimitFiles
    power: str | None
    table: tuple[int, ...]

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return (*self.limits.paths, *([] if self.power is None else [self.power]))

    def snapshot(self, files: BoardFiles) -> Snapshot:
        """Return the limits and the value of ``power/control``.

        Raises:
            DeviceError: a file cannot be read.
        """
        found = self.limits.snapshot(files)
        if self.power is not None:
            found[self.power] = files.read(self.power)
        return found

    def apply(self, files: BoardFiles, hz: int | None, found: Snapshot) -> None:
        """Pin the GPU clock, or restore the limits found.

        Args:
            files: The board's files.
            hz: Clock, Hz; ``None`` restores the limits found.
            found: Snapshot.

        Raises:
            DeviceError: the GPU could not be woken, or a limit was refused, ignored or clamped; the rest was done.
        """
        wanted = self.limits.in_snapshot(found) if hz is None else ClockLimits(hz, hz)
        power = self.power if self.power in found else None  # never change a file that the snapshot lacks
        steps: list[Callable[[], None]] = []
        if wanted is not None:
            steps.append(partial(self._set, files, wanted, power))
        if power is not None:
            steps.append(partial(files.set, power, found[power]))
        do_all(*steps)

    def _set(self, files: BoardFiles, wanted: ClockLimits, power: str | None) -> None:
        """Wake the GPU and set the limits unless already set; set them too if the GPU cannot be woken.

        Raises:
            DeviceError: the GPU could not be woken, or a limit was refused, ignored or clamped.
        """
        if self.limits.read(files) == wanted:
            return
        wake = [] if power is None else [partial(files.set, power, "on")]
        do_all(*wake, partial(self.limits.set, files, wanted))

    def read(self, files: BoardFiles) -> int | None:
        """Return the clock that the GPU is pinned to, Hz; ``None`` when it is not pinned.

        Raises:
            DeviceError: the limits cannot be read.
        """
        return self.limits.pinned(files, self.table)


def find_gpu(sysfs: Sysfs) -> GpuClock | str:
    """Return the GPU clock, or the reason why it cannot be set."""
    folder = gpu_folder(sysfs)
    if folder is None:
        return (
            "the kernel shows no GPU clock below /sys/class/devfreq; it may not until the GPU was first used: "
            "sudo jetson_clocks --show uses it"
        )
    table = sysfs.table(f"{folder}/available_frequencies")
    if not table:
        return f"/{folder}/available_frequencies lists no clock"
    candidates = (f"{folder}/device", "sys/devices/gpu.0", "sys/devices/platform/gpu.0")
    device = next((device for device in candidates if sysfs.text(f"{device}/power/control")), None)
    if device is not None and sysfs.text(f"{device}/power/runtime_status") == "unsupported":
        device = f"{device}/.."  # on Thor the PCI device sleeps, of which the clock is a child
    return GpuClock(devfreq_limits(folder), None if device is None else f"{device}/power/control", table)


def devfreq_limits(folder: str) -> LimitFiles:
    """Return the limit files of a devfreq folder, Hz."""
    return LimitFiles(f"{folder}/min_freq", f"{folder}/max_freq", DEVFREQ_GRAIN_HZ)


def gpu_folder(sysfs: Sysfs) -> str | None:
    """Return the GPU's devfreq folder, found as the module docstring describes; ``None`` where there is none."""
    entries = sysfs.glob(f"{CLASS}/*")
    wanted = sysfs.text(_NODE)
    rules = (
        lambda entry: entry.endswith(f"/{THOR}"),
        lambda entry: wanted != "" and sysfs.text(f"{entry}/device/of_node/compatible") == wanted,
        lambda entry: sysfs.text(f"{entry}/device/of_node/name").strip("\0") in _NODE_NAMES,
        lambda entry: any(name in entry.rpartition("/")[2] for name in _NODE_NAMES),
    )
    return next((entry for rule in rules for entry in entries if rule(entry)), None)
