"""Figures of runs: what they show is what the rows say, and odd runs are drawn or refused, never a traceback."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from run_builder import BUDGET_S, abandoned, governed_run, power, request, run_of, study_run, trained

from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError
from edgetune.plotting.captions import left_out_of
from edgetune.plotting.figure_file import figure_bytes
from edgetune.stages.interleave.cycle import WorkloadPoint, cycle_of
from edgetune.stages.interleave.figures.cycle import cycles_of, planned_cycles, planned_figure
from edgetune.stages.interleave.figures.latency import latency_figure
from edgetune.stages.interleave.figures.timeline import timeline_figure
from edgetune.workflows.figures import choose_view, views_of
from edgetune.workflows.report.report import Found, page_of

NAMES = ("a" * 60, "b $x_1$ $", "ü")


@pytest.fixture(scope="module")
def study() -> Run:
    return study_run(8.0)


def _words(figure) -> str:
    texts = [text.get_text() for axes in figure.axes for text in (axes.title, axes._left_title, *axes.texts)]
    texts += [axis.get_label_text() for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    texts += [label.get_text() for axes in figure.axes for label in axes.get_xticklabels()]
    texts += [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    texts += [figure.get_suptitle()]
    return "\n".join(texts)


@pytest.mark.parametrize("view", views_of("run"))
def test_each_view_repeats_to_the_byte_and_says_that_it_is_simulated(study: Run, view) -> None:
    first, second = (choose_view("run", view).draw(study) for _ in range(2))
    assert figure_bytes(first, "svg") == figure_bytes(second, "svg")
    assert "SIMULATED" in _words(first)
    assert "twin:orin-agx" in _words(first)


def test_boxes_are_percentiles_and_the_budget_is_where_it_is(study: Run) -> None:
    words = _words(latency_figure(study))
    assert "mobilenet, due in 400 ms" in words
    names = [label.get_text() for label in latency_figure(study).axes[0].get_yticklabels()]
    assert {"managed", "native"} <= set(names)
    figure = latency_figure(run_of([request(k, k, k + 0.001 * k, number=k, budget_s=0.08) for k in range(1, 102)]))
    axes = figure.axes[0]
    ends = sorted({round(float(value), 6) for line in axes.lines for value in line.get_xdata()})
    # shortest, 1st percentile, median, budget, 99th percentile and longest, ms
    assert {1.0, 2.0, 51.0, 80.0, 100.0, 101.0} <= set(ends)
    assert "21 of\n101 late" in _words(figure)
    assert len(figure.axes) == 1  # nothing trained: no second panel


def test_unanswered_requests_are_reported() -> None:
    rows = [request(k, k, k + 0.01, number=k) for k in range(5)]
    lost = [replace(row, tenant=name, status="abandoned") for row, name in zip(rows, ("net", "other"), strict=False)]
    figure = latency_figure(run_of([*rows, *(replace(row, finished_s=row.finished_s + 7, met=False) for row in lost)]))
    assert left_out_of(figure) == [
        "not drawn, because no request of theirs was answered: other",
        "requests without an answer are not drawn: 2 of managed; the longest waited 7.01 s",
    ]


def test_throughput_stands_in_a_panel_of_its_own() -> None:
    rows = [request(0.0, 0.0, 1.0), *(trained(k, k + 1, number=k) for k in range(8))]
    latency, throughput = latency_figure(run_of(rows)).axes
    (marker,) = throughput.lines
    assert list(marker.get_xdata()) == [16.0]
    assert throughput.get_xlim()[0] == 0
    assert "latency" in latency.get_xlabel()


def test_the_timeline_has_a_panel_for_what_changed() -> None:
    labels = [axes.get_ylabel() for axes in timeline_figure(governed_run(60.0)).axes]
    assert labels == [
        "requests/s", "mobilenet\nlatency (ms)", "trained\nsamples/s", "batch size", "GPU clock\n(MHz)", "power (W)"
    ]  # fmt: skip
    words = _words(timeline_figure(governed_run(60.0)))
    assert all(word in words for word in ("exploring", "planned anew", "governor's step", "power budget", "due"))


def test_the_rate_is_what_came_per_second() -> None:
    rows = [request(k / 4, k / 4, k / 4 + 0.01, number=k) for k in range(40)]
    figure = timeline_figure(run_of([*rows, power(10.0, 5.0)]))
    rates = {round(float(rate), 6) for rate in figure.axes[0].lines[0].get_ydata()}
    assert rates == {0.0, 5.0}  # windows of 200 ms hold one or none of the requests that come every 250 ms


def test_one_engine_of_several_is_chosen_by_name(study: Run) -> None:
    assert "native over time" in _words(timeline_figure(study, engine="native"))
    assert "managed over time" in _words(timeline_figure(study))
    with pytest.raises(InputError, match="no engine 'nativ'") as caught:
        timeline_figure(study, engine="nativ")
    assert caught.value.hint == "did you mean native? it has managed, native, streams"


def test_a_cycle_holds_whole_batches_and_all_that_ran_meanwhile() -> None:
    """Batches of 2 every second, training for the rest; three are shown, from the first request of the first."""
    rows = []
    for k in range(9):
        rows += [request(k + at, k + 0.5, k + 0.7, number=k, samples=2, budget_s=1.0) for at in (0.1, 0.3)]
        rows.append(trained(k + 0.7, k + 1.2, number=k))
    cycles = cycles_of(rows)
    assert (cycles.from_s, cycles.to_s) == (4.1, pytest.approx(6.7 + 0.1 * 2.6))
    assert [batch.arrivals_s for batch in cycles.batches] == [(4.1, 4.3), (5.1, 5.3), (6.1, 6.3)]
    assert [batch.due_s for batch in cycles.batches] == [5.1, 6.1, 7.1]
    assert [(each.tenant, each.start_s) for each in cycles.busy] == [
        ("learner", 3.7), ("net", 4.5), ("learner", 4.7), ("net", 5.5), ("learner", 5.7), ("net", 6.5), ("learner", 6.7)
    ]  # fmt: skip


def test_a_planned_cycle_is_its_equations() -> None:
    """8 requests at 40/s fill in 175 ms and come every 200 ms; 50 ms of answers leave room for two steps of 60 ms."""
    cycle = cycle_of(WorkloadPoint("net", 8, 0.05), 40.0, WorkloadPoint("learner", 16, 0.06))
    cycles = planned_cycles(cycle, 0.25)
    before, first, second, _, after = cycles.batches
    assert (before.end_s, after.arrivals_s[0]) == (pytest.approx(-0.15), pytest.approx(0.425))
    assert first.arrivals_s == pytest.approx([-0.175 + k / 40 for k in range(8)])
    assert (first.start_s, first.end_s, first.due_s) == (0.0, 0.05, pytest.approx(0.075))
    assert second.start_s == pytest.approx(0.2)
    assert [(each.tenant, each.start_s) for each in cycles.busy[3:7]] == [
        ("net", 0.0), ("learner", 0.05), ("learner", pytest.approx(0.11)), ("net", pytest.approx(0.2))
    ]  # fmt: skip
    words = _words(planned_figure(cycle, 0.25))
    assert "planned: a cycle of 200 ms at 40 requests/s" in words
    assert "left until the oldest" in words
    assert "SIMULATED" not in words
    assert "SIMULATED: planned: a cycle" in _words(planned_figure(cycle, 0.25, simulated=True))
    with pytest.raises(InputError, match="rate of requests is unknown"):
        planned_figure(cycle_of(WorkloadPoint("net", 8, 0.05), None))


@pytest.mark.parametrize(
    ("rows", "drawn"),
    [
        ([], ""),
        ([power(0.0, 5.0)], ""),
        ([trained(0.0, 1.0)], "cycle timeline"),
        ([request(0.0, 0.0, 0.0)], "latency"),
        ([request(0.0, 0.0, 1e-7)], "cycle latency timeline"),
        ([replace(request(0.0, 0.0, 1.0), deadline_s=None, met=None, tenant=None)], "cycle latency timeline"),
        ([abandoned(0.0, 1.0)], "timeline"),
        ([request(0.0, 0.0, 1e5, budget_s=1e-6)], "cycle latency timeline"),
        ([replace(trained(0, 1), status="failed", samples=0), request(0.5, 1.0, 1.5)], "cycle latency timeline"),
        ([request(k, k, k + 1, tenant=name, number=k) for k in range(3) for name in NAMES], "cycle latency timeline"),
        ([trained(k, k + 1, tenant=name, number=k) for k in range(3) for name in "ab"], "cycle timeline"),
        ([RunRow("managed", "plan", 5.0)], ""),
    ],
)
def test_odd_runs_are_drawn_or_refused(rows, drawn) -> None:
    found = []
    for view in sorted(views_of("run")):
        try:
            figure_bytes(choose_view("run", view).draw(run_of(rows)), "svg")
        except InputError:
            continue
        found.append(view)
    assert " ".join(found) == drawn


def test_a_page_holds_everything_and_loads_nothing() -> None:
    rows = [request(0.0, 0.0, 1.0), trained(0.0, 1.0, engine="native")]
    page = page_of([Found("a & <b>.parquet", run_of(rows, simulated=True))]).data().decode()
    assert re.findall('<svg[^>]* aria-label="([^"]*)"', page) == [
        "latency by engine", "managed over time", "managed, some cycles", "native over time", "native, some cycles"
    ]  # fmt: skip
    assert not re.search(r"""https?://|src=|href=(?!"#)|@import|url\((?!#)""", page)
    assert "SIMULATED" in page
    assert "a &amp; &lt;b&gt;.parquet" in page
    assert "nothing happened" in page_of([Found("run", run_of([]))]).data().decode()


def test_ten_thousand_requests_do_not_make_a_large_file() -> None:
    rows = [request(k / 100, k / 100, k / 100 + (k % 7) * BUDGET_S / 5, budget_s=BUDGET_S) for k in range(10_000)]
    assert len(figure_bytes(timeline_figure(run_of(rows)), "svg")) < 400_000


def test_a_page_says_which_figure_there_is_nothing_to_draw_of() -> None:
    page = page_of([Found("run", run_of([trained(k, k + 1, number=k) for k in range(8)]))]).data().decode()
    assert page.count("<svg") == 2
    assert "is not drawn: the run has no answered request to draw" in page


def test_every_request_and_minibatch_of_a_page_is_described() -> None:
    rows = [request(0.1 * k, 0.1 * k, 0.1 * k + 0.03, number=k) for k in range(30)]
    page = page_of([Found("run", run_of(rows))]).data().decode()
    titles = re.findall(r"<title>([^<]*)</title>", page)
    assert sum("in time after 30 ms" in title for title in titles) == 30
    assert "net answers 1 samples\nin 30 ms" in titles
    assert any(title.startswith("request to net\nanswered 30 ms later") for title in titles)
    assert any(title.startswith("idle for 70 ms") for title in titles)
