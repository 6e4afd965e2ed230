"""The engine of a network: what it can be asked for, and its building before the sweep."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.profile import Point, Task
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import InputError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.units import format_bytes, format_duration
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.workload import Workload

_FIRST_WORD_S, _LONGEST_SILENCE_S = 10.0, 60.0


def check_engine(device: Device, workload: Workload, task: Task, options: ProfileOptions) -> None:
    """Check that the engine fits the device, the network and the task.

    Raises:
        InputError: it does not.
    """
    engine = options.engine_options
    engine.check()
    if not engine.builds:
        return
    if not isinstance(device.source, LiveSource):
        raise InputError(
            f"--engine {engine.name}: {device.name} runs no engine, it simulates or looks up",
            "leave --engine out, or measure on the board itself: --device jetson",
        )
    if task != "infer" or not workload.has_graph:
        raise InputError(f"--engine {engine.name} infers an ONNX network", "leave --engine out, or name an ONNX file")


def build_engines(
    device: Device, workload: Workload, points: Sequence[Point], options: ProfileOptions, reporter: Reporter
) -> None:
    """Build the engine of each batch size before anything is measured, and report how long each took.

    Raises:
        InputError, DeviceError: see ``building.build``.
    """
    if not options.engine_options.builds or not isinstance(device.source, LiveSource):
        return
    from edgetune.stages.profiling.building import build

    for point in {point.batch_size: point for point in reversed(points)}.values():
        what = f"the TensorRT engine of {workload.name} at batch {point.batch_size}"
        told_s = _FIRST_WORD_S - _LONGEST_SILENCE_S

        def wait(waited_s: float, what: str = what) -> None:
            nonlocal told_s
            if waited_s - told_s >= _LONGEST_SILENCE_S:
                told_s = waited_s
                reporter.info(f"building {what} for {format_duration(round(waited_s))}; it is kept for the next time")

        built = build(device.source, workload, options, point, wait)
        took = "" if built.build_s is None else f" in {format_duration(built.build_s)}"
        verb = f"was built earlier{took}" if built.cached else f"was built{took}"
        reporter.info(f"{what}, {format_bytes(built.engine_bytes)}, {verb}, which no figure includes")
