"""The operator table: the cost of each operator of a network, for one batch size, precision and task.

The summary of a table has the ledger of modelled and unmodelled operators, the totals, and their composition. The
ledger comes first because it shows whether the totals are complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from edgetune.artifacts.artifact import Raw, Table
from edgetune.artifacts.header import Header, validated_head
from edgetune.artifacts.profile import Task
from edgetune.artifacts.table_checks import rows_of, typed_table
from edgetune.errors import InputError

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
        kernels: Number of kernel launches in an eager framework.
        bound: ``compute`` or ``memory`` once placed on a device's roofline, else ``None``.
        precision: Precision of its arithmetic; ``None`` for that of the table, also in older files.
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

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True, slots=True)
class OpsTable(Table):
    """Operator costs of one network.

    Args:
        header: Provenance.
        workload: Name of the network.
        task: ``infer`` (forward only) or ``train`` (forward, backward and optimiser rows).
        batch_size: Samples per minibatch.
        precision: ``fp32``, ``fp16``, ``int8``, ...; for mixed types, that of most multiplications.
        parameters: Trainable and constant weight elements of the network.
        loads_images: Whether CPU cores decode an image for each sample.
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

    ROW = OpRow
    HEAD = ("workload", "task", "batch_size", "precision", "parameters", "loads_images")

    @classmethod
    def read(cls, raw: Raw, *, name: str) -> OpsTable:
        """See ``Artifact.read``."""
        header = Header.of(raw.head, name=name)
        for field in cls.HEAD:
            if field not in raw.head:
                raise InputError(f"{name} has a damaged header: no {field}", "write the file again")
        whole = {field: raw.head[field] for field in cls.HEAD}
        empty = validated_head(cls, {**whole, "header": raw.head, "rows": []}, name=name)
        table = typed_table(raw.body, OpRow, name=name)
        return replace(empty, header=header, rows=rows_of(table, OpRow))

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
        return sum(row.bytes_moved for row in self.rows)


By = Literal["op", "class", "node"]
"""What rows are grouped by: operator type, ``OpClass``, or not at all."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The nodes of the network in one class of the ledger.

    Args:
        ledger: The class.
        nodes: Number of nodes.
        share: Share of the network's nodes, 0 to 1.
        ops: Their operator types, sorted.
    """

    ledger: Ledger
    nodes: int
    share: float
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """The summed costs of some rows.

    Args:
        name: Operator type, class or node name; the workload for the totals.
        phase: ``forward``, ``backward`` or ``optimiser``; empty for the totals.
        rows: Number of rows.
        macs: Multiply-accumulates.
        flops: Floating-point operations: 2 x ``macs`` and all others.
        bytes_moved: Bytes read and written.
        weight_bytes: Bytes of weights among those read.
    """

    name: str
    phase: str
    rows: int
    macs: int
    flops: int
    bytes_moved: int
    weight_bytes: int

    @property
    def intensity(self) -> float | None:
        """FLOP per byte moved; ``None`` if no bytes are moved."""
        return self.flops / self.bytes_moved if self.bytes_moved else None


def ledger(table: OpsTable) -> tuple[LedgerEntry, ...]:
    """Return the network's nodes by class: modelled, zero by definition, unmodelled, in that order.

    Only nodes of the forward pass count; a training step has further rows, but no further nodes.
    """
    forward = [row for row in table.rows if row.phase == "forward"]
    entries = []
    for kind in get_args(Ledger):
        rows = [row for row in forward if row.ledger == kind]
        ops = tuple(sorted({row.op for row in rows}))
        entries.append(LedgerEntry(kind, len(rows), len(rows) / max(len(forward), 1), ops))
    return tuple(entries)


def totals(table: OpsTable) -> OperatorCosts:
    """Return the costs of all rows."""
    return _sum(table.workload, "", table.rows)


def flops_by_precision(table: OpsTable) -> dict[str, int]:
    """Return the operations of a table by precision, in descending order."""
    found: dict[str, int] = {}
    for row in table.rows:
        if row.flops:
            precision = row.precision or table.precision
            found[precision] = found.get(precision, 0) + row.flops
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def grouped(table: OpsTable, by: By) -> list[OperatorCosts]:
    """Return sums of the rows by operator type or class, and by phase, or each row in the order of the graph.

    Groups are in descending order of FLOP, then of bytes.
    """
    if by == "node":
        return [_sum(row.name, row.phase, [row]) for row in table.rows]
    groups: dict[tuple[str, str], list[OpRow]] = {}
    for row in table.rows:
        groups.setdefault((row.op if by == "op" else row.op_class, row.phase), []).append(row)
    costs = [_sum(name, phase, rows) for (name, phase), rows in groups.items()]
    return sorted(costs, key=lambda cost: (-cost.flops, -cost.bytes_moved, cost.name, cost.phase))


def _sum(name: str, phase: str, rows: Sequence[OpRow]) -> OperatorCosts:
    return OperatorCosts(
        name=name,
        phase=phase,
        rows=len(rows),
        macs=sum(row.macs for row in rows),
        flops=sum(row.flops for row in rows),
        bytes_moved=sum(row.bytes_moved for row in rows),
        weight_bytes=sum(row.weight_bytes for row in rows),
    )
