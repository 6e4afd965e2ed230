"""MobileNetV2 (arXiv:1801.04381) and MobileNetV3-Large (arXiv:1905.02244).

Laid out as torchvision's ``mobilenetv2.py`` and ``mobilenetv3.py``.

YOLOv8n (Ultralytics ``yolov8.yaml``, depth 0.33, width 0.25) at 640 x 640, and Tiny YOLO version 2 at 416 x 416.

YOLOv8n has 80 classes and BatchNorm with epsilon 0.001 and momentum 0.03, as Ultralytics sets them. The head is decoded
as in the inference export: ``[batch, 84, 8400]``, a box (centre and size in pixels) and 80 class scores for each of
8400 cells; suppression of overlapping boxes is not part of the network.

Tiny YOLO (Redmon and Farhadi, arXiv:1612.08242) has nine convolutions of the widths of darknet's ``tiny-yolo-voc.cfg``
(darknet's later ``yolov2-tiny.cfg`` has 512 channels in place of the second 1024) and the head for the 80 classes of
COCO, as the files of weights of the EdgeCaffe study have. Its output is the raw grid: for each of 13 x 13 cells five
boxes of four sides, a confidence and 80 scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgetune.workloads import initial_weights as init
from edgetune.workloads.zoo.language import YOLO_CLASSES, YOLO_IMAGE

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

V2_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and stride of the first block (table 2 of the paper)."""


V3_LARGE_BLOCKS = (
    (3, 16, 16, False, "relu", 1),
    (3, 64, 24, False, "relu", 2),
    (3, 72, 24, False, "relu", 1),
    (5, 72, 40, True, "relu", 2),
    (5, 120, 40, True, "relu", 1),
    (5, 120, 40, True, "relu", 1),
    (3, 240, 80, False, "hard_swish", 2),
    (3, 200, 80, False, "hard_swish", 1),
    (3, 184, 80, False, "hard_swish", 1),
    (3, 184, 80, False, "hard_swish", 1),
    (3, 480, 112, True, "hard_swish", 1),
    (3, 672, 112, True, "hard_swish", 1),
    (5, 672, 160, True, "hard_swish", 2),
    (5, 960, 160, True, "hard_swish", 1),
    (5, 960, 160, True, "hard_swish", 1),
)
"""Table 1 of the paper: kernel, expanded channels, output channels, squeeze-and-excitation, activation, stride."""

_NORMAL, _BIASED = init.Weights(init.kaiming_normal), init.Weights(init.kaiming_normal, init.fan_in_uniform)
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


def _v3_block(graph: GraphBuilder, name: str, x: Value, block: tuple[int, int, int, bool, str, int]) -> Value:
    kernel, wide, channels, squeeze, activation, stride = block
    act = graph.relu if activation == "relu" else graph.hard_swish
    y, step = x, 0
    if wide != x[1]:
        y = _layer(graph, f"{name}.{step}", y, wide, kernel=1, act=act, norm=V3_NORM)
        step += 1
    y = _layer(graph, f"{name}.{step}", y, wide, kernel=kernel, stride=stride, act=act, norm=V3_NORM)
    step += 1
    if squeeze:
        y = _squeeze_excite(graph, f"{name}.{step}", y)
        step += 1
    y = _layer(graph, f"{name}.{step}", y, channels, kernel=1, act=None, norm=V3_NORM)
    return graph.add(f"{name}.add", y, x) if stride == 1 and x[1] == channels else y


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
    return graph.linear(
        name, x, features, initialise=init.always(init.normal(0.01)), initialise_bias=init.always(init.ZEROS)
    )


BINS = 16
"""Each box side is a distribution over 16 distances ("distribution focal loss", arXiv:2006.04388)."""
STRIDES = (8, 16, 32)
BOXES, SCORES = "head.distributions", "head.scores"
"""Names of the raw head values that training works on: ``[batch, 64, 8400]`` and ``[batch, 80, 8400]``."""


