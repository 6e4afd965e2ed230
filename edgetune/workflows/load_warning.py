"""Notes before work on this machine, and warnings after it: root, and other processes that use the machine."""

import os
from collections.abc import Iterable

from edgetune.artifacts.profile import ProfileRow
from edgetune.devices.capabilities import Clock, MonotonicClock
from edgetune.devices.cpu import CpuLoad
from edgetune.devices.device import Device
from edgetune.devices.sysfs import Sysfs
from edgetune.stages.profiling.disturbances import contention_warning
from edgetune.workflows.reporting import Reporter


def warn_of_load(device: Device, reporter: Reporter) -> None:
    """Warn of the CPU share of other processes if workloads run on this machine and the share is large."""
    if device.load is not None:
        _warn(device.load, device.clock, reporter)


def warn_of_host_load(reporter: Reporter) -> None:
    """Warn of the same before work on this machine that needs no device."""
    _warn(CpuLoad(Sysfs()), MonotonicClock(), reporter)


def _warn(reader: CpuLoad, clock: Clock, reporter: Reporter) -> None:
    if _as_root():
        reporter.info("note: edgetune runs as root, and with it the networks and scripts that it runs")
    if (quota := reader.quota) is not None and quota < 1:
        reporter.info(f"note: a CPU quota gives the time of {quota:.3g} CPUs: a thread is stopped now and then")
    load = None if reporter.quiet else reader.sample(clock)
    if load is not None and load.busy:
        cores = f"{load.cpus} core{'' if load.cpus == 1 else 's'}"
        used = f"other processes use {load.share:.0%} of them"
        reporter.info(f"note: load {load.runnable:.0f} on {cores}, {used}")


def _as_root() -> bool:
    return os.geteuid() == 0  # in a container, for instance; under sudo edgetune is the caller by now


def warn_of_contention(rows: Iterable[ProfileRow], reporter: Reporter) -> None:
    """Warn once if other processes or a CPU quota disturbed points."""
    for found in contention_warning(rows):
        reporter.warn(found)
