"""The bodies of ``If``, ``Loop`` and ``Scan`` as graphs of their own, and how often they run.

A body reads tensors of the graph around it by name. Here these become its inputs and small constants, so that its
shapes are inferred like any graph's.

What is known before the network runs decides: an ``If`` whose condition is a constant (exporters make them of shapes)
has one branch, any other two; a ``Loop`` runs as often as its constant trip count says, which is an upper bound where
its condition may end it sooner; a ``Scan`` runs once per slice. A state of a ``Loop`` is taken to keep the shape it
starts with. A run of the network (see ``observed``) decides what is not known so, see ``is_settled``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads.graphs import captured
from edgetune.workloads.lazy import onnx
from edgetune.workloads.observed import NOTHING, Observation, body_prefix, path_of

CONTROL_FLOW = ("If", "Loop", "Scan")
_FEWEST = 1
_COUNTER_AND_CONDITION = 2
_ONCE = 1


@dataclass(frozen=True, slots=True)
class ObservedGraph:
    """What a run showed of one graph: the main one, or a body.

    Args:
        observed: Of the whole network.
        prefix: Of the graph's paths in it.
    """

    observed: Observation = NOTHING
    prefix: str = ""

    def value(self, name: str) -> onnx.ValueInfoProto | None:
        """Return type and shape of a tensor as it was seen; ``None`` where it was not."""
        return self.observed.value(self.prefix, name)

    def body(self, node: onnx.NodeProto, attribute: str) -> ObservedGraph:
        """Return the same of a body of one of the graph's operators."""
        return ObservedGraph(self.observed, body_prefix(path_of(self.prefix, node), attribute))


@dataclass(frozen=True, slots=True)
class EnclosingGraph:
    """What a body sees of the graph around it.

    Args:
        values: Type and shape of each tensor, by name.
        constants: Small values known before the network runs, by name.
        opsets: Operator sets of the model.
        ir_version: Of the model.
        infer: Infers the shapes of a body in place, given what its paths begin with.
        seen: What a run showed.
    """

    values: Mapping[str, onnx.ValueInfoProto]
    constants: Mapping[str, Any]
    opsets: Any
    ir_version: int
    infer: Callable[[onnx.ModelProto, str], onnx.ModelProto]
    seen: ObservedGraph


@dataclass(frozen=True, slots=True)
class Body:
    """A body ready to be read.

    Args:
        name: Attribute it is under: ``then_branch``, ``else_branch`` or ``body``.
        model: The body with shapes inferred; what it reads from around it are inputs of it.
        repeats: How often it runs each time its operator does.
        outer: Names of the inputs that are tensors of the graph around it.
        runs: How often it runs in one execution of the network, where a run showed it.
    """

    name: str
    model: onnx.ModelProto
    repeats: int
    outer: frozenset[str]
    runs: int | None = None


def bodies(node: onnx.NodeProto, around: EnclosingGraph) -> tuple[Body, ...]:
    """Return the body that runs, or both branches of an ``If`` whose condition is not known; none where unknown.

    None: a ``Loop`` without constant trip count, or a body whose inputs or own shapes are not known. After a run they
    are the bodies that ran.
    """
    try:
        found = _bodies(node, around)
    except (InputError, KeyError, IndexError):  # nothing is known of a body that does not fit its node
        return ()
    return tuple(body for body in found if body.runs is None or body.runs > 0)


def _bodies(node: onnx.NodeProto, around: EnclosingGraph) -> tuple[Body, ...]:
    graphs = {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}
    if node.op_type == "If":
        taken = around.constants.get(node.input[0])
        names = ("then_branch", "else_branch")
        chosen = names if taken is None else (names[0] if bool(taken.ravel()[0]) else names[1],)
        return tuple(_body(node, name, around, {}, _ONCE) for name in chosen)
    graph = graphs["body"]
    bound, repeats = _loop(node, graph, around) if node.op_type == "Loop" else _scan(node, graph, around)
    return (_body(node, "body", around, bound, repeats),) if repeats is not None else ()


