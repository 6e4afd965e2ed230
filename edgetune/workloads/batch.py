"""The batch of a network: the batch axis of each input, and the batch size that the file was exported with.

    x [batch, 3, 224, 224]         open: the symbol says so
    x [1, 3, 224, 224]             fixed: axis 0, exported for 1, because every output follows it
    x [50, 1, 40] -> LSTM          fixed: axis 1, because the recurrence runs along axis 0
    x [4096, 3] -> ... ReduceMax   no batch axis: one run is one minibatch

Being the first axis is not enough to be the batch axis. ``rebatch`` changes the batch size of a graph that was exported
with a fixed one, where that is safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads import shapes
from edgetune.workloads.batch_axis import RECURRENT, BatchPosition, MixesSamplesError, NotFollowedError, follow, label
from edgetune.workloads.lazy import np, onnx

Axes = tuple[tuple[str, int], ...]
"""The batch axis of each input that has one."""

_BATCH = re.compile(r"(^|[^a-z])(batch|bs|bsz|batchsize)([^a-z]|$)")
_LENGTH = re.compile(
    r"(^|[^a-z])(seq|sequence|time|times|timesteps|steps?|len|length|points?|frames?|tokens?|height|width|depth|h|w|t|l"
    r"|past|cache|channels?|features?|samples|rows?|cols?|columns?|boxes|anchors|nodes|edges)([^a-z]|$)"
)
_COMPUTED = re.compile(r"[-+*/()]")
"""Arithmetic in a symbol: its size is computed from other symbols."""
_LETTERS = ("n", "b")
"""Symbols that usually name the batch: the graph may refute them, and need not confirm them."""
_MOST_TRIED = 64
"""Most combinations of one axis per input that are tried for one size."""
_PROBE = 3
"""Size of an open axis while the graph is tested for a batch there; with 1, broadcasting hides mixed samples."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch axes of a network's inputs.

    Args:
        axes: The batch axis of each input that has one; empty for a network without a batch.
        exported: Batch size of the file; ``None`` where the axis is open. 1 without a batch axis.
        why: Reason for the decision.
        followed: Whether the whole graph was followed and its outputs have the batch.
    """

    axes: Axes
    exported: int | None
    why: str
    followed: bool = True

    def plain(self) -> dict[str, Any]:
        """Return the batch as plain data, for headers."""
        return {"axes": dict(self.axes), "exported": self.exported, "why": self.why}

    def __str__(self) -> str:
        if not self.axes:
            return "no batch axis"
        alike = len({axis for _, axis in self.axes}) == 1
        where = f"axis {self.axes[0][1]}" if alike else describe_axes(self.axes)
        return f"batch {where}, {'open' if self.exported is None else f'exported for {self.exported}'}"


def decide(
    inputs: Sequence[onnx.ValueInfoProto],
    given: Mapping[str, int],
    asked: Axes | None,
    at: Callable[[Mapping[str, int]], onnx.ModelProto],
) -> Batch:
    """Return the batch axes of a network's inputs.

    Args:
        inputs: The declared inputs.
        given: Sizes of open dimensions; a dimension with a size here is no batch.
        asked: Axes that the user names, possibly none; ``None`` to decide from the graph.
        at: Returns the model with shapes, given the sizes of further open dimensions.

    Raises:
        InputError: the user names an input or an axis that does not exist; see also ``at``.
    """
    if asked is not None:
        return _seen(_asked(inputs, asked), at)
    named = _named(inputs)
    if named is not None:
        return named
    for axes in _open_candidates(inputs, given):
        name = dimension_name(inputs, axes[0])
        found = at({dimension_name(inputs, place): _PROBE for place in axes})
        try:
            _check_followed(found, axes, _PROBE, outputs=0 if name.lower() in _LETTERS else 1)
        except MixesSamplesError:
            continue
        except NotFollowedError as unknown:
            return Batch(axes, None, str(unknown), followed=False)
        return Batch(axes, None, "the outputs follow it")
    return _of_fixed(at({}), inputs)


def axes_words(axes: Axes) -> str:
    """Return axes in the syntax of ``--batch-axis``."""
    return ",".join(f"{name}={axis}" for name, axis in axes) or "none"


def describe_axes(axes: Axes) -> str:
    """Return axes in words."""
    return " and ".join(f"axis {axis} of {name!r}" for name, axis in axes)


def dimension_name(inputs: Sequence[onnx.ValueInfoProto], place: tuple[str, int]) -> str:
    """Return the symbol of an open dimension, or input and axis (``x:0``) where it has no symbol."""
    name, axis = place
    dims = next(value for value in inputs if value.name == name).type.tensor_type.shape.dim
    return str(dims[axis].dim_param) or f"{name}:{axis}"


def is_open(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a dimension has no size; some exporters write -1 for no size."""
    return not (dim.HasField("dim_value") and dim.dim_value >= 0)


