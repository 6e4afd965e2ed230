"""The CPU of a board: the cores online, and the clocks of its clusters (cpufreq policies), which are pinned together.

Cores are chosen in this order: those found online, lowest number first, then those found offline. So a preset that
leaves the Denver cluster of a TX2 off keeps it off while the other cores suffice. Core 0 is never switched off, nor is
a core without an ``online`` file, which always runs. Source: NVIDIA/skills,
jetson-customize-nvpmodel ("CORE_0 cannot be offlined"); Linux drivers/base/cpu.c.

A cluster whose cores are all offline may hide its files (EBUSY, or no files). Hidden limits are read and noted when one
of its cores first comes online, before they are changed. A cluster gets its limits back before its last core goes
offline, so that an offline cluster keeps the limits that were found.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from edgetune.devices.board_files import POLL_S, BoardFiles, ClockLimits, LimitFiles, limit_files
from edgetune.devices.control import Snapshot
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

FOLDER = "sys/devices/system/cpu"
_LOOKS, _NOISE_KHZ = 3, 115_200
"""Readings in a row of a clock that is held back; a difference that the driver logs (Linux tegra194-cpufreq.c)."""
PATIENCE_S = 1.0
"""How long a core may take to switch or answer that it is busy, s: longer than a race with another hotplug."""


@dataclass(frozen=True, slots=True)
class Cores:
    """A board's cores.

    Args:
        numbers: All core numbers, ascending.
        switchable: Cores that can be switched on and off; the others always run.
    """

    numbers: tuple[int, ...]
    switchable: tuple[int, ...]

    @property
    def fixed(self) -> frozenset[int]:
        """Cores that always run."""
        return frozenset(self.numbers) - frozenset(self.switchable)

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of cores that can run, ascending."""
        return tuple(range(max(1, len(self.fixed)), len(self.numbers) + 1))

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that switch cores."""
        return tuple(map(online_file, self.switchable))


def online_file(core: int) -> str:
    """Return the file that switches a core."""
    return f"{FOLDER}/cpu{core}/online"


def find_cores(sysfs: Sysfs) -> Cores:
    """Return the board's cores.

    Raises:
        DeviceError: the kernel does not list the cores.
    """
    try:
        numbers = parse_ranges(sysfs.read(f"{FOLDER}/present"))
    except (OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise DeviceError(f"/{FOLDER}/present does not list the cores: {reason}", "is sysfs mounted at /sys?") from None
    files = set(sysfs.glob(f"{FOLDER}/cpu*/online"))
    return Cores(numbers, tuple(core for core in numbers if core and online_file(core) in files))


def parse_ranges(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as ``0-3,6`` or ``0 3 4``.

    Raises:
        ValueError: ``text`` is not such a list.
    """
    numbers: set[int] = set()
    for part in text.replace(",", " ").split():
        low, _, high = part.partition("-")
        numbers.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(numbers))


def online(files: BoardFiles, cores: Cores) -> frozenset[int]:
    """Return the cores that are online.

    Raises:
        DeviceError: a core's file cannot be read.
    """
    return cores.fixed | {core for core in cores.switchable if files.read(online_file(core)) == "1"}


def choose(count: int | None, cores: Cores, found: Mapping[str, str]) -> frozenset[int]:
    """Return the ``count`` cores to run, chosen in the order that the module docstring describes.

    ``None`` means the cores that were found running.
    """
    ran = cores.fixed | {core for core in cores.switchable if found.get(online_file(core)) == "1"}
    if count is None:
        return ran
    ordered = sorted(cores.numbers, key=lambda core: (core not in cores.fixed, core not in ran, core))
    return frozenset(ordered[:count])


def switch(files: BoardFiles, cores: Iterable[int], *, on: bool) -> None:
    """Switch cores on, lowest first, or off, highest first.

    Raises:
        DeviceError: a core does not obey.
    """
    for core in sorted(cores, reverse=not on):
        files.set(online_file(core), "1" if on else "0", PATIENCE_S)


@dataclass(frozen=True, slots=True)
class CpufreqPolicy:
    """A cpufreq policy: its folder and its cores, online or not."""

    folder: str
    cores: frozenset[int]

    @property
    def limits(self) -> LimitFiles:
        """The files of its limits, kHz."""
        return limit_files(self.folder)

    @property
    def table(self) -> str:
        """The file of its clocks, kHz."""
        return f"{self.folder}/scaling_available_frequencies"


def possible_limits(cores: Cores) -> dict[LimitFiles, int]:
    """Return the limit files of every possible policy, hidden ones too, each with the core that names the policy."""
    return {limit_files(f"{FOLDER}/cpufreq/policy{core}"): core for core in cores.numbers}


def policies(sysfs: Sysfs) -> list[CpufreqPolicy]:
    """Return the policies that list their cores now."""
    found = []
    for folder in sysfs.glob(f"{FOLDER}/cpufreq/policy*"):
        try:
            found.append(CpufreqPolicy(folder, frozenset(parse_ranges(sysfs.read(f"{folder}/related_cpus")))))
        except (OSError, ValueError):
            continue  # its cores are off
    return found


