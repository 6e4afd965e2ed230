"""Operators that choose: the largest, the non-zero, the boxes that are left. Comparisons count one FLOP each.

How many are chosen often depends on the data. Then the result's shape is unknown until somebody says it
(``--dim selected:0=100``), and the cost is refused until then: never taken as one.
"""

from __future__ import annotations

from edgetune.workloads.costs.node import Cost, OperatorNode, streamed

IOU_FLOPS = 16
"""Overlap of two boxes: corners of the intersection (4 comparisons), its sides (2 differences, 2 clips) and area (1),
the other box's area (3), union (2), division and comparison."""


def top_k(node: OperatorNode) -> Cost:
    """The k largest along an axis (``TopK``): a heap of k, log2 k comparisons per element, at least one.

    Source: D. Knuth, The Art of Computer Programming 3, 5.2.3.
    """
    axis = int(node.attributes.get("axis", -1))
    largest = node.y.dims[axis]
    return streamed(node, "reduction", reads=[node.x], flops_other=node.x.elements * max(_log2(largest), 1))


def non_max_suppression(node: OperatorNode) -> Cost:
    """Boxes left after those that overlap a better one are dropped (``NonMaxSuppression``).

    W = log2 B comparisons per score (sorting) and ``IOU_FLOPS`` for each box that is left with each of the B boxes:
    at most so many, since boxes already dropped are not compared again. Source: ONNX NonMaxSuppression.
    """
    boxes, scores = node.x, node.input(1)
    count, left = boxes.dims[1], node.y.dims[0]
    flops = scores.elements * _log2(count) + IOU_FLOPS * left * count
    return streamed(node, "reduction", reads=[boxes, scores], flops_other=flops)


def select(node: OperatorNode) -> Cost:
    """Elements that pass (``NonZero``, ``Compress``, ``Unique``): one comparison per element; sorted for ``Unique``."""
    x = node.x
    per_element = max(_log2(x.elements), 1) if node.op == "Unique" else 1
    return streamed(node, "gather", flops_other=per_element * x.elements)


def one_hot(node: OperatorNode) -> Cost:
    """``OneHot``: the indices are read, the result is filled."""
    return streamed(node, "copy", reads=[node.x])


def _log2(count: int) -> int:
    """Return the base-2 logarithm, rounded up."""
    return max(count - 1, 0).bit_length()