def is_settled(node: onnx.NodeProto, around: EnclosingGraph) -> bool:
    """Return whether the graph alone tells which body of a node runs and how often; else a run has to.

    It does not tell of an ``If`` without constant condition, nor of a ``Loop`` without constant trip count, one that
    its condition may end sooner, or one whose states change their shape.
    """
    if node.op_type == "Scan":
        return True
    if not node.input or node.input[0] not in around.constants:
        return False
    graph = next((attribute.g for attribute in node.attribute if attribute.name == "body"), None)
    return graph is None or (_goes_on(graph) and _states_keep_shape(node, around))


def _goes_on(graph: onnx.GraphProto) -> bool:
    """Return whether the condition that a loop's body makes is the one that it is given, or always true."""
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


def _states_keep_shape(node: onnx.NodeProto, around: EnclosingGraph) -> bool:
    found = bodies(node, around)
    if not found:
        return False
    states = len(node.input) - 2
    kinds = [value.type.tensor_type for value in found[0].model.graph.output[1 : 1 + states]]
    starts = [around.values[name].type.tensor_type if name in around.values else None for name in node.input[2:]]
    return all(start is None or kind.shape == start.shape for kind, start in zip(kinds, starts, strict=False))


def output_values(node: onnx.NodeProto, found: tuple[Body, ...]) -> list[onnx.ValueInfoProto]:
    """Return type and shape of those outputs of a control-flow node that its bodies settle."""
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
    """Return how many inputs of a ``Scan`` are sliced.

    Raises:
        KeyError: it does not say.
    """
    return {attribute.name: int(attribute.i) for attribute in node.attribute}["num_scan_inputs"]


def _loop(
    node: onnx.NodeProto, graph: onnx.GraphProto, around: EnclosingGraph
) -> tuple[dict[str, onnx.ValueInfoProto | None], int | None]:
    """Return what the inputs of a ``Loop``'s body are, and its trip count."""
    trips = _trips(node, graph, around)
    if trips is None or trips < _FEWEST:
        return {}, None
    names = [value.name for value in graph.input]
    bound: dict[str, onnx.ValueInfoProto | None] = {
        names[0]: onnx.helper.make_tensor_value_info(names[0], onnx.TensorProto.INT64, []),
        names[1]: onnx.helper.make_tensor_value_info(names[1], onnx.TensorProto.BOOL, []),
    }
    inside = around.seen.body(node, "body")
    for name, outer in zip(names[2:], node.input[2:], strict=True):
        bound[name] = inside.value(name) or around.values[outer]
    return bound, trips


def _trips(node: onnx.NodeProto, graph: onnx.GraphProto, around: EnclosingGraph) -> int | None:
    """Return how often a ``Loop`` turns: as often as it was seen to, else as its constant says."""
    path, seen = path_of(around.seen.prefix, node), around.seen.observed
    if runs := seen.runs.get(path):
        return round(seen.body_runs(body_prefix(path, "body"), graph) / runs)
    trips = around.constants.get(node.input[0]) if node.input[0] else None
    return None if trips is None else int(trips.ravel()[0])


def _scan(
    node: onnx.NodeProto, graph: onnx.GraphProto, around: EnclosingGraph
) -> tuple[dict[str, onnx.ValueInfoProto | None], int | None]:
    """Return what the inputs of a ``Scan``'s body are, and how many slices there are."""
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
    node: onnx.NodeProto,
    name: str,
    around: EnclosingGraph,
    bound: Mapping[str, onnx.ValueInfoProto | None],
    repeats: int,
) -> Body:
    graph = {attribute.name: attribute.g for attribute in node.attribute}[name]
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
            model.graph.initializer.append(onnx.numpy_helper.from_array(around.constants[outside], outside))
        else:
            model.graph.input.append(around.values[outside])
    inside = around.seen.body(node, name)
    runs = inside.observed.body_runs(inside.prefix, graph) if around.seen.observed else None
    return Body(name, around.infer(model, inside.prefix), repeats, frozenset(outer), runs)


def _set_shape(value: onnx.ValueInfoProto, dims: list[int]) -> None:
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for size in dims:
        shape.dim.add(dim_value=size)
