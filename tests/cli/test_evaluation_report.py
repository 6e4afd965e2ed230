"""The table of an evaluation: shares in per cent, and nothing rounded up to perfect."""

import math
from dataclasses import replace

import numpy as np
import pytest

from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
from edgetune.artifacts.header import Header
from edgetune.cli.sections import TextSection
from edgetune.workflows.report.evaluation import evaluation_answer, section


def show_evaluation(evaluation, by="strategy"):
    section(evaluation, TextSection(), by)


def run(
    count: int, unsolved: int, excess: float = 0.0, *, workload: str = "net", strategy: str = "gmd"
) -> EvaluationRun:
    solved = np.arange(count) >= unsolved
    nothing = np.full(count, math.nan)
    return EvaluationRun(
        "infer", "t.csv", workload, None, strategy, None, 0, np.arange(count), nothing, nothing, nothing,
        np.full(count, True), solved, np.full(count, False), np.where(solved, excess, math.nan), np.full(count, 10),
        np.full(count, 0.0123), nothing, np.where(solved, 3.0, math.nan), np.where(solved, 7.0, math.nan),
    )  # fmt: skip


def evaluation(*runs: EvaluationRun) -> Evaluation:
    return Evaluation(Header.new("evaluation", 1, conditions={"family": "infer"}), runs)


def test_a_row_per_workload_and_one_for_all(capsys):
    runs = (run(10, 0, 0.5, workload="a"), run(30, 0, 0.1, workload="b"), run(10, 1, 12.5, workload="a", strategy="x"))
    show_evaluation(evaluation(*runs), "workload")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("gmd", "a", "50.00"), ("gmd", "b", "10.00"), ("gmd", "all", "20.00"), ("x", "a", "1250")
    ]  # fmt: skip
    assert rows[0][-4:] == ["10", "3/7", "12", "ms"]


def test_the_interval_of_the_mean_is_that_of_problems_drawn_anew(capsys):
    one = run(400, 0)
    mixed = replace(one, excess=np.repeat([0.0, 0.1], 200))
    show_evaluation(evaluation(mixed))
    interval, *others = capsys.readouterr().out.splitlines()[3].split()[4:8]
    low, high = map(float, interval.split("-"))
    # The mean of 400 problems, each 0 or 10 %, has a standard error of 0.25 %.
    assert (low, high) == (pytest.approx(4.51, abs=0.06), pytest.approx(5.49, abs=0.06))
    assert others == ["10.00"] * 3
    # A second seed with the same answers says nothing new.
    show_evaluation(evaluation(mixed, replace(mixed, seed=1)))
    assert capsys.readouterr().out.splitlines()[3].split()[4] == interval


def test_missing_figures_are_null_in_json():
    (result,) = evaluation_answer(evaluation(run(3, 3)))["results"]
    assert (result["strategy"], result["solved"], result["solvable"]) == ("gmd", 0, 3)
    assert result["mean"] is result["p99"] is result["worst"] is result["measurement_s"] is None
    assert result["mean_low"] is result["mean_high"] is result["points_to_1_percent"] is None
