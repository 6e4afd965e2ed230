"""The CPUs that this process may use, in the order of their assignment to a workload, and their load by others.

The load is computed from the kernel's counters:

    proc/stat        cpu0 user nice system idle iowait irq softirq steal ...    ticks of each CPU since boot
    proc/PID/stat    utime stime cutime cstime of each of our processes, so that a workload's own threads do not count

    share of others = (busy ticks of the CPUs - ticks of our processes) / all ticks of the CPUs

Source: proc(5). Time that a hypervisor gave to other machines (steal) counts as load of others.

The memory of the whole machine, which CPU and GPU share on a board; Documentation/filesystems/proc.rst.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetune.devices.capabilities import Clock
from edgetune.devices.sysfs import Sysfs
from edgetune.processes.cgroup import cpu_periods, cpu_quota
from edgetune.processes.families import counter, counter_bytes, family, stat_fields


def usable_cpus(sysfs: Sysfs | None = None) -> list[int]:
    """Return the numbers of the CPUs that this process may use, one thread of each physical core first.

    A container's CPU quota counts as well as the affinity mask: on four CPUs with a quota of two, four busy threads
    are stopped half of the time, which makes every measured time meaningless.
    """
    sysfs = sysfs or Sysfs()
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    quota = cpu_quota(sysfs.root)
    ordered = _physical_first(allowed, sysfs)
    return ordered if quota is None else ordered[: max(1, math.floor(quota))]


def _physical_first(cpus: list[int], sysfs: Sysfs) -> list[int]:
    """Return the CPUs ordered so that every core appears once before any appears twice, the fastest cores first.

    ``cpu_capacity`` is the kernel's figure of a core's speed on boards with big and small cores
    (Documentation/ABI/testing/sysfs-devices-system-cpu); where it is missing or equal, the highest clock decides.
    ``core_id`` counts from 0 in each cluster of some kernels, so that the list of a core's threads counts first.
    """
    seen: dict[object, int] = {}
    keyed: list[tuple[int, int, int, int]] = []
    for cpu in cpus:
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        core = sysfs.read_int(f"{folder}/topology/core_id")
        package = sysfs.read_int(f"{folder}/topology/physical_package_id")
        place = (package or 0, core) if core is not None else (-1, cpu)
        threads = sysfs.text(f"{folder}/topology/thread_siblings_list") or place
        capacity = sysfs.read_int(f"{folder}/cpu_capacity") or 0
        khz = sysfs.read_int(f"{folder}/cpufreq/cpuinfo_max_freq") or 0
        keyed.append((seen.get(threads, 0), -capacity, -khz, cpu))
        seen[threads] = seen.get(threads, 0) + 1
    return [cpu for *_, cpu in sorted(keyed)]


def cpu_model(sysfs: Sysfs) -> str:
    """Return the processor's name as the kernel or the device tree gives it, or ``unknown``."""
    try:
        for line in sysfs.read("proc/cpuinfo").splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() in ("model name", "hardware", "cpu model"):
                return value.strip()
        return sysfs.read("proc/device-tree/model").rstrip("\0")
    except OSError:
        return "unknown"


