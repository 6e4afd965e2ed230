"""What the child process runs of a workload; ``processes.messages`` describes the process and its lines.

    {"command": "load", "workload": {...}, "task": "infer", "batch_size": 4, ...}       -> {"ok": true, "load_ns": ...}
    {"command": "run", "minibatches": 16}                       -> {"ok": true, "start_ns": [...], "end_ns": [...]}
    {"command": "limits", and what "load" has}                  -> {"ok": true, "limits": {"least": 1, ...}}
    {"command": "unload"}                                       -> {"ok": true}
    {"command": "layers", "how": {"minibatches": 16, "warmup": 4, "optimisation": "all"}, and what "load" has}
                                                                -> {"ok": true, "layers": {"minibatch_s": ..., ...}}

Times are of CLOCK_MONOTONIC, which is one clock for the whole system: power samples taken by the parent lie on it too.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from edgetune.errors import InputError
from edgetune.processes.families import give_back, gpu_peak_bytes, reset_peaks, without_collections
from edgetune.processes.start import pin
from edgetune.workloads.engines import BuiltStep
from edgetune.workloads.steps import open_step
from edgetune.workloads.torch_required import Step, TimedSteps
from edgetune.workloads.workload import LayerSampling, RunOptions, Workload


class Session:
    """The step that is loaded now."""

    def __init__(self) -> None:
        self._step: Step | TimedSteps | None = None

    def __call__(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Execute one of the commands above."""
        if command["command"] == "run":
            return self.run(command["minibatches"])
        if command["command"] == "load":
            return self.load(command)
        if command["command"] == "layers":
            return {"layers": self.layers(command)}
        if command["command"] == "limits":
            from edgetune.workloads.tensorrt_engine import inspect

            found = inspect(Workload.from_plain(command["workload"]), RunOptions.from_plain(command))
            return {"limits": asdict(found)}
        self.unload()
        return {}

    def load(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Drop the old step, take the cores asked for, load the new one; return how long it took and what it built."""
        begun = time.monotonic_ns()
        self.unload(command["cpus"])
        reset_peaks()
        self._step = open_step(
            Workload.from_plain(command["workload"]),
            command["task"],
            command["batch_size"],
            RunOptions.from_plain(command),
        )
        built = asdict(self._step.built) if isinstance(self._step, BuiltStep) else None
        return {"load_ns": time.monotonic_ns() - begun, "built": built}

    def layers(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Drop the step, run minibatches under the runtime's profiler; return ``LayerTimes`` as plain data."""
        self.unload(command["cpus"])
        from edgetune.workloads.layer_times import measure  # it needs onnx, which a training file does not

        times = measure(
            Workload.from_plain(command["workload"]),
            command["task"],
            command["batch_size"],
            RunOptions.from_plain(command),
            how=LayerSampling(**command["how"]),
        )
        return asdict(times)

    def unload(self, cpus: Sequence[int] = ()) -> None:
        """Drop the step, and take the cores asked for."""
        step, self._step = self._step, None
        if isinstance(step, TimedSteps):
            step.close()
        give_back()
        if cpus:
            pin(cpus)

    def run(self, minibatches: int) -> dict[str, Any]:
        """Run minibatches back to back and return when each started and ended, ns, and further columns."""
        if self._step is None:
            raise InputError("no workload is loaded", "this is a defect of edgetune: please report it")
        if isinstance(self._step, TimedSteps):
            start_ns, end_ns = self._step.times_ns(minibatches)
            return {"start_ns": start_ns, "end_ns": end_ns, "columns": self._step.columns()}
        start_ns, end_ns = _timed(self._step, minibatches, time.monotonic_ns)
        held = gpu_peak_bytes()
        columns = {} if held is None else {"memory_device_bytes": held}
        if isinstance(self._step, BuiltStep):
            columns |= self._step.columns()
        return {"start_ns": start_ns, "end_ns": end_ns, "columns": columns}


def _timed(step: Callable[[], object], minibatches: int, now_ns: Callable[[], int]) -> tuple[list[int], list[int]]:
    """The measured loop: nothing but the step and two readings of the clock, the garbage collector held off."""
    start_ns, end_ns = [0] * minibatches, [0] * minibatches
    with without_collections():
        for index in range(minibatches):
            start_ns[index] = now_ns()
            step()
            end_ns[index] = now_ns()
    return start_ns, end_ns
