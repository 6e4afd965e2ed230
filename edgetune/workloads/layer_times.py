"""Measurement of the time of each layer in a minibatch, with the runtime's profiler.

It runs in a child process, as ``steps`` does.
"""

from edgetune.artifacts.layers import LayerTimes
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.ort_layers import measure_inference
from edgetune.workloads.torch_required import require_accelerator, require_torch
from edgetune.workloads.workload import LayerSampling, RunOptions, Workload

OPTIMISATIONS = ("disabled", "basic", "extended", "all")
"""Optimisation levels of ONNX Runtime. Source: onnxruntime.ai, "Graph optimizations"."""


def measure(
    workload: Workload,
    task: Task,
    batch_size: int,
    options: RunOptions | None = None,
    *,
    how: LayerSampling,
) -> LayerTimes:
    """Run minibatches of a network under its runtime's profiler and return the times of its layers.

    Args:
        workload: An ONNX file or a network of the zoo.
        task: ``infer``, on ONNX Runtime, or ``train``, on PyTorch.
        batch_size: Samples per minibatch.
        options: Options of the run.
        how: Number of minibatches, and the level of optimisation.

    Raises:
        InputError: the workload has no graph, or cannot run with these options.
        DeviceError: a library is missing, or the requested execution provider does not run the network.
    """
    if not workload.is_graph:
        raise InputError(
            f"{workload.reference} has no graph whose layers could be told apart", "give an ONNX file or zoo:NAME"
        )
    if how.minibatches < 1 or how.warmup < 0:
        raise InputError(f"cannot profile {how.minibatches} minibatches after {how.warmup}", "profile one or more")
    if how.optimisation not in OPTIMISATIONS:
        raise InputError(f"unknown optimisation level {how.optimisation!r}", f"known: {', '.join(OPTIMISATIONS)}")
    options = options or RunOptions()
    if task == "train":
        require_torch()
        require_accelerator(options.torch_device)
        from edgetune.workloads.torch_layers import measure_training

        return measure_training(workload, batch_size, options, how)
    return measure_inference(workload, batch_size, options, how)
