"""Operators that slide a window or resample an image: convolutions, poolings, padding and resizing, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from edgetune.workloads.torch_operators.node import Inputs, NodeView, Run

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_CONV_TRANSPOSE = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}
_MAX_POOL = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE_POOL = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def conv(node: NodeView) -> Run:
    """``Conv`` in one, two or three dimensions."""
    strides, dilations = node.attributes.get("strides"), node.attributes.get("dilations")
    groups = node.attributes.get("group", 1)
    padding = _padding(node, fill=0.0)

    def run(x: Inputs) -> Any:
        weight = x[1]
        axes = weight.dim() - 2
        step, spread = strides or [1] * axes, dilations or [1] * axes
        data, pads = padding(x[0], weight.shape[2:], step, spread)
        bias = x[2] if len(x) > 2 else None
        return _CONV[axes](data, weight, bias, step, pads, spread, groups)

    return run


def conv_transpose(node: NodeView) -> Run:
    """``ConvTranspose`` with explicit pads that are the same at both ends."""
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or "output_shape" in node.attributes:
        raise node.refuse("a computed padding")
    pads = node.attributes.get("pads")
    half = _same_at_both_ends(pads) if pads else None
    if pads and half is None:
        raise node.refuse("different padding at the two ends")
    given = node.attributes

    def run(x: Inputs) -> Any:
        axes = x[1].dim() - 2
        ones, zeros = [1] * axes, [0] * axes
        bias = x[2] if len(x) > 2 else None
        return _CONV_TRANSPOSE[axes](
            x[0], x[1], bias, given.get("strides", ones), half or zeros, given.get("output_padding", zeros),
            given.get("group", 1), given.get("dilations", ones),
        )  # fmt: skip

    return run


def max_pool(node: NodeView) -> Run:
    """``MaxPool``, values only."""
    if node.outputs > 1:
        raise node.refuse("its indices output")
    kernel: list[int] = node.attributes["kernel_shape"]
    step = node.attributes.get("strides", [1] * len(kernel))
    spread = node.attributes.get("dilations", [1] * len(kernel))
    ceil, pool = bool(node.attributes.get("ceil_mode", 0)), _MAX_POOL[len(kernel)]
    padding = _padding(node, fill=float("-inf"), most=[size // 2 for size in kernel])

    def run(x: Inputs) -> Any:
        data, pads = padding(x[0], kernel, step, spread)
        return pool(data, kernel, step, pads, spread, ceil)

    return run


def average_pool(node: NodeView) -> Run:
    """``AveragePool``; padding that is not the same at both ends only where it counts as zeros."""
    kernel: list[int] = node.attributes["kernel_shape"]
    step = node.attributes.get("strides", [1] * len(kernel))
    ceil, count = bool(node.attributes.get("ceil_mode", 0)), bool(node.attributes.get("count_include_pad", 0))
    pads = node.attributes.get("pads")
    if ((pads and _same_at_both_ends(pads) is None) or _is_automatic(node)) and not count:
        raise node.refuse("padding that is not the same at both ends")
    if max(node.attributes.get("dilations", [1])) > 1:
        raise node.refuse("dilation")
    padding, pool = _padding(node, fill=0.0, most=[size // 2 for size in kernel]), _AVERAGE_POOL[len(kernel)]

    def run(x: Inputs) -> Any:
        data, around = padding(x[0], kernel, step, [1] * len(kernel))
        return pool(data, kernel, step, around, ceil, count)

    return run


def pad(node: NodeView) -> Run:
    """``Pad``: constant, reflected or repeated edges."""
    pads, value, axes = node.numbers("pads", 1), node.numbers("value", 2), node.numbers("axes", 3)
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}.get(
        node.attributes.get("mode", "constant")
    )
    if mode is None:
        raise node.refuse(f"mode {node.attributes['mode']!r}")

    def run(x: Inputs) -> Any:
        data, around, over = x[0], pads(x), axes(x)
        before, after = [0] * data.dim(), [0] * data.dim()
        for place, axis in enumerate(over if over is not None else range(data.dim())):
            before[axis], after[axis] = around[place], around[place + len(around) // 2]
        if mode == "constant":
            return functional.pad(data, _innermost_first(before, after), "constant", value(x) or 0)
        for axis in (axis for axis in (0, 1) if before[axis : axis + 1] + after[axis : axis + 1] != [0, 0]):
            data = _padded(data, axis, before[axis], after[axis], mode)
        amounts = _innermost_first(before[2:], after[2:])
        return functional.pad(data, amounts, mode) if any(amounts) else data

    return run


def _padded(data: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """Pad the first or second axis, which ``torch.nn.functional.pad`` can only fill with a constant."""
    places = torch.arange(data.shape[axis], dtype=torch.float64)[None, None]
    chosen = functional.pad(places, (before, after), mode).flatten().long()
    return data.index_select(axis, chosen.to(data.device))


def resize(node: NodeView) -> Run:
    """``Resize`` as PyTorch's ``interpolate`` does it: nearest from the floor, or linear between pixel centres."""
    mode = node.attributes.get("mode", "nearest")
    where = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = node.attributes.get("nearest_mode", "round_prefer_floor")
    nearest = mode == "nearest" and where == "asymmetric" and rounding == "floor"
    centred = mode == "linear" and where in ("half_pixel", "pytorch_half_pixel")
    cornered = mode == "linear" and where == "align_corners"
    if not (nearest or centred or cornered):
        raise node.refuse(f"mode {mode!r}, coordinates {where!r}, rounding {rounding!r}")
    scales, sizes = node.numbers("scales", 2), node.numbers("sizes", 3)

    def run(x: Inputs) -> Any:
        wanted = sizes(x)
        if tuple(wanted[:2]) != tuple(x[0].shape[:2]) if wanted else any(scale != 1 for scale in scales(x)[:2]):
            raise node.refuse("another size of axis 0 or 1")
        amount = {"size": wanted[2:]} if wanted else {"scale_factor": scales(x)[2:]}
        if nearest:
            return functional.interpolate(x[0], mode="nearest", **amount)
        kind = {3: "linear", 4: "bilinear", 5: "trilinear"}[x[0].dim()]
        return functional.interpolate(x[0], mode=kind, align_corners=cornered, **amount)

    return run


