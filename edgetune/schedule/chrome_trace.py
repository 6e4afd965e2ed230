"""A timeline as JSON for trace viewers (chrome://tracing, Perfetto): a process per policy, a thread per worker.

The format is "Trace Event Format" (Google, 2016): complete events ``X`` for tasks, asynchronous ``b`` and ``e`` for
requests, counters ``C`` for memory, ``M`` for names. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.version import __version__

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
        yield from _task(row, pid)
    elif row.event == "request":
        yield from _request(row, pid)
    yield from _memory(row, pid)


def _task(row: TimelineRow, pid: int) -> Iterator[dict[str, Any]]:
    if row.started_s is None:
        return
    told = {"request": row.request, "copy": row.copy, "bytes": row.bytes, "reason": row.reason}
    yield {
        "ph": "X", "name": f"{row.event} {row.network}/{row.layer}", "cat": row.event, "pid": pid,
        "tid": row.worker or 0, "ts": row.started_s * _US, "dur": (row.finished_s - row.started_s) * _US,
        "args": {key: value for key, value in told.items() if value is not None},
    }  # fmt: skip


def _request(row: TimelineRow, pid: int) -> Iterator[dict[str, Any]]:
    if row.arrived_s is None:
        return
    shared = {"name": f"request for {row.network}", "cat": "request", "pid": pid, "tid": 0, "id": row.request}
    told = {"job": row.job, "number": row.request, "met": row.met, "status": row.status, "reason": row.reason}
    args = {key: value for key, value in told.items() if value is not None}
    yield {**shared, "ph": "b", "ts": row.arrived_s * _US, "args": args}
    yield {**shared, "ph": "e", "ts": row.finished_s * _US}


def _memory(row: TimelineRow, pid: int) -> Iterator[dict[str, Any]]:
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
