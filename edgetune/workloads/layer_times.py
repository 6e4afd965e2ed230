"""Measurement of the time of each layer in a minibatch, with the runtime's profiler.

It runs in a child process, as ``steps`` does.
"""

from __future__ import annotations

from edgetune.artifacts.layers import LayerTimes
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.ort_layers import measure_inference
from edgetune.workloads.torch_required import require_accelerator, require_torch
from edgetune.workloads.workload import RunOptions, Workload

OPTIMISATIONS = ("disabled", "basic", "extended", "all")
"""Optimisation levels of ONNX Runtime, see ``ort_layers``."""


def measure(
    workload: Workload,
    task: Task,
    batch_size: int,
    options: RunOptions | None = None,
    *,
    minibatches: int,
    warmup: int,
    optimisation: str = "all",
) -> LayerTimes:
    """Run minibatches of a network under its runtime's profiler and return the times of its layers.

    Args:
        workload: An ONNX file or a network of the zoo.
        task: ``infer``, on ONNX Runtime, or ``train``, on PyTorch.
        batch_size: Samples per minibatch.
        options: Options of the run.
        minibatches: Number of profiled minibatches; times are medians over them.
        warmup: Number of minibatches before them.
        optimisation: One of ``OPTIMISATIONS``; ``basic`` keeps most operators separate, ``all`` is the default.

    Raises:
        InputError: the workload has no graph, or cannot run with these options.
        DeviceError: a library is missing, or the requested execution provider does not run the network.
    """
    if not workload.is_graph:
        raise InputError(
            f"{workload.reference} has no graph whose layers could be told apart", "give an ONNX file or zoo:NAME"
        )
    if minibatches < 1 or warmup < 0:
        raise InputError(f"cannot profile {minibatches} minibatches after {warmup}", "profile one or more")
    if optimisation not in OPTIMISATIONS:
        raise InputError(f"unknown optimisation level {optimisation!r}", f"known: {', '.join(OPTIMISATIONS)}")
    options = options or RunOptions()
    if task == "train":
        require_torch()
        require_accelerator(options.torch_device)
        from edgetune.workloads.torch_layers import measure_training

        return measure_training(workload, batch_size, options, minibatches=minibatches, warmup=warmup)
    return measure_inference(
        workload, batch_size, options, minibatches=minibatches, warmup=warmup, optimisation=optimisation
    )
