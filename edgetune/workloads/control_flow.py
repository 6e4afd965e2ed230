"""The bodies of ``If``, ``Loop`` and ``Scan`` as graphs of their own, and how often they run.

A body reads tensors of the graph around it by name. Here these become its inputs and small constants, so that its
shapes are inferred like any graph's.

What is known before the network runs decides: an ``If`` whose condition is a constant (exporters make them of shapes)
has one branch, any other two; a ``Loop`` runs as often as its constant trip count says, which is an upper bound where
its condition may end it sooner; a ``Scan`` runs once per slice. A state of a ``Loop`` is taken to keep the shape it
starts with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetune.errors import InputError

if TYPE_CHECKING:
    import onnx

CONTROL_FLOW = ("If", "Loop", "Scan")
_FEWEST = 1
_ONCE = 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a body sees of the graph around it.

    Args:
        values: Type and shape of each tensor, by name.
        constants: Small values known before the network runs, by name.
        opsets: Operator sets of the model.
        ir_version: Of the model.
        infer: Infers the shapes of a model, in place.
    """

    values: Mapping[str, onnx.ValueInfoProto]
    constants: Mapping[str, Any]
    opsets: Any
    ir_version: int
    infer: Callable[[onnx.ModelProto], onnx.ModelProto]


@dataclass(frozen=True, slots=True)
class Body:
    """A body ready to be read.

    Args:
        name: Attribute it is under: ``then_branch``, ``else_branch`` or ``body``.
        model: The body with shapes inferred; what it reads from around it are inputs of it.
        repeats: How often it runs.
        outer: Names of the inputs that are tensors of the graph around it.
    """

    name: str
    model: onnx.ModelProto
    repeats: int
    outer: frozenset[str]


def bodies(node: onnx.NodeProto, around: Surroundings) -> tuple[Body, ...]:
    """Return the body that runs, or both branches of an ``If`` whose condition is not known; none where unknown.

    None: a ``Loop`` without constant trip count, or a body whose inputs or own shapes are not known.
    """
    graphs = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
    try:
        if node.op_type == "If":
            taken = around.constants.get(node.input[0])
            names = ("then_branch", "else_branch")
            chosen = names if taken is None else (names[0] if bool(taken.ravel()[0]) else names[1],)
            return tuple(_body(name, graphs[name], {}, _ONCE, around) for name in chosen)
        graph = graphs["body"]
        bound, repeats = _loop(node, graph, around) if node.op_type == "Loop" else _scan(node, graph, around)
        return (_body("body", graph, bound, repeats, around),) if repeats is not None else ()
    except (InputError, KeyError, IndexError):  # nothing is known of a body that does not fit its node
        return ()


def output_values(node: onnx.NodeProto, found: tuple[Body, ...]) -> list[onnx.ValueInfoProto]:
    """Return type and shape of those outputs of a control-flow node that its bodies settle."""
    import onnx

    settled: dict[str, onnx.ValueInfoProto] = {}
    for body in found:
        outputs = body.model.graph.output
        states = _state_count(node)
        made = outputs[1:] if node.op_type == "Loop" else outputs
        for index, (name, value) in enumerate(zip(node.output, made, strict=False)):
            kind = value.type.tensor_type
            if not name or not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim):
                settled.pop(name, None)
                continue
            copy = onnx.ValueInfoProto(name=name)
            copy.type.CopyFrom(value.type)
            if states is not None and index >= states:  # one slice for each time the body ran
                dims = [dim.dim_value for dim in kind.shape.dim]
                _set_shape(copy, [body.repeats, *dims])
            if body is not found[0] and (name not in settled or settled[name].type != copy.type):
                settled.pop(name, None)
                continue
            settled[name] = copy
    return list(settled.values())


def _state_count(node: onnx.NodeProto) -> int | None:
    """Return how many outputs are states, before those that collect a slice per run; ``None`` for an ``If``."""
    if node.op_type == "If":
        return None
    if node.op_type == "Loop":
        return len(node.input) - 2
    return len(node.input) - _scanned(node)


def _scanned(node: onnx.NodeProto) -> int:
    return next(int(a.i) for a in node.attribute if a.name == "num_scan_inputs")


def _loop(
    node: onnx.NodeProto, graph: onnx.GraphProto, around: Surroundings
) -> tuple[dict[str, onnx.ValueInfoProto | None], int | None]:
    """Return what the inputs of a ``Loop``'s body are, and its trip count."""
    from onnx import TensorProto, helper

    trips = around.constants.get(node.input[0]) if node.input[0] else None
    if trips is None or int(trips.ravel()[0]) < _FEWEST:
        return {}, None
    names = [value.name for value in graph.input]
    bound: dict[str, onnx.ValueInfoProto | None] = {
        names[0]: helper.make_tensor_value_info(names[0], TensorProto.INT64, []),
        names[1]: helper.make_tensor_value_info(names[1], TensorProto.BOOL, []),
    }
    for name, outer in zip(names[2:], node.input[2:], strict=True):
        bound[name] = around.values[outer]
    return bound, int(trips.ravel()[0])


def _scan(
    node: onnx.NodeProto, graph: onnx.GraphProto, around: Surroundings
) -> tuple[dict[str, onnx.ValueInfoProto | None], int | None]:
    """Return what the inputs of a ``Scan``'s body are, and how many slices there are."""
    import onnx

    axes = next((list(a.ints) for a in node.attribute if a.name == "scan_input_axes"), [])
    states = len(node.input) - _scanned(node)
    bound: dict[str, onnx.ValueInfoProto | None] = {}
    repeats = None
    for index, (value, outer) in enumerate(zip(graph.input, node.input, strict=True)):
        found = around.values[outer]
        if index >= states:
            dims = [dim.dim_value for dim in found.type.tensor_type.shape.dim]
            repeats = dims.pop(axes[index - states] if axes else 0)
            part = onnx.ValueInfoProto(name=value.name)
            part.type.CopyFrom(found.type)
            _set_shape(part, dims)
            found = part
        bound[value.name] = found
    return bound, repeats


def _body(
    name: str,
    graph: onnx.GraphProto,
    bound: Mapping[str, onnx.ValueInfoProto | None],
    repeats: int,
    around: Surroundings,
) -> Body:
    import onnx
    from onnx import numpy_helper

    model = onnx.ModelProto(ir_version=around.ir_version, opset_import=around.opsets)
    model.graph.CopyFrom(graph)
    del model.graph.input[:]
    for inner, value in bound.items():
        if value is not None:
            entry = model.graph.input.add()
            entry.CopyFrom(value)
            entry.name = inner
    outer = captured(graph)
    for outside in sorted(outer):
        if outside in around.constants:
            model.graph.initializer.append(numpy_helper.from_array(around.constants[outside], outside))
        else:
            model.graph.input.append(around.values[outside])
    return Body(name, around.infer(model), repeats, frozenset(outer))


def captured(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors that a body, or a body in it, reads from around it."""
    made = {value.name for value in graph.input} | {weight.name for weight in graph.initializer}
    made |= {weight.values.name for weight in graph.sparse_initializer}
    found: set[str] = set()
    for node in graph.node:
        found |= {name for name in node.input if name and name not in made}
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= captured(attribute.g) - made
        made |= set(node.output)
    return found | {value.name for value in graph.output if value.name not in made}


def _set_shape(value: onnx.ValueInfoProto, dims: list[int]) -> None:
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for size in dims:
        shape.dim.add(dim_value=size)
