"""GoogLeNet (Szegedy et al., arXiv:1409.4842) that counts salient objects, as in the EdgeCaffe study.

Laid out as BVLC's ``bvlc_googlenet``, without the two classifiers that help training, and with five classes (Zhang et
al., CVPR 2015). Local response normalisation stands where the original has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.workloads.initial_weights import kaiming_uniform

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

INCEPTIONS = (
    ("3a", (64, 96, 128, 16, 32, 32)),
    ("3b", (128, 128, 192, 32, 96, 64)),
    ("4a", (192, 96, 208, 16, 48, 64)),
    ("4b", (160, 112, 224, 24, 64, 64)),
    ("4c", (128, 128, 256, 24, 64, 64)),
    ("4d", (112, 144, 288, 32, 64, 64)),
    ("4e", (256, 160, 320, 32, 128, 128)),
    ("5a", (256, 160, 320, 32, 128, 128)),
    ("5b", (384, 192, 384, 48, 128, 128)),
)
"""Name; channels of the 1x1, the 1x1 before the 3x3, the 3x3, the 1x1 before the 5x5, the 5x5, the last 1x1."""


def googlenet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Salient objects: 0, 1, 2, 3, or more; nine inception modules."""
    x = _conv(graph, "conv1.7x7_s2", image, 64, kernel=7, stride=2)
    x = graph.max_pool("pool1", x, kernel=3, stride=2, ceil=True)
    x = graph.local_response_norm("conv1.norm1", x, spread=1e-4, offset=1.0)
    x = _conv(graph, "conv2.3x3", _conv(graph, "conv2.3x3_reduce", x, 64, kernel=1), 192, kernel=3)
    x = graph.local_response_norm("conv2.norm2", x, spread=1e-4, offset=1.0)
    x = graph.max_pool("pool2", x, kernel=3, stride=2, ceil=True)
    for name, channels in INCEPTIONS:
        x = _inception(graph, f"inception_{name}", x, channels)
        if name in ("3b", "4e"):
            x = graph.max_pool(f"pool{name[0]}", x, kernel=3, stride=2, ceil=True)
    x = graph.flatten("flatten", graph.global_average_pool("pool5", x))
    return {"logits": graph.linear("loss3.classifier", graph.dropout("pool5.drop", x, 0.4), 5)}


def _inception(graph: GraphBuilder, name: str, x: Value, channels: tuple[int, ...]) -> Value:
    """Four branches side by side: 1x1; 1x1 then 3x3; 1x1 then 5x5; pooling then 1x1."""
    one, before3, three, before5, five, after = channels
    pooled = graph.max_pool(f"{name}.pool", x, kernel=3, stride=1, padding=1)
    branches = [
        _conv(graph, f"{name}.1x1", x, one, kernel=1),
        _conv(graph, f"{name}.3x3", _conv(graph, f"{name}.3x3_reduce", x, before3, kernel=1), three, kernel=3),
        _conv(graph, f"{name}.5x5", _conv(graph, f"{name}.5x5_reduce", x, before5, kernel=1), five, kernel=5),
        _conv(graph, f"{name}.pool_proj", pooled, after, kernel=1),
    ]
    return graph.concat(f"{name}.output", branches, axis=1)


def _conv(graph: GraphBuilder, name: str, x: Value, channels: int, *, kernel: int, stride: int = 1) -> Value:
    """Convolution, ReLU."""
    x = graph.conv(name, x, channels, kernel=kernel, stride=stride, bias=True, initialise=kaiming_uniform)
    return graph.relu(f"{name}.relu", x)
