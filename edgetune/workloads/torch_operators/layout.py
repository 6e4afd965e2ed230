"""Operators that move, cut, pick or describe elements without computing with them.

Operators that slide a window or resample an image: convolutions, poolings and resizing, in PyTorch.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from edgetune.workloads.torch_operators.arithmetic import Inputs, NodeView, Run


def flatten(data: Any, axis: int) -> Any:
    """``Flatten`` to a matrix."""
    return data.reshape(math.prod(data.shape[:axis]), -1)


def transpose(data: Any, axes: Sequence[int] | None) -> Any:
    """``Transpose``, by default in the reverse order."""
    return data.permute(axes or tuple(reversed(range(data.dim()))))


def reshape(node: NodeView) -> Run:
    """``Reshape``: 0 keeps a dimension, -1 is what is left over."""
    shape = node.numbers("shape", 1)
    literal = bool(node.attributes.get("allowzero", 0))

    def run(x: Inputs) -> Any:
        data = x[0]
        wanted = shape(x)
        if not literal:
            wanted = [data.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
        return data.reshape(wanted)

    return run


def concat(node: NodeView) -> Run:
    """``Concat``."""
    axis = node.attributes["axis"]
    return lambda x: torch.cat(tuple(x), axis)


def split(node: NodeView) -> Run:
    """``Split``: given sizes, or equal parts."""
    axis, sizes, count = node.attributes.get("axis", 0), node.numbers("split", 1), node.outputs

    def run(x: Inputs) -> Any:
        wanted = sizes(x)
        if wanted is None:
            wanted = -(-x[0].shape[axis] // count)
        pieces = torch.split(x[0], wanted, axis)
        return pieces if count > 1 else pieces[0]

    return run


def slice_(node: NodeView) -> Run:
    """``Slice`` with steps above zero."""
    starts, ends = node.numbers("starts", 1), node.numbers("ends", 2)
    axes, steps = node.numbers("axes", 3), node.numbers("steps", 4)

    def run(x: Inputs) -> Any:
        data, first, last = x[0], starts(x), ends(x)
        over, by = axes(x) or range(len(first)), steps(x) or [1] * len(first)
        for start, end, axis, step in zip(first, last, over, by, strict=True):
            if step < 1:
                raise node.refuse(f"step {step}")
            index: list[Any] = [slice(None)] * data.dim()
            index[axis] = slice(start, end, step)
            data = data[tuple(index)]
        return data

    return run


def squeeze(node: NodeView) -> Run:
    """``Squeeze``."""
    axes = node.numbers("axes", 1)

    def run(x: Inputs) -> Any:
        over = axes(x)
        return x[0].squeeze() if over is None else x[0].squeeze(tuple(over))

    return run


def unsqueeze(node: NodeView) -> Run:
    """``Unsqueeze``."""
    axes = node.numbers("axes", 1)

    def run(x: Inputs) -> Any:
        data, over = x[0], axes(x)
        rank = data.dim() + len(over)
        for axis in sorted(axis % rank for axis in over):
            data = data.unsqueeze(axis)
        return data

    return run


def gather(node: NodeView) -> Run:
    """``Gather``: rows of a table, one entry of an axis, or entries by a tensor of indices (negative from the end)."""
    axis = node.attributes.get("axis", 0)
    known = node.constants.get(1)
    if known is not None and known.dim() == 0:
        index = int(known)
        return lambda x: x[0].select(axis, index)

    def run(x: Inputs) -> Any:
        data, indices = x[0], x[1].to(x[0].device)
        if axis == 0 and data.dim() == 2:
            return functional.embedding(torch.where(indices < 0, indices + data.shape[0], indices), data)
        flat = indices.reshape(-1)
        picked = data.index_select(axis, torch.where(flat < 0, flat + data.shape[axis], flat))
        place = axis % data.dim()
        return picked.reshape(*data.shape[:place], *indices.shape, *data.shape[place + 1 :])

    return run


def cast(node: NodeView) -> Run:
    """``Cast``."""
    from onnx import TensorProto

    types = {
        TensorProto.FLOAT: torch.float32, TensorProto.FLOAT16: torch.float16, TensorProto.BFLOAT16: torch.bfloat16,
        TensorProto.DOUBLE: torch.float64, TensorProto.INT64: torch.int64, TensorProto.INT32: torch.int32,
        TensorProto.INT8: torch.int8, TensorProto.UINT8: torch.uint8, TensorProto.BOOL: torch.bool,
    }  # fmt: skip
    wanted = types.get(node.attributes["to"])
    if wanted is None:
        raise node.refuse(f"element type {TensorProto.DataType.Name(node.attributes['to'])}")
    return lambda x: x[0].to(wanted)


def constant_of_shape(node: NodeView) -> Run:
    """``ConstantOfShape``."""
    value = node.attributes.get("value", torch.zeros(1))
    return lambda x: torch.full(x[0].tolist(), value.item(), dtype=value.dtype)


def expand(node: NodeView) -> Run:
    """``Expand``, by broadcasting."""
    shape = node.numbers("shape", 1)
    return lambda x: x[0].expand(torch.broadcast_shapes(x[0].shape, tuple(shape(x))))


def shape(data: Any, start: int, end: int | None) -> Any:
    """``Shape``: kept on the CPU, where the arithmetic on it is done."""
    return torch.tensor(data.shape[start:end], dtype=torch.int64)


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
