"""Figures of timelines: what is merged, what is drawn of a long run, and what cannot be drawn."""

from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import InputError
from edgetune.plotting.gantt import Span
from edgetune.stages.schedule.figures.gantt import bars_of, gantt_figure, highest_per_slot
from edgetune.workflows.figures import choose_view


def task(start_s: float, end_s: float, network: str = "net", event: str = "execute", worker: int = 0) -> TimelineRow:
    return TimelineRow(
        event, "masa", end_s, 0, network, None, 0, "conv", 0, worker, network, started_s=start_s, held_bytes=2**20
    )  # type: ignore[arg-type]


def request(number: int, arrived_s: float, end_s: float, policy: str = "masa", job: str = "job") -> TimelineRow:
    return TimelineRow(
        "request", policy, end_s, 0, "net", job, number, arrived_s=arrived_s, deadline_s=end_s + 1, met=True
    )


def timeline(*rows: TimelineRow, simulated: bool = True) -> Timeline:
    return Timeline(Header.new("timeline", 1, conditions={"workers": 2, "simulated": simulated}), rows)


BUDGET = TimelineRow("budget", "masa", 0.0, budget_bytes=2**21, held_bytes=0)
SHORT = (BUDGET, task(0, 1, event="load"), task(1, 2), task(0, 2, "other", worker=1), request(0, 0, 2))


def test_bars_too_narrow_to_see_are_one_with_neighbours_of_the_same_network() -> None:
    narrow = [task(number / 1000, (number + 1) / 1000) for number in range(100)]
    other = [task(0.1, 0.104, "other"), task(0.104, 0.105)]
    bars = bars_of([*narrow, *other], Span(0.0, 10.0))
    assert [(bar.kind[1], bar.start_s, bar.end_s) for bar in bars] == [("net", 0.0, 0.1), ("other", 0.1, 0.105)]
    assert len(bars_of(narrow, Span(0.0, 0.1))) == 100


def test_however_many_tasks_there_are_no_more_bars_than_lines_are_drawn() -> None:
    rows = [
        task(n / 100, (n + 1) / 100, "net" if n % 3 else "other", "load" if n % 2 else "execute") for n in range(9000)
    ]
    assert len(bars_of(rows, Span(0.0, 90.0))) <= 1200


def test_the_highest_of_what_is_too_near_to_tell_apart_is_seen() -> None:
    points = [(0.0, 1), (1.0, 5), (1.0001, 9), (1.0002, 2), (3.0, 4)]
    assert highest_per_slot(points, Span(0.0, 10.0)) == [(0.0, 1), (1.0, 9), (3.0, 4)]
    assert highest_per_slot(points, Span(2.0, 10.0)) == [(2.0, 2), (3.0, 4)]
    assert highest_per_slot(points, Span(2.0, 2.5)) == [(2.0, 2)]


def test_a_gantt_chart_has_a_lane_per_worker_over_the_memory_and_its_budget() -> None:
    figure = gantt_figure(timeline(*SHORT))
    above, below = figure.axes
    assert [label.get_text() for label in above.get_yticklabels()] == ["worker 0", "worker 1"]
    assert above.get_title(loc="left").startswith("SIMULATED: masa")
    labels = {line.get_label() for line in below.get_lines()}
    assert {"held, by the runtime", "budget of tasks"} <= labels
    budget = next(line for line in below.get_lines() if line.get_label() == "budget of tasks")
    assert set(budget.get_ydata()) == {2.0}  # MiB


def test_every_policy_is_drawn_and_where_one_was_killed() -> None:
    """Bulk is killed at 1.5 s with 9 MiB held; its requests, given up, would have arrived later."""
    bulk = [
        replace(row, policy="bulk") for row in (BUDGET, task(0, 1, event="load"), request(0, 0, 2), request(1, 8, 8))
    ]
    given_up = [replace(row, status="failed") if row.event == "request" else row for row in bulk]
    made = timeline(*SHORT, *given_up)
    killed = {"policies": {"masa": [{}], "bulk": [{"killed": {"at_s": 1.5, "bytes": 9 * 2**20}}]}}
    made = replace(made, header=replace(made.header, conditions={**made.header.conditions, **killed}))
    figure = gantt_figure(made)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[0].startswith("SIMULATED: masa")
    assert titles[2].startswith("bulk")
    assert len(figure.axes) == 4
    lines = {line.get_label(): line for line in figure.axes[3].get_lines()}
    assert set(lines["killed"].get_xdata()) == {1.5}
    assert [*lines["held when killed"].get_xdata(), *lines["held when killed"].get_ydata()] == [1.5, 9.0]
    assert max(lines["budget of tasks"].get_xdata()) == 1.5, "nothing is held after it"
    assert figure.axes[3].get_ylim()[1] > 9.0
    assert "killed" not in {line.get_label() for line in figure.axes[1].get_lines()}
    assert len(gantt_figure(made, policy="bulk").axes) == 2


@pytest.mark.parametrize(("rows", "words"), [((), "no rows"), ((BUDGET,), "no task ran")])
def test_nothing_to_draw_is_said(rows: tuple[TimelineRow, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        choose_view("timeline", "gantt")(timeline(*rows))
