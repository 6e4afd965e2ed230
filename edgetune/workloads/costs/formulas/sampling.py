"""Operators that read an image between its pixels: regions of interest, warped grids, deformable convolution."""

from __future__ import annotations

import math

from edgetune.workloads.costs.node import Cost, OperatorNode, streamed

BILINEAR_FLOPS = 7
"""Four products and three sums per value, the weights once computed."""
BICUBIC_FLOPS = 31
"""Sixteen products and fifteen sums."""
GRID_FLOPS = 8
"""Per position: two coordinates scaled and shifted, two rounded down, two fractions."""
ADAPTIVE_RATIO = 2
"""Samples per bin and axis where RoiAlign is left to choose (0): torchvision's detection models say 2."""


def roi_align(node: OperatorNode) -> Cost:
    """Regions pooled at fractional positions (``RoiAlign``): s x s bilinear samples per output, s the sampling ratio.

    W = (elements of the output) x s^2 x (``BILINEAR_FLOPS`` + 1). Read is what is sampled, four neighbours each, but no
    more than the whole image. Source: K. He et al., Mask R-CNN, arXiv:1703.06870.
    """
    ratio = int(node.attributes.get("sampling_ratio", 0)) or ADAPTIVE_RATIO
    samples = node.y.elements * ratio * ratio
    boxes = [tensor for tensor in node.inputs[1:] if tensor is not None]
    sampled_bytes = min(node.x.size_bytes, 4 * samples * node.x.item_bytes)
    return Cost(
        "gather",
        flops_other=samples * (BILINEAR_FLOPS + 1),
        bytes_read=sampled_bytes + sum(tensor.size_bytes for tensor in boxes),
        bytes_written=node.y.size_bytes,
    )


def grid_sample(node: OperatorNode) -> Cost:
    """An image read at given positions (``GridSample``): interpolation per value, ``GRID_FLOPS`` per position."""
    mode = str(node.attributes.get("mode", "linear"))
    per_value = {"nearest": 0, "cubic": BICUBIC_FLOPS, "bicubic": BICUBIC_FLOPS}.get(mode, BILINEAR_FLOPS)
    grid = node.input(1)
    flops = per_value * node.y.elements + GRID_FLOPS * (grid.elements // max(grid.dims[-1], 1))
    return streamed(node, "gather", flops_other=flops)


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
