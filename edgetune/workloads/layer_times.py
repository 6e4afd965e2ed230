"""Measures where the time of a minibatch goes, layer by layer, with the profiler of the runtime that runs it.

This runs in a child process, as ``steps`` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetune.artifacts.layers import LayerTimes
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.torch_required import require_accelerator, require_torch
from edgetune.workloads.workload import Workload

OPTIMISATIONS = ("disabled", "basic", "extended", "all")
"""How far ONNX Runtime may change the graph, see ``ort_layers``."""


def measure(
    workload: Workload,
    task: Task,
    batch_size: int,
    *,
    minibatches: int,
    warmup: int,
    optimisation: str = "all",
    ort_providers: Sequence[str] = ("CPUExecutionProvider",),
    torch_device: str = "cpu",
    threads: int | None = None,
    inputs_file: str | None = None,
    dimensions: Mapping[str, int] | None = None,
    seed: int = 0,
) -> LayerTimes:
    """Run minibatches of a network under its runtime's profiler and return the times of its layers.

    Args:
        workload: An ONNX file or a network of the zoo.
        task: ``infer``, on ONNX Runtime, or ``train``, on PyTorch.
        batch_size: Samples per minibatch.
        minibatches: How many to profile; times are medians over them.
        warmup: How many to run before.
        optimisation: One of ``OPTIMISATIONS``; ``basic`` keeps most operators apart, ``all`` is how it is usually run.
        ort_providers, torch_device, threads, inputs_file, dimensions, seed: See ``steps.open_step``.

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
    if task == "train":
        require_torch()
        require_accelerator(torch_device)
        from edgetune.workloads.torch_layers import measure_training

        return measure_training(
            workload,
            batch_size,
            minibatches=minibatches,
            warmup=warmup,
            device=torch_device,
            threads=threads,
            dimensions=dimensions or {},
            seed=seed,
        )
    from edgetune.workloads.ort_layers import measure_inference

    return measure_inference(
        workload,
        batch_size,
        minibatches=minibatches,
        warmup=warmup,
        optimisation=optimisation,
        providers=tuple(ort_providers),
        threads=threads,
        inputs_file=inputs_file,
        dimensions=dimensions or {},
        seed=seed,
    )
