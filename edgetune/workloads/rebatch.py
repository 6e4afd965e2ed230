"""Giving a graph that was exported with a fixed batch another one, where that is safe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from edgetune.errors import InputError
from edgetune.workloads import shapes

if TYPE_CHECKING:
    import onnx

_STATE_INPUTS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Initial states of recurrent layers, whose second dimension is the batch."""


def rebatch(
    model: onnx.ModelProto,
    inputs: list[onnx.ValueInfoProto],
    old_batch: int,
    batch_size: int,
    given: shapes.Given,
) -> onnx.ModelProto:
    """Return ``model``, changed in place, with another first dimension in every input that has the old one.

    Shapes that the exporter wrote into ``Reshape`` nodes are patched where they start with the old batch and reshape
    something computed from the inputs. Then all shapes are inferred again: every operator that had a shape must have
    one still, and each ``Reshape`` must keep its number of elements.

    Args:
        model: With fixed input shapes.
        inputs: The model's data inputs (the same objects as in the model).
        old_batch: First dimension that the model was exported with.
        batch_size: The one wanted.
        given: Sizes of tensors whose shape depends on the data.

    Raises:
        InputError: a node has the old batch built in, named.
    """
    before = set(shapes.known_shapes(shapes.infer(model, given).graph))
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        if dims and dims[0].dim_value == old_batch:
            dims[0].dim_value = batch_size
    dependent = _dependent(model.graph, {value.name for value in inputs})
    _patch_reshapes(model.graph, dependent, old_batch, batch_size)
    del model.graph.value_info[:]  # shapes of the old batch
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    shapes.infer(model, given)
    _check_inferred(model.graph, before, old_batch, batch_size)
    _check_built_in(model.graph, dependent, old_batch, batch_size)
    return model


def _refusal(old_batch: int, batch_size: int, reason: str) -> InputError:
    return InputError(
        f"the model was exported with batch {old_batch} and cannot be given {batch_size}: {reason}",
        f"export it with an open batch dimension, or use batch size {old_batch}",
    )


def _dependent(graph: onnx.GraphProto, names: set[str]) -> set[str]:
    """Return the tensors computed from the inputs' values (not from their shapes alone)."""
    found = set(names)
    for node in graph.node:
        if node.op_type not in ("Shape", "Size") and any(name in found for name in node.input):
            found.update(node.output)
    return found


def _patch_reshapes(graph: onnx.GraphProto, dependent: set[str], old_batch: int, batch_size: int) -> None:
    import numpy as np
    from onnx import numpy_helper

    constants = {weight.name: weight for weight in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
    patched: set[str] = set()
    for node in graph.node:
        if node.op_type != "Reshape" or node.input[0] not in dependent or node.input[1] not in constants:
            continue
        target = numpy_helper.to_array(constants[node.input[1]]).astype(np.int64)
        if target.size == 0 or target[0] != old_batch:
            continue
        name = f"{node.input[1]}/batch_{batch_size}"
        if name not in patched:
            target = target.copy()
            target[0] = batch_size
            graph.initializer.append(numpy_helper.from_array(target, name))
            patched.add(name)
        node.input[1] = name


def _label(node: onnx.NodeProto) -> str:
    return f"node {node.name or node.output[0]!r} ({node.op_type})"


def _check_inferred(graph: onnx.GraphProto, before: set[str], old_batch: int, batch_size: int) -> None:
    """Refuse where an operator's inputs have shapes but no longer fit together: inference then leaves none."""
    known = shapes.known_shapes(graph)
    for node in graph.node:
        fits = all(name in known for name in node.output if name in before)
        if not fits and all(name in known for name in node.input if name in before):
            listed = " and ".join(str(list(known[name])) for name in node.input if name in known)
            raise _refusal(old_batch, batch_size, f"{_label(node)} cannot take shapes {listed}")


def _check_built_in(graph: onnx.GraphProto, dependent: set[str], old_batch: int, batch_size: int) -> None:
    """Refuse where a reshape or an initial state still has the old batch."""
    known = shapes.known_shapes(graph)
    for node in graph.node:
        label = _label(node)
        if node.op_type == "Reshape" and node.input[0] in dependent:
            before, after = known.get(node.input[0]), known.get(node.output[0])
            if before is not None and after is not None and math.prod(before) != math.prod(after):
                raise _refusal(old_batch, batch_size, f"{label} has a shape built in, {list(after)}")
        for index in _STATE_INPUTS.get(node.op_type, ()):
            state = known.get(node.input[index]) if index < len(node.input) and node.input[index] else None
            axis = 0 if any(a.name == "layout" and a.i for a in node.attribute) else 1
            if state is not None and state[axis] != batch_size:
                raise _refusal(old_batch, batch_size, f"{label} has initial states for {state[axis]} samples")
