"""Figures of a timeline, against numbers worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.stages.schedule.timeline import summarise
from edgetune.workflows.report.timeline import compared


def task(event: str, layer: int, start_s: float, end_s: float, **more: Any) -> TimelineRow:
    told = {"worker": 0, "request": 0, "copy": "net", "bytes": 100, "held_bytes": 300, **more}
    return TimelineRow(
        event, "masa", end_s, 0, "net", None, told.pop("request"), f"l{layer}", layer, told.pop("worker"),
        told.pop("copy"), None, start_s, **told,
    )  # type: ignore[arg-type]  # fmt: skip


def request(number: int, arrived_s: float, end_s: float, due_s: float | None = None, **more: Any) -> TimelineRow:
    met = None if due_s is None else end_s <= due_s
    return TimelineRow(
        "request", "masa", end_s, 0, "net", "job", number, arrived_s=arrived_s, started_s=arrived_s, deadline_s=due_s,
        met=met, **more,
    )  # fmt: skip


def timeline(*rows: TimelineRow, **conditions: Any) -> Timeline:
    return Timeline(Header.new("timeline", 1, conditions={"workers": 2, **conditions}), rows)


ONE = (
    task("load", 0, 0.0, 1.0),
    task("execute", 0, 1.0, 2.0, held_bytes=400),
    task("execute", 1, 2.0, 3.0, worker=1),  # a layer without weights
    request(0, 0.0, 3.0, due_s=2.5),
    task("execute", 0, 3.0, 4.0, request=1),
    request(1, 1.0, 4.0, due_s=9.0),
    TimelineRow("unload", "masa", 4.0, 0, "net", layer="l0", layer_index=0, bytes=100, held_bytes=0),
)


def test_responses_are_from_arrival_to_answer() -> None:
    (of,) = summarise(timeline(*ONE))
    assert (of.responses.requests, of.responses.answered) == (2, 2)
    assert of.responses.mean_s == of.responses.median_s == of.responses.longest_s == 3.0
    assert (of.responses.due, of.responses.misses) == (2, 1)
    assert [(each.job, each.network, each.requests) for each in of.by_job] == [("job", "net", 2)]


def test_failed_and_abandoned_requests_miss_their_deadline_and_have_no_response() -> None:
    lost = request(2, 0.0, 1.0, due_s=5.0, status="failed", reason="no image")
    left = request(3, 0.0, 4.0, status="abandoned", reason="stopped")
    (of,) = summarise(timeline(*ONE, lost, left))
    assert (of.responses.requests, of.responses.answered, of.responses.failed, of.responses.abandoned) == (4, 2, 1, 1)
    assert (of.responses.due, of.responses.misses) == (3, 2)
    assert of.responses.mean_s == 3.0
    assert of.by_job[0].reason == "no image"


def test_a_load_is_avoided_where_weights_were_there() -> None:
    (of,) = summarise(timeline(*ONE))
    assert (of.loads.count, of.loads.bytes, of.loads.needed) == (1, 100, 2)
    assert of.loads.avoided_share == 0.5


def test_workers_are_busy_for_their_share_of_the_time() -> None:
    (of,) = summarise(timeline(*ONE))
    assert of.makespan_s == 4.0
    assert of.loading_share == 1.0 / (2 * 4.0)
    assert of.executing_share == 3.0 / (2 * 4.0)


def test_memory_is_what_was_held_and_what_was_measured() -> None:
    budget = TimelineRow("budget", "masa", 0.0, budget_bytes=500)
    (of,) = summarise(timeline(budget, *ONE, limit_bytes=900))
    assert (of.memory.held_peak_bytes, of.memory.budget_bytes, of.memory.limit_bytes) == (400, 500, 900)
    assert of.memory.peak_bytes is None
    assert of.memory.swap_peak_bytes is None
    real = replace(ONE[0], resident_bytes=850)
    (of,) = summarise(timeline(real, *ONE[1:]))
    assert of.memory.peak_bytes == 850
    counted = TimelineRow("memory", "masa", 4.0, swap_bytes=50, major_faults=3, limit_hits=2, peak_bytes=800)
    again = [replace(row, turn=1) for row in (real, counted)]
    (of,) = summarise(timeline(real, *ONE[1:], counted, *again))
    assert (of.memory.peak_bytes, of.memory.swap_peak_bytes) == (800, 50)
    assert (of.memory.major_faults, of.memory.limit_hits) == (6, 4)


def test_policies_and_turns_are_distinguished() -> None:
    other = [replace(row, policy="bulk") for row in ONE]
    later = [replace(row, turn=1, finished_s=row.finished_s + 1) for row in ONE]
    whole = timeline(*ONE, *other, *later)
    assert [(of.policy, of.turns, of.responses.requests) for of in summarise(whole)] == [
        ("masa", (0, 1), 4),
        ("bulk", (0,), 2),
    ]
    assert [(of.policy, of.turns) for of in summarise(whole, by_turn=True)] == [
        ("masa", (0,)),
        ("bulk", (0,)),
        ("masa", (1,)),
    ]
    assert summarise(whole)[0].makespan_s == pytest.approx((4.0 + 5.0) / 2)


def test_loaded_bytes_are_the_reserved_bytes_without_the_safety_factor() -> None:
    (of,) = summarise(timeline(*ONE, safety=1.25))
    assert (of.loads.count, of.loads.bytes) == (1, 80)


def test_a_comparison_says_where_one_policy_answered_less():
    rows = [request(0, 0.0, 3.0), request(1, 1.0, 2.0, status="failed")]
    all_answered = [replace(row, policy="reuse", status="ok") for row in rows]
    both = timeline(*rows, *all_answered)
    (line,) = compared(both, summarise(both))
    assert line.startswith("reuse beside masa: 2 answered instead of 1, mean response x0.667")
    same = timeline(*all_answered, *(replace(row, policy="masa") for row in all_answered))
    assert compared(same, summarise(same)) == ["masa beside reuse: mean response x1, p95 x1"]


def test_weights_that_copies_map_are_resident_once() -> None:
    """Two copies of 100 bytes and 50 of outputs: 250 by the account, 150 resident; a whole network is no one file."""
    copies = (
        task("load", 0, 0.0, 1.0, held_bytes=100, copy="net#0"),
        task("load", 0, 0.5, 1.5, held_bytes=200, copy="net#1", request=1),
        task("execute", 0, 2.0, 3.0, held_bytes=250, copy="net#1", request=1),
        task("unload", 0, 4.0, 4.0, held_bytes=100, copy="net#1"),
        task("execute", 0, 5.0, 6.0, held_bytes=140, copy="net#0"),
    )
    (of,) = summarise(timeline(*copies))
    assert (of.memory.held_peak_bytes, of.memory.resident_peak_bytes) == (250, 150)
    (whole,) = summarise(timeline(*(replace(row, layer="net") for row in copies)))
    assert whole.memory.resident_peak_bytes == 250
