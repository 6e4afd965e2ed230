"""ResNet-18 and ResNet-50 (He et al. 2015, arXiv:1512.03385).

Laid out as torchvision's ``resnet.py``: version 1.5, whose bottlenecks stride in the 3x3 convolution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.workloads.initial_weights import kaiming_normal

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of the first block, per stage."""


def resnet18(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Two basic blocks (two 3x3 convolutions) per stage."""
    return _resnet(graph, image, blocks=(2, 2, 2, 2), bottleneck=False)


def resnet50(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """3, 4, 6 and 3 bottleneck blocks (1x1, 3x3, 1x1 to four times the width)."""
    return _resnet(graph, image, blocks=(3, 4, 6, 3), bottleneck=True)


def _resnet(graph: GraphBuilder, image: Value, *, blocks: tuple[int, ...], bottleneck: bool) -> dict[str, Value]:
    x = graph.relu("relu", _conv_norm(graph, "conv1", "bn1", image, 64, kernel=7, stride=2))
    x = graph.max_pool("maxpool", x, kernel=3, stride=2, padding=1)
    for stage, (width, first_stride) in enumerate(STAGES, start=1):
        for index in range(blocks[stage - 1]):
            stride = first_stride if index == 0 else 1
            x = _block(graph, f"layer{stage}.{index}", x, width, stride=stride, bottleneck=bottleneck)
    x = graph.flatten("flatten", graph.global_average_pool("avgpool", x))
    return {"logits": graph.linear("fc", x, 1000)}


def _block(graph: GraphBuilder, name: str, x: Value, width: int, *, stride: int, bottleneck: bool) -> Value:
    kernels = (1, 3, 1) if bottleneck else (3, 3)
    widths = (width, width, 4 * width) if bottleneck else (width, width)
    strided = 2 if bottleneck else 1  # which of the convolutions carries the stride
    y = x
    for number, (kernel, channels) in enumerate(zip(kernels, widths, strict=True), start=1):
        step = stride if number == strided else 1
        y = _conv_norm(graph, f"{name}.conv{number}", f"{name}.bn{number}", y, channels, kernel=kernel, stride=step)
        if number < len(kernels):
            y = graph.relu(f"{name}.relu{number}", y)
    if stride != 1 or x[1] != widths[-1]:
        x = _conv_norm(graph, f"{name}.downsample.0", f"{name}.downsample.1", x, widths[-1], kernel=1, stride=stride)
    return graph.relu(f"{name}.relu", graph.add(f"{name}.add", y, x))


def _conv_norm(
    graph: GraphBuilder, conv: str, norm: str, x: Value, channels: int, *, kernel: int, stride: int
) -> Value:
    return graph.batch_norm(
        norm, graph.conv(conv, x, channels, kernel=kernel, stride=stride, initialise=kaiming_normal)
    )
