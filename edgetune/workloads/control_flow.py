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
from edgetune.workloads.observed import NOTHING, Observation, body_prefix, path_of

CONTROL_FLOW = ("If", "Loop", "Scan")
_FEWEST = 1
_COUNTER_AND_CONDITION = 2
_ONCE = 1


@dataclass(frozen=True, slots=True)
class ObservedGraph:
    """The part of an observation that belongs to one graph: the main graph, or a body.

    Args:
        observed: Observation of the whole network.
        prefix: Prefix of the graph's paths in the observation.
    """

    observed: Observation = NOTHING
    prefix: str = ""

    def value(self, name: str) -> onnx.ValueInfoProto | None:
        """Return the observed type and shape of a tensor; ``None`` if it was not observed."""
        return self.observed.value(self.prefix, name)

    def body(self, node: onnx.NodeProto, attribute: str) -> ObservedGraph:
        """Return the observation of a body of ``node``."""
        return ObservedGraph(self.observed, body_prefix(path_of(self.prefix, node), attribute))


@dataclass(frozen=True, slots=True)
class EnclosingGraph:
    """The graph around a body.

    Args:
        values: Type and shape of each tensor, by name.
        constants: Small values known before the network runs, by name.
        opsets: Operator sets of the model.
        ir_version: IR version of the model.
        infer: Infers the shapes of a body in place, given the prefix of its paths.
        seen: The observation of the graph.
    """

    values: Mapping[str, onnx.ValueInfoProto]
    constants: Mapping[str, Any]
    opsets: Any
    ir_version: int
    infer: Callable[[onnx.ModelProto, str], onnx.ModelProto]
    seen: ObservedGraph


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
        found = _bodies(node, around)
    except (InputError, KeyError, IndexError):  # the body does not fit its node, or shapes are unknown
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
    """Return whether the graph alone determines which body of a node runs and how often; otherwise a run is needed.

    Not determined are an ``If`` without a constant condition, and a ``Loop`` without a constant trip count, with a
    condition that may end it sooner, or with states that change shape.
    """
    if node.op_type == "Scan":
        return True
    if not node.input or node.input[0] not in around.constants:
        return False
    graph = next((attribute.g for attribute in node.attribute if attribute.name == "body"), None)
    return graph is None or (_goes_on(graph) and _states_keep_shape(node, around))


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


def _states_keep_shape(node: onnx.NodeProto, around: EnclosingGraph) -> bool:
    found = bodies(node, around)
    if not found:
        return False
    states = len(node.input) - 2
    kinds = [value.type.tensor_type for value in found[0].model.graph.output[1 : 1 + states]]
    starts = [around.values[name].type.tensor_type if name in around.values else None for name in node.input[2:]]
    return all(start is None or kind.shape == start.shape for kind, start in zip(kinds, starts, strict=False))


def output_values(node: onnx.NodeProto, found: tuple[Body, ...]) -> list[onnx.ValueInfoProto]:
    """Return type and shape of each output of a control-flow node that its bodies determine."""
    settled: dict[str, onnx.ValueInfoProto] = {}
    for body in found:
        outputs = body.model.graph.output
        states = _state_count(node)
        made = outputs[1:] if node.op_type == "Loop" else outputs
        for index, (name, value) in enumerate(zip(node.output, made, strict=False)):
            dims = known_shape(value)
            if not name or dims is None:
                settled.pop(name, None)
                continue
            copy = onnx.ValueInfoProto(name=name)
            copy.type.CopyFrom(value.type)
            if states is not None and index >= states:  # one slice per run of the body
                _set_shape(copy, [body.repeats, *dims])
            if body is not found[0] and (name not in settled or settled[name].type != copy.type):
                settled.pop(name, None)
                continue
            settled[name] = copy
    return list(settled.values())


def _state_count(node: onnx.NodeProto) -> int | None:
    """Return the number of state outputs, which precede the scan outputs (one slice per run); ``None`` for ``If``."""
    if node.op_type == "If":
        return None
    if node.op_type == "Loop":
        return len(node.input) - 2
    return len(node.input) - _scanned(node)


def _scanned(node: onnx.NodeProto) -> int:
    """Return the number of sliced inputs of a ``Scan``.

    Raises:
        KeyError: the attribute ``num_scan_inputs`` is missing.
    """
    return int(attributes(node)["num_scan_inputs"])


def _loop(
    node: onnx.NodeProto, graph: onnx.GraphProto, around: EnclosingGraph
) -> tuple[dict[str, onnx.ValueInfoProto | None], int | None]:
    """Return type and shape of each input of a ``Loop``'s body, and the trip count; ``None`` if unknown or 0."""
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
    """Return the trip count of a ``Loop``: the observed mean, else the constant; ``None`` if unknown."""
    path, seen = path_of(around.seen.prefix, node), around.seen.observed
    if runs := seen.runs.get(path):
        return round(seen.body_runs(body_prefix(path, "body"), graph) / runs)
    trips = around.constants.get(node.input[0]) if node.input[0] else None
    return None if trips is None else int(trips.ravel()[0])


def _scan(
    node: onnx.NodeProto, graph: onnx.GraphProto, around: EnclosingGraph
) -> tuple[dict[str, onnx.ValueInfoProto | None], int | None]:
    """Return type and shape of each input of a ``Scan``'s body, and the number of slices."""
    axes = attributes(node).get("scan_input_axes", ())
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
