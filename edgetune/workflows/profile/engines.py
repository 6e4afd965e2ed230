"""The engine of a network: checks of its options, and its building before the sweep."""

from collections.abc import Sequence
from dataclasses import replace

from edgetune.artifacts.profile import Point, Task
from edgetune.devices.device import Device, LiveSource, ModelSource
from edgetune.errors import InputError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.units import format_bytes, format_duration
from edgetune.workflows.reporting import RUNTIMES, Reporter
from edgetune.workloads.command import split
from edgetune.workloads.workload import Workload

_FIRST_WORD_S, _LONGEST_SILENCE_S = 10.0, 60.0


def check_engine(device: Device, workload: Workload, task: Task, options: ProfileOptions) -> None:
    """Check that the engine fits the device, the network and the task.

    Raises:
        InputError: it does not.
    """
    engine = options.engine_options
    if options.python is not None:
        script = workload.kind == "command" and split(workload.reference)[0] == options.python
        network = workload.has_graph and task == "infer" and not engine.builds
        if not (script or network or (workload.kind == "python" and task == "train")):
            raise InputError(
                "--python runs ONNX networks by ONNX Runtime, Python files that train, and scripts", "leave it out"
            )
    is_file = workload.kind == "engine"
    if is_file and engine.name == "ort":
        engine = replace(engine, name="tensorrt")
    engine.check()
    if not engine.builds:
        return
    if not isinstance(device.source, LiveSource):
        raise InputError(
            f"{device.name} is simulated or a table, and runs no TensorRT engine",
            "name an ONNX file without --engine, or measure on the board itself: --device jetson",
        )
    if is_file and engine.allow_gpu_fallback:
        raise InputError(
            f"{workload.reference} is built already, for what its builder chose", "leave --engine and its options out"
        )
    if is_file and task != "infer":
        raise InputError(f"{workload.reference} is an engine, which infers and does not train", "use --task infer")
    if is_file:
        return
    if task != "infer" or not workload.has_graph:
        raise InputError(f"--engine {engine.name} infers an ONNX network", "leave --engine out, or name an ONNX file")


def check_modelled(device: Device, engine: str | None) -> None:
    """Check that a simulated device has a model of the engine that is asked for.

    Raises:
        InputError: it models another runtime.
    """
    runtime = device.conditions.get("runtime")
    if engine == "ort" and runtime is not None and isinstance(device.source, ModelSource):
        raise InputError(
            f"{device.name} models {RUNTIMES.get(runtime, runtime)}, and no launches and fusions of ONNX Runtime",
            "leave --engine out, or measure on the board itself: --device jetson",
        )


def in_python(device: Device, python: str | None) -> Device:
    """Return a device whose conditions have the versions of another Python, if it is to run the workload.

    Raises:
        InputError: the device runs nothing, or the other Python cannot run.
    """
    if python is None:
        return device
    if not isinstance(device.source, LiveSource):
        raise InputError(f"--python: {device.name} is simulated or a table, and runs no Python", "leave it out")
    from edgetune.workloads.foreign_python import versions

    return replace(device, conditions={**device.conditions, **versions(python)})


def build_engines(
    device: Device, workload: Workload, points: Sequence[Point], options: ProfileOptions, reporter: Reporter
) -> None:
    """Build the engine of each batch size before anything is measured, and report how long each took.

    Raises:
        InputError, DeviceError: see ``building.build``.
    """
    if not options.engine_options.builds or not isinstance(device.source, LiveSource):
        return
    from edgetune.stages.profiling.supervisor import build

    for point in {point.batch_size: point for point in points}.values():
        what = f"the TensorRT engine of {workload.name} at batch {point.batch_size}"
        reported_s = _FIRST_WORD_S - _LONGEST_SILENCE_S

        def wait(waited_s: float, what: str = what) -> None:
            nonlocal reported_s
            if waited_s - reported_s >= _LONGEST_SILENCE_S:
                reported_s = waited_s
                reporter.info(f"building {what} for {format_duration(round(waited_s))}; it is kept for the next time")

        built = build(device.source, workload, options, point, wait)
        took = "" if built.build_s is None else f" in {format_duration(built.build_s)}"
        verb = f"was built earlier{took}" if built.cached else f"was built{took}"
        reporter.info(f"{what}, {format_bytes(built.engine_bytes)}, {verb}, which no figure includes")
        if built.note:
            reporter.info(built.note)
