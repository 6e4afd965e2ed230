"""Operators that slide a window or resample an image: convolutions, poolings and resizing, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch.nn import functional

if TYPE_CHECKING:
    from edgetune.workloads.torch_operators.node import Inputs, NodeView, Run

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_MAX_POOL = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}


def conv(node: NodeView) -> Run:
    """``Conv`` in one, two or three dimensions."""
    strides, dilations = node.attributes.get("strides"), node.attributes.get("dilations")
    groups, pads = node.attributes.get("group", 1), _pads(node)

    def run(x: Inputs) -> Any:
        weight = x[1]
        axes = weight.dim() - 2
        data, around = _padded(x[0], pads or [0] * 2 * axes, [max(pads)] * axes if pads else [], 0.0)
        bias = x[2] if len(x) > 2 else None
        return _CONV[axes](data, weight, bias, strides or [1] * axes, around, dilations or [1] * axes, groups)

    return run


def max_pool(node: NodeView) -> Run:
    """``MaxPool``, values only."""
    if node.outputs > 1:
        raise node.refuse("its indices output")
    kernel: list[int] = node.attributes["kernel_shape"]
    ones = [1] * len(kernel)
    step, spread = node.attributes.get("strides", ones), node.attributes.get("dilations", ones)
    ceil, pads = bool(node.attributes.get("ceil_mode", 0)), _pads(node) or [0] * 2 * len(kernel)

    def run(x: Inputs) -> Any:
        data, around = _padded(x[0], pads, [size // 2 for size in kernel], float("-inf"))
        return _MAX_POOL[len(kernel)](data, kernel, step, around, spread, ceil)

    return run


def resize(node: NodeView) -> Run:
    """``Resize`` to the nearest from the floor, as PyTorch's ``interpolate`` does it."""
    mode = node.attributes.get("mode", "nearest")
    where = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = node.attributes.get("nearest_mode", "round_prefer_floor")
    if (mode, where, rounding) != ("nearest", "asymmetric", "floor"):
        raise node.refuse(f"mode {mode!r}, coordinates {where!r}, rounding {rounding!r}")
    scales, sizes = node.numbers("scales", 2), node.numbers("sizes", 3)

    def run(x: Inputs) -> Any:
        wanted = sizes(x)
        if tuple(wanted[:2]) != tuple(x[0].shape[:2]) if wanted else any(scale != 1 for scale in scales(x)[:2]):
            raise node.refuse("another size of axis 0 or 1")
        amount = {"size": wanted[2:]} if wanted else {"scale_factor": scales(x)[2:]}
        return functional.interpolate(x[0], mode="nearest", **amount)

    return run


def _pads(node: NodeView) -> list[int] | None:
    """Return the padding of a window operator; ``None`` without any."""
    if (how := node.attributes.get("auto_pad", "NOTSET")) not in ("NOTSET", "VALID"):
        raise node.refuse(f"padding {how}")
    pads: list[int] | None = node.attributes.get("pads")
    return pads


def _padded(data: Any, pads: Sequence[int], most: Sequence[int], fill: float) -> tuple[Any, list[int]]:
    """Return the input, padded where PyTorch's own operator cannot do it, and the padding left to that operator.

    Args:
        data: The input.
        pads: Before each axis, then after each.
        most: The most that the operator pads, which it does at both ends alike.
        fill: Value of the padding.
    """
    axes = len(pads) // 2
    before, after = list(pads[:axes]), list(pads[axes:])
    if before == after and all(pad <= limit for pad, limit in zip(before, most, strict=False)):
        return data, before
    innermost_first = [pad for pair in zip(reversed(before), reversed(after), strict=True) for pad in pair]
    return functional.pad(data, innermost_first, "constant", fill), [0] * axes
