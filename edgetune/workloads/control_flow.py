"""The bodies of ``If``, ``Loop`` and ``Scan`` as separate graphs, and how often each body runs.

A body reads tensors of the enclosing graph by name. Here these tensors become inputs and small constants of the body,
so that its shapes are inferred like those of any graph.

Without a run of the network, constants decide. An ``If`` with a constant condition (exporters compute them from shapes)
has one branch, any other has two. A ``Loop`` runs its constant trip count, an upper bound where its condition may end
it sooner; its states are assumed to keep their initial shapes. A ``Scan`` runs once per slice. Where constants do not
decide (see ``is_settled``), a run of the network does (see ``observed``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads.graphs import attributes, captured, known_shape
from edgetune.workloads.lazy import onnx
from edgetune.workloads.observed import Observation, path_of

CONTROL_FLOW = ("If", "Loop", "Scan")
_COUNTER_AND_CONDITION = 2


@dataclass(frozen=True, slots=True)
class EnclosingGraph:
    """The graph around a body.

    Args:
        values: Type and shape of each tensor, by name.
        constants: Small values known before the network runs, by name.
        opsets: Operator sets of the model.
        ir_version: IR version of the model.
        infer: Infers the shapes of a body in place, given its observation.
        seen: The observation of the graph.
    """

    values: Mapping[str, onnx.ValueInfoProto]
    constants: Mapping[str, Any]
    opsets: Any
    ir_version: int
    infer: Callable[[onnx.ModelProto, Observation], onnx.ModelProto]
    seen: Observation


@dataclass(frozen=True, slots=True)
class Body:
    """A body as a model of its own.

    Args:
        name: Its attribute of the node: ``then_branch``, ``else_branch`` or ``body``.
        model: The body with inferred shapes; tensors that it reads from the enclosing graph are inputs.
        repeats: Runs of the body per run of its operator.
        outer: Names of the inputs that are tensors of the enclosing graph.
        runs: Runs of the body per execution of the network; ``None`` if not observed.
    """

    name: str
    model: onnx.ModelProto
    repeats: int
    outer: frozenset[str]
    runs: int | None = None


def bodies(node: onnx.NodeProto, around: EnclosingGraph) -> tuple[Body, ...]:
    """Return the body that runs, or both branches of an ``If`` with an unknown condition; after a run, those that ran.

    The result is empty for a ``Loop`` of unknown trip count and for a body with unknown inputs or shapes.
    """
    try:
        if node.op_type == "If":
            taken = around.constants.get(node.input[0])
            names = ("then_branch", "else_branch")
            chosen = names if taken is None else (names[0] if bool(taken.ravel()[0]) else names[1],)
            found = [_body(node, name, around, {}, 1) for name in chosen]
        else:
            bound, repeats = _loop(node, around) if node.op_type == "Loop" else _scan(node, around)
            found = [] if repeats is None else [_body(node, "body", around, bound, repeats)]
    except (InputError, KeyError, IndexError):  # the body does not fit its node, or shapes are unknown
        return ()
    return tuple(body for body in found if body.runs is None or body.runs > 0)


def _graph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return {attribute.name: attribute.g for attribute in node.attribute}[name]


def is_settled(node: onnx.NodeProto, around: EnclosingGraph) -> bool:
    """Return whether the graph alone determines which body of a node runs and how often; otherwise a run is needed.

    Not determined are an ``If`` without a constant condition, and a ``Loop`` without a constant trip count, with a
    condition that may end it sooner, or with states that change shape.
    """
    if node.op_type == "Scan":
        return True
    if not node.input or node.input[0] not in around.constants:
        return False
    if node.op_type == "If":
        return True
    found = bodies(node, around)
    return bool(found) and _goes_on(_graph(node, "body")) and _states_keep_shape(node, found[0], around)


def _goes_on(graph: onnx.GraphProto) -> bool:
    """Return whether the condition that a loop's body returns is its input condition or a constant true."""
    if not graph.output or len(graph.input) < _COUNTER_AND_CONDITION:
        return False
    name = graph.output[0].name
    values = {weight.name: weight for weight in graph.initializer}
    for _ in range(len(graph.node) + 1):  # more steps than nodes are a cycle
        if name == graph.input[1].name:
            return True
        maker = next((node for node in graph.node if name in node.output), None)
        if maker is not None and maker.op_type in ("Identity", "Cast") and maker.input:
            name = maker.input[0]
            continue
        if maker is not None and maker.op_type == "Constant":
            values.update((name, attribute.t) for attribute in maker.attribute if attribute.name == "value")
        return name in values and bool(onnx.numpy_helper.to_array(values[name]).all())
    return False