def _asked(inputs: Sequence[onnx.ValueInfoProto], asked: Axes) -> Batch:
    declared = {value.name: value.type.tensor_type.shape.dim for value in inputs}
    sizes: dict[str, int | None] = {}
    for name, axis in asked:
        if name not in declared:
            raise InputError(
                f"--batch-axis: the network has no input {name!r}", f"its inputs are {', '.join(declared) or 'none'}"
            )
        if axis >= len(declared[name]):
            rank = len(declared[name])
            raise InputError(
                f"--batch-axis: input {name!r} has no axis {axis}", f"it has {rank} dimensions, counted from 0"
            )
        dim = declared[name][axis]
        sizes[f"{name} axis {axis}"] = None if is_open(dim) else dim.dim_value
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{place} is {'open' if size is None else size}" for place, size in sizes.items())
        raise InputError(f"--batch-axis: these cannot be one batch: {listed}", "name axes of the same size")
    return Batch(asked, next(iter(sizes.values())) if sizes else 1, "--batch-axis", followed=False)


def _seen(batch: Batch, at: Callable[[Mapping[str, int]], onnx.ModelProto]) -> Batch:
    """Set ``followed`` if the graph confirms a batch that the user names; ``rebatch`` refuses one that it refutes."""
    if not batch.axes or batch.exported is None:
        return batch
    try:
        _check_followed(at({}), batch.axes, batch.exported, outputs=1)
    except (MixesSamplesError, NotFollowedError):
        return batch
    return replace(batch, followed=True)


def _named(inputs: Sequence[onnx.ValueInfoProto]) -> Batch | None:
    """Return the batch that a symbol names, with open first dimensions of other inputs that have no symbol."""
    dims = [dim for value in inputs for dim in value.type.tensor_type.shape.dim if is_open(dim)]
    words = (dim.dim_param for dim in dims if not _COMPUTED.search(dim.dim_param))
    symbol = next((word for word in words if _BATCH.search(word.lower())), None)
    if symbol is None:
        return None
    axes = []
    for value in inputs:
        own = value.type.tensor_type.shape.dim
        axis = next((axis for axis, dim in enumerate(own) if is_open(dim) and dim.dim_param == symbol), None)
        if axis is None and own and is_open(own[0]) and not own[0].dim_param:
            axis = 0
        if axis is not None:
            axes.append((value.name, axis))
    return Batch(tuple(axes), None, f"its symbol is {symbol!r}")


def _open_candidates(inputs: Sequence[onnx.ValueInfoProto], given: Mapping[str, int]) -> Iterator[Axes]:
    """Yield the axes that share each ambiguous symbol, or no symbol: those found on first axes, then on second axes."""
    seen = set(given)
    for axis in (0, 1):
        for value in inputs:
            dims = value.type.tensor_type.shape.dim
            if len(dims) <= axis or not is_open(dims[axis]):
                continue
            symbol = dims[axis].dim_param
            if symbol in seen or f"{value.name}:{axis}" in given or _LENGTH.search(symbol.lower()):
                continue
            if _COMPUTED.search(symbol):
                continue
            if not symbol and axis:
                continue
            seen.add(symbol)
            places = tuple(
                (other.name, at)
                for other in inputs
                for at, dim in enumerate(other.type.tensor_type.shape.dim)
                if is_open(dim) and dim.dim_param == symbol and (symbol or at == 0)
            )
            if len(dict(places)) == len(places):  # a symbol on two axes of one input is no batch
                yield places


