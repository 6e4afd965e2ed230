"""Traversal of ONNX graphs, including bodies of control flow: reads and dependencies of nodes, and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads.lazy import onnx


def bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs inside a control-flow node."""
    found = []
    for attribute in node.attribute:
        found += [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
    return found


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node that are numbers, text or lists of integers, by name."""
    kinds = onnx.AttributeProto
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type == kinds.INT:
            found[attribute.name] = int(attribute.i)
        elif attribute.type == kinds.FLOAT:
            found[attribute.name] = float(attribute.f)
        elif attribute.type == kinds.STRING:
            found[attribute.name] = attribute.s.decode(errors="replace")
        elif attribute.type == kinds.INTS:
            found[attribute.name] = tuple(int(value) for value in attribute.ints)
    return found


def known_shape(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the sizes of a tensor; ``None`` if one of them is unknown."""
    kind = value.type.tensor_type
    if not kind.HasField("shape") or not all(dim.HasField("dim_value") for dim in kind.shape.dim):
        return None
    return tuple(int(dim.dim_value) for dim in kind.shape.dim)


def nested_bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Yield the bodies of nodes, and the bodies inside these, at any depth."""
    for node in nodes:
        for body in bodies(node):
            yield body
            yield from nested_bodies(body.node)


def nested_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and the nodes of their bodies."""
    yield from nodes
    for body in nested_bodies(nodes):
        yield from body.node


def captured(graph: onnx.GraphProto) -> set[str]:
    """Return the tensors of enclosing graphs that a body, or a body in it, reads."""
    made = {value.name for value in graph.input} | {weight.name for weight in graph.initializer}
    made |= {weight.values.name for weight in graph.sparse_initializer}
    found: set[str] = set()
    for node in graph.node:
        found |= {name for name in node.input if name and name not in made}
        for body in bodies(node):
            found |= captured(body) - made
        made |= set(node.output)
    return found | {value.name for value in graph.output if value.name not in made}


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that a node and its bodies read from its graph, each once."""
    found = [name for name in node.input if name]
    for body in bodies(node):
        found += sorted(captured(body))
    return list(dict.fromkeys(found))


def needed_nodes(nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that the wanted tensors depend on, in the order of the graph."""
    names, needed = set(wanted), []
    for node in reversed(nodes):
        if not names.isdisjoint(node.output):
            needed.append(node)
            names.update(reads(node))
    return needed[::-1]


def constant_nodes(
    nodes: Iterable[onnx.NodeProto],
    known: Collection[str],
    *,
    operands: Callable[[onnx.NodeProto], Iterable[str]] = reads,
    varies: Callable[[onnx.NodeProto], bool] = lambda _: False,
) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that depend on no input of the network, in the order of the graph.

    Args:
        nodes: Nodes in topological order.
        known: Names of weights and constants.
        operands: Returns the tensors that a node reads.
        varies: Returns whether the outputs of a node vary although its operands are constant.
    """
    constants = {*known, ""}
    for node in nodes:
        if constants.issuperset(operands(node)) and not varies(node):
            constants.update(node.output)
            yield node


def tensor_bytes(data_type: int, sizes: Iterable[int]) -> int:
    """Return the bytes of a tensor of an ONNX element type.

    Raises:
        InputError: ONNX has no such type.
    """
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize) * math.prod(sizes)
    except KeyError:
        message = f"a tensor has element type {data_type}, which ONNX does not define"
        raise InputError(message, "the file is damaged: export the network again") from None
