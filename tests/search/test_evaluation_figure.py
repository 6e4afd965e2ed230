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


def test_a_panel_per_workload_and_one_for_all():
    runs = [run("roofline", [0.0, 0.1], workload=name) for name in ("a", "b", "c")]
    figure = evaluation_figure(evaluation(*runs))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["all workloads", "a", "b", "c"]
    assert len({axes.get_xlim() for axes in shown}) == 1
    assert sum(bool(axes.get_xlabel()) for axes in shown) == 2  # the lowest of each column


def test_nothing_solved_is_nothing_to_draw():
    with pytest.raises(InputError, match="no problem was solved"):
        evaluation_figure(evaluation(run("gmd", [np.nan])))


def test_a_share_is_rounded_as_in_the_table():
    nearly = run("gmd", [0.1] * 29 + [np.nan])
    (merit,) = merits([nearly], lambda each: each.contender)
    assert merit.solved_percent == 96.66  # of 96.667: what is not solved is not rounded away
    assert "96.66 %" in texts(evaluation_figure(evaluation(nearly)))


def test_the_worst_answer_is_drawn_within_the_axis():
    (axes,) = evaluation_figure(evaluation(run("roofline", [0.01] * 500 + [456.0]))).axes
    (ends,) = (found for found in axes.lines if found.get_label() == "best and worst")
    assert list(ends.get_xdata()) == [pytest.approx(1.0), pytest.approx(45_600.0)]
    assert axes.get_xlim()[1] >= 45_600.0


def test_a_figure_of_solved_problems_without_a_known_excess_is_drawn():
    solved = replace(run("gmd", [np.nan, np.nan]), solved=np.array([True, True]))
    found = Evaluation(Header.new("evaluation", 1), (solved,))
    assert figure_bytes(evaluation_figure(found), "svg")
