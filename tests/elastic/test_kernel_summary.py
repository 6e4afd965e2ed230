"""A kernel timeline in figures, and drawn."""

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.errors import InputError
from edgetune.plotting.gantt import Bar, Span
from edgetune.stages.elastic.figures.gantt import bars_of, gantt_figure
from edgetune.stages.elastic.timeline import summarise

TOLD = {
    "simulated": True, "device": "small", "duration_s": 2.0, "gpu": {"sm_count": 2},
    "tasks": [{"name": "urgent", "priority": 1}, {"name": "normal", "priority": 0}],
}  # fmt: skip


def request(policy, task, arrived_s, finished_s, **more):
    return KernelTimelineRow("request", policy, finished_s, task=task, request=0, arrived_s=arrived_s, **more)


def stay(sm, start_s, end_s, task="urgent", policy="elastic"):
    return KernelTimelineRow("residency", policy, end_s, task=task, launch=0, blocks=1, sm=sm, started_s=start_s)


def timeline(*rows, **told):
    return KernelTimeline(Header.new("kernel_timeline", 1, conditions={**TOLD, **told}), rows)


def test_latency_is_beside_that_alone_and_answers_beside_the_time_requests_came():
    alone = [request("solo", "urgent", at, at + 0.01) for at in (0.0, 0.5)]
    rows = [request("elastic", "urgent", at, at + took) for at, took in ((0.0, 0.012), (0.5, 0.012), (1.0, 0.02))]
    rows += [request("elastic", "normal", 0.0, 0.25)]
    (found,) = summarise(timeline(*alone, *rows))
    urgent, normal = found.tasks
    assert (found.policy, found.turns, urgent.task, urgent.priority) == ("elastic", 1, "urgent", 1)
    assert (urgent.requests, urgent.answered, urgent.answers_per_s) == (3, 3, 1.5)
    assert urgent.p50_s == pytest.approx(0.012)
    assert urgent.p50_x == pytest.approx(1.2)
    assert urgent.p99_x == pytest.approx((0.012 + 0.98 * 0.008) / 0.01)
    assert (normal.priority, normal.p50_x, normal.answers_per_s) == (0, None, 0.5)
    assert found.answers_per_s == 2.0


def test_late_and_failed_requests_miss_deadlines_and_requests_without_a_chance_do_not():
    rows = [
        request("elastic", "urgent", 0.0, 0.1, deadline_s=0.2, met=True),
        request("elastic", "urgent", 0.0, 0.3, deadline_s=0.2, met=False),
        request("elastic", "urgent", 0.0, 0.1, deadline_s=0.2, met=False, status="failed", reason="illegal address"),
        request("elastic", "urgent", 0.0, 0.3, deadline_s=0.2, met=False, status="abandoned"),
        request("elastic", "urgent", 0.2, 0.3, deadline_s=0.4, met=False, status="abandoned"),
    ]
    ((urgent, _),) = (of.tasks for of in summarise(timeline(*rows)))
    assert (urgent.due, urgent.misses) == (4, 3)
    assert (urgent.answered, urgent.failed, urgent.abandoned, urgent.reason) == (2, 1, 2, "illegal address")


def test_a_multiprocessor_is_busy_once_however_many_blocks_it_has():
    rows = [stay(0, 0.0, 0.5), stay(0, 0.25, 1.0, "normal"), stay(1, 0.5, 1.0), stay(1, 0.6, 0.8, "normal")]
    rows += [request("elastic", "urgent", 0.0, 2.0)]
    (found,) = summarise(timeline(*rows))
    assert found.busy == pytest.approx((1.0 + 0.5) / (2 * 2.0))


def test_rates_of_answers_use_the_time_until_the_run_was_stopped():
    rows = [request("elastic", "urgent", 0.0, 0.25)]
    ((urgent, _),) = (of.tasks for of in summarise(timeline(*rows, policies={"elastic": [{"stopped_s": 0.5}]})))
    assert urgent.answers_per_s == 2.0


def test_partly_kept_residencies_are_related_to_and_drawn_until_their_end():
    rows = [stay(0, 0.0, 0.5), stay(1, 0.0, 0.25), request("elastic", "urgent", 0.0, 2.0)]
    told = {"elastic": [{"residencies_until_s": 0.5}]}
    (found,) = summarise(timeline(*rows, policies=told))
    assert found.busy == pytest.approx(0.75)
    assert gantt_figure(timeline(*rows, policies=told)).axes[-1].get_xlim() == (0.0, 500.0)