Padding = Callable[[Any, Sequence[int], Sequence[int], Sequence[int]], tuple[Any, list[int]]]


def _padding(node: NodeView, *, fill: float, most: Sequence[int] | None = None) -> Padding:
    """How a window operator pads its input.

    Returns:
        A function from input, kernel, strides and dilations to the input, padded where PyTorch's own operator cannot
        do it, and the padding that is left to that operator.
    """
    pads = node.attributes.get("pads")
    half = _same_at_both_ends(pads) if pads else None
    if half is not None and (most is None or all(p <= m for p, m in zip(half, most, strict=True))):
        return lambda data, *_: (data, half)

    def pad_first(data: Any, kernel: Any, step: Any, spread: Any) -> tuple[Any, list[int]]:
        axes = len(kernel)
        around = pads or [0] * (2 * axes)
        if _is_automatic(node):
            around = _automatic(node.attributes["auto_pad"], data.shape[2:], kernel, step, spread)
        if any(around):
            data = functional.pad(data, _innermost_first(around[:axes], around[axes:]), "constant", fill)
        return data, [0] * axes

    return pad_first


def _is_automatic(node: NodeView) -> bool:
    return node.attributes.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")


def _automatic(how: str, sides: Any, kernel: Any, step: Any, spread: Any) -> list[int]:
    """Padding that makes the output ceil(side / stride), the odd pixel after (``SAME_UPPER``) or before."""
    before, after = [], []
    for side, size, stride, dilation in zip(sides, kernel, step, spread, strict=True):
        windows = -(-side // stride)
        total = max(0, (windows - 1) * stride + (size - 1) * dilation + 1 - side)
        small, large = total // 2, total - total // 2
        before.append(small if how == "SAME_UPPER" else large)
        after.append(large if how == "SAME_UPPER" else small)
    return before + after


def _same_at_both_ends(pads: Sequence[int]) -> list[int] | None:
    half = len(pads) // 2
    return list(pads[:half]) if list(pads[:half]) == list(pads[half:]) else None


def _innermost_first(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Padding in the order of ``torch.nn.functional.pad``: last axis first, begin and end of each."""
    return [amount for pair in zip(reversed(list(before)), reversed(list(after)), strict=True) for amount in pair]
