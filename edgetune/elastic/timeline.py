"""From what a run wrote down to the rows of a kernel timeline: nanoseconds become seconds, numbers names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgetune.artifacts.kernel_timeline import KernelTimelineRow
from edgetune.elastic.backend import Residency
from edgetune.elastic.records import LaunchRecord, Record, RequestRecord
from edgetune.units import NS


def timeline_rows(
    records: Iterable[Record], residencies: Iterable[Residency], *, policy: str, turn: int = 0, begin_ns: int = 0
) -> list[KernelTimelineRow]:
    """Return a row for each launch, request and residency, in the order in which they ended.

    Args:
        records: Of one run.
        residencies: Of its launches.
        policy: Its name.
        turn: How often it had run before.
        begin_ns: When the run began, on the clock of the records.
    """
    rows, tasks = [], dict[int, str]()
    for record in records:
        if isinstance(record, LaunchRecord):
            tasks[record.launch.number] = record.launch.task
            rows.append(_launch(record, policy, turn, begin_ns))
        else:
            rows.append(_request(record, policy, turn, begin_ns))
    rows += [_residency(each, tasks, policy, turn, begin_ns) for each in residencies]
    return sorted(rows, key=lambda row: row.finished_s)


def _launch(record: LaunchRecord, policy: str, turn: int, begin_ns: int) -> KernelTimelineRow:
    launch = record.launch
    return KernelTimelineRow(
        "launch",
        policy,
        (record.ended_ns - begin_ns) / NS,
        turn,
        launch.task,
        launch.request,
        launch.number,
        launch.call,
        launch.what.kernel,
        launch.first,
        launch.count,
        launch.per_thread,
        launch.blocks is not None,
        launch.physical_blocks,
        launch.physical_threads,
        launched_s=(record.launched_ns - begin_ns) / NS,
        started_s=None if record.started_ns is None else (record.started_ns - begin_ns) / NS,
        status="ok" if record.failure is None else "failed",
        reason=record.failure,
    )


def _request(record: RequestRecord, policy: str, turn: int, begin_ns: int) -> KernelTimelineRow:
    return KernelTimelineRow(
        "request",
        policy,
        (record.ended_ns - begin_ns) / NS,
        turn,
        record.task.name,
        record.number,
        arrived_s=(record.arrived_ns - begin_ns) / NS,
        started_s=None if record.begun_ns is None else (record.begun_ns - begin_ns) / NS,
        deadline_s=None if record.due_ns is None else (record.due_ns - begin_ns) / NS,
        met=record.met,
        status=record.outcome,
        reason=record.failure,
    )


def _residency(
    residency: Residency, tasks: Mapping[int, str], policy: str, turn: int, begin_ns: int
) -> KernelTimelineRow:
    return KernelTimelineRow(
        "residency",
        policy,
        (residency.end_ns - begin_ns) / NS,
        turn,
        tasks.get(residency.launch),
        launch=residency.launch,
        blocks=residency.blocks,
        started_s=(residency.start_ns - begin_ns) / NS,
        sm=residency.sm,
    )