BUSY_SHARE = 0.1
"""Share of the CPUs in use by others from which the machine counts as busy: on two cores one process that is busy for a
fifth of the time. A desktop at rest and a board with its services use 1 to 5 %."""
_FEWEST_TICKS = 20
"""Fewest ticks, of 10 ms, for a share: one tick is then 5 % of it."""
_LOOKS = 5
_LOOK_EVERY_S = 0.1
_IDLE = slice(3, 5)
_OWN_TICKS = slice(11, 15)  # fields of ``stat_fields``: utime, stime, cutime, cstime
_COUNTED = 8
"""Columns of a CPU: user, nice, system, idle, iowait, irq, softirq and steal; guests are in user time already."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """The counters at one moment, in ticks since boot.

    Args:
        busy, total: Ticks of each CPU, by its number.
        own: Ticks of our processes.
        runnable: Threads of all users that run or wait for a CPU.
        quota_periods: By control group, the periods of its CPU quota, and those in which it throttled the group.
    """

    busy: Mapping[int, int]
    total: Mapping[int, int]
    own: int
    runnable: int
    quota_periods: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherProcessesLoad:
    """Load of the CPUs by other processes.

    Args:
        share: Share of the time of the CPUs.
        cpus: Number of CPUs.
        runnable: Mean number of other threads that run or wait.
    """

    share: float
    cpus: int
    runnable: float

    @property
    def busy(self) -> bool:
        """Whether the machine counts as busy."""
        return self.share >= BUSY_SHARE


class CpuLoad:
    """Reads the CPU counters of this machine.

    Args:
        sysfs: The file system with ``proc``.
        process: Process whose time, descendants included, counts as our own; by default this process.
    """

    def __init__(self, sysfs: Sysfs, process: int | None = None) -> None:
        self._sysfs = sysfs
        self._process = os.getpid() if process is None else process

    def read(self) -> CpuTimes | None:
        """Return the present counters; ``None`` where the kernel does not show them."""
        try:
            own, periods = _own_ticks(self._sysfs, self._process), cpu_periods(self._sysfs.root)
            return replace(read_cpu_times(self._sysfs), own=own, quota_periods=periods)
        except OSError:
            return None

    def quota_periods(self) -> Mapping[str, tuple[int, int]]:
        """Return the present ``CpuTimes.quota_periods``, for which no process is read."""
        return cpu_periods(self._sysfs.root)

    @property
    def quota(self) -> float | None:
        """CPUs of which a CPU quota gives the time; ``None`` without a quota."""
        return cpu_quota(self._sysfs.root)

    def cpus(self, cores: int | None = None) -> list[int]:
        """Return the CPUs assigned to a workload on ``cores`` cores."""
        return usable_cpus(self._sysfs)[:cores]

    def sample(self, clock: Clock) -> OtherProcessesLoad | None:
        """Measure the load for half a second in which none of our work runs; ``None`` where it is unknown."""
        looks: list[CpuTimes] = []
        for number in range(_LOOKS + 1):
            if number:
                clock.sleep_s(_LOOK_EVERY_S)
            if (look := self.read()) is None:
                return None
            looks.append(look)
        cpus = self.cpus()
        share = others_share(looks[0], looks[-1], cpus)
        runnable = sum(max(look.runnable - 1, 0) for look in looks) / len(looks)  # minus this process, which reads
        return None if share is None else OtherProcessesLoad(share, len(cpus), runnable)


def others_share(before: CpuTimes, after: CpuTimes, cpus: Sequence[int]) -> float | None:
    """Return the share of the CPUs' time that others used, 0 to 1; ``None`` for too short an interval.

    Args:
        before, after: The counters at both ends of the interval.
        cpus: CPUs that the workload may use; CPUs that were offline at either end are left out.
    """
    known = [cpu for cpu in cpus if cpu in before.total and cpu in after.total]
    total = sum(after.total[cpu] - before.total[cpu] for cpu in known)
    if total < _FEWEST_TICKS:
        return None
    busy = sum(after.busy[cpu] - before.busy[cpu] for cpu in known)
    return min(max((busy - (after.own - before.own)) / total, 0.0), 1.0)


def throttled_share(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> float | None:
    """Return the share of the periods in which a CPU quota throttled this process's groups; ``None`` without one."""
    looks = [(before.get(group, (0, 0)), now) for group, now in after.items()]
    shares = [(end[1] - start[1]) / (end[0] - start[0]) for start, end in looks if end[0] > start[0]]
    return max(shares, default=None)


def read_cpu_times(sysfs: Sysfs) -> CpuTimes:
    """Return the counters of the CPUs, without those of our processes.

    Raises:
        OSError: the kernel does not show them.
    """
    busy, total, runnable = {}, {}, 0
    for name, *words in (line.split() for line in sysfs.read("proc/stat").splitlines() if line):
        if name.startswith("cpu") and name != "cpu":
            ticks = [int(word) for word in words[:_COUNTED]]
            total[int(name[3:])] = sum(ticks)
            busy[int(name[3:])] = sum(ticks) - sum(ticks[_IDLE])
        elif name == "procs_running":
            runnable = int(words[0])
    return CpuTimes(busy, total, 0, runnable)


def cpu_clocks_mhz(sysfs: Sysfs) -> dict[str, float | None]:
    """Return the last requested clock of each cpufreq policy, MHz; ``None`` for one that cannot be read."""
    khz = {path: sysfs.read_int(path) for path in sysfs.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq")}
    return {f"cpu {path.split('/')[-2]}": None if now is None else now / 1e3 for path, now in khz.items()}


def _own_ticks(sysfs: Sysfs, process: int) -> int:
    """Return the ticks of a process and of its descendants, ended ones included."""
    proc = sysfs.root / "proc"
    return sum(int(ticks) for pid in family(process, proc) for ticks in stat_fields(pid, proc)[_OWN_TICKS])


class MachineMemory:
    """Reads the kernel's accounts of memory; each figure is ``None`` where the kernel does not show it.

    Args:
        sysfs: The kernel's files.
    """

    def __init__(self, sysfs: Sysfs) -> None:
        self._proc = sysfs.root / "proc"

    def total_bytes(self) -> int | None:
        """Return all memory that the kernel manages, bytes."""
        return counter_bytes(self._proc / "meminfo", "MemTotal")

    def available_bytes(self) -> int | None:
        """Return what programs can take without swapping, bytes."""
        return counter_bytes(self._proc / "meminfo", "MemAvailable")

    def swap_bytes(self) -> tuple[int, int] | None:
        """Return the used and the whole swap, bytes; ``None`` also without swap."""
        whole = counter_bytes(self._proc / "meminfo", "SwapTotal")
        free = counter_bytes(self._proc / "meminfo", "SwapFree")
        return (whole - free, whole) if whole and free is not None else None

    def swapped_in_bytes(self) -> int | None:
        """Return what was read back from swap, compressed memory (zram) among it, since the system booted, bytes."""
        pages = counter(self._proc / "vmstat", "pswpin")
        return None if pages is None else pages * os.sysconf("SC_PAGE_SIZE")
