"""Reading of an ONNX graph for PyTorch: needed nodes, trainable weights, and values as tensors."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import onnx
import torch
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from edgetune.errors import InputError
from edgetune.workloads import graphs
from edgetune.workloads.initial_weights import has_data, role_of

_SETTINGS: Mapping[str, tuple[int, ...]] = {
    "BatchNormalization": (3, 4), "Clip": (1, 2), "Dropout": (1, 2), "Pad": (2,), "Resize": (1, 2),
}  # fmt: skip
"""Floating-point inputs that are no weights: statistics, limits, ratios, scales."""

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
_LISTS = (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)


def needed_nodes(graph: onnx.GraphProto, wanted: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the wanted values depend on, in the graph's order."""
    available = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    made = {name for node in graph.node for name in node.output}
    for name in sorted(set(wanted) - available - made):
        raise InputError(f"the graph has no value {name!r}", "name one of its outputs, or leave them out")
    return graphs.needed_nodes(graph.node, wanted)


def trainable(nodes: Iterable[onnx.NodeProto], weights: Mapping[str, onnx.TensorProto]) -> set[str]:
    """Return the names of the trainable weights: those the zoo recorded, else chosen by use, type and size."""
    if any(role_of(tensor) for tensor in weights.values()):
        return {name for name, tensor in weights.items() if role_of(tensor) == "parameter"}
    settings = {
        name for node in nodes for index, name in enumerate(node.input) if index in _SETTINGS.get(node.op_type, ())
    }
    return {
        name
        for name, tensor in weights.items()
        if tensor.data_type in _FLOATS and name not in settings and math.prod(tensor.dims) > 1
    }


def tensor_value(proto: onnx.TensorProto) -> torch.Tensor:
    """Return the data of a weight or constant."""
    if not has_data(proto):
        raise InputError(f"weight {proto.name!r} has no data", "fill the zoo's graphs with zoo.with_weights first")
    try:
        return torch.from_numpy(numpy_helper.to_array(proto).copy())
    except (TypeError, ValueError) as error:
        raise InputError(
            f"weight {proto.name!r} cannot be read: {error}", "export the model with float weights"
        ) from None


def constant_value(node: onnx.NodeProto) -> torch.Tensor:
    """Return the value of a ``Constant`` node."""
    value = attribute_value(node.attribute[0])
    if isinstance(value, torch.Tensor):
        return value
    first = value[0] if isinstance(value, list) else value
    return torch.tensor(value, dtype=torch.float32 if isinstance(first, float) else torch.int64)


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return an attribute as a Python value, text decoded and tensors as PyTorch tensors."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return tensor_value(value)
    return list(value) if attribute.type in _LISTS else value


def without_data(model: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """Return a copy of the model without the data of the weights ``names``, so that memory holds them once."""
    skeleton = onnx.ModelProto()
    _copy_fields(model, skeleton, skip="graph")
    _copy_fields(model.graph, skeleton.graph, skip="initializer")
    for weight in model.graph.initializer:
        if weight.name in names:
            empty = TensorProto(name=weight.name, dims=weight.dims, data_type=weight.data_type)
            empty.doc_string = weight.doc_string
            skeleton.graph.initializer.append(empty)
        else:
            skeleton.graph.initializer.append(weight)
    return skeleton


def _copy_fields(source: Any, target: Any, *, skip: str) -> None:
    for field, value in source.ListFields():
        if field.name == skip:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
