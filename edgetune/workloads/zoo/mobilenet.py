"""MobileNetV2 (arXiv:1801.04381) and MobileNetV3-Large (arXiv:1905.02244).

Laid out as torchvision's ``mobilenetv2.py`` and ``mobilenetv3.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.workloads.initial_weights import ZEROS, Weights, always, fan_in_uniform, kaiming_normal, normal

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

V2_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and stride of the first block (table 2 of the paper)."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of version 3: kernel, expanded channels, output channels, squeeze-and-excitation, activation, stride."""

    kernel: int
    wide: int
    channels: int
    squeeze: bool
    act: str
    stride: int


V3_LARGE_BLOCKS = (
    Block(3, 16, 16, False, "relu", 1),
    Block(3, 64, 24, False, "relu", 2),
    Block(3, 72, 24, False, "relu", 1),
    Block(5, 72, 40, True, "relu", 2),
    Block(5, 120, 40, True, "relu", 1),
    Block(5, 120, 40, True, "relu", 1),
    Block(3, 240, 80, False, "hard_swish", 2),
    Block(3, 200, 80, False, "hard_swish", 1),
    Block(3, 184, 80, False, "hard_swish", 1),
    Block(3, 184, 80, False, "hard_swish", 1),
    Block(3, 480, 112, True, "hard_swish", 1),
    Block(3, 672, 112, True, "hard_swish", 1),
    Block(5, 672, 160, True, "hard_swish", 2),
    Block(5, 960, 160, True, "hard_swish", 1),
    Block(5, 960, 160, True, "hard_swish", 1),
)
"""Table 1 of the paper."""

_NORMAL, _BIASED = Weights(kaiming_normal), Weights(kaiming_normal, fan_in_uniform)
V2_NORM = (1e-5, 0.1)
V3_NORM = (1e-3, 0.01)
"""Epsilon and momentum of BatchNorm, as torchvision sets them."""


def mobilenet_v2(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Inverted residual blocks with ReLU6."""
    x = _layer(graph, "features.0", image, 32, kernel=3, stride=2, act=graph.relu6)
    index = 1
    for expansion, channels, blocks, first_stride in V2_STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            x = _v2_block(graph, f"features.{index}", x, channels, expansion=expansion, stride=stride)
            index += 1
    x = _layer(graph, f"features.{index}", x, 1280, kernel=1, act=graph.relu6)
    x = graph.flatten("flatten", graph.global_average_pool("avgpool", x))
    return {"logits": _linear(graph, "classifier.1", graph.dropout("classifier.0", x, 0.2), 1000)}


def _v2_block(graph: GraphBuilder, name: str, x: Value, channels: int, *, expansion: int, stride: int) -> Value:
    y, wide = x, x[1] * expansion
    step = 0
    if expansion != 1:
        y = _layer(graph, f"{name}.conv.0", y, wide, kernel=1, act=graph.relu6)
        step = 1
    y = _layer(graph, f"{name}.conv.{step}", y, wide, kernel=3, stride=stride, act=graph.relu6)
    y = graph.conv(f"{name}.conv.{step + 1}", y, channels, kernel=1, weights=_NORMAL)
    y = graph.batch_norm(f"{name}.conv.{step + 2}", y)
    return graph.add(f"{name}.add", x, y) if stride == 1 and x[1] == channels else y


def mobilenet_v3_large(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Inverted residual blocks with squeeze-and-excitation and hard swish."""
    x = _layer(graph, "features.0", image, 16, kernel=3, stride=2, act=graph.hard_swish, norm=V3_NORM)
    for index, block in enumerate(V3_LARGE_BLOCKS, start=1):
        x = _v3_block(graph, f"features.{index}.block", x, block)
    x = _layer(graph, f"features.{len(V3_LARGE_BLOCKS) + 1}", x, 960, kernel=1, act=graph.hard_swish, norm=V3_NORM)
    x = graph.flatten("flatten", graph.global_average_pool("avgpool", x))
    x = graph.hard_swish("classifier.1", _linear(graph, "classifier.0", x, 1280))
    return {"logits": _linear(graph, "classifier.3", graph.dropout("classifier.2", x, 0.2), 1000)}


def _v3_block(graph: GraphBuilder, name: str, x: Value, block: Block) -> Value:
    act = graph.relu if block.act == "relu" else graph.hard_swish
    y, step, wide = x, 0, block.wide
    if wide != x[1]:
        y = _layer(graph, f"{name}.{step}", y, wide, kernel=1, act=act, norm=V3_NORM)
        step += 1
    y = _layer(graph, f"{name}.{step}", y, wide, kernel=block.kernel, stride=block.stride, act=act, norm=V3_NORM)
    step += 1
    if block.squeeze:
        y = _squeeze_excite(graph, f"{name}.{step}", y)
        step += 1
    y = _layer(graph, f"{name}.{step}", y, block.channels, kernel=1, act=None, norm=V3_NORM)
    return graph.add(f"{name}.add", y, x) if block.stride == 1 and x[1] == block.channels else y


def _squeeze_excite(graph: GraphBuilder, name: str, x: Value) -> Value:
    """Scale each channel by what a two-layer network makes of all channels' means."""
    narrow = _divisible_by_8(x[1] / 4)
    y = graph.global_average_pool(f"{name}.avgpool", x)
    y = graph.relu(f"{name}.activation", graph.conv(f"{name}.fc1", y, narrow, kernel=1, weights=_BIASED))
    y = graph.conv(f"{name}.fc2", y, x[1], kernel=1, weights=_BIASED)
    return graph.binary("Mul", f"{name}.scale", x, graph.hard_sigmoid(f"{name}.scale_activation", y))


def _divisible_by_8(size: float) -> int:
    """The nearest multiple of 8 that is not below 90 % of ``size`` (``_make_divisible`` of the reference code)."""
    rounded = max(8, int(size + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * size else rounded


def _layer(
    graph: GraphBuilder,
    name: str,
    x: Value,
    channels: int,
    *,
    kernel: int,
    stride: int = 1,
    act: Callable[[str, Value], Value] | None,
    norm: tuple[float, float] = V2_NORM,
) -> Value:
    """Convolution, BatchNorm and activation: items 0, 1 and 2 of torchvision's ``Conv2dNormActivation``.

    A kernel larger than 1 x 1 that keeps the number of channels is depthwise.
    """
    groups = channels if kernel > 1 and channels == x[1] else 1
    y = graph.conv(f"{name}.0", x, channels, kernel=kernel, stride=stride, groups=groups, weights=_NORMAL)
    y = graph.batch_norm(f"{name}.1", y, epsilon=norm[0], momentum=norm[1])
    return act(f"{name}.2", y) if act else y


def _linear(graph: GraphBuilder, name: str, x: Value, features: int) -> Value:
    return graph.linear(name, x, features, initialise=always(normal(0.01)), initialise_bias=always(ZEROS))
