"""The CPUs this process may use, in the order in which a workload should be given them."""

from __future__ import annotations

import math
import os

from edgetune.devices.sysfs import Sysfs


def usable_cpus(sysfs: Sysfs | None = None) -> list[int]:
    """Return the numbers of the CPUs this process may really use, one thread of each physical core first.

    A container's CPU quota counts as well as the affinity mask: on four CPUs with a quota of two, four busy threads
    are stopped half of the time, and nothing that is timed then means anything.
    """
    sysfs = sysfs or Sysfs()
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    quota = cpu_quota(sysfs)
    ordered = _physical_first(allowed, sysfs)
    return ordered if quota is None else ordered[: max(1, math.floor(quota))]


def cpu_quota(sysfs: Sysfs) -> float | None:
    """Return how many CPUs' worth of time the control group allows, or ``None`` for no limit.

    Reads ``cpu.max`` of control groups version 2 from this process's group up to the root, and the quota of version 1;
    the tightest counts. See the kernel's Documentation/admin-guide/cgroup-v2.rst.
    """
    quotas: list[float] = []
    for group in _groups(sysfs):
        try:
            limit, period = sysfs.read(f"sys/fs/cgroup{group}/cpu.max").split()
            if limit != "max":
                quotas.append(int(limit) / int(period))
        except (OSError, ValueError, ZeroDivisionError):
            continue
    limit_us = sysfs.read_int("sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period_us = sysfs.read_int("sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if limit_us is not None and limit_us > 0 and period_us:
        quotas.append(limit_us / period_us)
    return min(quotas, default=None)


def _groups(sysfs: Sysfs) -> list[str]:
    """Return this process's version 2 control group and its parents, as paths below the mount point."""
    try:
        lines = sysfs.read("proc/self/cgroup").splitlines()
    except OSError:
        return [""]
    path = next((line[3:].rstrip("/") for line in lines if line.startswith("0::")), "")
    groups = [path]
    while path:
        path = path.rpartition("/")[0]
        groups.append(path)
    return groups


def _physical_first(cpus: list[int], sysfs: Sysfs) -> list[int]:
    """Order CPUs so that no core is used twice before every core is used once."""
    seen: dict[tuple[int, int], int] = {}
    keyed: list[tuple[int, int]] = []
    for cpu in cpus:
        topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
        core = sysfs.read_int(f"{topology}/core_id")
        package = sysfs.read_int(f"{topology}/physical_package_id")
        place = (package or 0, core) if core is not None else (-1, cpu)
        keyed.append((seen.get(place, 0), cpu))
        seen[place] = seen.get(place, 0) + 1
    return [cpu for _, cpu in sorted(keyed)]


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
