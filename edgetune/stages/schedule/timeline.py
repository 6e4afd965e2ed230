"""Rows of a timeline from the records of a run.

A timeline in figures: how long requests took, the memory that was held, the loads, and how busy workers were.

    rows -> per policy, its turns -> responses by job and network, memory, loads, workers

Everything can be computed again from the file. A response is the time from arrival to answer, of answered requests; one
that failed or was abandoned misses its deadline. A figure that was not measured is ``None``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.serving.requests import count_outcomes, first_failure, group_turns, latencies_s, percentiles_s
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.tasks import BudgetRecord, Record, TaskRecord
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
    rows = []
    for record in records:
        if isinstance(record, BudgetRecord):
            row = TimelineRow("budget", policy, record.at_ns / NS, turn, budget_bytes=record.budget_bytes)
            rows.append(replace(row, held_bytes=record.held_bytes))
            continue
        done: dict[str, Any] = {"finished_s": record.end_ns / NS, "turn": turn, "reason": record.failure}
        if isinstance(record, TaskRecord):
            layer = networks[record.network].layers[record.layer]
            row = TimelineRow(
                record.kind, policy, network=record.network, request=None if record.request < 0 else record.request,
                layer=layer.name, layer_index=record.layer, worker=record.worker, copy=record.copy,
                started_s=record.start_ns / NS, bytes=record.bytes, held_bytes=record.held_bytes,
                resident_bytes=record.resident_bytes, status="ok" if record.failure is None else "failed", **done,
            )  # fmt: skip
        else:
            request = record.request
            row = TimelineRow(
                "request", policy, network=request.network, job=request.job or None, request=request.number,
                arrived_s=request.arrival_ns / NS, started_s=None if record.begun_ns is None else record.begun_ns / NS,
                deadline_s=None if request.deadline_ns is None else request.deadline_ns / NS, met=record.met,
                status=record.outcome, **done,
            )  # fmt: skip
        rows.append(row)
    return sorted(rows, key=lambda row: row.finished_s)


@dataclass(frozen=True, slots=True)
class Responses:
    """The outcomes of requests, and how long they took.

    Args:
        job: Their job; ``None`` for all.
        network: Their network; ``None`` for all.
        requests: All that came.
        answered, failed, abandoned: Their outcomes.
        due: Number of requests with a deadline.
        misses: Number of those that were not answered by it.
        mean_s, median_s, p95_s, longest_s: Responses, s; ``None`` where none was answered.
        reason: Why the first that failed did; ``None`` where none did.
    """

    job: str | None
    network: str | None
    requests: int
    answered: int
    failed: int
    abandoned: int
    due: int
    misses: int
    mean_s: float | None
    median_s: float | None
    p95_s: float | None
    longest_s: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that was held, by the accounts and by the system; over all turns.

    Args:
        limit_bytes: The memory that there was to be; ``None`` where the file does not say.
        budget_bytes: The most of it that tasks could hold; ``None`` where the file does not say.
        held_peak_bytes: The most that was held or promised, by the accounts of the runtime.
        resident_peak_bytes: The same with weights counted once that several copies share as pages of one file.
        peak_bytes: The most that was in memory, as the system counts it: to be within the limit.
        swap_peak_bytes: The most that was swapped out.
        major_faults: Pages that had to come from storage.
        limit_hits: Number of times that the system reclaimed memory because of the limit.
    """

    limit_bytes: int | None
    budget_bytes: int | None
    held_peak_bytes: int | None
    resident_peak_bytes: int | None
    peak_bytes: int | None
    swap_peak_bytes: int | None
    major_faults: int | None
    limit_hits: int | None


@dataclass(frozen=True, slots=True)
class Loads:
    """The loads from storage.

    Args:
        count: Number of loads that succeeded.
        bytes: The bytes that they read.
        needed: Executions of layers that have weights: without anything kept, each would need a load.
        avoided_share: Of those, how many found weights that were there already; below zero where weights were loaded
            and left unused. ``None`` where nothing was executed.
    """

    count: int
    bytes: int
    needed: int
    avoided_share: float | None


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """One policy, all its turns or one.

    Args:
        policy: Its name.
        turns: The turns of these figures.
        responses: Of all requests.
        by_job: The same by job and network, in the order of arrival.
        memory: The memory held.
        loads: The reads from storage.
        makespan_s: From the beginning to the last event, s; the mean over turns.
        loading_share, executing_share: Of the time of all workers, what they loaded and executed.
    """

    policy: str
    turns: tuple[int, ...]
    responses: Responses
    by_job: tuple[Responses, ...]
    memory: Memory
    loads: Loads
    makespan_s: float
    loading_share: float | None
    executing_share: float | None


def summarise(timeline: Timeline, *, by_turn: bool = False) -> tuple[PolicySummary, ...]:
    """Return a summary per policy, or per policy and turn, in the order of their first rows."""
    grouped = group_turns(timeline.rows, attrgetter("policy"), by_turn=by_turn)
    return tuple(_summary(policy, turns, timeline.header.conditions) for policy, turns in grouped)