def yolov8n(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Backbone, two-way feature pyramid, decoupled head at strides 8, 16 and 32."""
    x = _conv(graph, "model.0", image, 16, stride=2)
    x = _c2f(graph, "model.2", _conv(graph, "model.1", x, 32, stride=2), 32, blocks=1)
    fine = _c2f(graph, "model.4", _conv(graph, "model.3", x, 64, stride=2), 64, blocks=2)
    middle = _c2f(graph, "model.6", _conv(graph, "model.5", fine, 128, stride=2), 128, blocks=2)
    x = _c2f(graph, "model.8", _conv(graph, "model.7", middle, 256, stride=2), 256, blocks=1)
    coarse = _sppf(graph, "model.9", x, 256)

    x = graph.concat("model.11", [graph.upsample("model.10", coarse, 2), middle], axis=1)
    middle = _c2f(graph, "model.12", x, 128, blocks=1, shortcut=False)
    x = graph.concat("model.14", [graph.upsample("model.13", middle, 2), fine], axis=1)
    fine = _c2f(graph, "model.15", x, 64, blocks=1, shortcut=False)
    x = graph.concat("model.17", [_conv(graph, "model.16", fine, 64, stride=2), middle], axis=1)
    middle = _c2f(graph, "model.18", x, 128, blocks=1, shortcut=False)
    x = graph.concat("model.20", [_conv(graph, "model.19", middle, 128, stride=2), coarse], axis=1)
    coarse = _c2f(graph, "model.21", x, 256, blocks=1, shortcut=False)
    return _head(graph, "model.22", [fine, middle, coarse])


def _conv(graph: GraphBuilder, name: str, x: Value, channels: int, *, kernel: int = 3, stride: int = 1) -> Value:
    """Convolution, BatchNorm, SiLU."""
    y = graph.conv(f"{name}.conv", x, channels, kernel=kernel, stride=stride)
    return graph.silu(f"{name}.act", graph.batch_norm(f"{name}.bn", y, epsilon=1e-3, momentum=0.03))


def _c2f(graph: GraphBuilder, name: str, x: Value, channels: int, *, blocks: int, shortcut: bool = True) -> Value:
    """Half the channels run through bottlenecks, every intermediate result is kept, a 1x1 convolution merges them."""
    half = channels // 2
    parts = graph.split(f"{name}.split", _conv(graph, f"{name}.cv1", x, channels, kernel=1), [half, half], axis=1)
    for index in range(blocks):
        y = _conv(graph, f"{name}.m.{index}.cv1", parts[-1], half)
        y = _conv(graph, f"{name}.m.{index}.cv2", y, half)
        parts.append(graph.add(f"{name}.m.{index}.add", parts[-1], y) if shortcut else y)
    return _conv(graph, f"{name}.cv2", graph.concat(f"{name}.concat", parts, axis=1), channels, kernel=1)


def _sppf(graph: GraphBuilder, name: str, x: Value, channels: int) -> Value:
    """Three 5x5 poolings in a row, all four stages merged: pooling over 5, 9 and 13 pixels."""
    stages = [_conv(graph, f"{name}.cv1", x, channels // 2, kernel=1)]
    for index in range(3):
        stages.append(graph.max_pool(f"{name}.m.{index}", stages[-1], kernel=5, stride=1, padding=2))
    return _conv(graph, f"{name}.cv2", graph.concat(f"{name}.concat", stages, axis=1), channels, kernel=1)


def _head(graph: GraphBuilder, name: str, levels: list[Value]) -> dict[str, Value]:
    box_width = max(16, levels[0][1] // 4, 4 * BINS)
    class_width = max(levels[0][1], min(YOLO_CLASSES, 100))
    rows = []
    for index, level in enumerate(levels):
        branches = []
        rare = math.log(
            5 / YOLO_CLASSES / (YOLO_IMAGE / STRIDES[index]) ** 2
        )  # about five objects of a class per image
        for branch, width, outputs, bias in (
            ("cv2", box_width, 4 * BINS, init.constant(1.0)),
            ("cv3", class_width, YOLO_CLASSES, init.constant(rare)),
        ):
            y = _conv(graph, f"{name}.{branch}.{index}.0", level, width)
            y = _conv(graph, f"{name}.{branch}.{index}.1", y, width)
            weights = init.Weights(init.fan_in_uniform, init.always(bias))
            branches.append(graph.conv(f"{name}.{branch}.{index}.2", y, outputs, kernel=1, weights=weights))
        merged = graph.concat(f"{name}.concat.{index}", branches, axis=1)
        rows.append(graph.reshape(f"{name}.cells.{index}", merged, (0, 4 * BINS + YOLO_CLASSES, -1)))
    cells = graph.concat(f"{name}.cells", rows, axis=2)
    distributions, scores = graph.split(
        f"{name}.split", cells, [4 * BINS, YOLO_CLASSES], axis=1, outputs=(BOXES, SCORES)
    )
    return {"detections": _decode(graph, name, distributions, scores)}


def _decode(graph: GraphBuilder, name: str, distributions: Value, scores: Value) -> Value:
    """Expected distance of each box side from its cell's centre, then centre and size in pixels."""
    cells = scores[2]
    x = graph.transpose(
        f"{name}.dfl.bins", graph.reshape(f"{name}.dfl.sides", distributions, (0, 4, BINS, cells)), (0, 2, 1, 3)
    )
    x = graph.conv(
        f"{name}.dfl.conv",
        graph.softmax(f"{name}.dfl.softmax", x, axis=1),
        1,
        kernel=1,
        weights=init.Weights(init.always(init.ARANGE), role="frozen"),
    )
    sides = graph.reshape(f"{name}.dfl", x, (0, 4, cells))
    near, far = graph.split(f"{name}.near_far", sides, [2, 2], axis=1)
    centres, strides = cell_centres()
    anchors = graph.constant([centres], "float32")
    top_left = graph.node("Sub", f"{name}.top_left", [anchors, near], near.shape)
    bottom_right = graph.node("Add", f"{name}.bottom_right", [anchors, far], far.shape)
    centre = graph.binary("Div", f"{name}.centre", graph.add(f"{name}.corners", top_left, bottom_right), 2.0)
    size = graph.binary("Sub", f"{name}.size", bottom_right, top_left)
    boxes = graph.concat(f"{name}.boxes", [centre, size], axis=1)
    pixels = graph.node("Mul", f"{name}.pixels", [boxes, graph.constant([[strides]], "float32")], boxes.shape)
    return graph.concat(f"{name}.detections", [pixels, graph.sigmoid(f"{name}.probabilities", scores)], axis=1)


def cell_centres() -> tuple[tuple[list[float], list[float]], list[float]]:
    """x and y of every cell's centre in units of its stride, and every cell's stride in pixels.

    Cells are counted along rows, the fine level first.
    """
    sides = {stride: range(math.ceil(YOLO_IMAGE / stride)) for stride in STRIDES}
    cells = [(x + 0.5, y + 0.5, float(stride)) for stride, side in sides.items() for y in side for x in side]
    xs, ys, strides = (list(each) for each in zip(*cells, strict=True))
    return (xs, ys), strides


CHANNELS = (16, 32, 64, 128, 256, 512, 1024, 1024)
POOLINGS = 6
"""The first six convolutions are followed by a pooling; the last of these leaves the size as it is."""
TINY_BOXES, CLASSES = 5, 80


def tinyyolo(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Eight 3x3 convolutions with BatchNorm and leaky ReLU, and a 1x1 convolution."""
    x = image
    for index, channels in enumerate(CHANNELS, start=1):
        x = graph.conv(f"conv{index}", x, channels, kernel=3, weights=init.Weights(init.kaiming_uniform))
        x = graph.batch_norm(f"bn{index}", x)
        x = graph.node("LeakyRelu", f"relu{index}", [x], x.shape, alpha=0.1)
        if index < POOLINGS:
            x = graph.max_pool(f"pool{index}", x, kernel=2, stride=2)
        elif index == POOLINGS:  # windows of the last row and column run over the edge
            around = [0, 0, 1, 1]
            x = graph.node("MaxPool", f"pool{index}", [x], x.shape, kernel_shape=[2, 2], strides=[1, 1], pads=around)
    return {"grid": graph.conv("conv9", x, TINY_BOXES * (5 + CLASSES), kernel=1, weights=init.BIASED)}
