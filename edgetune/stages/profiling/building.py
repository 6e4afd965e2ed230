"""Builds the TensorRT engines of a network before a sweep, without the time limit of a point."""

import select
import time
from collections.abc import Callable
from contextlib import closing

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.device import LiveSource
from edgetune.errors import InputError
from edgetune.processes.child import Child
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.supervisor import WORKER, Supervisor
from edgetune.units import format_duration
from edgetune.workloads.engines import BuiltEngine
from edgetune.workloads.workload import BatchLimits, Workload

_POLL_INTERVAL_S = 1.0
_LONGEST_BUILD_S = 6 * 3600.0


def inspect_engine(source: LiveSource, workload: Workload, options: ProfileOptions) -> BatchLimits:
    """Return the batch sizes that an engine file takes, read in a child process.

    Raises:
        InputError: the engine cannot be loaded.
        DeviceError: a library or the GPU is missing.
    """
    with closing(Supervisor(source, workload, options)) as supervisor:
        command = {**supervisor.load_command(Point(workload.name, "infer", 1, Mode())), "command": "limits"}
        return BatchLimits(**supervisor.ask(command, deadline_s=time.monotonic() + options.point_timeout_s)["limits"])


def build(
    source: LiveSource, workload: Workload, options: ProfileOptions, point: Point, on_wait: Callable[[float], None]
) -> BuiltEngine:
    """Build the engine of a point in a child process, or find it among those built earlier.

    Args:
        source, workload, options: See ``Supervisor``.
        point: Its batch size counts, and the number of cores of its mode.
        on_wait: Called about once a second with the time since the start, s.

    Raises:
        InputError: the network cannot be built, or building takes more than six hours.
        DeviceError: a library or the GPU is missing.
    """
    begun_s = time.monotonic()
    child = Child(WORKER, environment=source.environment)
    try:
        child.send(Supervisor(source, workload, options).load_command(point))
        while (waited_s := time.monotonic() - begun_s) < _LONGEST_BUILD_S:
            select.select([child], [], [], _POLL_INTERVAL_S)
            for reply in child.received():
                return BuiltEngine(**reply["built"])
            on_wait(waited_s)
    finally:
        child.close()
    raise InputError(
        f"the engine of {workload.reference} was not built within {format_duration(_LONGEST_BUILD_S)}",
        "build it with trtexec, and name the .engine file",
    )
