"""Operators that move, select or sample data, and Fourier transforms.

Copies, gathers, resizes and views compute nothing or little. Operators that select (the largest elements, the non-zero
ones, the remaining boxes) count a comparison as one FLOP. The number of selected elements often depends on the data;
the shape of the result, and so the cost, is then unknown until a run shows it. Operators
that read an image between its pixels (regions of interest, warped grids, deformable convolution) count the
interpolation.
"""

import math

from edgetune.workloads.costs.node import UNMODELLED, ZERO, Cost, OperatorNode, UnknownShapeError, streamed, total_bytes

LINEAR_SUPPORT = 2
CUBIC_SUPPORT = 4
"""Neighbours per axis that a linear or cubic interpolation reads."""


def view(node: OperatorNode) -> Cost:  # noqa: ARG001 - formulas share one signature
    """A new look at the same bytes (``Reshape``, ``Squeeze``...), or a constant: zero by definition."""
    return ZERO


EXPANDED = "expanded"
"""Attribute of a control-flow operator whose body's operators follow it in the table."""


def control_flow(node: OperatorNode) -> Cost:
    """``If``, ``Loop``, ``Scan``: zero if its body's operators are in the table, else unmodelled."""
    return ZERO if node.attributes.get(EXPANDED) else UNMODELLED


def copy(node: OperatorNode) -> Cost:
    """A copy that touches every byte once (``Concat``, ``Transpose``, ``Pad``, ``OneHot``...): bytes and no FLOP.

    Only the data is read, not the small tensors that say where; ``Tile``, ``Pad`` and ``Expand`` read their input once.
    """
    reads = node.inputs if node.op == "Concat" else node.inputs[:1]
    return streamed(node, "copy", reads=reads)


def part(node: OperatorNode) -> Cost:
    """A part of a tensor (``Slice``, ``Split``): the bytes kept are read and written.

    Kernels 0: an eager framework hands out a strided view, and its reader pays for the bytes.
    """
    written = total_bytes(node.outputs)
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
    """Values put into a copy of a tensor: the tensor, the indices and the values are read, the result is written.

    ``MaxUnpool`` reads values and places, not the size.
    """
    return streamed(node, "gather", reads=node.inputs[: 2 if node.op == "MaxUnpool" else 3])


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


def _log2(count: int) -> int:
    """Return the base-2 logarithm, rounded up."""
    return max(count - 1, 0).bit_length()


BILINEAR_FLOPS = 7
"""Four products and three sums per value, the weights once computed."""
GRID_FLOPS = 4
"""Per coordinate: scaled, shifted, rounded down, and its fraction."""
ADAPTIVE_RATIO = 2
"""Samples per bin and axis where RoiAlign is left to choose (0): torchvision's detection models say 2."""


def roi_align(node: OperatorNode) -> Cost:
    """Regions pooled at fractional positions (``RoiAlign``): s x s bilinear samples per output, s the sampling ratio.

    W = (elements of the output) x s^2 x (``BILINEAR_FLOPS`` + 1). Read is what is sampled, four neighbours each, but no
    more than the whole image. Source: K. He et al., Mask R-CNN, arXiv:1703.06870.
    """
    ratio = int(node.attributes.get("sampling_ratio", 0)) or ADAPTIVE_RATIO
    samples = node.y.elements * ratio * ratio
    sampled_bytes = min(node.x.size_bytes, 4 * samples * node.x.item_bytes)
    return Cost(
        "gather",
        flops_other=samples * (BILINEAR_FLOPS + 1),
        bytes_read=sampled_bytes + total_bytes(node.inputs[1:]),
        bytes_written=node.y.size_bytes,
    )


def grid_sample(node: OperatorNode) -> Cost:
    """An image or a volume read at given positions (``GridSample``).

    Per value, a product for each neighbour and their sum: 2 neighbours per axis, 4 if cubic, none beside the nearest.
    ``GRID_FLOPS`` per coordinate.
    """
    mode, grid = str(node.attributes.get("mode", "linear")), node.input(1)
    neighbours = (CUBIC_SUPPORT if "cubic" in mode else LINEAR_SUPPORT) ** grid.dims[-1]
    per_value = 0 if mode == "nearest" else 2 * neighbours - 1
    return streamed(node, "gather", flops_other=per_value * node.y.elements + GRID_FLOPS * grid.elements)