@dataclass(frozen=True, slots=True)
class CpuClock:
    """The limits of all clusters.

    Args:
        cores: The board's cores.
        table: Clocks that all clusters have, kHz, ascending.
    """

    per_mhz: ClassVar[int] = 1_000
    cores: Cores
    table: tuple[int, ...]

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written, hidden limits of offline clusters included."""
        return tuple(path for pair in possible_limits(self.cores) for path in pair.paths)

    def snapshot(self, files: BoardFiles) -> Snapshot:
        """Return the limits of every policy whose limits are readable.

        Raises:
            DeviceError: the limits of a policy with an online core are not readable.
        """
        running = online(files, self.cores)
        found: Snapshot = {}
        for policy in policies(files.sysfs):
            try:
                found |= policy.limits.snapshot(files)
            except DeviceError:
                if policy.cores & running:
                    raise
            else:
                running -= policy.cores
        if running and files.sysfs.glob(f"{FOLDER}/cpufreq/policy*"):
            first = min(running)
            hint = "a setting that cannot be read cannot be restored: see dmesg, or restart the board"
            raise DeviceError(f"no policy below /{FOLDER}/cpufreq lists core {first}, which is online", hint)
        return found

    def apply(
        self,
        files: BoardFiles,
        khz: int | None,
        wanted: frozenset[int],
        found: Snapshot,
        learnt: Callable[[Snapshot], None],
    ) -> None:
        """Pin the clusters of the cores in ``wanted`` to ``khz``; all other clusters get the limits found.

        Args:
            files: The board's files.
            khz: Clock, kHz; ``None`` restores the limits found.
            wanted: Cores to run.
            found: Snapshot; limits that were hidden are added to it.
            learnt: Called with the snapshot after an addition, before the added limits are changed.

        Raises:
            DeviceError: a cluster does not have the clock, or a limit was refused, ignored or clamped.
        """
        running = online(files, self.cores)
        for policy in policies(files.sysfs):
            if not policy.cores & running:
                continue
            before = policy.limits.in_snapshot(found)
            if khz is None or not policy.cores & wanted:
                if before is not None:
                    policy.limits.set(files, before)
                continue
            if khz not in files.sysfs.table(policy.table):
                raise DeviceError(f"/{policy.folder} has no clock of {khz} kHz", "choose one that all clusters have")
            if before is None:
                found |= policy.limits.snapshot(files)
                learnt(found)
            policy.limits.set(files, ClockLimits(khz, khz))

    def read(self, files: BoardFiles) -> int | None:
        """Return the clock that all online clusters are pinned to, kHz; ``None`` when there is none.

        Raises:
            DeviceError: a file of a running cluster cannot be read.
        """
        running = online(files, self.cores)
        clocks = {policy.limits.pinned(files) for policy in policies(files.sysfs) if policy.cores & running}
        return clocks.pop() if len(clocks) == 1 else None

    def measured_khz(self, files: BoardFiles, khz: int) -> int:
        """Return ``khz``, to which all is pinned, or the highest measured clock of the clusters where it stays lower.

        Only ``cpuinfo_cur_freq``, which root may read, shows that over-current protection divides the clocks. A slight
        event lasts 1 ms, so a low clock is read again before it counts. An idle cluster may measure too little, or 0.
        """
        for _ in range(_LOOKS):
            clocks = (files.sysfs.read_int(f"{each.folder}/cpuinfo_cur_freq") for each in policies(files.sysfs))
            if (highest := max(filter(None, clocks), default=khz)) >= khz - _NOISE_KHZ:
                return khz
            files.sleep(POLL_S)
        return highest

    def restore_limits(
        self, files: BoardFiles, pair: LimitFiles, core: int, found: Snapshot, stays: Sequence[Snapshot] = ()
    ) -> None:
        """Restore the limits of one policy; if they are hidden or differ, first switch on the core that names it.

        Args:
            files: The board's files.
            pair: The limits.
            core: The core.
            found: The values to restore.
            stays: Values that stay where they turn out to be in place of hidden ones.

        Raises:
            DeviceError: the core does not come online, or a limit was refused, ignored or clamped.
        """
        limits, hidden = pair.in_snapshot(found), True
        if limits is None:
            return
        with suppress(DeviceError):  # its cores are off
            if pair.read(files) == limits:
                return
            hidden = False
        if online_file(core) in files.settable:
            switch(files, [core], on=True)
        if not (hidden and pair.snapshot(files) in stays):
            pair.set(files, limits)


def find_cpu(sysfs: Sysfs, cores: Cores) -> CpuClock | str:
    """Return the CPU clock, or the reason why it cannot be set."""
    found = policies(sysfs)
    if not found:
        return f"/{FOLDER}/cpufreq shows no policy: this kernel does not set the CPU clock"
    tables = [set(table) for policy in found if (table := sysfs.table(policy.table))]
    common = tuple(sorted(set.intersection(*tables))) if tables else ()
    return CpuClock(cores, common) if common else "the clusters list no clock that all of them have"
