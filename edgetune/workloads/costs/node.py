"""Operators with their tensors, the costs that formulas return, and precisions.

The precision of an operator follows from its tensors and selects its roof.

Operator chains of an ONNX export that are one kernel in an eager framework: SiLU, hard swish and GELU.

ONNX before opset 20 has no such operators, so an exporter writes ``Sigmoid`` and ``Mul``, or five nodes around ``Erf``.
PyTorch runs each as one kernel that reads and writes once; the nodes one by one would cost three to five times the
bytes. A chain is collapsed only if no other operator reads its inner tensors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgetune.artifacts.ops import Ledger, OpClass, OpRow
from edgetune.errors import InputError

FLOAT_PRECISIONS: Mapping[str, tuple[str, int]] = {
    "fp64": ("float64", 8),
    "fp32": ("float32", 4),
    "tf32": ("float32", 4),
    "fp16": ("float16", 2),
    "bf16": ("bfloat16", 2),
    "fp8": ("float8", 1),
    "int8": ("int8", 1),
}
"""Storage of a floating-point tensor at each precision of the network: element type and bytes.
TF32 changes the multiplication, not the storage."""

FLOAT_BYTES: Mapping[str, int] = {
    **dict(FLOAT_PRECISIONS.values()),
    **dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0"), 1),
}
"""Bytes per element of each floating-point type, and of ``int8``, which replaces them with ``--precision int8``."""

_PER_BYTE: Mapping[str, int] = {"int4": 2, "uint4": 2, "float4e2m1": 2, "int2": 4, "uint2": 4}
"""Elements per byte of ONNX's packed types."""


