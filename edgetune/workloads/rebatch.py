"""Giving a graph that was exported with a fixed batch another one, where that is safe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edgetune.errors import InputError
from edgetune.workloads import shapes
from edgetune.workloads.batch import Batch, describe_axes
from edgetune.workloads.batch_axis import BatchPosition, MixesSamplesError, NotFollowedError, follow, label

if TYPE_CHECKING:
    import onnx

_STATE_INPUTS = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Initial states of recurrent layers, which shape inference does not compare with the batch."""


def rebatch(model: onnx.ModelProto, batch: Batch, batch_size: int, given: shapes.Given) -> onnx.ModelProto:
    """Return ``model``, changed in place, with another size along its batch axes.

    The batch is followed through the graph; shapes that the exporter wrote into ``Reshape`` nodes are changed where the
    batch lies in them. Then all shapes are inferred again, and each tensor must have grown along its batch axis alone.

    Args:
        model: With the shapes of the exported batch.
        batch: Its axes, and the size that it was exported for.
        batch_size: The one wanted.
        given: Sizes of tensors whose shape depends on the data.

    Raises:
        InputError: there is no batch axis, or a node, named, has the exported batch built in.
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
        pass  # shapes are compared as far as the batch was followed, outputs by who runs it
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
    """Write the batch into the constant targets of reshapes; a target that several share is changed for each alone."""
    import numpy as np
    from onnx import numpy_helper

    constants = shapes.small_constants(graph)
    for node in graph.node:
        if node.op_type != "Reshape" or node.output[0] not in places or node.input[1] not in constants:
            continue
        target, axis = constants[node.input[1]].astype(np.int64).copy(), places[node.output[0]].axis
        if target[axis] > 0:
            target[axis] = before[node.output[0]][axis] // exported * size
            name = f"{node.output[0]}/shape_for_batch_{size}"
            graph.initializer.append(numpy_helper.from_array(target, name))
            node.input[1] = name


def _check_shapes(
    graph: onnx.GraphProto,
    places: Mapping[str, BatchPosition],
    before: Mapping[str, tuple[int, ...]],
    batch: Batch,
    size: int,
) -> None:
    """Refuse where a tensor did not grow with the batch, or an operator's inputs no longer fit together."""
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
