"""Follows the batch through a graph: along which axis of each tensor the samples lie.

    x [1, 50, 40] --Transpose--> [50, 1, 40] --LSTM--> [50, 1, 1, 64] --Squeeze--> [50, 1, 64]
       ^ axis 0                       ^ axis 1                ^ axis 2                 ^ axis 1

Only the shapes at the exported batch size decide. If an operator combines samples (a sum over the axis, a recurrence
along it, a matrix product that contracts it), the axis is no batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgetune.workloads import shapes
from edgetune.workloads.graphs import attributes, bodies, captured
from edgetune.workloads.lazy import onnx

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """Position of the samples in a tensor.

    Args:
        axis: The axis that grows with the batch.
        outer: Product of the sizes that a reshape merged into that axis ahead of the batch; 1 without any.
    """

    axis: int
    outer: int = 1


class MixesSamplesError(Exception):
    """An operator combines elements along the axis, so the axis is no batch; callers append the axis to the message."""


class NotFollowedError(Exception):
    """An operator's shapes or rule are unknown, so the axis may or may not be a batch."""


@dataclass(frozen=True, slots=True)
class _Operator:
    """A node with the known shapes and small constants of its graph; names of unknown ones are missing."""

    node: onnx.NodeProto
    shapes: Mapping[str, Shape]
    constants: Mapping[str, Any]
    opset: int
    attributes: Mapping[str, Any]

    def shape(self, index: int) -> Shape:
        return self._shape(self.node.input[index])

    def made(self) -> Shape:
        return self._shape(self.node.output[0])

    def _shape(self, name: str) -> Shape:
        if name not in self.shapes:
            raise NotFollowedError(f"the shape of {name!r} is unknown")
        return self.shapes[name]

    def axes(self, index: int, rank: int) -> tuple[int, ...] | None:
        """Return the axes of attribute ``axes`` or operand ``index``, counted from the front; ``None`` without any."""
        found: Any = self.attributes.get("axes")
        if found is None and len(self.node.input) > index and self.node.input[index]:
            if self.node.input[index] not in self.constants:
                raise NotFollowedError(f"the axes of {label(self.node)} are unknown")
            found = self.constants[self.node.input[index]].ravel()
        return None if found is None else tuple(int(axis) % rank for axis in found)

    def axis(self, default: int, rank: int) -> int:
        return int(self.attributes.get("axis", default)) % rank

    def mixes(self) -> MixesSamplesError:
        return MixesSamplesError(f"{label(self.node)} combines what lies along")


Rule = Callable[[_Operator, int, BatchPosition], "BatchPosition | Sequence[BatchPosition | None]"]


def follow(
    model: onnx.ModelProto, start: Mapping[str, int], batch_size: int, places: dict[str, BatchPosition] | None = None
) -> dict[str, BatchPosition]:
    """Return the position of the samples in every tensor computed from the batch.

    Args:
        model: The model with the shapes of its tensors at ``batch_size`` samples.
        start: The batch axis of each input that has one.
        batch_size: Samples in the batch.
        places: Filled with the result; after an error, with the positions found before it.

    Raises:
        MixesSamplesError: an operator combines samples.
        NotFollowedError: an operator cannot be followed.
    """
    places = {} if places is None else places
    places.update((name, BatchPosition(axis)) for name, axis in start.items())
    known, constants = shapes.known_shapes(model.graph), shapes.small_constants(model.graph)
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    for node in model.graph.node:
        if node.op_type in ("Shape", "Size"):
            continue
        operator = _Operator(node, known, constants, opset, attributes(node))
        if any(name in places for body in bodies(node) for name in captured(body)):
            raise NotFollowedError(f"{label(node)} is not followed")
        if node.op_type in RECURRENT and any(name in places for name in node.input) and node.input[0] not in places:
            raise operator.mixes()  # one state for many samples, or many for one
        for index, name in enumerate(node.input):
            if name in places:
                found = _outputs(operator, index, places[name], batch_size)
                for output, place in found.items():
                    if places.setdefault(output, place) != place:
                        raise operator.mixes()
    return places


def label(node: onnx.NodeProto) -> str:
    """Return the name and type of a node for a message."""
    return f"node {node.name or node.output[0]!r} ({node.op_type})"