class UnknownShapeError(InputError):
    """A formula needs the shape of a tensor, which neither inference nor a run of the network gives."""

    def __init__(self, tensor: str) -> None:
        super().__init__(
            f"the shape of tensor {tensor!r} is unknown", "a run shows it: give inputs by --inputs FILE.npz"
        )


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A tensor on an edge of the graph.

    Args:
        name: Name in the graph.
        shape: Sizes of its dimensions, ``()`` for a scalar, ``None`` if unknown.
        dtype: Element type as stored at the table's precision, e.g. ``float16``.
        item_bytes: Bytes of one element.
        constant: Whether its value is known before the network runs (a weight, or computed from weights alone).
        scales_bytes: Bytes of the scales and zero points that are read with a quantised weight.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    item_bytes: int
    constant: bool = False
    scales_bytes: int = 0

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, for a formula that requires it.

        Raises:
            UnknownShapeError: the shape is unknown.
        """
        if self.shape is None:
            raise UnknownShapeError(self.name)
        return self.shape

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.dims)

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor, its scales included."""
        packed = _PER_BYTE.get(self.dtype)
        return self.scales_bytes + (self.elements * self.item_bytes if packed is None else -(-self.elements // packed))

    def __str__(self) -> str:
        if self.shape is None:
            return "?"
        return "x".join(map(str, self.shape)) if self.shape else "scalar"


def present(tensors: Iterable[GraphTensor | None]) -> list[GraphTensor]:
    """Return the tensors that are not omitted."""
    return [tensor for tensor in tensors if tensor is not None]


def total_bytes(tensors: Iterable[GraphTensor | None]) -> int:
    """Return the bytes of the tensors that are not omitted."""
    return sum(tensor.size_bytes for tensor in tensors if tensor is not None)


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """One operator with its tensors.

    Args:
        name: Unique name.
        op: Operator type, e.g. ``Conv``.
        inputs, outputs: Tensors in the operator's order; ``None`` for an omitted optional one.
        attributes: The operator's attributes as Python values (strings decoded).
        training: Whether this is the forward pass of training, where BatchNormalization and Dropout differ.
        domain: Operator set, empty for ONNX's own.
        repeats: Runs per execution of the network; more than one inside a loop.
    """

    name: str
    op: str
    inputs: tuple[GraphTensor | None, ...]
    outputs: tuple[GraphTensor | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False
    domain: str = ""
    repeats: int = 1

    def input(self, index: int) -> GraphTensor:
        """Return a required input.

        Raises:
            InputError: the node omits the input.
        """
        tensor = self.optional(index)
        if tensor is None:
            raise InputError(
                f"node {self.name!r} ({self.op}) has no input {index}", "the model is malformed; export it again"
            )
        return tensor

    def optional(self, index: int) -> GraphTensor | None:
        """Return an input, or ``None`` if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def reads(self) -> list[GraphTensor]:
        """The inputs that are not omitted."""
        return present(self.inputs)

    @property
    def makes(self) -> list[GraphTensor]:
        """The outputs that are not omitted."""
        return present(self.outputs)

    @property
    def x(self) -> GraphTensor:
        """The first input."""
        return self.input(0)

    @property
    def y(self) -> GraphTensor:
        """The first output.

        Raises:
            InputError: the node has no output.
        """
        if not self.outputs or self.outputs[0] is None:
            raise InputError(f"node {self.name!r} ({self.op}) has no output", "the model is malformed; export it again")
        return self.outputs[0]


@dataclass(frozen=True, slots=True)
class Parts:
    """Additional bytes and launches of an operator if each of its parts were a separate kernel.

    Args:
        bytes_read, bytes_written: Bytes of the tensors between the parts.
        kernels: Additional launches.
    """

    bytes_read: int = 0
    bytes_written: int = 0
    kernels: int = 0


WHOLE = Parts()
"""An operator without parts."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run of an operator; see ``OpRow`` for the fields.

    ``parts`` is the additional cost if the parts of the operator are separate kernels, see ``views.apart``.
    """

    op_class: OpClass
    macs: int = 0
    flops_other: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    weight_bytes: int = 0
    channels_in: int = 0
    channels_out: int = 0
    kernels: int = 1
    ledger: Ledger = "modelled"
    parts: Parts = WHOLE

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    def plus(self, **amounts: int) -> Cost:
        """Return the cost with some amounts added, e.g. ``plus(flops_other=2)``."""
        return replace(self, **{name: getattr(self, name) + amount for name, amount in amounts.items()})


ZERO = Cost("view", kernels=0, ledger="zero")
"""Cost of a view, or of a value known before the network runs."""

UNMODELLED = Cost("unmodelled", kernels=0, ledger="unmodelled")
"""Cost of an operator without a formula: unknown, as its ledger says, not zero."""


def streamed(
    node: OperatorNode,
    op_class: OpClass,
    *,
    reads: Sequence[GraphTensor | None] | None = None,
    macs: int = 0,
    flops_other: int = 0,
    channels_in: int = 0,
    channels_out: int = 0,
) -> Cost:
    """Return the cost of an operator that reads each of ``reads`` once and writes each of its outputs once.

    Args:
        node: The operator.
        op_class: Class of the operator.
        reads: Inputs that are read from memory; by default all inputs of the node.
        macs, flops_other, channels_in, channels_out: As in ``Cost``.
    """
    read = present(node.inputs if reads is None else reads)
    return Cost(
        op_class,
        macs=macs,
        flops_other=flops_other,
        bytes_read=total_bytes(read),
        bytes_written=total_bytes(node.outputs),
        weight_bytes=total_bytes(tensor for tensor in read if tensor.constant),
        channels_in=channels_in,
        channels_out=channels_out,
    )


_ARITHMETIC: Mapping[str, str] = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8": "fp8",
}  # fmt: skip
_QUANTISES_INSIDE = frozenset(("DynamicQuantizeMatMul", "DynamicQuantizeLSTM"))
"""Operators that take floats and multiply them as 8-bit integers."""
_CHANGES_TYPE = frozenset(("Cast", "CastLike", "DequantizeLinear"))
_DEFAULT = "fp32"


def precision_of(node: OperatorNode) -> str | None:
    """Return the precision of an operator's arithmetic; ``None`` for one on wide integers, booleans or text alone.

    The type of the first operand decides: 8-bit integers are multiplied as integers whatever the type of their scales,
    floats as floats even if the weights are stored in fewer bits. A type conversion has the precision of its output.
    """
    if node.op in _QUANTISES_INSIDE:
        return "int8"
    changes = node.op in _CHANGES_TYPE
    if not changes and node.reads and node.reads[0].dtype in ("int8", "uint8"):
        return "int8"
    tensors = (*node.makes, *node.reads) if changes else (*node.reads, *node.makes)
    kinds = ("float8" if tensor.dtype.startswith("float8") else tensor.dtype for tensor in tensors)
    return next((_ARITHMETIC[kind] for kind in kinds if kind in _ARITHMETIC), None)


def readers_of(nodes: Iterable[OperatorNode]) -> dict[str, list[int]]:
    """Return the indices of the nodes that read each tensor, each node once."""
    found: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        for name in {tensor.name for tensor in node.reads}:
            found.setdefault(name, []).append(index)
    return found


def makers_of(nodes: Iterable[OperatorNode]) -> dict[str, int]:
    """Return the index of the node that makes each tensor."""
    return {tensor.name: index for index, node in enumerate(nodes) for tensor in node.makes}


def main_precision(rows: Sequence[OpRow]) -> str:
    """Return the precision of most MACs; without MACs, of most FLOP, and without FLOP, of most bytes."""
    weights: tuple[Callable[[OpRow], int], ...] = (
        lambda row: row.macs,
        lambda row: row.flops,
        lambda row: row.bytes_moved,
    )
    for weight in weights:
        found: Counter[str] = Counter()
        for row in rows:
            if row.precision is not None and weight(row):
                found[row.precision] += weight(row)
        if found:
            return found.most_common(1)[0][0]
    return _DEFAULT


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
