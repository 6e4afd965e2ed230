"""The CPU of a board: which cores run, and the clocks of its clusters (cpufreq policies), which are pinned together.

Cores that ran when the board was found come first, lowest number first, then those that were off: a preset that leaves
the Denver cluster of a TX2 off keeps it off while its other cores suffice. Elsewhere that means the lowest numbers.
Core 0 is never switched off, nor is one without an ``online`` file, which by that runs. Source: NVIDIA/skills,
jetson-customize-nvpmodel ("CORE_0 cannot be offlined"); Linux drivers/base/cpu.c.

A cluster whose cores are all off may hide its files (EBUSY, or none at all) or show them. What is hidden becomes known,
and is noted, when a core of it first runs, before anything of it is changed; a cluster is given its limits back before
its last core goes off, so that one that is off is as it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from edgetune.devices.control import Snapshot
from edgetune.devices.jetson.board_files import (
    BoardFiles,
    ClockLimits,
    LimitFiles,
    pinned,
    read_limits,
    set_limits,
    snapshot_limits,
)
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

FOLDER = "sys/devices/system/cpu"
PATIENCE_S = 1.0
"""How long a core may take to switch, or say that it is busy: a race with another hotplug ends well within."""


@dataclass(frozen=True, slots=True)
class Cores:
    """A board's cores.

    Args:
        numbers: All of them, ascending.
        switchable: Those that can be switched on and off; the others always run.
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
        DeviceError: the kernel does not list them.
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
        ValueError: not such a list.
    """
    numbers: set[int] = set()
    for part in text.replace(",", " ").split():
        low, _, high = part.partition("-")
        numbers.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(numbers))


def online(files: BoardFiles, cores: Cores) -> frozenset[int]:
    """Return the cores that run now.

    Raises:
        DeviceError: a core's file cannot be read.
    """
    return cores.fixed | {core for core in cores.switchable if files.read(online_file(core)) == "1"}


def choose(count: int, cores: Cores, found: Mapping[str, str]) -> frozenset[int]:
    """Return which ``count`` cores are to run, in the order that the module describes."""
    ran = {core for core in cores.switchable if found.get(online_file(core)) == "1"} | cores.fixed
    ordered = sorted(cores.numbers, key=lambda core: (core not in cores.fixed, core not in ran, core))
    return frozenset(ordered[:count])


def switch_on(files: BoardFiles, cores: Iterable[int]) -> None:
    """Switch cores on, lowest first.

    Raises:
        DeviceError: one does not come.
    """
    for core in sorted(cores):
        files.set(online_file(core), "1", PATIENCE_S)


def switch_off(files: BoardFiles, cores: Iterable[int]) -> None:
    """Switch cores off, highest first.

    Raises:
        DeviceError: one does not go.
    """
    for core in sorted(cores, reverse=True):
        files.set(online_file(core), "0", PATIENCE_S)


@dataclass(frozen=True, slots=True)
class CpufreqPolicy:
    """A cpufreq policy that tells its cores, running or not; its folder and they."""

    folder: str
    cores: frozenset[int]

    @property
    def limits(self) -> LimitFiles:
        """Where its limits are, kHz."""
        return limit_files(self.folder)


def limit_files(folder: str) -> LimitFiles:
    """Return where the limits of the policy in ``folder`` are, kHz."""
    return LimitFiles(f"{folder}/scaling_min_freq", f"{folder}/scaling_max_freq")


def possible_limits(cores: Cores) -> dict[LimitFiles, int]:
    """Return the limits of every policy there can be, each with the core that names it: one may be hidden now."""
    return {limit_files(f"{FOLDER}/cpufreq/policy{core}"): core for core in cores.numbers}


def policies(sysfs: Sysfs) -> list[CpufreqPolicy]:
    """Return the policies that tell their cores now."""
    told = []
    for folder in sysfs.glob(f"{FOLDER}/cpufreq/policy*"):
        try:
            told.append(CpufreqPolicy(folder, frozenset(parse_ranges(sysfs.read(f"{folder}/related_cpus")))))
        except (OSError, ValueError):
            continue  # its cores are off
    return told


def table_khz(sysfs: Sysfs, policy: CpufreqPolicy) -> tuple[int, ...]:
    """Return the clocks a policy offers, kHz, ascending; none when it does not tell."""
    try:
        return tuple(sorted(map(int, sysfs.read(f"{policy.folder}/scaling_available_frequencies").split())))
    except (OSError, ValueError):
        return ()


def common_table(sysfs: Sysfs) -> tuple[int, ...]:
    """Return the clocks that all policies that tell theirs have in common, kHz, ascending."""
    tables = [set(table) for policy in policies(sysfs) if (table := table_khz(sysfs, policy))]
    return tuple(sorted(set.intersection(*tables))) if tables else ()


class CpuClock:
    """The limits of all clusters.

    Args:
        files: The board's files.
        cores: Its cores.
    """

    def __init__(self, files: BoardFiles, cores: Cores) -> None:
        self._files = files
        self._cores = cores

    def snapshot(self) -> Snapshot:
        """Return the limits of every policy that shows them.

        Raises:
            DeviceError: a policy with a core that runs does not show its limits.
        """
        running = online(self._files, self._cores)
        found: Snapshot = {}
        for policy in policies(self._files.sysfs):
            try:
                found |= snapshot_limits(self._files, policy.limits)
            except DeviceError:
                if policy.cores & running:
                    raise
            else:
                running -= policy.cores
        if running and self._files.sysfs.glob(f"{FOLDER}/cpufreq/policy*"):
            first = min(running)
            raise DeviceError(
                f"no policy below /{FOLDER}/cpufreq tells that it sets core {first}, which runs",
                "what cannot be read cannot be put back: see dmesg, or restart the board",
            )
        return found

    def apply(
        self, khz: int | None, wanted: frozenset[int], found: Snapshot, learnt: Callable[[Snapshot], None]
    ) -> None:
        """Pin the clusters of the cores in ``wanted``, or give them the limits found; all others get those in any case.

        Args:
            khz: Clock, kHz; ``None`` for as found.
            wanted: Cores that are to run.
            found: Snapshot; limits that were hidden are added to it.
            learnt: Called with the snapshot when it has grown, before what was added is changed.

        Raises:
            DeviceError: a cluster does not have the clock, or a limit was refused, ignored or clamped.
        """
        running = online(self._files, self._cores)
        for policy in policies(self._files.sysfs):
            if not policy.cores & running:
                continue
            before = policy.limits.in_snapshot(found)
            if khz is None or not policy.cores & wanted:
                if before is not None:
                    set_limits(self._files, policy.limits, before)
                continue
            if khz not in table_khz(self._files.sysfs, policy):
                raise DeviceError(f"/{policy.folder} has no clock of {khz} kHz", "choose one that all clusters have")
            if before is None:
                found |= snapshot_limits(self._files, policy.limits)
                learnt(found)
            set_limits(self._files, policy.limits, ClockLimits(khz, khz))

    def read_khz(self) -> int | None:
        """Return the clock that all running clusters are pinned to, kHz; ``None`` when they are not.

        Raises:
            DeviceError: a file of a running cluster cannot be read.
        """
        running = online(self._files, self._cores)
        clocks = {
            pinned(read_limits(self._files, policy.limits), policy.limits, ())
            for policy in policies(self._files.sysfs)
            if policy.cores & running
        }
        return clocks.pop() if len(clocks) == 1 else None

    def _wake(self, pair: LimitFiles, core: int, limits: ClockLimits) -> None:
        """Let the core run after which a policy is named, where the policy does not show ``limits``: it may be off.

        Raises:
            DeviceError: the core does not come.
        """
        try:
            if read_limits(self._files, pair) == limits:
                return
        except DeviceError:
            pass  # hidden, for its cores are off
        if online_file(core) in self._files.settable:
            switch_on(self._files, [core])

    def restore_found(self, pair: LimitFiles, core: int, found: Snapshot) -> None:
        """Put the limits of one policy back, if need be by letting a core of it run.

        Raises:
            DeviceError: the core does not come, or a limit was refused, ignored or clamped.
        """
        limits = pair.in_snapshot(found)
        if limits is not None:
            self._wake(pair, core, limits)
            set_limits(self._files, pair, limits)