def _of_fixed(model: onnx.ModelProto, declared: Sequence[onnx.ValueInfoProto]) -> Batch:
    """Return the fixed axes that every output follows; no axes where an operator combines their elements."""
    shapes = {
        value.name: tuple(-1 if is_open(dim) else int(dim.dim_value) for dim in value.type.tensor_type.shape.dim)
        for value in declared
    }
    unknown: Batch | None = None
    reason = ""
    recurrent = any(node.op_type in RECURRENT for node in model.graph.node)
    for axes in _fixed_candidates(shapes, time_first=recurrent):
        size = shapes[axes[0][0]][axes[0][1]]
        try:
            _check_followed(model, axes, size, outputs=len(model.graph.output))
        except MixesSamplesError as mixed:
            reason = reason or f"{mixed} {describe_axes(axes)}"
        except NotFollowedError as why:
            unknown = unknown or Batch(axes, size, str(why), followed=False)
        else:
            return Batch(axes, size, "the outputs follow it")
    if unknown is not None and unknown.exported == 1:
        return unknown
    return Batch(
        (), 1, reason or (unknown.why if unknown is not None else "all open axes were given sizes, or there are none")
    )


def _fixed_candidates(shapes: Mapping[str, tuple[int, ...]], *, time_first: bool) -> Iterator[Axes]:
    """Yield axes of one size, at most one of each input: first axes, those of size 1 before others; then second axes.

    With ``time_first``, second axes may have sizes other than 1.

    If both axes of an input have the size, as in states of recurrent layers, each is tried. For size 1, combinations
    without an input are tried too, since a first axis of 1 need not be a batch.
    """
    leading = [shape[0] for shape in shapes.values() if shape and shape[0] > 0]
    sizes = sorted(dict.fromkeys(leading), key=lambda size: size != 1)
    second = dict.fromkeys(shape[1] for shape in shapes.values() if shape[1:] and shape[1] > 0)
    sizes += [size for size in second if size not in sizes and (size == 1 or time_first)]
    for size in sizes:
        places: list[list[tuple[str, int] | None]] = []
        for name, shape in shapes.items():
            own = [(name, axis) for axis in (0, 1) if shape[axis : axis + 1] == (size,)]
            places.append([*own, None] if size == 1 or not own else [*own])
        every = islice(product(*places), _MOST_TRIED)
        yield from (tuple(place for place in each if place is not None) for each in every if any(each))


def _check_followed(model: onnx.ModelProto, axes: Axes, size: int, *, outputs: int) -> None:
    """Check that no operator combines elements along the axes, and that at least ``outputs`` outputs have the batch.

    Raises:
        MixesSamplesError: an operator combines samples, or fewer outputs have the batch.
        NotFollowedError: see ``follow``.
    """
    places = follow(model, dict(axes), size)
    missed = [value.name for value in model.graph.output if value.name not in places]
    if len(model.graph.output) - len(missed) < outputs:
        raise MixesSamplesError(f"output {missed[0]!r} does not grow with")


