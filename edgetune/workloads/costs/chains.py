"""Operator chains of an ONNX export that are one kernel in an eager framework: SiLU, hard swish and GELU.

ONNX before opset 20 has no such operators, so an exporter writes ``Sigmoid`` and ``Mul``, or five nodes around ``Erf``.
PyTorch runs each as one kernel that reads and writes once; the nodes one by one would cost three to five times the
bytes. A chain is collapsed only if no other operator reads its inner tensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgetune.workloads.costs.node import GraphTensor, OperatorNode, makers_of, readers_of

_GATES: Mapping[str, str] = {"Sigmoid": "Silu", "HardSigmoid": "HardSwish"}


def collapse(nodes: Sequence[OperatorNode], outputs: frozenset[str]) -> list[OperatorNode]:
    """Return ``nodes`` with every recognised chain replaced by one node, at the position of its last node.

    Args:
        nodes: Operators in the order of the graph.
        outputs: Names of the graph's outputs, which are never removed.
    """
    chains = _Chains(nodes, outputs)
    replaced: dict[int, OperatorNode] = {}
    dropped: set[int] = set()
    for index, node in enumerate(nodes):
        found = chains.gated(index) if node.op in _GATES else chains.gelu(index) if node.op == "Erf" else None
        if found is not None:
            fused, members = found
            replaced[members[-1]] = fused
            dropped.update(members)
    return [replaced.get(i, node) for i, node in enumerate(nodes) if i not in dropped or i in replaced]


class _Chains:
    """The nodes that compute and read each tensor, to match chains."""

    def __init__(self, nodes: Sequence[OperatorNode], outputs: frozenset[str]) -> None:
        self._nodes = nodes
        self._outputs = outputs
        self._readers = readers_of(nodes)
        self._makers = makers_of(nodes)

    def gated(self, gate: int) -> tuple[OperatorNode, list[int]] | None:
        """Match x * sigmoid(x): a gate whose only reader multiplies it with the gate's own input."""
        x = self._nodes[gate].x
        product = self._only_reader(gate, "Mul")
        if product is None or x.name not in self._other_inputs(product, gate):
            return None
        return self._fuse(_GATES[self._nodes[gate].op], x, [gate, product])

    def gelu(self, erf: int) -> tuple[OperatorNode, list[int]] | None:
        """Match x/2 (1 + erf(x / sqrt 2)), halved before or after the product."""
        scale = self._makers.get(self._nodes[erf].x.name)
        if scale is None or self._nodes[scale].op not in ("Div", "Mul") or self._only_reader(scale, "Erf") is None:
            return None
        x = self._nodes[scale].x
        plus_one = self._only_reader(erf, "Add")
        product = self._only_reader(plus_one, "Mul") if plus_one is not None else None
        if plus_one is None or product is None:
            return None
        for other in self._other_inputs(product, plus_one):
            if other == x.name:  # x * (1 + erf), halved afterwards
                halved = self._only_reader(product, "Mul")
                return None if halved is None else self._fuse("Gelu", x, [scale, erf, plus_one, product, halved])
            maker = self._makers.get(other)  # (x / 2) * (1 + erf)
            half = None if maker is None else self._nodes[maker]
            if maker is None or half is None or half.op not in ("Mul", "Div"):
                continue
            if any(tensor.name == x.name for tensor in half.reads) and self._only_reader(maker, "Mul") == product:
                return self._fuse("Gelu", x, [scale, erf, plus_one, maker, product])
        return None

    def _only_reader(self, index: int, op: str) -> int | None:
        """Return the node of type ``op`` that alone reads the output of node ``index``, once, else ``None``."""
        name = self._nodes[index].y.name
        readers = self._readers.get(name, [])
        if name in self._outputs or len(readers) != 1 or self._nodes[readers[0]].op != op:
            return None
        return readers[0] if [tensor.name for tensor in self._nodes[readers[0]].reads].count(name) == 1 else None

    def _other_inputs(self, index: int, source: int) -> list[str]:
        """Return the names of the inputs of node ``index`` that node ``source`` does not compute."""
        made = self._nodes[source].y.name
        return [tensor.name for tensor in self._nodes[index].reads if tensor.name != made]

    def _fuse(self, op: str, x: GraphTensor, members: list[int]) -> tuple[OperatorNode, list[int]]:
        last = self._nodes[members[-1]]
        return replace(last, op=op, inputs=(x,), outputs=last.outputs[:1], attributes={}), sorted(members)
