"""Keeps one child process warm between points and replaces it when it crashes, hangs or fails.

The child keeps the network loaded while only the power mode changes, which is most of a sweep. A failure costs the
point it happened at: the process is killed with all it started, and the next point gets a fresh one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from edgetune.artifacts.profile import Point
from edgetune.devices.cpu import usable_cpus
from edgetune.devices.device import LiveSource, Minibatches
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.child import Child
from edgetune.processes.families import family
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.units import format_duration
from edgetune.workloads.kernels import parse_kernel
from edgetune.workloads.onnx_file import stored_precisions, with_batch
from edgetune.workloads.resolve import KINDS
from edgetune.workloads.workload import LayerSampling, Workload

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
