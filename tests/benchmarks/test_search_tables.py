"""The command that judges searches on many tables: families are what they stand for, and a missed goal is named."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import search_tables as benchmark
from search_tables import FAMILIES, family_table

from edgetune.stages.search.driver import SearchSettings
from edgetune.stages.search.evaluation.answering import search_one
from edgetune.stages.search.strategies import roofline


def grid(family: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return time and power on the grid of CPU, GPU and memory clocks."""
    rows = family_table(family, seed)
    shape = [len({getattr(row, name) for row in rows}) for name in ("cpu_mhz", "gpu_mhz", "mem_mhz")]
    return np.array([r.minibatch_s for r in rows]).reshape(shape), np.array([r.power_w for r in rows]).reshape(shape)


@pytest.mark.parametrize("family", FAMILIES)
def test_family_and_seed_decide_every_figure(family):
    assert family_table(family, 0) == family_table(family, 0)
    assert family_table(family, 0) != family_table(family, 1)
    assert all(row.minibatch_s > 0 and row.power_w > 0.5 for row in family_table(family, 1))


@pytest.mark.parametrize("seed", range(benchmark.SEEDS))
def test_families_are_what_they_stand_for(seed):
    _, falling = grid("falls", seed)
    ends = sorted(falling.take(-1, axis).mean() / falling.take(0, axis).mean() for axis in range(3))
    assert ends[0] < 0.9
    assert ends[1] > 1
    for family, axis in (("cpu-bound", 1), ("dead-memory", 2)):
        time, _ = grid(family, seed)
        assert time.take(-1, axis).mean() == pytest.approx(time.take(0, axis).mean(), rel=0.15)
        assert time[0].mean() > 1.1 * time[-1].mean()
    _, steps = grid("steps", seed)
    changes = [np.abs(np.diff(np.log(steps), axis=axis)).mean(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
    assert max(change.max() / np.median(change) for change in changes) > 3
    _, walking = grid("one-core", seed)
    means_w = walking.mean(axis=(1, 2))
    assert (np.diff(means_w) < 0).any()
    for family in ("saw", "saw-bound"):
        _, power_w = grid(family, seed)
        medians_w = [np.median(power_w, axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
        falls = np.array([np.diff(np.log(each)).min() for each in medians_w])
        assert math.log(0.75) < falls.min() < math.log(0.93)
    time, _ = grid("cliff", seed)
    means_s = [time.mean(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
    assert max((each[:-1] / each[1:]).max() for each in means_s) > 1.7


def test_the_command_prints_a_line_per_table_and_what_is_missed(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(roofline._RooflinePoints, "tell", roofline._RooflinePoints.tell)  # the command wraps it
    words = ["--data", str(tmp_path), "--cache", str(tmp_path), "--only", "cpu-bound 0", "--budgets", "2"]
    monkeypatch.setattr(sys, "argv", ["search_tables.py", *words, "--points", "2", "--jobs", "0"])
    benchmark.main()
    head, table, family, every, blank, *goals = capsys.readouterr().out.splitlines()
    assert (table[:11], family[:11], every[:5], blank) == ("cpu-bound 0", "= cpu-bound", "= all", "")
    assert max(map(len, (head, table))) <= 100
    assert table.split()[2].endswith("/2")
    assert len(goals) == len(benchmark.GOALS) + len(benchmark.INTERVALS)
    assert goals[1] == "met      no answer is over budget"
    assert all(goal.startswith(("met  ", "NOT MET  ")) for goal in goals)


def test_several_numbers_of_points_are_searched_and_their_table_is_printed(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(roofline._RooflinePoints, "tell", roofline._RooflinePoints.tell)
    words = ["--data", str(tmp_path), "--cache", str(tmp_path), "--only", "saw 100", "--budgets", "1", "--jobs", "0"]
    monkeypatch.setattr(sys, "argv", ["search_tables.py", *words, "--seeds", "100-101", "--points", "1,3"])
    benchmark.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith("saw 100")] == [
        ["saw", "100", "1"],
        ["saw", "100", "3"],
    ]
    assert [cell.count("/") for cell in lines[-1].split()] == [0, 2, 2]


def test_relatives_are_the_other_tables_of_the_board(monkeypatch):
    rows = tuple(family_table("falls", 0)[::40])
    tables = [
        benchmark.Table(name, board, rows) for name, board in (("a 1", "x"), ("a 2", "x"), ("a 3", "x"), ("b", ""))
    ]
    options = benchmark.parser().parse_args(["--like"])
    jobs = list(benchmark.jobs_of(tables, options))
    assert [(job.table.name, job.kind, [each.name for each in job.relatives]) for job in jobs[3:6]] == [
        ("a 2", "none", []), ("a 2", "one", ["a 3"]), ("a 2", "all", ["a 1", "a 3"])
    ]  # fmt: skip
    assert {(job.table.name[0], job.points) for job in jobs} == {("a", (4,))}


def test_a_goal_that_is_missed_names_the_worst():
    whole = benchmark.Searches("a", "a 1", "all")
    goal = benchmark.Goal("few", lambda each: 2.0 if each.name == "a 2" else 0.5, 1.0)
    assert goal.line([whole]) == "met      few"
    assert goal.line([whole, replace(whole, name="a 2")]) == "NOT MET  few: 1 of 2 above, a 2 all 2.00"


@pytest.mark.parametrize(
    ("family", "seed", "budget"), [("one-core", 2, 1), ("saw-bound", 103, 1), ("saw-bound", 104, 0)]
)
def test_points_that_the_physics_excludes_are_measured(family, seed, budget):
    """Time or power falls at high CPU clocks, while power at the lowest clocks is low and hardly above the budget."""
    rows = tuple(family_table(family, seed))
    case = benchmark.case_of(benchmark.Table(f"{family} {seed}", "", rows), 21)
    answer, _, _ = search_one(case, budget, case.rows.__getitem__, SearchSettings("roofline", 10))
    assert answer is not None
    best_s = min(row.minibatch_s for row in rows if row.power_w <= case.problems.power_budget_w[budget])
    assert case.rows[answer].minibatch_s < 2 * best_s