def _summary(policy: str, turns: dict[int, list[TimelineRow]], told: Mapping[str, Any]) -> PolicySummary:
    rows = [row for of in turns.values() for row in of]
    requests = [row for row in rows if row.event == "request"]
    ordered = sorted(requests, key=lambda row: (row.arrived_s or 0.0, row.request or 0))
    by_job: dict[tuple[str | None, str | None], list[TimelineRow]] = {(row.job, row.network): [] for row in ordered}
    for row in requests:
        by_job[row.job, row.network].append(row)
    spans_s = [max(row.finished_s for row in of) for of in turns.values()]
    available_s = sum(spans_s) * (_count(told, "workers") or len({row.worker for row in rows} - {None}))
    return PolicySummary(
        policy, tuple(turns), _responses(requests, None, None),
        tuple(_responses(of, *key) for key, of in by_job.items()),
        _memory(turns, _count(told, "limit_bytes")), _loads(turns, told.get("safety")), sum(spans_s) / len(spans_s),
        _busy_s(rows, "load") / available_s if available_s else None,
        _busy_s(rows, "execute") / available_s if available_s else None,
    )  # fmt: skip


def _responses(rows: Sequence[TimelineRow], job: str | None, network: str | None) -> Responses:
    times_s = latencies_s(rows)
    median_s, p95_s, longest_s = percentiles_s(times_s, 50, 95, 100)
    return Responses(
        job, network, *count_outcomes(rows), sum(row.deadline_s is not None for row in rows),
        sum(row.deadline_s is not None and not (row.status == "ok" and row.met) for row in rows),
        sum(times_s) / len(times_s) if times_s else None, median_s, p95_s, longest_s, first_failure(rows),
    )  # fmt: skip


def _count(told: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number of the header; ``None`` where it has none."""
    value = told.get(name)
    return value if isinstance(value, int) else None


def _memory(turns: dict[int, list[TimelineRow]], limit_bytes: int | None) -> Memory:
    def peak(read: Callable[[TimelineRow], int | None]) -> int | None:
        return max((value for of in turns.values() for row in of if (value := read(row)) is not None), default=None)

    def counted(read: Callable[[TimelineRow], int | None]) -> int | None:
        """Return the sum over turns of what each had counted at its end."""
        ends = [max((v for row in of if (v := read(row)) is not None), default=None) for of in turns.values()]
        known = [end for end in ends if end is not None]
        return sum(known) if known else None

    counted_peak_bytes = peak(lambda row: row.peak_bytes)
    return Memory(
        limit_bytes, peak(lambda row: row.budget_bytes), peak(lambda row: row.held_bytes),
        max((each for of in turns.values() if (each := _resident_peak_bytes(of)) is not None), default=None),
        peak(lambda row: row.resident_bytes) if counted_peak_bytes is None else counted_peak_bytes,
        peak(lambda row: row.swap_bytes), counted(lambda row: row.major_faults), counted(lambda row: row.limit_hits),
    )  # fmt: skip


def _resident_peak_bytes(rows: Sequence[TimelineRow]) -> int | None:
    """Return the most that one turn held, bytes, with layers' weights counted once that several copies map."""
    mapped: dict[tuple[str | None, int | None], dict[str | None, int]] = {}
    changes: list[tuple[float, bool, TimelineRow]] = []
    for row in rows:
        if row.event in ("load", "execute", "unload") and row.held_bytes is not None:
            begun_s = row.finished_s if row.started_s is None or row.event == "unload" else row.started_s
            changes.append((begun_s, row.event != "unload", row))
    most, again_bytes = None, 0
    for _, _, row in sorted(changes, key=lambda each: each[:2]):
        copies = mapped.setdefault((row.network, row.layer_index), {})
        again_bytes -= sum(copies.values()) - max(copies.values(), default=0)
        if row.event == "load" and row.status == "ok" and row.layer != row.network:  # a whole network is no file alone
            copies[row.copy] = row.bytes or 0
        elif row.event == "unload":
            copies.pop(row.copy, None)
        again_bytes += sum(copies.values()) - max(copies.values(), default=0)
        most = max(most or 0, (row.held_bytes or 0) - again_bytes)
    return most


def _loads(turns: dict[int, list[TimelineRow]], safety: object) -> Loads:
    """Return what was read: rows have what was set aside for it, so many times as much as the header's safety says."""
    factor = safety if isinstance(safety, (int, float)) and safety >= 1 else 1.0
    rows = [row for of in turns.values() for row in of if row.status == "ok"]
    loads = [row for row in rows if row.event == "load"]
    with_weights = {(row.network, row.layer_index) for row in loads}
    needed = sum(row.event == "execute" and (row.network, row.layer_index) in with_weights for row in rows)
    avoided = 1 - len(loads) / needed if needed else None
    return Loads(len(loads), round(sum(row.bytes or 0 for row in loads) / factor), needed, avoided)


def _busy_s(rows: Iterable[TimelineRow], event: str) -> float:
    return sum(
        row.finished_s - row.started_s
        for row in rows
        if row.event == event and row.worker is not None and row.started_s is not None
    )
