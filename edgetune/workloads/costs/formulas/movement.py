"""Operators that move data without computing: copies, gathers, resizes and views."""

from __future__ import annotations

from edgetune.workloads.costs.node import UNMODELLED, ZERO, Cost, OperatorNode, streamed

LINEAR_SUPPORT = 2
CUBIC_SUPPORT = 4
"""Neighbours per axis that a linear or cubic interpolation reads."""


def view(node: OperatorNode) -> Cost:  # noqa: ARG001 - formulas share one signature
    """A new look at the same bytes (``Reshape``, ``Squeeze``...), or a constant: zero by definition."""
    return ZERO


EXPANDED = "expanded"
"""Attribute of a control-flow operator whose body's operators follow it in the table."""


def control_flow(node: OperatorNode) -> Cost:
    """``If``, ``Loop``, ``Scan``: nothing by itself where its body's operators are in the table, else unmodelled."""
    return ZERO if node.attributes.get(EXPANDED) else UNMODELLED


def copy(node: OperatorNode) -> Cost:
    """A copy that touches every byte once (``Concat``, ``Transpose``, ``Pad``, ``Tile``...): bytes and no FLOP.

    Only the data is read, not the small tensors that say where; ``Tile``, ``Pad`` and ``Expand`` read their input once.
    """
    reads = node.inputs if node.op == "Concat" else node.inputs[:1]
    return streamed(node, "copy", reads=reads)


def part(node: OperatorNode) -> Cost:
    """A part of a tensor (``Slice``, ``Split``): the bytes kept are read and written.

    Kernels 0: an eager framework hands out a strided view, and its reader pays for the bytes.
    """
    written = sum(tensor.size_bytes for tensor in node.outputs if tensor is not None)
    return Cost("copy", bytes_read=written, bytes_written=written, kernels=0)


def gather(node: OperatorNode) -> Cost:
    """Rows looked up by index, an embedding above all: only the rows gathered are read, and the indices.

    Q = 2 x (bytes of the output) + bytes of the indices.
    """
    rows_bytes, indices = node.y.size_bytes, node.input(1)
    return Cost(
        "gather",
        bytes_read=rows_bytes + indices.size_bytes,
        bytes_written=rows_bytes,
        weight_bytes=rows_bytes if node.x.constant else 0,
    )


def scatter(node: OperatorNode) -> Cost:
    """Values put into a copy of a tensor: the tensor, the indices and the values are read, the result is written."""
    return streamed(node, "gather", reads=node.inputs[:3])


def unpool(node: OperatorNode) -> Cost:
    """Values put where a maximum was (``MaxUnpool``): values and places are read, the larger result is written."""
    return streamed(node, "gather", reads=node.inputs[:2])


def update(node: OperatorNode) -> Cost:
    """New entries of a cache written in place (``TensorScatter``): only they are read and written."""
    fresh = node.input(1)
    return Cost("copy", bytes_read=fresh.size_bytes, bytes_written=fresh.size_bytes)


def joined(node: OperatorNode) -> Cost:
    """Tensors of a sequence joined (``ConcatFromSequence``): all are read and written once."""
    return Cost("copy", bytes_read=node.y.size_bytes, bytes_written=node.y.size_bytes)


def resize(node: OperatorNode) -> Cost:
    """Image resampling. Nearest copies; linear and cubic weigh s neighbours per resampled axis.

    W = (elements of the output) x (2 s^a - 1): s^a products and s^a - 1 sums over the a axes whose size changes.
    The input is read once.
    """
    mode = node.attributes.get("mode", "nearest")
    flops = 0
    if mode != "nearest":
        axes = sum(before != after for before, after in zip(node.x.dims, node.y.dims, strict=True))
        support = LINEAR_SUPPORT if mode == "linear" else CUBIC_SUPPORT
        flops = node.y.elements * (2 * support**axes - 1) if axes else 0
    return streamed(node, "copy", reads=[node.x], flops_other=flops)


def fill(node: OperatorNode) -> Cost:
    """A tensor of one value or of random numbers (``ConstantOfShape``, ``RandomNormal``...): written, nothing read."""
    return streamed(node, "copy", reads=())
