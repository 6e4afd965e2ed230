"""What an operator table adds up to: what of it is accounted for, its totals, and its rows by operator or class.

Somebody who opens a table of 200 operators asks three things: can I trust the sum, what is the sum, and where does it
come from. The ledger comes first because a total that silently leaves operators out is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from edgetune.artifacts.ops import Ledger, OpRow, OpsTable

By = Literal["op", "class", "node"]
"""What rows are grouped by: operator type, ``OpClass``, or not at all."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The nodes of the network that are accounted for in one way.

    Args:
        ledger: In which way.
        nodes: How many.
        share: Share of the network's nodes, 0 to 1.
        ops: Their operator types, sorted.
    """

    ledger: Ledger
    nodes: int
    share: float
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """Costs of some rows, added up.

    Args:
        name: Operator type, class or node name; the workload for the totals.
        phase: ``forward``, ``backward`` or ``optimiser``; empty for the totals.
        rows: How many rows.
        macs: Multiply-accumulates.
        flops: Floating-point operations, 2 x ``macs`` and all others.
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
        """FLOP per byte moved; ``None`` when nothing is moved."""
        return self.flops / self.bytes_moved if self.bytes_moved else None


def ledger(table: OpsTable) -> tuple[LedgerEntry, ...]:
    """Return how the network's nodes are accounted for: modelled, zero by definition, unmodelled, in that order.

    Nodes are those of the forward pass; a training step has further rows, but no further nodes.
    """
    forward = [row for row in table.rows if row.phase == "forward"]
    entries = []
    for kind in get_args(Ledger):
        rows = [row for row in forward if row.ledger == kind]
        ops = tuple(sorted({row.op for row in rows}))
        entries.append(LedgerEntry(kind, len(rows), len(rows) / max(len(forward), 1), ops))
    return tuple(entries)


def ledger_shares(table: OpsTable) -> dict[Ledger, float]:
    """Return the share of forward nodes that are modelled, zero by definition, and unmodelled; they add up to 1."""
    return {entry.ledger: entry.share for entry in ledger(table)}


def totals(table: OpsTable) -> OperatorCosts:
    """Return the costs of all rows."""
    return _sum(table.workload, "", table.rows)


def flops_by_precision(table: OpsTable) -> dict[str, int]:
    """Return the operations of a table by the precision they are in, the most first."""
    found: dict[str, int] = {}
    for row in table.rows:
        if row.flops:
            precision = row.precision or table.precision
            found[precision] = found.get(precision, 0) + row.flops
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def grouped(table: OpsTable, by: By) -> list[OperatorCosts]:
    """Return the rows added up by operator type or class, and by phase; or each row, in the order of the graph.

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
        bytes_moved=sum(row.bytes_read + row.bytes_written for row in rows),
        weight_bytes=sum(row.weight_bytes for row in rows),
    )
