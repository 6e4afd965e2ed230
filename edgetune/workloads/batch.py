"""The batch of a network: the batch axis of each input, and the batch size that the file was exported with.

    x [batch, 3, 224, 224]         open: the symbol says so
    x [1, 3, 224, 224]             fixed for 1: which axis it is, is asked only for another batch size
    x [50, 1, 40] -> LSTM          fixed: axis 1, because the answers of samples along axis 0 depend on each other
    x [4096, 3] -> ... ReduceMax   no batch axis: one run is one minibatch

Being the first axis is not enough to be the batch axis. Where no symbol and no user says which it is, this module lists
the candidates, and runs of the network confirm one of them, see ``batch_runs``. Without ONNX Runtime there are no runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice, product

from edgetune.errors import EdgetuneError, InputError
from edgetune.workloads import shapes
from edgetune.workloads.graphs import nested_bodies
from edgetune.workloads.lazy import np, onnx
from edgetune.workloads.observed import running
from edgetune.workloads.workload import Axes, Batch, Reshapes, Workload, describe_axes

_BATCH = re.compile(r"(^|[^a-z])(batch|bs|bsz|batchsize)([^a-z]|$)")
_LENGTH = re.compile(
    r"(^|[^a-z])(seq|sequence|time|times|timesteps|steps?|len|length|points?|frames?|tokens?|height|width|depth|h|w|t|l"
    r"|past|cache|channels?|features?|samples|rows?|cols?|columns?|boxes|anchors|nodes|edges)([^a-z]|$)|[-+*/()]"
)
"""Symbols of lengths, and arithmetic on symbols."""
_MOST_TRIED = 12
"""Most combinations of one axis per input that are tried for one size."""
_RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")


def said(inputs: Sequence[onnx.ValueInfoProto], asked: Axes | None) -> Batch | None:
    """Return the batch that the user names, or else a symbol; ``None`` where neither does.

    Args:
        inputs: The declared inputs.
        asked: Axes that the user names, possibly none; ``None`` where the user is silent.

    Raises:
        InputError: the user names an input or an axis that does not exist, or axes of different sizes.
    """
    if asked is None:
        return _named(inputs)
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
    exported = next(iter(sizes.values())) if sizes else 1
    return Batch(asked, exported, "--batch-axis", decided=not asked or exported is None)


def _named(inputs: Sequence[onnx.ValueInfoProto]) -> Batch | None:
    """Return the batch that a symbol names, with open first dimensions of other inputs that have no symbol."""
    dims = [dim for value in inputs for dim in value.type.tensor_type.shape.dim if is_open(dim)]
    words = (dim.dim_param for dim in dims if not re.search(r"[-+*/()]", dim.dim_param))
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


def open_candidates(inputs: Sequence[onnx.ValueInfoProto], given: Mapping[str, int]) -> Iterator[Batch]:
    """Yield open axes that may be the batch: all first axes, those without a symbol, then those of one symbol.

    Args:
        inputs: The declared inputs, of which no symbol names the batch.
        given: Sizes of open dimensions; a dimension with a size here is no batch.
    """
    places = [
        (value.name, axis, str(dim.dim_param))
        for value in inputs
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if is_open(dim) and dim.dim_param not in given and f"{value.name}:{axis}" not in given
    ]
    found: list[Axes] = []
    first = {name: symbol or name for name, axis, symbol in places if not axis}
    first = {name: word for name, word in first.items() if not _LENGTH.search(word.lower())}
    if len(set(first.values())) > 1:
        found.append(tuple((name, 0) for name in first))
    nameless = {name: axis for name, axis, symbol in reversed(places) if not symbol and axis <= 1}
    found += [tuple(reversed(nameless.items()))] if nameless else []
    for symbol in [symbol for wanted in (0, 1) for _, axis, symbol in places if axis == wanted]:
        own = tuple((name, axis) for name, axis, other in places if other == symbol)
        if symbol and not _LENGTH.search(symbol.lower()) and len(dict(own)) == len(own):
            found.append(own)
    return (Batch(axes, None, "") for axes in dict.fromkeys(found))


def fixed_candidates(inputs: Sequence[onnx.ValueInfoProto]) -> Iterator[Batch]:
    """Yield fixed axes of one size, at most one of each input: first axes, those of size 1 before others; then second.

    If both axes of an input have the size, as in states of recurrent layers, each is tried. For size 1, combinations
    without an input are tried too, since a first axis of 1 need not be a batch.
    """
    fixed = {value.name: _fixed_sizes(value)[:2] for value in inputs}
    sizes: list[int] = []
    for axis in (0, 1):
        sizes += sorted((dims[axis] for dims in fixed.values() if dims[axis:] and dims[axis] > 0), key=lambda n: n != 1)
    for size in dict.fromkeys(sizes):
        places: list[list[tuple[str, int] | None]] = []
        for name, dims in fixed.items():
            own = [(name, axis) for axis, found in enumerate(dims) if found == size]
            places.append([*own, None] if size == 1 or not own else [*own])
        every = islice(product(*places), _MOST_TRIED)
        yield from (Batch(tuple(place for place in each if place is not None), size, "") for each in every if any(each))


def is_for_one(graph: onnx.GraphProto, inputs: Sequence[onnx.ValueInfoProto]) -> bool:
    """Return whether a file without open batch is for one sample, whichever axis is the batch."""
    first = [sizes[0] for value in inputs if (sizes := _fixed_sizes(value))]
    return {*first} <= {1, -1} and not any(node.op_type in _RECURRENT for node in graph.node)


def _fixed_sizes(value: onnx.ValueInfoProto) -> list[int]:
    return [-1 if is_open(dim) else int(dim.dim_value) for dim in value.type.tensor_type.shape.dim]


def confirm(workload: Workload, tried: Sequence[Batch], dimensions: Mapping[str, int], inputs: str | None) -> Batch:
    """Return the first candidate that runs of the network confirm; no batch, with the reason, where none is.

    A batch size that is built in counts only where no other candidate can be given another size.

    Args:
        workload: The network.
        tried: The candidates, most likely first.
        dimensions: Sizes of open dimensions.
        inputs: The user's ``.npz`` of inputs; ``None`` for random ones.
    """
    why, kept = "", None
    try:
        with running(workload, dimensions) as ask:
            for candidate in tried:
                plain = asdict(candidate)
                found = ask({"command": "confirm", "batch": plain, "inputs": inputs, "explain": not why})
                if "refuted" in found:
                    why = why or found["refuted"]
                    continue
                confirmed = replace(candidate, reshapes=found["reshapes"], why=found["why"])
                if candidate.exported is None or confirmed.reshapes is not None:
                    return confirmed
                kept = kept or confirmed
    except EdgetuneError as error:
        why = f"it cannot be told, because {error.message}"
    return kept or Batch((), 1, why)


def axes_words(axes: Axes) -> str:
    """Return axes in the syntax of ``--batch-axis``."""
    return ",".join(f"{name}={axis}" for name, axis in axes) or "none"


def dimension_name(inputs: Sequence[onnx.ValueInfoProto], place: tuple[str, int]) -> str:
    """Return the symbol of an open dimension, or input and axis (``x:0``) where it has no symbol."""
    name, axis = place
    dims = next(value for value in inputs if value.name == name).type.tensor_type.shape.dim
    return str(dims[axis].dim_param) or f"{name}:{axis}"


def is_open(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a dimension has no size; some exporters write -1 for no size."""
    return not (dim.HasField("dim_value") and dim.dim_value >= 0)


