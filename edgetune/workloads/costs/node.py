"""What a cost formula sees of an operator, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgetune.artifacts.ops import Ledger, OpClass
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
"""How a floating-point tensor is stored when the network runs at each precision: element type and bytes.
TF32 changes the multiplier, not the storage."""

FLOAT_BYTES: Mapping[str, int] = {
    **dict(FLOAT_PRECISIONS.values()),
    **dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0"), 1),
}
"""Bytes of an element of each floating-point type; ``int8`` is what ``--precision int8`` stores in place of one."""

_PER_BYTE: Mapping[str, int] = {"int4": 2, "uint4": 2, "float4e2m1": 2, "int2": 4, "uint2": 4}
"""Elements per byte of ONNX's packed types."""


class UnknownShapeError(InputError):
    """A formula needs the shape of a tensor that neither inference nor a run of the network gives."""

    def __init__(self, tensor: str) -> None:
        written = repr(tensor)[1:-1]  # of a damaged model a name may hold anything
        super().__init__(
            f"the shape of tensor {tensor!r} is unknown", f"say its sizes, e.g. --dim {written}:0=100 for the first"
        )


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A tensor on an edge of the graph.

    Args:
        name: Name in the graph.
        shape: Sizes of its dimensions, ``()`` for a scalar, ``None`` where shape inference found none.
        dtype: Element type as stored at the table's precision, e.g. ``float16``.
        item_bytes: Bytes of one element.
        constant: Whether its value is known before the network runs (a weight, or computed from weights alone).
        scales_bytes: Bytes of the scales and zero points that are read with it, of a quantised weight.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    item_bytes: int
    constant: bool = False
    scales_bytes: int = 0

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, for a formula that cannot do without.

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


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """One operator with its tensors.

    Args:
        name: Unique name.
        op: Operator type, e.g. ``Conv``.
        inputs, outputs: Tensors in the operator's order; ``None`` where an optional one is left out.
        attributes: The operator's attributes as Python values (strings decoded).
        training: Whether this is the forward pass of training: BatchNormalization takes statistics, Dropout drops.
        domain: Operator set, empty for ONNX's own.
        repeats: How often it runs in one execution of the network: more than once inside a loop.
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
            InputError: the node leaves it out.
        """
        tensor = self.optional(index)
        if tensor is None:
            raise InputError(
                f"node {self.name!r} ({self.op}) has no input {index}", "the model is malformed; export it again"
            )
        return tensor

    def optional(self, index: int) -> GraphTensor | None:
        """Return an input, or ``None`` where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    @property
    def x(self) -> GraphTensor:
        """The first input."""
        return self.input(0)

    @property
    def y(self) -> GraphTensor:
        """The first output.

        Raises:
            InputError: the node has none.
        """
        if not self.outputs or self.outputs[0] is None:
            raise InputError(f"node {self.name!r} ({self.op}) has no output", "the model is malformed; export it again")
        return self.outputs[0]


@dataclass(frozen=True, slots=True)
class Parts:
    """What an operator that is one kernel would move and launch more, were each of its parts a kernel of its own.

    Args:
        bytes_read, bytes_written: Of what lies between the parts.
        kernels: Launches beyond those of the one kernel.
    """

    bytes_read: int = 0
    bytes_written: int = 0
    kernels: int = 0


WHOLE = Parts()
"""An operator without parts."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one operator costs once; the fields mean what they mean in ``OpRow``.

    ``parts`` is what it costs besides where its parts are kernels of their own, see ``eager_view``.
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


ZERO = Cost("view", kernels=0, ledger="zero")
"""No work by definition: a view, or a value known before the network runs."""

UNMODELLED = Cost("unmodelled", kernels=0, ledger="unmodelled")
"""No formula is known; the ledger says so, the figures are not to be believed as zero."""


def streamed(
    node: OperatorNode,
    op_class: OpClass,
    *,
    reads: Sequence[GraphTensor | None] | None = None,
    macs: int = 0,
    flops_other: int = 0,
    channels_in: int = 0,
    channels_out: int = 0,
    kernels: int = 1,
) -> Cost:
    """Return the cost of an operator that reads each of ``reads`` once and writes each of its outputs once.

    Args:
        node: The operator.
        op_class: How it uses the hardware.
        reads: Inputs that are read from memory; all of the node's by default.
        macs, flops_other, channels_in, channels_out, kernels: As in ``Cost``.
    """
    present = [tensor for tensor in (node.inputs if reads is None else reads) if tensor is not None]
    return Cost(
        op_class,
        macs=macs,
        flops_other=flops_other,
        bytes_read=sum(tensor.size_bytes for tensor in present),
        bytes_written=sum(tensor.size_bytes for tensor in node.outputs if tensor is not None),
        weight_bytes=sum(tensor.size_bytes for tensor in present if tensor.constant),
        channels_in=channels_in,
        channels_out=channels_out,
        kernels=kernels,
    )
