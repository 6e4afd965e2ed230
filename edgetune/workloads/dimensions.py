"""Fixing a model's open dimensions: the batch, and whatever else the exporter left symbolic.

An open dimension is never guessed. The first dimension of the inputs is the batch; every other open one has to be
named by the user. Afterwards shapes are inferred through the graph, with the arithmetic that exporters leave on
shapes (``Shape``, ``Gather``, ``Concat``...) worked out.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgetune.errors import InputError
from edgetune.workloads import rebatch, shapes
from edgetune.workloads.malformed import refuse_malformed

if TYPE_CHECKING:
    import onnx

_MAY_BE_EMPTY = ("past", "cache")
"""In the names of dimensions and inputs of a key-value cache, which is empty before the first token."""
_BATCH_NAMES = ("batch", "batch_size", "batchsize", "n", "bs", "b")
_NOTHING: Mapping[str, int] = MappingProxyType({})


def fix_dimensions(
    model: onnx.ModelProto, *, batch_size: int, dimensions: Mapping[str, int] = _NOTHING
) -> onnx.ModelProto:
    """Return a copy of the model whose inputs have fixed shapes, with every shape that can be inferred.

    The batch dimension is the first of the inputs where that is open (or any open one called ``batch``). A model
    exported with a fixed batch is given the new one where the graph allows, see ``rebatch``.

    Args:
        model: With or without weights.
        batch_size: Samples per minibatch.
        dimensions: Sizes of the other open dimensions by symbol (``sequence``) or by place (``input_ids:1``), also of
            tensors inside the graph whose shape depends on the data (``selected:0``). A key-value cache may be empty:
            0 is a size for what is called past or cache.

    Raises:
        InputError: an open dimension nobody fixed, a size below one, a name that is no open dimension, a graph that
            cannot be re-batched, or one whose shapes contradict each other.
    """
    if batch_size < 1:
        raise InputError(f"the batch size must be at least 1, not {batch_size}", "e.g. --batch-sizes 1,4,16")
    for name, size in dimensions.items():
        if size < 0 or (size == 0 and not _may_be_empty(name)):
            raise InputError(f"dimension {name!r} must be at least 1, not {size}", f"e.g. --dim {name}=128")
    with refuse_malformed("the graph"):
        return _fix(model, batch_size, dimensions)


def _fix(model: onnx.ModelProto, batch_size: int, dimensions: Mapping[str, int]) -> onnx.ModelProto:
    import onnx

    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    if fixed.functions:
        from onnx import inliner

        fixed = inliner.inline_local_functions(fixed)
    inputs = data_inputs(fixed)
    symbol, batch_open = _batch_symbol(inputs)
    made = {name for node in fixed.graph.node for name in node.output if name}
    _reject_unknown_names(inputs, symbol, dimensions, made)
    sizes = dict(dimensions)
    if symbol is not None and sizes.setdefault(symbol, batch_size) != batch_size:
        raise InputError(
            f"dimension {symbol!r} is the batch: {sizes[symbol]} contradicts batch size {batch_size}",
            "leave it to --batch-sizes",
        )
    old_batch = None if batch_open else _static_batch(inputs)
    for value in inputs:
        _fix_input(value, batch_size, batch_open, sizes)
    _substitute(fixed, {name: size for name, size in sizes.items() if ":" not in name})
    inside = _inside(dimensions, made)
    if old_batch is not None and old_batch != batch_size:
        return rebatch.rebatch(fixed, inputs, old_batch, batch_size, inside)
    return shapes.infer(fixed, inside)


def _inside(dimensions: Mapping[str, int], made: Set[str]) -> dict[str, dict[int, int]]:
    """Return the sizes said of tensors that nodes make, by name and axis."""
    found: dict[str, dict[int, int]] = {}
    for place, size in dimensions.items():
        name, _, axis = place.rpartition(":")
        if name in made and axis.isdecimal():
            found.setdefault(name, {})[int(axis)] = size
    return found


def _may_be_empty(name: str) -> bool:
    return any(word in name.lower() for word in _MAY_BE_EMPTY)


def input_specs(model: onnx.ModelProto) -> list[tuple[str, tuple[int, ...], str]]:
    """Return name, shape and numpy element type of each input that a caller must provide.

    Raises:
        InputError: a dimension is still open, or an input is no tensor.
    """
    from onnx import helper

    specs = []
    for value in data_inputs(model):
        kind = value.type.tensor_type
        open_axes = [axis for axis, dim in enumerate(kind.shape.dim) if not _is_fixed(dim)]
        if open_axes or not kind.HasField("shape"):
            _refuse_open(value, open_axes[0] if open_axes else 0)
        shape = tuple(int(dim.dim_value) for dim in kind.shape.dim)
        with refuse_malformed(f"the type of input {value.name!r}"):
            specs.append((value.name, shape, str(helper.tensor_dtype_to_np_dtype(kind.elem_type))))
    return specs


def data_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the graph's inputs that are data, not weights listed as inputs (as old exporters do).

    Raises:
        InputError: an input is no tensor, or has no shape at all.
    """
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for value in inputs:
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.elem_type:
            raise InputError(f"input {value.name!r} is not a tensor", "only networks of tensors can be used")
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(
                f"input {value.name!r} has no shape, not even a rank", "export the model with input shapes"
            )
    return inputs


def _is_fixed(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)  # some exporters write -1 for open


def _batch_symbol(inputs: list[onnx.ValueInfoProto]) -> tuple[str | None, bool]:
    """Return the symbol of the batch dimension (``None`` where it has no name) and whether there is an open one."""
    open_dims = [d for value in inputs for d in value.type.tensor_type.shape.dim if not _is_fixed(d)]
    for dim in open_dims:
        if dim.dim_param.lower() in _BATCH_NAMES:
            return dim.dim_param, True
    firsts = [value.type.tensor_type.shape.dim[0] for value in inputs if value.type.tensor_type.shape.dim]
    for dim in firsts:
        if not _is_fixed(dim):
            return dim.dim_param or None, True
    return None, False


def _static_batch(inputs: list[onnx.ValueInfoProto]) -> int | None:
    """Return the fixed first dimension of the first input that has dimensions."""
    for value in inputs:
        if value.type.tensor_type.shape.dim:
            return int(value.type.tensor_type.shape.dim[0].dim_value)
    return None


def _fix_input(value: onnx.ValueInfoProto, batch_size: int, batch_open: bool, sizes: Mapping[str, int]) -> None:
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if _is_fixed(dim):
            if dim.dim_value == 0:
                raise InputError(
                    f"input {value.name!r} has a dimension of size 0 (axis {axis})",
                    "export the model with a real or an open size there",
                )
            continue
        size = sizes.get(f"{value.name}:{axis}", _size_of(dim.dim_param, sizes))
        if size is None and axis == 0 and batch_open and not dim.dim_param:
            size = batch_size  # a nameless open first dimension can only be the batch
        if size is None:
            _refuse_open(value, axis)
        dim.dim_value = size


def _size_of(symbol: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a symbol, or of a sum of symbols: exporters write ``past_sequence + sequence``."""
    if symbol in sizes:
        return sizes[symbol]
    terms = [term.strip() for term in symbol.split("+")]
    parts = [int(term) if term.isdecimal() else sizes.get(term) for term in terms]
    known = [part for part in parts if part is not None]
    return sum(known) if len(terms) > 1 and len(known) == len(parts) else None


def _refuse_open(value: onnx.ValueInfoProto, axis: int) -> None:
    dims = value.type.tensor_type.shape.dim
    symbol = dims[axis].dim_param if axis < len(dims) else ""
    raise InputError(
        f"input {value.name!r} has an open dimension{f' {symbol!r}' if symbol else ''} (axis {axis})",
        f"fix it with --dim {symbol or f'{value.name}:{axis}'}=128, with the size you mean",
    )


def _reject_unknown_names(
    inputs: list[onnx.ValueInfoProto], batch: str | None, dimensions: Mapping[str, int], made: Set[str]
) -> None:
    known: set[str] = set() if batch is None else {batch}
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not _is_fixed(dim):
                known |= {f"{value.name}:{axis}"} | ({dim.dim_param} if dim.dim_param else set())
                known |= {term.strip() for term in dim.dim_param.split("+") if not term.strip().isdecimal()} - {""}
    inner = _inside(dimensions, made)
    for name in dimensions:
        if name not in known and name.rpartition(":")[0] not in inner:
            near = difflib.get_close_matches(name, known, 1)
            listed = ", ".join(sorted(known)) or "none; all its dimensions are fixed"
            raise InputError(
                f"the model has no open dimension {name!r}",
                f"did you mean {near[0]}?" if near else f"open dimensions: {listed}",
            )


def _substitute(model: onnx.ModelProto, sizes: Mapping[str, int]) -> None:
    """Put the sizes of symbols into the shapes the exporter stored, so that they agree with what is inferred."""
    for value in (*model.graph.value_info, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            size = _size_of(dim.dim_param, sizes) if dim.dim_param else None
            if size is not None:
                dim.dim_value = size
