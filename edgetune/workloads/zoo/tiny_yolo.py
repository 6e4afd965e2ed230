"""Tiny YOLO, version 2 (Redmon and Farhadi, arXiv:1612.08242), 416 x 416: nine convolutions, 80 classes.

Of the widths of darknet's ``tiny-yolo-voc.cfg`` (darknet's later ``yolov2-tiny.cfg`` has 512 channels where this has
its second 1024), with the head for COCO: that is what the files of weights of the EdgeCaffe study hold.

The output is the raw grid: for each of 13 x 13 cells five boxes of four sides, a confidence and 80 scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.workloads.initial_weights import kaiming_uniform

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

CHANNELS = (16, 32, 64, 128, 256, 512, 1024, 1024)
POOLINGS = 6
"""The first six convolutions are followed by a pooling; the last of these leaves the size as it is."""
BOXES, CLASSES = 5, 80


def tinyyolo(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Eight 3x3 convolutions with BatchNorm and leaky ReLU, and a 1x1 convolution."""
    x = image
    for index, channels in enumerate(CHANNELS, start=1):
        x = graph.conv(f"conv{index}", x, channels, kernel=3, initialise=kaiming_uniform)
        x = graph.batch_norm(f"bn{index}", x)
        x = graph.node("LeakyRelu", f"relu{index}", [x], x.shape, alpha=0.1)
        if index < POOLINGS:
            x = graph.max_pool(f"pool{index}", x, kernel=2, stride=2)
        elif index == POOLINGS:  # windows of the last row and column run over the edge
            around = [0, 0, 1, 1]
            x = graph.node("MaxPool", f"pool{index}", [x], x.shape, kernel_shape=[2, 2], strides=[1, 1], pads=around)
    return {"grid": graph.conv("conv9", x, BOXES * (5 + CLASSES), kernel=1, bias=True)}
