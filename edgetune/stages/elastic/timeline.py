"""The kernel timeline of a run, and its figures.

    records -> rows: nanoseconds become seconds, numbers become names
    rows -> per policy, its turns -> tasks: latency, relative to solo; answers per second; deadlines; launches; blocks

All figures can be computed again from the file. A latency is the time from arrival to answer, of answered requests; a
request that failed or was abandoned misses its deadline. An unknown figure is ``None``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.serving.requests import count_outcomes, first_failure, latencies_s, percentiles_s
from edgetune.stages.elastic.policies.simple import SOLO
from edgetune.stages.elastic.view import LaunchRecord, Record, Residency
from edgetune.units import NS


def timeline_rows(
    records: Iterable[Record], residencies: Iterable[Residency], *, policy: str, turn: int = 0, begin_ns: int = 0
) -> list[KernelTimelineRow]:
    """Return a row for each launch, request and residency, in the order in which they ended.

    Args:
        records: Of one run.
        residencies: Of its launches.
        policy: Its name.
        turn: How often it ran before.
        begin_ns: The start of the run, on the clock of the records.
    """

    def seconds(at_ns: int | None) -> float | None:
        return None if at_ns is None else (at_ns - begin_ns) / NS

    rows, tasks = list[KernelTimelineRow](), dict[int, str]()
    for record in records:
        ended_s = (record.ended_ns - begin_ns) / NS
        if isinstance(record, LaunchRecord):
            launch = record.launch
            tasks[launch.number] = launch.task
            rows.append(KernelTimelineRow(
                "launch", policy, ended_s, turn, launch.task, launch.request, launch.number, launch.call,
                launch.what.kernel, launch.first, launch.count, launch.per_thread, launch.blocks is not None,
                launch.physical_blocks, launch.physical_threads, launched_s=seconds(record.launched_ns),
                started_s=seconds(record.started_ns), status="ok" if record.failure is None else "failed",
                reason=record.failure,
            ))  # fmt: skip
        else:
            rows.append(KernelTimelineRow(
                "request", policy, ended_s, turn, record.task.name, record.number,
                arrived_s=seconds(record.arrived_ns), started_s=seconds(record.begun_ns),
                deadline_s=seconds(record.due_ns), met=record.met, status=record.outcome, reason=record.failure,
            ))  # fmt: skip
    for each in residencies:
        rows.append(KernelTimelineRow(
            "residency", policy, (each.end_ns - begin_ns) / NS, turn, tasks.get(each.launch), launch=each.launch,
            blocks=each.blocks, started_s=seconds(each.start_ns), sm=each.sm,
        ))  # fmt: skip
    return sorted(rows, key=lambda row: row.finished_s)


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """The figures of a task by one policy.

    Args:
        task: Its name.
        priority: 0 is best effort; ``None`` where the file does not say.
        requests: All that arrived; without any, the other figures are unknown.
        answered, failed, abandoned: Their outcomes.
        due: Requests with a deadline that were not given up before it.
        misses: Those of them that were not answered by it.
        p50_s, p99_s: Latency, s; ``None`` where none was answered.
        max_s: The slowest of them, s.
        p50_x, p99_x: Relative to the same task alone; ``None`` where that did not run.
        answers_per_s: Over the time in which requests came.
        launches: Launches, each piece of a kernel counted.
        elastic: Those of them that were of elastic forms.
        reason: Why the first failed request failed; ``None`` where none did.
    """

    task: str
    priority: int | None
    requests: int
    answered: int
    failed: int
    abandoned: int
    due: int
    misses: int
    p50_s: float | None
    p99_s: float | None
    max_s: float | None
    p50_x: float | None
    p99_x: float | None
    answers_per_s: float
    launches: int
    elastic: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """One policy, all its turns.

    Args:
        policy: Its name.
        turns: Their number.
        tasks: In the order of the task file.
        answers_per_s: Of all tasks.
        busy: Share of the time in which a multiprocessor had a block, the mean of all: residency, not occupancy.
            ``None`` where blocks left no record.
    """

    policy: str
    turns: int
    tasks: tuple[TaskFigures, ...]
    answers_per_s: float
    busy: float | None


def summarise(timeline: KernelTimeline) -> tuple[PolicyFigures, ...]:
    """Return the figures of every policy, in the order in which they ran, relative to ``solo``."""
    told = timeline.header.conditions
    by_policy: dict[str, list[KernelTimelineRow]] = {policy: [] for policy in told.get("policies", ())}
    for row in timeline.rows:
        by_policy.setdefault(row.policy, []).append(row)
    alone = _by_task(by_policy.pop(SOLO, []))
    return tuple(_policy(policy, rows, alone, told) for policy, rows in by_policy.items())


def _by_task(rows: Iterable[KernelTimelineRow]) -> dict[str, list[KernelTimelineRow]]:
    found: dict[str, list[KernelTimelineRow]] = {}
    for row in rows:
        if row.task is not None and row.event != "residency":
            found.setdefault(row.task, []).append(row)
    return found


def _policy(
    policy: str,
    rows: Sequence[KernelTimelineRow],
    alone: Mapping[str, Sequence[KernelTimelineRow]],
    told: Mapping[str, Any],
) -> PolicyFigures:
    costs, seconds, kept_s = told.get("policies", {}).get(policy, ()), 0.0, 0.0
    turns = sorted({*range(len(costs)), *(row.turn for row in rows)})
    for turn in turns:
        cost = costs[turn] if turn < len(costs) else {}
        ended_s = max((row.finished_s for row in rows if row.turn == turn), default=0.0)
        seconds += _positive(cost.get("stopped_s")) or _positive(told.get("duration_s")) or ended_s
        kept_s += _positive(cost.get("residencies_until_s")) or ended_s
    priorities = {each["name"]: each.get("priority") for each in told.get("tasks", ()) if "name" in each}
    by_task = _by_task(rows)
    tasks = tuple(
        _task(name, priorities.get(name), by_task.get(name, ()), alone.get(name, ()), seconds)
        for name in dict.fromkeys([*priorities, *by_task])
    )
    answers_per_s = sum(each.answers_per_s for each in tasks)
    return PolicyFigures(policy, len(turns), tasks, answers_per_s, _busy(rows, kept_s, told_sms(told)))


def _positive(said: Any) -> float:
    """Return a number that a file tells; 0 where it tells none."""
    return said if isinstance(said, (int, float)) and said > 0 else 0.0


def _task(
    name: str,
    priority: int | None,
    rows: Sequence[KernelTimelineRow],
    alone: Sequence[KernelTimelineRow],
    seconds: float,
) -> TaskFigures:
    requests, launches = ([row for row in rows if row.event == event] for event in ("request", "launch"))
    times_s = latencies_s(requests)
    alone_s = latencies_s(row for row in alone if row.event == "request")
    due = [  # one that was given up before its deadline neither met nor missed it
        row for row in requests
        if row.deadline_s is not None and (row.status != "abandoned" or row.finished_s >= row.deadline_s)
    ]  # fmt: skip
    (middle, late), (alone_middle, alone_late) = (percentiles_s(each, 50, 99) for each in (times_s, alone_s))
    return TaskFigures(
        name,
        priority,
        *count_outcomes(requests),
        len(due),
        sum(not (row.status == "ok" and row.met) for row in due),
        middle,
        late,
        max(times_s, default=None),
        None if middle is None or alone_middle is None else middle / alone_middle,
        None if late is None or alone_late is None else late / alone_late,
        len(times_s) / seconds if seconds else 0.0,
        len(launches),
        sum(bool(row.elastic) for row in launches),
        first_failure(requests),
    )


def told_sms(told: Mapping[str, Any]) -> int:
    """Return how many multiprocessors the conditions of a file tell of; 0 where they tell none."""
    gpu = told.get("gpu")
    said = gpu.get("sm_count") if isinstance(gpu, dict) else None
    return said if isinstance(said, int) and said > 0 else 0


def _busy(rows: Iterable[KernelTimelineRow], kept_s: float, sm_count: int) -> float | None:
    """Return the share of the time in which a multiprocessor had a block, the mean of all of them.

    Args:
        rows: Of all turns.
        kept_s: For how long it was kept where blocks were, s.
        sm_count: Multiprocessors; 0: those that are seen.
    """
    spans = sorted(
        (row.turn, row.sm, row.started_s, row.finished_s)
        for row in rows
        if row.event == "residency" and row.sm is not None and row.started_s is not None
    )
    available_s = (sm_count or len({span[1] for span in spans})) * kept_s
    if not spans or not available_s:
        return None
    busy_s = 0.0
    for _, of in groupby(spans, key=lambda span: span[:2]):
        until_s = 0.0
        for _, _, start_s, end_s in of:
            busy_s += max(end_s - max(start_s, until_s), 0.0)
            until_s = max(until_s, end_s)
    return busy_s / available_s