def rebatch(model: onnx.ModelProto, batch: Batch, batch_size: int) -> onnx.ModelProto:
    """Change the batch size of ``model`` in place, infer its shapes again, and return it.

    Args:
        model: The model with the shapes of the exported batch.
        batch: Its batch axes and exported batch size.
        batch_size: The new batch size.

    Raises:
        InputError: there is no batch axis, or the exported batch is built in.
    """
    if not batch.axes:
        inputs = ", ".join(repr(value.name) for value in model.graph.input)
        raise InputError(
            f"the network cannot be given batch size {batch_size}: no axis of {inputs} is a batch; {batch.why}",
            "leave the batch size out: the network is measured as exported, one run a minibatch",
        )
    if batch.reshapes is None:
        raise InputError(
            f"the model was exported with batch {batch.exported} and cannot be given {batch_size} along "
            f"{describe_axes(batch.axes)}: {batch.why}",
            f"export it with an open batch dimension, or use batch size {batch.exported}",
        )
    open_batch(model, batch, batch.reshapes, shapes.known_shapes(model.graph), batch_size)
    return shapes.infer(model)


def open_batch(
    model: onnx.ModelProto,
    batch: Batch,
    reshapes: Reshapes,
    known: Mapping[str, Sequence[int]],
    batch_size: int | None = None,
) -> None:
    """Open the batch axes of ``model`` in place, and forget the sizes that it states for other tensors.

    Args:
        model: The model.
        batch: Its batch axes and exported batch size.
        reshapes: Whether and where constant targets of ``Reshape`` are opened: an open entry changes nothing where the
            number of elements stays the same.
        known: Shapes of tensors at the exported batch size.
        batch_size: The new batch size; ``None`` to leave it open.
    """
    axes = dict(batch.axes)
    for value in model.graph.input:
        if value.name in axes:
            dim = value.type.tensor_type.shape.dim[axes[value.name]]
            dim.Clear()
            if batch_size is not None:
                dim.dim_value = batch_size
    for graph in (model.graph, *nested_bodies(model.graph.node)):
        del graph.value_info[:]
        for value in (*graph.output, *(graph.input if graph is not model.graph else ())):
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
    constants = {} if reshapes == "kept" else shapes.small_constants(model.graph)
    for node in model.graph.node:
        target = list(known.get(node.output[0], ()))
        if node.op_type == "Reshape" and node.input[1] in constants and target:
            second = reshapes == "second" and len(target) > 2 and target[0] != batch.exported
            target[int(second)] = -1
            node.input[1] = f"{node.output[0]}/{reshapes} open"
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(target, np.int64), node.input[1]))