def _outputs(operator: _Operator, index: int, place: BatchPosition, batch_size: int) -> dict[str, BatchPosition]:
    """Return the position in each output of the samples of one operand."""
    node = operator.node
    if node.op_type in _NOT_FOLLOWED:
        raise NotFollowedError(f"{label(node)} is not followed")
    if node.op_type in _REGROUPS:
        found: BatchPosition | Sequence[BatchPosition | None] = _regrouped(operator, index, place, batch_size)
    else:
        rule = _RULES.get(node.op_type) or (_reduced if node.op_type.startswith("Reduce") else _aligned)
        if node.domain and rule is _aligned and place.axis == 0:
            rule = _batch_first
        found = rule(operator, index, place)
    each = _alike(operator, found) if isinstance(found, BatchPosition) else found
    return {name: where for name, where in zip(node.output, each, strict=False) if name and where is not None}


def _alike(operator: _Operator, place: BatchPosition) -> list[BatchPosition | None]:
    """Return ``place`` for the first output and for each other output with the same size along that axis."""
    made = [operator.shapes.get(name, ()) for name in operator.node.output]
    size = made[0][place.axis] if place.axis < len(made[0]) else None
    return [place, *(place if shape[place.axis : place.axis + 1] == (size,) else None for shape in made[1:])]


