"""Measures where the time of a minibatch goes, layer by layer, with the profiler of the runtime that runs it.

This runs in a child process, as ``steps`` does.
"""

from __future__ import annotations

from edgetune.artifacts.layers import LayerTimes
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.ort_layers import measure_inference
from edgetune.workloads.torch_required import require_accelerator, require_torch
from edgetune.workloads.workload import RunOptions, Workload

OPTIMISATIONS = ("disabled", "basic", "extended", "all")
"""How far ONNX Runtime may change the graph, see ``ort_layers``."""


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
        options: How it is run.
        minibatches: How many to profile; times are medians over them.
        warmup: How many to run before.
        optimisation: One of ``OPTIMISATIONS``; ``basic`` keeps most operators apart, ``all`` is how it is usually run.

    Raises:
        InputError: the workload has no graph, or cannot be run as asked.
        DeviceError: a library is missing, or the execution provider asked for did not take the network.
    """
    if workload.kind not in ("onnx", "zoo"):
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
