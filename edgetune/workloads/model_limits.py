"""Checks of untrusted models: limits on their size, and one error for malformed bytes.

Limits are checked before a model is processed: 1 kB of functions that call each other expands to 10^6 operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter

from edgetune import limits
from edgetune.errors import InputError
from edgetune.workloads.graphs import bodies, constant_nodes, nested_bodies, nested_nodes, tensor_bytes
from edgetune.workloads.lazy import onnx

HINT = "check the model with onnx.checker, or export it again"


@contextmanager
def refuse_malformed(what: str) -> Iterator[None]:
    """Convert exceptions of protobuf, onnx and NumPy on a damaged model to an ``InputError`` that names ``what``.

    Invalid UTF-8, unknown types, values that do not fill their shape, missing inputs and recursive functions parse as
    protobuf and fail only when read.

    Args:
        what: The part being read, e.g. ``"the model's weights"``.

    Raises:
        InputError: one of these exceptions was raised.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (ArithmeticError, LookupError, TypeError, ValueError, *_onnx_errors())):
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{what} cannot be read, the model is malformed: {lines[0]}", HINT) from error


def _onnx_errors() -> tuple[type[Exception], ...]:
    """Return the exception types of the onnx library's checks, which share no base class with other errors."""
    return onnx.checker.ValidationError, onnx.shape_inference.InferenceError


_Key = tuple[str, str, str]


def check_model(model: onnx.ModelProto, name: str) -> None:
    """Refuse a model with more operators, bodies within bodies, weights or inputs than the limits allow.

    Operators are counted after inlining of every function, including those in bodies of control flow.

    Raises:
        InputError: the model exceeds a limit, or a function calls itself.
    """
    limits.check("onnx_inputs", max(len(model.graph.input), len(model.graph.output)), name)
    limits.check("onnx_nodes", _inlined_nodes(model, name), name)
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    limits.check("onnx_nesting", _nesting(nodes), name)
    graphs = (model.graph, *nested_bodies(nodes))
    limits.check("onnx_weights", sum(len(each.initializer) + len(each.sparse_initializer) for each in graphs), name)


def check_constants(model: onnx.ModelProto, name: str) -> None:
    """Refuse a model whose operators compute more bytes from constants than the limit allows.

    ONNX Runtime computes these tensors when it optimises a model, and keeps them; one ``ConstantOfShape`` can take
    gigabytes.

    Args:
        model: The model with inferred shapes; tensors of unknown shape are not counted.
        name: Name of the model, for the message.

    Raises:
        InputError: the bytes exceed the limit ``constant_bytes`` and eight times the weights of the model.
    """
    graph = model.graph
    declared = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.output)}
    stored = {each.name: tensor_bytes(each.data_type, each.dims) for each in graph.initializer}
    made = 0
    for node in constant_nodes(graph.node, stored, operands=lambda node: node.input):
        for output in node.output if node.op_type != "Constant" else ():
            if output in declared and declared[output].HasField("shape"):
                made += tensor_bytes(
                    declared[output].elem_type, [size.dim_value for size in declared[output].shape.dim]
                )
    limits.check("constant_bytes", made, name, at_least=8 * sum(stored.values()))


def check_inputs(inputs: Iterable[onnx.ValueInfoProto], name: str, *, batch_size: int) -> None:
    """Refuse a model whose inputs take more bytes per sample than the limit ``input_bytes`` allows.

    Args:
        inputs: Its data inputs with fixed dimensions, see ``dimensions.data_inputs``.
        name: Name of the model, for the message.
        batch_size: Samples per minibatch.

    Raises:
        InputError: the inputs exceed the limit.
    """
    types = [value.type.tensor_type for value in inputs]
    fed = sum(tensor_bytes(each.elem_type, [size.dim_value for size in each.shape.dim]) for each in types)
    limits.check("input_bytes", fed // batch_size, name)


def _nesting(nodes: Iterable[onnx.NodeProto], level: int = 1) -> int:
    """Return the number of operators in bodies, each counted once for each body around it."""
    inner = (body.node for node in nodes for body in bodies(node))
    return sum(level * len(each) + _nesting(each, level + 1) for each in inner)


def _inlined_nodes(model: onnx.ModelProto, name: str) -> int:
    """Return the number of operators after inlining of functions; each function's own count is computed once."""
    functions = {_key(each.domain, each.name, each): each for each in model.functions}
    calls = {
        key: {_key(n.domain, n.op_type, n) for n in nested_nodes(f.node)} & functions.keys()
        for key, f in functions.items()
    }
    sizes: dict[_Key, int] = {}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        circle = " calls ".join(key[1] for key in error.args[1])
        raise InputError(f"{name} has functions that call themselves: {circle}", "export the model again") from None
    for key in order:
        sizes[key] = _count(functions[key].node, sizes)
    return _count(model.graph.node, sizes)


def _count(nodes: Sequence[onnx.NodeProto], sizes: Mapping[_Key, int]) -> int:
    return sum(sizes.get(_key(node.domain, node.op_type, node), 1) for node in nested_nodes(nodes))


def _key(domain: str, name: str, of: onnx.NodeProto | onnx.FunctionProto) -> _Key:
    return domain, name, getattr(of, "overload", "")
