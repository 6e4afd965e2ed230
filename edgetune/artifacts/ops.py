"""The operator table: what each operator of a network costs, for one batch size, precision and task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import Task

KIND = "ops"
VERSION = 1

OpClass = Literal[
    "conv", "depthwise", "gemm", "rnn", "elementwise", "normalisation", "reduction", "pooling",
    "gather", "copy", "view", "optimiser", "unmodelled", "saturated",
]  # fmt: skip
"""How an operator uses the hardware. ``view`` moves no data; ``unmodelled`` has no known cost; ``saturated`` is a
matrix product chosen to reach the device's roof, where a network's (``gemm``) takes the shape it has."""

Phase = Literal["forward", "backward", "optimiser"]
Ledger = Literal["modelled", "zero", "unmodelled"]
"""Three ways a node can be accounted for: by a formula, zero by definition, or not at all."""


@dataclass(frozen=True, slots=True)
class OpRow:
    """Cost of one operator in one execution of the network.

    Args:
        name: Node name in the graph, made unique.
        op: Operator type, e.g. ``Conv``.
        op_class: See ``OpClass``.
        phase: ``forward``, or a step of training.
        ledger: See ``Ledger``.
        inputs, outputs: Shapes as text, one per tensor, e.g. ``"1x3x224x224"``.
        dtype: Element type of the first output.
        macs: Multiply-accumulates.
        flops: Floating-point operations: 2 x ``macs`` + ``flops_other``.
        flops_other: Element-wise, activation and reduction operations, counted apart from ``macs``.
        bytes_read: Bytes of all inputs that are read, weights included.
        bytes_written: Bytes of all outputs.
        weight_bytes: Bytes of weights among ``bytes_read``.
        channels_in, channels_out: Channels of a convolution, per group for input; otherwise 0.
        kernels: Kernel launches an eager framework makes for it.
        bound: ``compute`` or ``memory`` once placed on a device's roofline, else ``None``.
        precision: What its arithmetic is in; ``None`` for that of the table, also in tables of old.
    """

    name: str
    op: str
    op_class: OpClass
    phase: Phase
    ledger: Ledger
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtype: str
    macs: int
    flops: int
    flops_other: int
    bytes_read: int
    bytes_written: int
    weight_bytes: int
    channels_in: int = 0
    channels_out: int = 0
    kernels: int = 1
    bound: str | None = None
    precision: str | None = None


@dataclass(frozen=True, slots=True)
class OpsTable:
    """Operator costs of one network.

    Args:
        header: Provenance.
        workload: Name of the network.
        task: ``infer`` (forward only) or ``train`` (forward, backward and optimiser rows).
        batch_size: Samples per minibatch.
        precision: ``fp32``, ``fp16``, ``int8``, ...: of a network of mixed types, what most is multiplied in.
        parameters: Trainable and constant weight elements of the network.
        loads_images: Whether each training sample is an image that CPU cores decode.
        rows: One row per operator and phase.
    """

    header: Header
    workload: str
    task: Task
    batch_size: int
    precision: str
    parameters: int
    loads_images: bool
    rows: tuple[OpRow, ...]

    @property
    def precisions(self) -> tuple[str, ...]:
        """Precisions of all arithmetic, that of the table first."""
        found = {row.precision for row in self.rows if row.precision is not None and row.flops}
        return (self.precision, *sorted(found - {self.precision}))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all rows."""
        return sum(row.macs for row in self.rows)

    @property
    def flops(self) -> int:
        """Floating-point operations of all rows."""
        return sum(row.flops for row in self.rows)

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written by all rows."""
        return sum(row.bytes_read + row.bytes_written for row in self.rows)
