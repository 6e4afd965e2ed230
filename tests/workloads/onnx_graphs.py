"""Small ONNX models for tests: nodes, weights with a shape and no values, inputs by shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.workloads.costs.ops_table import CostRequest, View, graph_table

Dims = Sequence[int | str | None]


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node; tensor names are separated by spaces, ``_`` is a left-out input."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=attributes.pop("name", ""), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims],
    weights: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    *,
    dtype: int = TensorProto.FLOAT,
    outputs: Sequence[str] | None = None,
    opset: int = 17,
    weight_dtype: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model of ``nodes``. ``weights`` have a shape and no values; ``values`` are constants; outputs have no shape."""
    initializers = [
        onnx.TensorProto(name=name, dims=dims, data_type=weight_dtype) for name, dims in (weights or {}).items()
    ]
    initializers += [numpy_helper.from_array(np.asarray(value), name) for name, value in (values or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, dtype, list(dims)) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs or [nodes[-1].output[0]]],
        initializers,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("acme", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def model_table(
    proto: onnx.ModelProto,
    name: str,
    task: Task,
    batch_size: int,
    *,
    precision: str | None = None,
    dimensions: Mapping[str, int] | None = None,
    view: View = None,
) -> OpsTable:
    """The operator table of a model in memory, which never runs."""
    sizes = tuple(sorted((dimensions or {}).items()))
    return graph_table(proto, name, CostRequest(task, batch_size, precision, sizes, view))