def _states_keep_shape(node: onnx.NodeProto, body: Body, around: EnclosingGraph) -> bool:
    kinds = [value.type.tensor_type for value in body.model.graph.output[1 : len(node.input) - 1]]
    starts = [around.values[name].type.tensor_type if name in around.values else None for name in node.input[2:]]
    return all(start is None or kind.shape == start.shape for kind, start in zip(kinds, starts, strict=False))


def output_values(node: onnx.NodeProto, found: tuple[Body, ...]) -> list[onnx.ValueInfoProto]:
    """Return type and shape of each output of a control-flow node that its bodies determine."""
    settled: dict[str, onnx.ValueInfoProto] = {}
    sliced = 2 if node.op_type == "Loop" else int(attributes(node).get("num_scan_inputs", 0))
    for body in found:
        outputs = body.model.graph.output[node.op_type == "Loop" :]
        for index, (name, value) in enumerate(zip(node.output, outputs, strict=False)):
            dims = known_shape(value)
            if not name or dims is None:
                settled.pop(name, None)
                continue
            if node.op_type != "If" and index >= len(node.input) - sliced:  # behind the states, one slice per run
                dims = (body.repeats, *dims)
            made = onnx.helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, dims)
            if body is not found[0] and (name not in settled or settled[name].type != made.type):
                settled.pop(name, None)
                continue
            settled[name] = made
    return list(settled.values())


Bound = dict[str, "onnx.ValueInfoProto"]


def _loop(node: onnx.NodeProto, around: EnclosingGraph) -> tuple[Bound, int | None]:
    """Return type and shape of each input of a ``Loop``'s body, and the trip count; ``None`` if unknown or 0.

    The trip count is the observed mean, else the constant.
    """
    graph, inside = _graph(node, "body"), around.seen.body(node, "body")
    trips = around.constants.get(node.input[0])
    count = 0 if trips is None else int(trips.ravel()[0])
    if runs := around.seen.runs.get(path_of(around.seen.prefix, node)):
        count = round(inside.runs_of(graph) / runs)
    if count < 1:
        return {}, None
    names = [value.name for value in graph.input]
    bound: Bound = {
        names[0]: onnx.helper.make_tensor_value_info(names[0], onnx.TensorProto.INT64, []),
        names[1]: onnx.helper.make_tensor_value_info(names[1], onnx.TensorProto.BOOL, []),
    }
    for name, outer in zip(names[2:], node.input[2:], strict=True):
        bound[name] = inside.value(name) or around.values[outer]
    return bound, count


def _scan(node: onnx.NodeProto, around: EnclosingGraph) -> tuple[Bound, int | None]:
    """Return type and shape of each input of a ``Scan``'s body, and the number of slices.

    Raises:
        KeyError: the attribute ``num_scan_inputs`` is missing.
    """
    axes = attributes(node).get("scan_input_axes", ())
    states = len(node.input) - int(attributes(node)["num_scan_inputs"])
    bound: Bound = {}
    repeats = None
    for index, (value, outer) in enumerate(zip(_graph(node, "body").input, node.input, strict=True)):
        found = around.values[outer]
        if index >= states:
            dims = [dim.dim_value for dim in found.type.tensor_type.shape.dim]
            repeats = dims.pop(axes[index - states] if axes else 0)
            found = onnx.helper.make_tensor_value_info(value.name, found.type.tensor_type.elem_type, dims)
        bound[value.name] = found
    return bound, repeats


def _body(node: onnx.NodeProto, name: str, around: EnclosingGraph, bound: Bound, repeats: int) -> Body:
    graph, inside = _graph(node, name), around.seen.body(node, name)
    model = onnx.ModelProto(ir_version=around.ir_version, opset_import=around.opsets)
    model.graph.CopyFrom(graph)
    del model.graph.input[:]
    for inner, value in bound.items():
        entry = model.graph.input.add()
        entry.CopyFrom(value)
        entry.name = inner
    outer = captured(graph)
    for outside in sorted(outer):
        if outside in around.constants:
            model.graph.initializer.append(onnx.numpy_helper.from_array(around.constants[outside], outside))
        else:
            model.graph.input.append(around.values[outside])
    runs = inside.runs_of(graph) if around.seen else None
    return Body(name, around.infer(model, inside), repeats, frozenset(outer), runs)
