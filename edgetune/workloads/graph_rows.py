"""Mapping of the tensors of a graph to rows of the operator table, to identify a runtime's kernels.

Runtimes rename, merge and add nodes, but a remaining tensor keeps its name. A missing tensor was inside a merged node.
A kernel therefore stands for all rows between remaining tensors.
"""

from collections.abc import Collection
from dataclasses import dataclass

import onnx

from edgetune.workloads.costs.walk import read_graph, unique_names


@dataclass(frozen=True, slots=True)
class GraphRows:
    """Rows of a network's table (forward pass only) by the tensors and nodes of its graph.

    Args:
        by_tensor: Row that computes each tensor; a tensor inside a chain that is one row (SiLU) belongs to that row.
        by_node: Row of each node, by the node's name.
        takes: Tensors that each row reads, by its name.
        readers: Rows that read each row.
        constants: Rows that are constants.
        ops: Operator type of each row.
        parameters: Names of the trainable weights.
    """

    by_tensor: dict[str, str]
    by_node: dict[str, str]
    takes: dict[str, tuple[str, ...]]
    readers: dict[str, tuple[str, ...]]
    constants: frozenset[str]
    ops: dict[str, str]
    parameters: tuple[str, ...]

    def between(self, row: str, others: Collection[str]) -> list[str]:
        """Return ``row`` and the rows before it, back to ``others``, to the network's inputs and to constants."""
        found, waiting = {row}, [row]
        while waiting:
            for tensor in self.takes[waiting.pop()]:
                maker = self.by_tensor.get(tensor)
                if maker is None or maker in self.constants:
                    continue
                if maker not in found and maker not in others:
                    found.add(maker)
                    waiting.append(maker)
        return [name for name in self.takes if name in found]


def rows_of_graph(model: onnx.ModelProto) -> GraphRows:
    """Return the rows of a model whose dimensions are fixed.

    Raises:
        InputError: the graph is malformed.
    """
    graph = read_graph(model)
    takes = {node.name: tuple(tensor.name for tensor in node.reads) for node in graph.nodes}
    by_tensor = {tensor.name: node.name for node in graph.nodes for tensor in node.makes}
    names = unique_names(model.graph.node)
    readers = {name: list(node.output) for node in reversed(model.graph.node) for name in node.input if name}
    for node in reversed(model.graph.node):
        for output in filter(None, node.output):
            if output not in by_tensor and output in readers:  # inside a chain: the row of its reader
                reading = next((by_tensor[name] for name in readers[output] if name in by_tensor), None)
                if reading is not None:
                    by_tensor[output] = reading
    read_by: dict[str, dict[str, None]] = {}
    for row, tensors in takes.items():
        for tensor in (each for each in tensors if each in by_tensor):
            read_by.setdefault(by_tensor[tensor], {})[row] = None
    by_node = {
        name: by_tensor[node.output[0]]
        for node, name in zip(model.graph.node, names, strict=True)
        if node.output and node.output[0] in by_tensor
    }
    return GraphRows(
        by_tensor=by_tensor,
        by_node=by_node,
        takes=takes,
        readers={row: tuple(found) for row, found in read_by.items()},
        constants=frozenset(n.name for n in graph.nodes if all(tensor.constant for tensor in n.makes)),
        ops={node.name: node.op for node in graph.nodes},
        parameters=tuple(tensor.name for tensor in graph.parameters),
    )