def affine_grid(node: OperatorNode) -> Cost:
    """Positions under an affine map (``AffineGrid``): a product of each with a row of n + 1 numbers, n axes."""
    return streamed(node, "gemm", reads=[node.x], macs=node.y.elements * (node.y.dims[-1] + 1))


def deform_conv(node: OperatorNode) -> Cost:
    """Convolution at learned offsets (``DeformConv``): MACs of a convolution, and a bilinear sample per input of it.

    W = 2 MACs + N Cin K K Hout Wout (``BILINEAR_FLOPS`` + 1[mask]) + outputs [bias]. Source: ONNX DeformConv; X. Zhu
    et al., arXiv:1811.11168.
    """
    weight, offset, outputs = node.input(1), node.input(2), node.y.elements
    kernel = math.prod(weight.dims[2:])
    positions = offset.dims[0] * math.prod(offset.dims[2:])
    sampled = positions * node.x.dims[1] * kernel
    masked = node.optional(4) is not None
    return streamed(
        node,
        "conv",
        macs=outputs * math.prod(weight.dims[1:]),
        flops_other=sampled * (BILINEAR_FLOPS + masked) + (outputs if node.optional(3) is not None else 0),
        channels_in=weight.dims[1],
        channels_out=weight.dims[0],
    )


def col2im(node: OperatorNode) -> Cost:
    """Columns added into an image (``Col2Im``): a sum per element of the columns."""
    return streamed(node, "copy", reads=[node.x], flops_other=node.x.elements)


FFT_FLOPS = 5
"""Times n log2 n for n complex values. Source: the radix-2 count that FFTW's benchmark uses for all lengths."""
WINDOW_FLOPS = 4
"""Per element of a window: angle, cosine, product, sum."""


def dft(node: OperatorNode) -> Cost:
    """Discrete Fourier transform along an axis: 5 n log2 n per transform, half of that from or to real values.

    Raises:
        UnknownShapeError: the axis is no constant.
    """
    x, y, axis = node.x, node.y, node.attributes.get("axis", -2)
    if axis is None:
        raise UnknownShapeError(node.input(2).name)
    onesided = bool(node.attributes.get("onesided", 0))
    if node.attributes.get("inverse", 0) or (node.optional(1) is not None and not onesided):
        length = y.dims[axis]
    else:
        length = x.dims[axis] if node.optional(1) is None else 2 * (y.dims[axis] - 1)
    transforms = y.elements // max(y.dims[-1] * y.dims[axis], 1)
    real = onesided or 1 in (x.dims[-1], y.dims[-1])
    return streamed(node, "reduction", reads=[x], flops_other=_fft(transforms * length, max(length, 1), real=real))


def stft(node: OperatorNode) -> Cost:
    """Short-time Fourier transform: a window and a transform per frame; frames overlap, the signal is read once."""
    signal, spectrum, window = node.x, node.y, node.optional(2)
    frames = spectrum.dims[0] * spectrum.dims[1]
    onesided = bool(node.attributes.get("onesided", 1))
    length = 2 * (spectrum.dims[2] - 1) if onesided else spectrum.dims[2]
    length = length if window is None else window.elements
    windowed = frames * length if window is not None else 0
    flops = _fft(frames * length, length, real=onesided) + windowed
    return streamed(node, "reduction", reads=[signal, window], flops_other=flops)


def window(node: OperatorNode) -> Cost:
    """A window of a given length (``HannWindow`` and its like): ``WINDOW_FLOPS`` per element, nothing read."""
    return streamed(node, "elementwise", reads=(), flops_other=WINDOW_FLOPS * node.y.elements)


def _fft(values: int, length: int, *, real: bool) -> int:
    flops = FFT_FLOPS * values * _log2(length)
    return flops // 2 if real else flops
