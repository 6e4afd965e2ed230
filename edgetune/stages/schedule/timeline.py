"""Rows of a timeline from the records of a run, and a timeline as JSON for trace viewers.

The JSON is in the "Trace Event Format" (Google, 2016), for chrome://tracing and Perfetto: a process per policy and
turn, a thread per worker. Complete events ``X`` are tasks, asynchronous ``b`` and ``e`` requests, counters ``C``
memory, and ``M`` names. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.tasks import BudgetRecord, Record, RequestRecord, TaskRecord
from edgetune.units import NS
from edgetune.version import __version__


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


_US = 1e6


def chrome_trace(timeline: Timeline) -> str:
    """Return the JSON of all policies and turns."""
    processes: dict[tuple[str, int], list[TimelineRow]] = {}
    for row in timeline.rows:
        processes.setdefault((row.policy, row.turn), []).append(row)
    label = "simulated " if timeline.header.simulated else ""
    events: list[dict[str, Any]] = []
    for pid, ((policy, turn), rows) in enumerate(processes.items(), 1):
        events += _named(pid, f"{label}{policy}, turn {turn + 1}", rows)
        for row in rows:
            events += _events(row, pid)
    told = {"tool": f"edgetune {__version__}"}
    return json.dumps({"otherData": told, "displayTimeUnit": "ms", "traceEvents": events}, allow_nan=False)


def _named(pid: int, name: str, rows: Iterable[TimelineRow]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    for worker in sorted({row.worker for row in rows if row.worker is not None}):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": worker, "args": {"name": f"worker {worker}"}}


def _events(row: TimelineRow, pid: int) -> Iterator[dict[str, Any]]:
    if row.event in ("load", "execute"):
        yield from _task_event(row, pid)
    elif row.event == "request":
        yield from _request_events(row, pid)
    yield from _memory_events(row, pid)


def _task_event(row: TimelineRow, pid: int) -> Iterator[dict[str, Any]]:
    if row.started_s is None:
        return
    told = {"request": row.request, "copy": row.copy, "bytes": row.bytes, "reason": row.reason}
    yield {
        "ph": "X", "name": f"{row.event} {row.network}/{row.layer}", "cat": row.event, "pid": pid,
        "tid": row.worker or 0, "ts": row.started_s * _US, "dur": (row.finished_s - row.started_s) * _US,
        "args": {key: value for key, value in told.items() if value is not None},
    }  # fmt: skip


def _request_events(row: TimelineRow, pid: int) -> Iterator[dict[str, Any]]:
    if row.arrived_s is None:
        return
    shared = {"name": f"request for {row.network}", "cat": "request", "pid": pid, "tid": 0, "id": row.request}
    told = {"job": row.job, "number": row.request, "met": row.met, "status": row.status, "reason": row.reason}
    args = {key: value for key, value in told.items() if value is not None}
    yield {**shared, "ph": "b", "ts": row.arrived_s * _US, "args": args}
    yield {**shared, "ph": "e", "ts": row.finished_s * _US}


def _memory_events(row: TimelineRow, pid: int) -> Iterator[dict[str, Any]]:
    began_s = row.finished_s if row.started_s is None or row.event == "unload" else row.started_s
    known = (
        ("held", row.held_bytes, began_s),
        ("budget", row.budget_bytes, row.finished_s),
        ("resident", row.resident_bytes, row.finished_s),
    )
    for name, value, at_s in known:
        if value is not None:
            yield {
                "ph": "C", "name": f"{name} memory", "pid": pid, "tid": 0, "ts": at_s * _US, "args": {"bytes": value},
            }  # fmt: skip
