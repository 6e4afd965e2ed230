"""The networks that are trained: two small ones defined here, the zoo's, and any ONNX graph that PyTorch can train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import nn

from edgetune.errors import InputError
from edgetune.profiling.convergence.proxies import PROXIES
from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Trainee:
    """A network ready to be trained.

    Args:
        module: Takes a minibatch of samples and returns a score per class.
        fixed_batch: Samples it takes at once, no more and no fewer; ``None`` for any number.
    """

    module: nn.Module
    fixed_batch: int | None = None


def build_network(
    workload: Workload, sample_shape: Sequence[int], classes: int, *, batch_size: int, seed: int
) -> Trainee:
    """Return a network with the weights of a seed, the same at every batch size; an ONNX file keeps those it has.

    Args:
        workload: See ``proxies.resolve_proxy``.
        sample_shape: Of one sample: ``(16, 16)`` and ``(1, 16, 16)`` are images, anything else fits ``proxy:mlp`` only.
        classes: Scores that a proxy gives; other networks give what they give.
        batch_size: Samples per minibatch.
        seed: Of the weights.

    Raises:
        InputError: samples that are no images for a network that takes images, or a graph that cannot be trained.
    """
    torch.manual_seed(seed)
    if workload.reference == "proxy:mlp":
        return Trainee(_mlp(prod(sample_shape), classes))
    if workload.reference in PROXIES:
        return Trainee(_cnn(sample_shape, classes))
    from edgetune.workloads import zoo
    from edgetune.workloads.initial_weights import has_data
    from edgetune.workloads.onnx_file import fix_dimensions, load_model
    from edgetune.workloads.torch_module import OnnxModule

    graph = zoo.weightless(workload.name) if workload.kind == "zoo" else load_model(workload, weights=True)
    try:
        model = fix_dimensions(graph, batch_size=batch_size)
    except InputError as error:
        raise InputError(error.message, "export it with its batch open and every other dimension fixed") from None
    if not all(has_data(tensor) for tensor in model.graph.initializer):
        model = zoo.with_weights(model, seed)
    return Trainee(OnnxModule(model), batch_size)


def _mlp(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, classes))


def _cnn(sample_shape: Sequence[int], classes: int) -> nn.Module:
    """Two convolutions and two dense layers: about 40,000 weights on 16 x 16 pixels."""
    if len(sample_shape) not in (2, 3) or min(sample_shape[-2:]) < 4:
        shape = "x".join(map(str, sample_shape)) or "single numbers"
        raise InputError(f"proxy:cnn takes images of at least 4x4, and the samples are {shape}", "take proxy:mlp")
    height, width = sample_shape[-2:]
    channels = sample_shape[0] if len(sample_shape) == 3 else 1
    return nn.Sequential(
        nn.Unflatten(1, (1, height)) if len(sample_shape) == 2 else nn.Identity(),
        nn.Conv2d(channels, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24 * (height // 4) * (width // 4), 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )
