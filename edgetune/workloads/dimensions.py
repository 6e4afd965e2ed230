"""Fixing of a model's open dimensions: the batch, and other dimensions that the exporter left symbolic.

``batch_of`` decides which dimension is the batch. The user gives the size of every other open dimension; no size is
guessed. Then shapes are inferred through the graph, including the arithmetic that exporters leave on shapes
(``Shape``, ``Gather``, ``Concat``...).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.workloads import shapes
from edgetune.workloads.batch import (
    dimension_name,
    fixed_candidates,
    is_for_one,
    is_open,
    open_candidates,
    rebatch,
    said,
)
from edgetune.workloads.lazy import onnx
from edgetune.workloads.model_storage import refuse_malformed
from edgetune.workloads.workload import Axes, Batch

_MAY_BE_EMPTY = ("past", "cache")
"""Parts of names of a key-value cache's dimensions and inputs; the cache is empty before the first token."""
_NOTHING: Mapping[str, int] = MappingProxyType({})


def fix_dimensions(
    model: onnx.ModelProto, *, batch_size: int, dimensions: Mapping[str, int] = _NOTHING, batch: Batch | None = None
) -> onnx.ModelProto:
    """Return a copy of the model with fixed input shapes and every shape that can be inferred.

    A model exported with a fixed batch is changed for another batch size if its batch allows it, see ``rebatch``.

    Args:
        model: With or without weights.
        batch_size: Samples per minibatch; 1 for a network without a batch axis.
        dimensions: Sizes of the other open dimensions by symbol (``sequence``) or by axis (``input_ids:1``). Names with
            past or cache may have size 0, an empty key-value cache.
        batch: Its batch; ``None`` for the one that a symbol names, and without it as exported, for ``batch_size``.

    Raises:
        InputError: an open dimension has no size, a size is below one, a name is no open dimension, the graph cannot
            run at the batch size, or shapes contradict each other.
    """
    if batch_size < 1:
        raise InputError(f"the batch size must be at least 1, not {batch_size}", "e.g. --batch-sizes 1,4,16")
    with refuse_malformed("the graph"):
        return _put_back(_Declared.of(model, dimensions).fixed(batch_size, batch), model)


def batch_of(
    model: onnx.ModelProto,
    confirm: Callable[[Sequence[Batch]], Batch],
    *,
    dimensions: Mapping[str, int] = _NOTHING,
    asked: Axes | None = None,
    resized: bool = False,
) -> Batch:
    """Return the batch axes of a model's inputs.

    Args:
        model: With or without weights.
        confirm: Returns the first candidate that runs confirm, or no batch.
        dimensions: See ``fix_dimensions``.
        asked: Axes that the user names, ``()`` for none; ``None`` to decide.
        resized: Whether a fixed batch is needed at another size than that of the file.

    Raises:
        InputError: see ``fix_dimensions``.
    """
    with refuse_malformed("the graph"):
        declared = _Declared.of(model, dimensions)
        inputs = data_inputs(declared.light)
        told = said(inputs, asked)
        if told is not None:
            if told.decided or not resized:
                return told
            return replace(confirm([told]), axes=told.axes, exported=told.exported, decided=True)
        tried = list(open_candidates(inputs, dimensions))
        if tried:
            declared.at({dimension_name(inputs, place): 1 for place in tried[0].axes})  # refuses others that are open
            found = confirm(tried)
            if found.axes:
                return found
        declared.at({})  # refuses what is still open
        for_one = is_for_one(declared.light.graph, inputs)
        if for_one and not resized:
            return _AS_EXPORTED
        return confirm([each for each in fixed_candidates(inputs) if each.exported == 1 or not for_one])


@dataclass(slots=True)
class _Declared:
    """A declared graph without large weights, and the sizes that the user gives.

    Args:
        light: The graph.
        sizes: Sizes of open dimensions.
        exported: The graph with its shapes, if nothing is open besides ``sizes``; computed once.
    """

    light: onnx.ModelProto
    sizes: Mapping[str, int]
    exported: onnx.ModelProto | None = None

    @classmethod
    def of(cls, model: onnx.ModelProto, dimensions: Mapping[str, int]) -> _Declared:
        for name, size in dimensions.items():
            if size < 0 or (size == 0 and not any(word in name.lower() for word in _MAY_BE_EMPTY)):
                raise InputError(f"dimension {name!r} must be at least 1, not {size}", f"e.g. --dim {name}=128")
        light = shapes.without_weights(model)
        if light.functions:
            light = onnx.inliner.inline_local_functions(light)
        _reject_unknown_names(data_inputs(light), dimensions)
        return cls(light, dimensions)

    def fixed(self, batch_size: int, batch: Batch | None) -> onnx.ModelProto:
        batch = batch or said(data_inputs(self.light), None) or replace(_AS_EXPORTED, exported=batch_size)
        if batch.exported is not None:
            found = self.at({})
            return found if batch_size == batch.exported else rebatch(found, batch, batch_size)
        inputs = data_inputs(self.light)
        names = {dimension_name(inputs, place) for place in batch.axes}
        for name in names & set(self.sizes):
            if self.sizes[name] != batch_size:
                raise InputError(
                    f"dimension {name!r} is the batch: {self.sizes[name]} contradicts batch size {batch_size}",
                    "leave it to --batch-sizes",
                )
        return self.at(dict.fromkeys(names, batch_size))

    def at(self, further: Mapping[str, int]) -> onnx.ModelProto:
        """Return a copy of the graph with shapes at ``sizes`` and ``further``."""
        if not further and self.exported is not None:
            return self.exported
        found = onnx.ModelProto()
        found.CopyFrom(self.light)
        sizes = {**self.sizes, **further}
        still_open = [(value, axis) for value in data_inputs(found) for axis in _fix_input(value, sizes)]
        if still_open:
            _refuse_open(still_open)
        defaults = {weight.name: weight for weight in found.graph.initializer}
        for value in found.graph.input:
            if value.name in defaults:
                dims = [onnx.TensorShapeProto.Dimension(dim_value=size) for size in defaults[value.name].dims]
                value.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=dims))
        for dim in (d for v in (*found.graph.value_info, *found.graph.output) for d in v.type.tensor_type.shape.dim):
            size = _size_of(dim.dim_param, sizes) if dim.dim_param else None
            if size is not None:
                dim.dim_value = size
            elif dim.HasField("dim_value") and is_open(dim):
                dim.Clear()
        shapes.infer(found)
        if not further:
            self.exported = found
        return found


_AS_EXPORTED = Batch((), 1, "it is used as exported, for 1", decided=False)


def _put_back(light: onnx.ModelProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of ``model`` with the nodes and values of ``light`` and its own weights."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    weights = {weight.name for weight in fixed.graph.initializer}
    for field in ("node", "input", "output", "value_info"):
        fixed.graph.ClearField(field)
        getattr(fixed.graph, field).extend(getattr(light.graph, field))
    fixed.graph.initializer.extend(weight for weight in light.graph.initializer if weight.name not in weights)
    fixed.ClearField("functions")
    fixed.ClearField("opset_import")
    fixed.opset_import.extend(light.opset_import)
    return fixed


def input_specs(model: onnx.ModelProto) -> list[tuple[str, tuple[int, ...], str]]:
    """Return name, shape and NumPy element type of each data input.

    Raises:
        InputError: a dimension is still open, or an input is no tensor.
    """
    specs = []
    for value in data_inputs(model):
        kind = value.type.tensor_type
        open_axes = [axis for axis, dim in enumerate(kind.shape.dim) if is_open(dim)]
        if open_axes or not kind.HasField("shape"):
            _refuse_open([(value, axis) for axis in open_axes or [0]])
        shape = tuple(int(dim.dim_value) for dim in kind.shape.dim)
        with refuse_malformed(f"the type of input {value.name!r}"):
            specs.append((value.name, shape, str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))))
    return specs


def data_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the graph's inputs without the weights that old exporters list as inputs.

    Raises:
        InputError: an input is no tensor, or has no shape.
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


def _fix_input(value: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> list[int]:
    """Set the sizes of an input's open dimensions; return the axes that have no size."""
    still_open = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not is_open(dim):
            if dim.dim_value == 0:
                raise InputError(
                    f"input {value.name!r} has a dimension of size 0 (axis {axis})",
                    "export the model with a real or an open size there",
                )
            continue
        size = sizes.get(f"{value.name}:{axis}", _size_of(dim.dim_param, sizes))
        if size is None:
            still_open.append(axis)
        else:
            dim.dim_value = size
    return still_open


def _size_of(symbol: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a symbol or of a sum of symbols, as in ``past_sequence + sequence``."""
    if symbol in sizes:
        return sizes[symbol]
    terms = [term.strip() for term in symbol.split("+")]
    parts = [int(term) if term.isdecimal() else sizes.get(term) for term in terms]
    known = [part for part in parts if part is not None]
    return sum(known) if len(terms) > 1 and len(known) == len(parts) else None


_EXAMPLE, _IMAGE_EXAMPLE = 128, 224
"""Example sizes in hints: of a sequence, and of an image's sides."""
_IMAGE_RANK, _FIRST_SIDE = 4, 2


def _refuse_open(places: Sequence[tuple[onnx.ValueInfoProto, int]]) -> None:
    """Raise one ``InputError`` for all open dimensions, given as inputs with their open axis.

    A first axis may be the batch, and one batch may have a name for each input.
    """
    found: dict[str, dict[int, str]] = {}
    words: dict[str, int] = {}
    for value, axis in places:
        dims = value.type.tensor_type.shape.dim
        symbol = dims[axis].dim_param if axis < len(dims) else ""
        found.setdefault(value.name, {})[axis] = f" {symbol!r}" if symbol else ""
        example = _IMAGE_EXAMPLE if len(dims) == _IMAGE_RANK and axis >= _FIRST_SIDE else _EXAMPLE
        terms = [term.strip() for term in symbol.split("+")] if symbol else [f"{value.name}:{axis}"]
        words |= {term: words.get(term, example) for term in terms if not term.isdecimal()}
    told = []
    for name, axes in found.items():
        listed = " and".join(f"{symbol} (axis {axis})" for axis, symbol in axes.items())
        told.append(f"input {name!r} has {'open dimensions' if len(axes) > 1 else 'an open dimension'}{listed}")
    batch = " ".join(f"--batch-axis {shlex.quote(value.name)}=0" for value, axis in places if not axis)
    sizes = "the size you mean" if len(words) == 1 else "the sizes you mean"
    raise InputError(
        "; ".join(told),
        f"fix {'it' if len(words) == 1 else 'them'} with "
        + " ".join(f"--dim {shlex.quote(f'{word}={size}')}" for word, size in words.items())
        + f", with {sizes}"
        + ("" if places[0][1] else f"; if samples lie along it, say {batch}"),
    )


def _reject_unknown_names(inputs: list[onnx.ValueInfoProto], dimensions: Mapping[str, int]) -> None:
    known: set[str] = set()
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if is_open(dim):
                known |= {f"{value.name}:{axis}"} | ({dim.dim_param} if dim.dim_param else set())
                known |= {term.strip() for term in dim.dim_param.split("+") if not term.strip().isdecimal()} - {""}
    for name in dimensions:
        if name not in known:
            listed = f"open dimensions: {', '.join(sorted(known)) or 'none; all its dimensions are fixed'}"
            raise InputError(f"the model has no open dimension {name!r}", nearest(name, known, listed=listed))
