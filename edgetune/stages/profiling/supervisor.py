"""Keeps one child process warm between points and replaces it when it crashes, hangs or fails.

The child keeps the network loaded while only the power mode changes, which is most of a sweep. A failure costs the
point it happened at: the process is killed with all it started, and the next point gets a fresh one.

Builds the TensorRT engines of a network before a sweep, without the time limit of a point.

Times of a network's layers on a device: measured in a child process, or from a twin's model.
"""

from __future__ import annotations

import contextlib
import select
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from edgetune.artifacts.layers import LayerTime, LayerTimes
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.capabilities import Absent
from edgetune.devices.cpu import usable_cpus
from edgetune.devices.device import Device, LayerSource, LiveSource, Minibatches
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.child import Child
from edgetune.processes.families import family
from edgetune.stages.profiling.measure import apply_mode
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.units import format_duration, format_si
from edgetune.workloads.costs import operator_table
from edgetune.workloads.engines import BuiltEngine
from edgetune.workloads.kernels import parse_kernel
from edgetune.workloads.onnx_file import stored_precisions, with_batch
from edgetune.workloads.resolve import KINDS
from edgetune.workloads.workload import BatchLimits, LayerSampling, Workload

WORKER = "edgetune.stages.profiling.worker:Session"
"""What the child runs."""
_RELEASED_WITHIN_S = 10.0
_START_SHARE = 0.8
"""Share of the time limit in which a server must be ready: the rest is for its report of why it is not."""


def _check_precision(workload: Workload, precision: str | None) -> None:
    """Refuse to run a workload in another precision than its own.

    Raises:
        InputError: The precisions differ; the hint says how to choose that of a network or of a kernel.
    """
    if precision is None:
        return
    if workload.kind == "kernel":
        wanted = parse_kernel(workload.reference, precision)
        if parse_kernel(workload.reference) == wanted:
            return
        refused, hint = "a kernel on a real one computes in the precision of its name", f"write {wanted.reference}"
    else:
        stored = stored_precisions(workload)
        if precision in stored:
            return
        refused = f"a real one runs the network as it is, in {' and '.join(stored)}"
        hint = "leave --precision out, or export the network in that precision and use that file"
    raise InputError(f"--precision {precision} is for simulated devices; {refused}", hint)


class Supervisor:
    """Opens points of one workload in a child process.

    Args:
        source: Execution providers and PyTorch device.
        workload: What runs.
        options: Inputs, dimensions, seed, and the time limit of a point.
    """

    def __init__(self, source: LiveSource, workload: Workload, options: ProfileOptions) -> None:
        if not options.engine_options.builds:
            _check_precision(workload, options.precision)
        self._source = source
        self._workload = workload
        self._options = options
        kind = KINDS.get(workload.kind)
        self._per_mode = kind is not None and kind.per_mode
        self._child: Child | None = None
        self._prepared: Mapping[str, Any] | None = None
        self._asking = False

    def open(
        self, point: Point, loading: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    ) -> ChildRunner:
        """Load ``point`` in the child unless it is loaded; the point's time limit starts here.

        Args:
            point: With the cores of its mode online, by which threads are counted.
            loading: Context of a load, see ``measure.clocks_as_found``.

        Raises:
            InputError: The workload cannot be loaded, crashed, was killed or took too long.
            DeviceError: A library or provider is missing.
        """
        deadline_s = time.monotonic() + self._options.point_timeout_s + self._options.long_s
        command = self.load_command(point)
        if self._child is not None and not self._child.alive:
            self.close()
        if command != self._prepared or self._child is None:
            loads = not self._per_mode or self._options.start is not None  # a command loads in its runs
            with loading() if loads else contextlib.nullcontext():
                self.ask(command, deadline_s=deadline_s)
            self._prepared = command
        return ChildRunner(self, deadline_s)

    def layers(self, point: Point, how: LayerSampling) -> dict[str, Any]:
        """Run ``point`` in the child under its runtime's profiler, see ``worker``; return ``LayerTimes`` as data.

        Raises:
            InputError, DeviceError: See ``open``.
        """
        self._prepared = None
        command = {**self.load_command(point), "command": "layers", "how": asdict(how)}
        reply = self.ask(command, deadline_s=time.monotonic() + self._options.point_timeout_s)
        found: dict[str, Any] = reply["layers"]
        return found

    def ask(self, command: Mapping[str, Any], *, deadline_s: float) -> dict[str, Any]:
        """Send a command to the child and return its reply; start a missing child, and end one that fails."""
        if self._child is None:
            self._child = Child(WORKER, environment=self._source.environment)
        self._asking = True
        try:
            reply = self._child.ask(command, deadline_s=deadline_s)
            self._asking = False
            return reply
        except (EdgetuneError, TimeoutError) as error:
            self.close()
            raise (error if isinstance(error, EdgetuneError) else self._too_slow()) from None

    def _too_slow(self) -> InputError:
        limit = format_duration(self._options.point_timeout_s)
        other = "a smaller batch size"
        if self._workload.kind == "command":
            other = "tell its steps apart, by --step-pattern or calls of edgetune.step()"
        return InputError(
            f"the workload did not finish within {limit} (--point-timeout) and was stopped",
            f"give it longer (edgetune profile --point-timeout), or {other}",
        )

    def release(self) -> None:
        """Close the workload in the child if it runs by itself."""
        if not self._per_mode or self._child is None:
            return
        self._prepared = None
        if self._asking:  # interrupted: the child would answer only when its minibatches are done
            self.close()
        else:
            with contextlib.suppress(EdgetuneError):  # the next point starts a fresh child
                self.ask({"command": "unload"}, deadline_s=time.monotonic() + _RELEASED_WITHIN_S)

    def processes(self) -> list[int]:
        """Return the processes of the workload: the child, or what it started if that runs by itself or elsewhere."""
        if self._child is None:
            return []
        return family(self._child.pid)[1 if self._per_mode or self._options.python is not None else 0 :]

    def close(self) -> None:
        """Kill the child, if there is one."""
        self._prepared = None
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def load_command(self, point: Point) -> dict[str, Any]:
        """Return the command that loads a point in the child."""
        cpus = usable_cpus()
        cores = point.mode.cpu_cores
        if cores is not None:
            cpus = cpus[:cores]
        of_command = (
            {
                "mode": point.mode.settings(),
                "step_pattern": self._options.step_pattern,
                "steps": self._options.steps,
                "start": self._options.start,
                "start_within_s": _START_SHARE * self._options.point_timeout_s,
            }
            if self._per_mode
            else {}
        )
        return {
            "command": "load",
            "workload": replace(
                with_batch(self._workload, self._options.dimensions, point.batch_size), name=point.workload
            ).plain(),
            "task": point.task,
            "batch_size": point.batch_size,
            "cpus": cpus,
            "threads": len(cpus),
            "ort_providers": list(self._source.ort_providers),
            "torch_device": self._source.torch_device,
            "inputs": self._options.inputs,
            "dimensions": dict(self._options.dimensions),
            "seed": self._options.seed,
            "engine": asdict(self._options.engine_options),
            "python": self._options.python,
            **of_command,
        }


