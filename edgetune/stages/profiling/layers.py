"""Times of a network's layers on a device: measured in a child process, or from a twin's model."""

import contextlib
import statistics
from collections.abc import Callable
from dataclasses import replace

from edgetune.artifacts.layers import LayerTime, LayerTimes
from edgetune.artifacts.profile import Point
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LayerSource, LiveSource
from edgetune.errors import InputError
from edgetune.stages.profiling.measure import apply_mode
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.supervisor import Supervisor
from edgetune.units import format_si
from edgetune.workloads.costs import operator_table
from edgetune.workloads.workload import LayerSampling, Workload

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
