"""The figure of an evaluation: a box per strategy, and what must be written on it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
from edgetune.artifacts.header import Header
from edgetune.errors import InputError
from edgetune.plotting.figure_file import figure_bytes
from edgetune.stages.search.evaluation.results import evaluation_figure, merits

pytest.importorskip("matplotlib")


def run(
    strategy: str, excess: list[float], *, workload: str = "net", family: str = "train", over: int = 0
) -> EvaluationRun:
    values = np.array(excess, dtype=float)
    count, solved = len(values), ~np.isnan(values)
    nothing, violated = np.full(count, np.nan), np.zeros(count, dtype=bool)
    violated[:over] = True
    return EvaluationRun(
        family, "t.csv", workload, None, strategy, 10, 0, np.arange(count), np.full(count, 30.0), nothing, nothing,
        np.full(count, True), solved & ~violated, violated, np.where(violated, np.nan, values),
        np.full(count, 10), np.zeros(count), nothing, nothing, nothing,
    )  # fmt: skip


def evaluation(*runs: EvaluationRun, simulated: bool = False) -> Evaluation:
    conditions = {"device": "twin:orin-agx" if simulated else "board", "simulated": simulated}
    return Evaluation(Header.new("evaluation", 1, conditions=conditions), tuple(runs))


def texts(figure) -> str:
    svg = figure_bytes(figure, "svg").decode()
    return " ".join(re.findall(r"<!-- (.*?) -->", svg))


GOOD = run("roofline", [0.0, 0.01, 0.02, np.nan])
BAD = run("random", [0.1, 0.5, 2.5, 0.3], over=1)


def test_strategies_solved_and_violations_are_written():
    written = texts(evaluation_figure(evaluation(GOOD, BAD)))
    for text in ("roofline (10)", "random (10)", "75 %", "75 %, 1 over", "train: 4 solvable problems", "solved"):
        assert text in written
    assert "time over the best (%)" in written
    assert "SIMULATED" not in written


def test_a_simulated_evaluation_says_so():
    assert "SIMULATED: twin:orin-agx" in texts(evaluation_figure(evaluation(GOOD, simulated=True)))


def test_pairs_lose_throughput():
    figure = evaluation_figure(evaluation(run("roofline", [0.0, 0.2], family="train+infer")))
    assert "background throughput lost (%)" in texts(figure)


def test_a_panel_per_workload_and_one_for_all():
    runs = [run("roofline", [0.0, 0.1], workload=name) for name in ("a", "b", "c")]
    figure = evaluation_figure(evaluation(*runs))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["all workloads", "a", "b", "c"]
    assert len({axes.get_xlim() for axes in shown}) == 1
    assert sum(bool(axes.get_xlabel()) for axes in shown) == 2  # the lowest of each column


def test_a_strategy_that_solves_nothing_has_its_row():
    figure = evaluation_figure(evaluation(GOOD, run("gmd", [np.nan, np.nan])))
    written = texts(figure)
    assert "gmd (10)" in written
    assert "0 %" in written


def test_the_axis_has_room_for_zero_and_for_tenfold():
    (axes,) = evaluation_figure(evaluation(run("random", [0.0, 9.0]))).axes
    low, high = axes.get_xlim()
    assert low < 0
    assert high >= 900


def test_the_same_evaluation_gives_the_same_bytes():
    twice = [figure_bytes(evaluation_figure(evaluation(GOOD, BAD)), "svg") for _ in range(2)]
    assert twice[0] == twice[1]


def test_nothing_solved_is_nothing_to_draw():
    with pytest.raises(InputError, match="no problem was solved"):
        evaluation_figure(evaluation(run("gmd", [np.nan])))


def test_a_share_is_rounded_as_in_the_table():
    nearly = run("gmd", [0.1] * 29 + [np.nan])
    (merit,) = merits([nearly], lambda each: each.contender)
    assert merit.solved_percent == 96.66  # of 96.667: what is not solved is not rounded away
    assert "96.66 %" in texts(evaluation_figure(evaluation(nearly)))


def test_box_whisker_and_median_look_different_in_the_legend():
    (axes,) = evaluation_figure(evaluation(BAD)).axes
    handles, names = axes.get_legend_handles_labels()
    assert names == [
        "median", "middle half (box)", "1st to 99th\npercentile (whiskers)", "mean", "best and worst"
    ]  # fmt: skip
    by_name = dict(zip(names, handles, strict=True))
    assert by_name["median"].get_linestyle() == "None"
    assert by_name["median"].get_color() != by_name["1st to 99th\npercentile (whiskers)"].get_color()
    assert by_name["middle half (box)"].get_facecolor().tolist()[0][:3] != [0, 0, 0]


def test_the_worst_answer_is_drawn_within_the_axis():
    (axes,) = evaluation_figure(evaluation(run("roofline", [0.01] * 500 + [456.0]))).axes
    (ends,) = (found for found in axes.lines if found.get_label() == "best and worst")
    assert list(ends.get_xdata()) == [pytest.approx(1.0), pytest.approx(45_600.0)]
    assert axes.get_xlim()[1] >= 45_600.0


def test_only_all_of_them_are_a_hundred_per_cent():
    nearly = [0.0] * 29_999 + [np.nan]
    assert "99.99 %" in texts(evaluation_figure(evaluation(run("roofline", nearly))))
    assert "100 %" in texts(evaluation_figure(evaluation(run("roofline", nearly[:-1]))))


def test_a_figure_of_solved_problems_without_a_known_excess_is_drawn():
    solved = replace(run("gmd", [np.nan, np.nan]), solved=np.array([True, True]))
    found = Evaluation(Header.new("evaluation", 1), (solved,))
    assert figure_bytes(evaluation_figure(found), "svg")
