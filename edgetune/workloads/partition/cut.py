"""Where a graph is cut: before each operator that reads a kernel, a matrix or a table.

      image                        pieces
        |
      Conv W1 ------------.        0   Conv, Relu
      Relu                |
        |                 |
      Conv W2 Relu        |        1   Conv, Relu
        |                 |
      Conv W3             |        2   Conv, Add, Relu: an operator without weights goes where its last input is made
      Add <---------------'
      Relu                         so each piece reads only from pieces before it, whatever branches there are
        |
      Gemm W4                      3   Gemm

Vectors (biases, scales, statistics) belong to the operator before them and start no piece. Operators before the first
weight go with it. What is computed from constants alone is computed again in every piece that reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgetune.workloads.partition.stored_graph import StoredGraph, reads

if TYPE_CHECKING:
    import onnx

Kind = Literal["conv", "fc", "other"]

_CONV = frozenset(
    {"Conv", "ConvTranspose", "FusedConv", "NhwcFusedConv", "QLinearConv", "ConvInteger", "DeformConv", "NhwcConv"}
)
_FC = frozenset(
    {"Gemm", "MatMul", "FusedGemm", "FusedMatMul", "QGemm", "QLinearMatMul", "MatMulInteger", "DynamicQuantizeMatMul"}
    | {"MatMulIntegerToFloat", "MatMulNBits", "GemmFloat8", "FusedMatMulActivation"}
)


@dataclass(frozen=True, slots=True)
class LayerNodes:
    """What becomes one layer.

    Args:
        name: Of the operator that starts it.
        kind: What that operator is.
        nodes: In the order of the graph.
    """

    name: str
    kind: Kind
    nodes: tuple[onnx.NodeProto, ...]


def cut(graph: StoredGraph) -> tuple[LayerNodes, ...]:
    """Return the pieces of a graph in an order in which each reads only from those before it."""
    static = static_nodes(graph)
    groups: list[list[onnx.NodeProto]] = [[]]
    starts: list[onnx.NodeProto | None] = [None]
    made: dict[str, int] = {}
    for node in graph.model.graph.node:
        if node.output[0] in static:
            continue
        if _starts(node, graph, static):
            if starts[-1] is not None:
                groups.append([])
                starts.append(None)
            starts[-1] = node
            index = len(groups) - 1
        else:
            index = max((made[name] for name in reads(node) if name in made), default=0)
        groups[index].append(node)
        made.update(dict.fromkeys(node.output, index))
    return tuple(_piece(groups[first:last], starts[first:last], static) for first, last in _spans(graph, groups, made))


def uncut(graph: StoredGraph) -> tuple[LayerNodes, ...]:
    """Return the graph as one piece."""
    nodes = tuple(graph.model.graph.node)
    return (LayerNodes(graph.model.graph.name or "whole", "other", nodes),)


def static_nodes(graph: StoredGraph) -> dict[str, onnx.NodeProto]:
    """Return the operators that depend on no input of the network, by the tensors they make.

    What is drawn at random is made once, and what is an output of the network is made by a piece of its own.
    """
    outputs = {value.name for value in graph.model.graph.output}
    known = {*graph.weights, *graph.constants}
    found: dict[str, onnx.NodeProto] = {}
    for node in graph.model.graph.node:
        random = node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial")
        if not random and known.issuperset(reads(node)) and outputs.isdisjoint(node.output):
            known.update(node.output)
            found.update(dict.fromkeys((name for name in node.output if name), node))
    return found


def weights_of(names: Iterable[str], graph: StoredGraph, static: dict[str, onnx.NodeProto]) -> list[str]:
    """Return the weights among some tensors, and those that static ones among them are computed from; each once."""
    found: dict[str, None] = {}
    for name in names:
        if name in graph.weights:
            found[name] = None
        elif name in static:
            found.update(dict.fromkeys(weights_of(reads(static[name]), graph, static)))
    return list(found)


def _starts(node: onnx.NodeProto, graph: StoredGraph, static: dict[str, onnx.NodeProto]) -> bool:
    """Whether a node reads a weight that is more than a vector."""
    weights = (graph.weights[name] for name in weights_of(reads(node), graph, static))
    return any(sum(size > 1 for size in weight.shape) > 1 for weight in weights)


def _spans(graph: StoredGraph, groups: list[list[onnx.NodeProto]], made: dict[str, int]) -> list[tuple[int, int]]:
    """Return first and end of the groups that form each piece: more than one where something cannot be handed over.

    That is whatever is no tensor (a sequence), or a tensor whose size depends on the data, so that no memory could be
    set aside for it.
    """
    joined: set[int] = set()
    for index, group in enumerate(groups):
        for name in (name for node in group for name in reads(node) if made.get(name, index) != index):
            if graph.nbytes(name) is None:
                joined.update(range(made[name], index))
    ends = [index + 1 for index in range(len(groups)) if index not in joined]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _piece(
    groups: list[list[onnx.NodeProto]], starts: list[onnx.NodeProto | None], static: dict[str, onnx.NodeProto]
) -> LayerNodes:
    nodes = [node for group in groups for node in group]
    first = next((node for node in starts if node is not None), nodes[0])
    kinds = {_kind(node) for node in starts if node is not None}
    needed = _closure(nodes, static)
    name = first.name or first.output[0]
    return LayerNodes(name, kinds.pop() if len(kinds) == 1 else "other", (*needed, *nodes))


def _closure(nodes: list[onnx.NodeProto], static: dict[str, onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return the static nodes that ``nodes`` need, in the order of the graph."""
    wanted = {name for node in nodes for name in reads(node) if name in static}
    needed = []
    for node in reversed(list({id(node): node for node in static.values()}.values())):
        if wanted.intersection(node.output):
            needed.append(node)
            wanted.update(name for name in reads(node) if name in static)
    return needed[::-1]


def _kind(node: onnx.NodeProto) -> Kind:
    if node.op_type in _CONV:
        return "conv"
    return "fc" if node.op_type in _FC else "other"
