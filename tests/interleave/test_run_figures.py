"""Figures of runs: what they show is what the rows say, and odd runs are drawn or refused, never a traceback."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from run_builder import abandoned, adapted_run, power, request, run_of, study_run, trained

from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError
from edgetune.plotting.figure_file import figure_bytes
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


def test_throughput_stands_in_a_panel_of_its_own() -> None:
    rows = [request(0.0, 0.0, 1.0), *(trained(k, k + 1, number=k) for k in range(8))]
    latency, throughput = latency_figure(run_of(rows)).axes
    (marker,) = throughput.lines
    assert list(marker.get_xdata()) == [16.0]
    assert throughput.get_xlim()[0] == 0
    assert "latency" in latency.get_xlabel()


def test_the_timeline_has_a_panel_for_what_changed() -> None:
    labels = [axes.get_ylabel() for axes in timeline_figure(adapted_run(60.0)).axes]
    assert labels == [
        "requests/s", "mobilenet\nlatency (ms)", "trained\nsamples/s", "batch size", "GPU clock\n(MHz)", "power (W)"
    ]  # fmt: skip
    words = _words(timeline_figure(adapted_run(60.0)))
    assert all(word in words for word in ("planned anew", "power budget", "due"))


@pytest.mark.parametrize(
    ("rows", "drawn"),
    [
        ([], ""),
        ([power(0.0, 5.0)], ""),
        ([trained(0.0, 1.0)], "timeline"),
        ([request(0.0, 0.0, 0.0)], "latency"),
        ([request(0.0, 0.0, 1e-7)], "latency timeline"),
        ([replace(request(0.0, 0.0, 1.0), deadline_s=None, met=None, tenant=None)], "latency timeline"),
        ([abandoned(0.0, 1.0)], "timeline"),
        ([request(0.0, 0.0, 1e5, budget_s=1e-6)], "latency timeline"),
        ([replace(trained(0, 1), status="failed", samples=0), request(0.5, 1.0, 1.5)], "latency timeline"),
        ([request(k, k, k + 1, tenant=name, number=k) for k in range(3) for name in NAMES], "latency timeline"),
        ([trained(k, k + 1, tenant=name, number=k) for k in range(3) for name in "ab"], "timeline"),
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
        "latency by engine", "managed over time", "native over time"
    ]  # fmt: skip
    assert not re.search(r"""https?://|src=|href=(?!"#)|@import|url\((?!#)""", page)
    assert "SIMULATED" in page
    assert "a &amp; &lt;b&gt;.parquet" in page
    assert "nothing happened" in page_of([Found("run", run_of([]))]).data().decode()