class ChildRunner:
    """One workload at one batch size, loaded in the child; a ``devices.device.Runner``."""

    def __init__(self, supervisor: Supervisor, deadline_s: float) -> None:
        self._supervisor = supervisor
        self._deadline_s = deadline_s

    def run(self, minibatches: int) -> Minibatches:
        """Run that many minibatches back to back in the child.

        Raises:
            InputError: A minibatch failed, the process crashed or was killed, or the time limit of the point passed.
        """
        command = {"command": "run", "minibatches": minibatches}
        reply = self._supervisor.ask(command, deadline_s=self._deadline_s)
        return Minibatches(reply["start_ns"], reply["end_ns"], reply.get("columns", {}))

    def processes(self) -> list[int]:
        """See ``devices.device.HasProcesses``."""
        return self._supervisor.processes()

    def close(self) -> None:
        """Leave the workload loaded for the next mode; end one that runs by itself."""
        self._supervisor.release()


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


_USUAL = LayerSampling()
_ONE_BY_ONE = {"CUDA_LAUNCH_BLOCKING": "1"}
"""ONNX Runtime times a CUDA kernel on the CPU, where launching it does not wait for it, unless CUDA is told so. Source:
NVIDIA, CUDA C++ Programming Guide, "CUDA environment variables"."""


def layer_times(
    device: Device, workload: Workload, point: Point, options: ProfileOptions | None = None,
    how: LayerSampling = _USUAL, *, on_phase: Callable[[str], None] = lambda _: None,
) -> LayerTimes:  # fmt: skip
    """Return the time of each layer of a network at a point; the device's mode is restored afterwards.

    The same point runs again without the runtime's profiler, to measure the profiler's overhead.

    Args:
        device: Where to measure.
        workload: A network, as ``point`` names it.
        point: Task, batch size and mode.
        options: Inputs, dimensions, seed, precision and how long it may take.
        how: Number of minibatches, and how far ONNX Runtime may change the graph.
        on_phase: Called once the time of the whole network is known, with what follows in words.

    Raises:
        InputError: the device only has a table, the workload has no graph, or it cannot be run.
        DeviceError: a library is missing, or the mode cannot be set.
    """
    options = options or ProfileOptions()
    source = device.source
    if not isinstance(source, (LiveSource, LayerSource)):
        raise InputError(f"{device.name} cannot measure times of layers", "measure them on the host or a board")
    with device.exclusive(), contextlib.ExitStack() as afterwards:
        if not isinstance(device.modes, Absent):
            afterwards.callback(device.modes.restore)
        apply_mode(device, point.mode)
        if isinstance(source, LayerSource):
            table = operator_table(
                workload, point.task, point.batch_size, precision=options.precision, dimensions=options.dimensions
            )
            return source.layer_times(table)
        return _live(source, workload, point, options, how, on_phase=on_phase)


def _live(
    source: LiveSource, workload: Workload, point: Point, options: ProfileOptions, how: LayerSampling, *,
    on_phase: Callable[[str], None],
) -> LayerTimes:  # fmt: skip
    waits = point.task == "infer" and "CUDAExecutionProvider" in source.ort_providers
    profiled = replace(source, environment={**source.environment, **_ONE_BY_ONE}) if waits else source
    with contextlib.closing(Supervisor(source, workload, options)) as supervisor:
        runner = supervisor.open(point)
        runner.run(how.warmup)
        alone = runner.run(how.minibatches)
    undisturbed_s = statistics.median(
        1e-9 * (end_ns - start_ns) for start_ns, end_ns in zip(alone.start_ns, alone.end_ns, strict=True)
    )
    count = how.warmup + how.minibatches
    on_phase(f"{workload.name}: {format_si(undisturbed_s, 's')} per minibatch; {count} with the runtime's profiler")
    with contextlib.closing(Supervisor(profiled, workload, options)) as supervisor:
        found = supervisor.layers(point, how)
    times = tuple(LayerTime(**{**time, "rows": tuple(time["rows"])}) for time in found["times"])
    cautions = [*found["cautions"], *(["kernels ran one at a time, each waited for"] if waits else [])]
    return LayerTimes(**{**found, "times": times, "cautions": tuple(cautions), "undisturbed_s": undisturbed_s})
