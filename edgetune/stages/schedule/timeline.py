"""Rows of a timeline from the records of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgetune.artifacts.timeline import TimelineRow
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.tasks import BudgetRecord, Record, RequestRecord, TaskRecord
from edgetune.units import NS


def timeline_rows(
    records: Iterable[Record], networks: Mapping[str, LayeredNetwork], *, policy: str, turn: int = 0
) -> list[TimelineRow]:
    """Return a row for each record, in the order in which they ended.

    Args:
        records: Of one run.
        networks: As the policy took them: whole, or layer by layer.
        policy: Its name.
        turn: Number of earlier runs of the policy.
    """
    rows = [_row(record, networks, policy, turn) for record in records]
    return sorted(rows, key=lambda row: row.finished_s)


def _row(record: Record, networks: Mapping[str, LayeredNetwork], policy: str, turn: int) -> TimelineRow:
    if isinstance(record, TaskRecord):
        return _task(record, networks[record.network], policy, turn)
    if isinstance(record, RequestRecord):
        return _request(record, policy, turn)
    return _budget(record, policy, turn)


def _task(record: TaskRecord, network: LayeredNetwork, policy: str, turn: int) -> TimelineRow:
    return TimelineRow(
        record.kind, policy, record.end_ns / NS, turn, record.network,
        request=None if record.request < 0 else record.request, layer=network.layers[record.layer].name,
        layer_index=record.layer, worker=record.worker, copy=record.copy, started_s=record.start_ns / NS,
        bytes=record.bytes, held_bytes=record.held_bytes, resident_bytes=record.resident_bytes,
        status="ok" if record.failure is None else "failed", reason=record.failure,
    )  # fmt: skip


def _request(record: RequestRecord, policy: str, turn: int) -> TimelineRow:
    request = record.request
    return TimelineRow(
        "request", policy, record.end_ns / NS, turn, request.network, request.job or None, request.number,
        arrived_s=request.arrival_ns / NS, started_s=None if record.begun_ns is None else record.begun_ns / NS,
        deadline_s=None if request.deadline_ns is None else request.deadline_ns / NS, met=record.met,
        status=record.outcome, reason=record.failure,
    )  # fmt: skip


def _budget(record: BudgetRecord, policy: str, turn: int) -> TimelineRow:
    return TimelineRow(
        "budget", policy, record.at_ns / NS, turn, held_bytes=record.held_bytes, budget_bytes=record.budget_bytes
    )