def test_launches_are_counted_with_those_of_elastic_forms():
    def launch(elastic):
        return KernelTimelineRow(
            "launch", "elastic", 1.0, 0, "normal", 0, 0, 0, "k", 0, 1, 1, elastic, 1, 32, started_s=0.5
        )

    (found,) = summarise(timeline(launch(True), launch(True), launch(False)))
    assert [(each.task, each.launches, each.elastic) for each in found.tasks] == [("urgent", 0, 0), ("normal", 3, 2)]


def test_a_task_of_which_no_request_came_and_a_policy_to_which_none_came_are_there_all_the_same():
    told = {"policies": {"barrier": [{}], "elastic": [{}]}}
    barrier, elastic = summarise(timeline(request("elastic", "normal", 0.0, 0.25), **told))
    assert (barrier.policy, barrier.turns, barrier.answers_per_s, barrier.busy) == ("barrier", 1, 0.0, None)
    assert [(each.task, each.requests) for each in barrier.tasks] == [("urgent", 0), ("normal", 0)]
    urgent, normal = elastic.tasks
    assert (urgent.task, urgent.requests, urgent.p50_s, urgent.p50_x) == ("urgent", 0, None, None)
    assert (normal.requests, normal.answers_per_s) == (1, 0.5)


def test_bars_without_a_pause_that_could_be_seen_are_one():
    rows = [stay(0, 0.0, 0.1), stay(0, 0.1, 0.2), stay(0, 0.5, 0.6), stay(0, 0.2, 0.3, "normal"), stay(1, 0.2, 0.4)]
    assert bars_of(rows, Span(0.0, 1.0)) == [
        Bar((0, "urgent"), "urgent", 0.0, 0.2),
        Bar((0, "normal"), "normal", 0.2, 0.3),
        Bar((1, "urgent"), "urgent", 0.2, 0.4),
        Bar((0, "urgent"), "urgent", 0.5, 0.6),
    ]
    assert bars_of(rows, Span(0.45, 1.0)) == [Bar((0, "urgent"), "urgent", 0.5, 0.6)]


def texts(figure):
    ticks = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    return [*(axes.get_title(loc="left") for axes in figure.axes), *ticks, figure.axes[-1].get_xlabel()]


def test_the_chart_has_a_lane_for_every_multiprocessor_and_says_that_it_is_a_model():
    rows = [stay(0, 0.0, 0.1), stay(0, 0.05, 0.2, "normal"), request("elastic", "urgent", 0.0, 0.1)]
    words = texts(gantt_figure(timeline(*rows)))
    assert words[0].startswith("SIMULATED")
    assert words[-1].endswith("simulated (model)")
    assert {"SM 0", "SM 1", "urgent", "normal"} <= set(words)


def test_the_figure_shows_the_surroundings_of_an_urgent_request_of_the_middle():
    rows = [stay(0, 0.0, 2.0, "normal"), request("elastic", "normal", 0.0, 2.0)]
    rows += [request("elastic", "urgent", at_s, at_s + 0.1) for at_s in (0.1, 1.0, 1.7)]
    assert gantt_figure(timeline(*rows)).axes[-1].get_xlim() == pytest.approx((900, 1200))
    assert gantt_figure(timeline(*rows), from_s=0.5).axes[-1].get_xlim() == pytest.approx((0.5, 2.0))
    part = gantt_figure(timeline(*rows), to_s=0.5)
    assert part.axes[-1].get_xlim() == pytest.approx((0, 500))
    assert any("from 0 to 500 of 2000 ms" in words for words in texts(part)), "the unit of the axis"
    part = gantt_figure(timeline(*rows), from_s=1.00012, to_s=1.00052)
    assert any("from 1000120 to 1000520 of 2000000 µs" in words for words in texts(part))


def test_a_timeline_that_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="no rows to draw"):
        gantt_figure(timeline())
    with pytest.raises(InputError, match="no policy 'elastik'"):
        gantt_figure(timeline(stay(0, 0.0, 0.1)), policy="elastik")
    with pytest.raises(InputError, match="no record says where blocks were"):
        gantt_figure(timeline(request("elastic", "urgent", 0.0, 0.1)))