_STATE_INPUTS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Operands with initial states; shape inference does not compare them with the batch."""


def rebatch(model: onnx.ModelProto, batch: Batch, batch_size: int, given: shapes.Given) -> onnx.ModelProto:
    """Change the batch size of ``model`` in place and return it.

    Constant shapes of ``Reshape`` nodes change where they contain the batch. Then all shapes are inferred again; each
    tensor must have grown along its batch axis alone.

    Args:
        model: The model with the shapes of the exported batch.
        batch: Its batch axes and exported batch size.
        batch_size: The new batch size.
        given: Sizes of tensors whose shape depends on the data.

    Raises:
        InputError: there is no batch axis, or a node has the exported batch built in; the message names the node.
    """
    exported = batch.exported or 1
    if not batch.axes:
        inputs = ", ".join(repr(value.name) for value in model.graph.input)
        raise InputError(
            f"the network cannot be given batch size {batch_size}: no axis of {inputs} is a batch; {batch.why}",
            "leave the batch size out: the network is measured as exported, one run a minibatch",
        )
    places: dict[str, BatchPosition] = {}
    try:
        follow(model, dict(batch.axes), exported, places)
    except MixesSamplesError as mixed:
        raise _refusal(batch, batch_size, f"{mixed} {describe_axes(batch.axes)}") from None
    except NotFollowedError:
        pass  # shapes are compared as far as the batch was followed; ``check_batch`` compares outputs
    before = shapes.known_shapes(model.graph)
    for value in model.graph.input:
        if value.name in places:
            value.type.tensor_type.shape.dim[places[value.name].axis].dim_value = batch_size
    _resize_reshapes(model.graph, places, before, exported, batch_size)
    del model.graph.value_info[:]  # shapes of the exported batch
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    shapes.infer(model, given)
    _check_shapes(model.graph, places, before, batch, batch_size)
    return model


def _refusal(batch: Batch, batch_size: int, reason: str) -> InputError:
    exported, where = batch.exported, describe_axes(batch.axes)
    return InputError(
        f"the model was exported with batch {exported} and cannot be given {batch_size} along {where}: {reason}",
        f"export it with an open batch dimension, or use batch size {exported}",
    )


def _resize_reshapes(
    graph: onnx.GraphProto,
    places: Mapping[str, BatchPosition],
    before: Mapping[str, tuple[int, ...]],
    exported: int,
    size: int,
) -> None:
    """Write the batch size into the constant shapes of ``Reshape`` nodes; each node gets a constant of its own."""
    constants = shapes.small_constants(graph)
    for node in graph.node:
        if node.op_type != "Reshape" or node.output[0] not in places or node.input[1] not in constants:
            continue
        target, axis = constants[node.input[1]].astype(np.int64).copy(), places[node.output[0]].axis
        if target[axis] > 0:
            target[axis] = before[node.output[0]][axis] // exported * size
            name = f"{node.output[0]}/shape_for_batch_{size}"
            graph.initializer.append(onnx.numpy_helper.from_array(target, name))
            node.input[1] = name


def _check_shapes(
    graph: onnx.GraphProto,
    places: Mapping[str, BatchPosition],
    before: Mapping[str, tuple[int, ...]],
    batch: Batch,
    size: int,
) -> None:
    """Raise ``InputError`` if a tensor did not grow with the batch or the inputs of an operator no longer fit."""
    after = shapes.known_shapes(graph)
    for node in graph.node:
        for name in node.output:
            if name not in before:
                continue
            expected, place = list(before[name]), places.get(name)
            if place is not None:
                expected[place.axis] = expected[place.axis] // (batch.exported or 1) * size
            if name not in after and all(operand in after for operand in node.input if operand in before):
                listed = " and ".join(str(list(after[operand])) for operand in node.input if operand in after)
                raise _refusal(batch, size, f"{label(node)} cannot take shapes {listed}")
            if place is not None and list(after.get(name, expected)) != expected:
                raise _refusal(batch, size, f"{label(node)} has a shape built in, {list(after[name])}")
        for index in _STATE_INPUTS.get(node.op_type, ()):
            state = after.get(node.input[index]) if index < len(node.input) and node.input[index] else None
            axis = 0 if any(a.name == "layout" and a.i for a in node.attribute) else 1
            if state is not None and node.input[0] in places and state[axis] != size:
                raise _refusal(batch, size, f"{label(node)} has initial states for {state[axis]} samples")