def _aligned(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    """Rule of an elementwise operator: shapes are aligned at their last axis, and the batch keeps its size."""
    shape, made = operator.shape(index), operator.made()
    axis = place.axis + len(made) - len(shape)
    if not 0 <= axis < len(made) or made[axis] != shape[place.axis]:
        raise operator.mixes()
    return BatchPosition(axis, place.outer)


def _batch_first(operator: _Operator, index: int, place: BatchPosition) -> Sequence[BatchPosition | None]:
    """Rule of an operator whose inputs and outputs all have the batch first, as operators of runtimes do."""
    if place.axis or operator.made()[:1] != operator.shape(index)[:1]:
        raise NotFollowedError(f"{label(operator.node)} is not followed")
    return [place] * len(operator.node.output)


def _along(operator: _Operator, index: int, place: BatchPosition, default: int) -> BatchPosition:
    """Rule of an operator that works along one axis, which must not be the batch axis."""
    if operator.axis(default, len(operator.shape(index))) == place.axis:
        raise operator.mixes()
    return _aligned(operator, index, place)


def _behind(operator: _Operator, index: int, place: BatchPosition, default: int) -> BatchPosition:
    """Rule of an operator that works on all axes from one on, which must lie behind the batch axis."""
    if operator.axis(default, len(operator.shape(index))) <= place.axis:
        raise operator.mixes()
    return _aligned(operator, index, place)


def _softmax(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    if operator.opset >= 13:
        return _along(operator, index, place, -1)
    return _behind(operator, index, place, 1)  # before opset 13 it flattens all axes from its own on


def _cumulated(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    if index or operator.axes(1, len(operator.shape(0))) in (None, (place.axis,)):
        raise operator.mixes()
    return _aligned(operator, index, place)


def _first_axis_only(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    """Rule of convolutions, pools and normalisations of images: the batch is axis 0 of the data."""
    if place.axis or (index and operator.node.op_type not in ("DeformConv", "GridSample")):
        raise operator.mixes()
    return place


def _transposed(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    rank = len(operator.shape(index))
    order = operator.attributes.get("perm") or list(reversed(range(rank)))
    return BatchPosition(list(order).index(place.axis), place.outer)


def _reduced(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    rank = len(operator.shape(0))
    arg = operator.node.op_type.startswith("Arg")
    axes = (operator.axis(0, rank),) if arg else operator.axes(1, rank)
    if not axes:
        if operator.attributes.get("noop_with_empty_axes"):
            return place
        raise operator.mixes()
    if index or place.axis in axes:
        raise operator.mixes()
    kept = operator.attributes.get("keepdims", 1)
    return place if kept else BatchPosition(place.axis - sum(axis < place.axis for axis in axes), place.outer)


def _squeezed(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    shape = operator.shape(index)
    axes = operator.axes(1, len(shape)) or tuple(axis for axis, size in enumerate(shape) if size == 1)
    if place.axis in axes:
        raise operator.mixes()
    return BatchPosition(place.axis - sum(axis < place.axis for axis in axes), place.outer)


def _unsqueezed(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:  # noqa: ARG001 -- as every rule
    made = len(operator.made())
    axes = operator.axes(1, made) or ()
    return BatchPosition([axis for axis in range(made) if axis not in axes][place.axis], place.outer)


def _regrouped(operator: _Operator, index: int, place: BatchPosition, batch_size: int) -> BatchPosition:
    """Rule of a reshape, which keeps the order of elements and so the number of elements ahead of the batch.

    If several axes fit, an axis with the batch alone is preferred, then one with unchanged axes behind the batch.
    """
    if index:
        raise operator.mixes()
    shape, made = operator.shape(0), operator.made()
    ahead = math.prod(shape[: place.axis]) * place.outer
    behind = shape[place.axis + 1 :]
    choices = []
    for axis, size in enumerate(made):
        before = math.prod(made[:axis])
        if before and ahead % before == 0 and size % (ahead // before * batch_size) == 0:
            exact = before == ahead and size == batch_size
            choices.append((not exact, made[axis + 1 :] != behind, before != ahead, axis, ahead // before))
    if not choices:
        raise NotFollowedError(f"{label(operator.node)} has a shape built in, {list(made)}")
    *_, axis, outer = min(choices)
    return BatchPosition(axis, outer)


def _gathered(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    data, indices = operator.shape(0), operator.shape(1)
    axis = operator.axis(0, len(data))
    if index:
        return BatchPosition(axis + place.axis, place.outer)
    if place.axis == axis:
        raise operator.mixes()
    return BatchPosition(place.axis + (len(indices) - 1 if place.axis > axis else 0), place.outer)


def _product(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    first, second = operator.shape(0), operator.shape(_SECOND_FACTOR.get(operator.node.op_type, 1))
    if index not in (0, _SECOND_FACTOR.get(operator.node.op_type, 1)):
        raise operator.mixes()
    contracted = len(first) - 1 if index == 0 else max(len(second) - 2, 0)
    if place.axis == contracted:
        raise operator.mixes()
    return place if len(second) == 1 and index == 0 else _aligned(operator, index, place)


def _gemm(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    if index == 2:
        return _aligned(operator, index, place)
    turned = bool(operator.attributes.get(("transA", "transB")[index], 0))
    if place.axis != (1 if turned else 0) ^ index:
        raise operator.mixes()
    return BatchPosition(index, place.outer)


def _recurrent(operator: _Operator, index: int, place: BatchPosition) -> Sequence[BatchPosition | None]:
    """Rule of recurrent layers: data, sequence lengths and initial states each have a fixed batch axis."""
    first = bool(operator.attributes.get("layout", 0))
    expected = {0: 0 if first else 1, 4: 0, 5: 0 if first else 1, 6: 0 if first else 1}
    if expected.get(index) != place.axis:
        raise operator.mixes()
    made = (0, 0, 0) if first else (2, 1, 1)
    return [BatchPosition(axis) for axis in made]


def _one_hot(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    if index:
        raise operator.mixes()
    axis = operator.axis(-1, len(operator.shape(0)) + 1)
    return BatchPosition(place.axis + (place.axis >= axis), place.outer)


def _einsum(operator: _Operator, index: int, place: BatchPosition) -> BatchPosition:
    terms, arrow, result = operator.attributes["equation"].replace(" ", "").partition("->")
    if not arrow or "." in terms:
        raise NotFollowedError(f"{label(operator.node)} is not followed")
    letter = terms.split(",")[index][place.axis]
    if letter not in result:
        raise operator.mixes()
    return BatchPosition(result.index(letter), place.outer)


RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
_REGROUPS = frozenset({"Reshape", "Flatten"})
_NOT_FOLLOWED = (
    "If", "Loop", "Scan", "SequenceMap", "NonMaxSuppression", "NonZero", "Unique", "Compress", "RoiAlign", "GatherND",
    "ScatterND", "SplitToSequence", "ConcatFromSequence", "SequenceConstruct", "SequenceInsert", "SequenceAt",
    "ReverseSequence",
)  # fmt: skip
_OF_IMAGES = (
    "Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv", "MaxPool", "AveragePool", "LpPool",
    "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool", "BatchNormalization", "InstanceNormalization",
    "GroupNormalization", "LRN", "DepthToSpace", "SpaceToDepth", "GridSample", "FusedConv", "QLinearAveragePool",
    "QLinearGlobalAveragePool",
)  # fmt: skip
_SECOND_FACTOR = {"QLinearMatMul": 3}
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_OF_IMAGES, _first_axis_only),
    **dict.fromkeys(("Attention", "RotaryEmbedding", "TensorScatter"), _batch_first),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), partial(_behind, default=-1)),
    **dict.fromkeys(("Split", "GatherElements", "ScatterElements"), partial(_along, default=0)),
    **dict.fromkeys(("TopK", "LpNormalization"), partial(_along, default=-1)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _reduced),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _product),
    **dict.fromkeys(RECURRENT, _recurrent),
    "Concat": partial(_along, default=1),
    "CumSum": _cumulated,
    "Einsum": _einsum,
    "Gather": _gathered,
    "Gemm": _gemm,
    "OneHot": _one_hot,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
"""The rule of each operator that is not elementwise.

Source: the operators' definitions, https://onnx.ai/onnx/operators.
"""
