"""Contenders on a small table: measured once or anew, in one process or two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.evaluation.answering import Contender, parse_contenders, require_solvers
from edgetune.stages.search.evaluation.cases import EvaluationCase, ProfiledWorkload, cases_of
from edgetune.stages.search.evaluation.results import merits
from edgetune.stages.search.evaluation.runner import EvaluationConditions, EvaluationProgress, EvaluationRunner, truths


def subjects() -> list[ProfiledWorkload]:
    found = []
    for workload, task, sizes, weight in (("net", "train", (16,), 4.0), ("net", "infer", (1, 4, 16), 1.0)):
        rows = [
            ProfileRow(
                workload, task, size, weight * (size**0.8 / gpu + 0.2 / mem), gpu_mhz=gpu, mem_mhz=mem, device="board",
                power_w=8 + (gpu / 400) ** 2 + mem / 600 + size / 16,
            )
            for size in sizes for gpu in (300.0, 500.0, 700.0, 900.0, 1100.0) for mem in (600.0, 1600.0, 2100.0, 3200.0)
        ]  # fmt: skip
        found.append(ProfiledWorkload(f"{task}.csv", "board", workload, task, tuple(rows)))
    return found


def played(cases: list[EvaluationCase], strategies: str, *, every: int = 1, **conditions) -> list[EvaluationRun]:
    chosen = [np.arange(0, len(case.problems), every) for case in cases]
    board = EvaluationRunner(
        cases, truths(cases), chosen, parse_contenders(strategies), EvaluationConditions(**conditions)
    )
    board.run()
    return board.runs()


def figures(runs: list[EvaluationRun]) -> list[tuple]:
    """All but how long computing took."""
    columns = ("problem", "solvable", "solved", "violated", "excess", "points")
    return [
        (run.contender, run.label, run.seed, *(np.nan_to_num(getattr(run, name), nan=-1).tolist() for name in columns))
        for run in runs
    ]


@pytest.mark.parametrize("family", ["train", "infer", "train+infer"])
def test_measuring_everything_solves_everything(family):
    cases = cases_of(subjects(), family)
    for strategies, every in (("random:1000", 1), ("exhaustive", 97 if family != "train" else 3)):
        (run,) = played(cases, strategies, every=every)
        assert run.solvable.any()
        assert run.solved.tolist() == run.solvable.tolist()
        assert not run.violated.any()
        assert np.nanmax(run.excess) == 0.0


def test_the_number_of_processes_changes_nothing():
    cases = cases_of(subjects(), "train")
    strategies = "roofline:6,random:5,gmd:6"
    alone = played(cases, strategies, every=2, seeds=2, noise=0.03)
    assert figures(played(cases, strategies, every=2, seeds=2, noise=0.03, jobs=2)) == figures(alone)
    assert len(alone) == 6


def test_runs_are_in_the_order_asked_for_and_seeds_differ():
    cases = cases_of(subjects(), "train")
    runs = played(cases, "gmd:6,random:5,random:3", seeds=2)
    assert [(run.contender, run.seed) for run in runs] == [
        ("gmd:6", 0), ("gmd:6", 1), ("random:5", 0), ("random:5", 1), ("random:3", 0), ("random:3", 1)
    ]  # fmt: skip
    assert not np.array_equal(runs[2].excess, runs[3].excess, equal_nan=True)


def test_with_noise_answers_can_break_the_true_budget_and_are_judged_by_it():
    cases = cases_of(subjects(), "infer")
    (run,) = played(cases, "random:60", every=7, noise=0.1)
    assert 0 < run.violated.sum() < run.solvable.sum() / 2
    assert not (run.violated & run.solved).any()
    assert np.isnan(run.excess[run.violated]).all()


def test_problems_without_solution_are_rows_without_a_search():
    (case,) = cases_of(subjects(), "train")
    hopeless = replace(case.problems, power_budget_w=case.problems.power_budget_w - 3)
    case = replace(case, problems=hopeless)
    for run in played([case], "gmd:6,random:9"):
        assert 0 < run.solvable.sum() < len(run.problem)
        assert not run.solved[~run.solvable].any()
    gmd = played([case], "gmd:6")[0]
    assert gmd.points[~gmd.solvable].tolist() == [0] * int((~gmd.solvable).sum())


def test_a_stop_leaves_what_was_done_and_it_can_be_played_on():
    cases = cases_of(subjects(), "train")
    board = EvaluationRunner(
        cases, truths(cases), [np.arange(len(cases[0].problems))], parse_contenders("random:5,gmd:4")
    )

    def stop(progress: EvaluationProgress) -> None:
        if progress.done > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        board.run(stop)
    assert [run.contender for run in board.runs()] == ["random:5", "gmd:4"]
    assert 0 < len(board.runs()[1].problem) < len(cases[0].problems)
    board.run()
    assert figures(board.runs()) == figures(played(cases, "random:5,gmd:4"))


def test_figures_of_merit_count_solvable_problems():
    cases = cases_of(subjects(), "train")
    runs = played(cases, "random:9,exhaustive")
    first, second = merits(runs, lambda run: run.contender)
    assert (first.name, second.name) == ("random:9", "exhaustive")
    assert first.points == 9
    assert (second.solved, second.median, second.p99, second.points) == (second.solvable, 0, 0, 20)
    excess = np.sort(runs[0].excess[~np.isnan(runs[0].excess)])
    assert first.mean == pytest.approx(excess.mean())
    assert first.p90 == excess[int(np.ceil(0.9 * len(excess))) - 1]
    assert first.worst == excess[-1]
    assert first.mean_low < first.mean < first.mean_high


@pytest.mark.parametrize("strategy", ["random:20", "gmd:20"])
def test_points_until_near_are_counted_by_the_true_figures(strategy):
    (case,) = cases_of(subjects(), "train")
    (run,) = played([case], strategy)
    counts = np.array([run.points_to_3_percent, run.points_to_1_percent])
    assert (counts[0] <= counts[1]).all()  # both measure everything
    assert ((counts >= 1) & (counts <= 20)).all()
    shorter = Contender(strategy.partition(":")[0], 4)
    (few,) = played([case], str(shorter))
    assert np.array_equal(few.points_to_1_percent <= 4, counts[1] <= 4)  # the same first points
    assert (few.excess[few.points_to_1_percent <= 4] <= 0.01).all()
    assert (few.excess[np.isnan(few.points_to_3_percent) & few.solved] > 0.03).all()


def test_relatives_are_the_other_networks_that_did_the_same_on_the_same_device():
    train, infer = subjects()

    def named(workload: str, device: str) -> ProfiledWorkload:
        return replace(
            train, workload=workload, device=device, rows=tuple(replace(r, workload=workload) for r in train.rows)
        )

    cases = cases_of([train, infer, named("b", "board"), named("c", "far")], "train", like_others=True)
    assert [(case.label, {row.workload for row in case.relatives}) for case in cases] == [
        ("net on board", {"b"}), ("b on board", {"net"}), ("c on far", set())
    ]  # fmt: skip
    assert all(row.task == "train" for case in cases for row in case.relatives)
    assert all(not case.relatives for case in cases_of([train, named("b", "board")], "train"))


def test_words_for_contenders():
    assert parse_contenders("roofline, random:250") == [Contender("roofline"), Contender("random", 250)]
    assert str(Contender("random", 250)) == "random:250"
    for text, message in (
        ("rofline", "no strategy 'rofline'"),
        ("random:x", "whole number"),
        ("random:0", "above zero"),
        ("gmd,gmd", "twice"),
        (" , ", "no strategies"),
    ):
        with pytest.raises(InputError, match=message):
            parse_contenders(text)


def test_a_strategy_that_does_not_solve_the_family_is_refused_first(monkeypatch):
    def refuse(*_, **__):
        raise InputError("not this", "another")

    monkeypatch.setattr("edgetune.stages.search.strategies.gmd.Gmd.__init__", refuse)
    with pytest.raises(InputError, match="not this"):
        require_solvers(cases_of(subjects(), "train"), parse_contenders("random,gmd"))


def test_a_search_that_finds_no_power_figure_has_no_answer_and_stops_nothing():
    (train, _) = subjects()
    blind = {row: replace(row, power_w=None) for row in train.rows if row.gpu_mhz > 300.0}
    cases = cases_of([replace(train, rows=tuple(blind.get(row, row) for row in train.rows))], "train")
    (run,) = played(cases, "gmd:1")
    assert run.solvable.all()
    assert not run.solved.any()
    assert run.points.tolist() == [1] * len(run.points)


@pytest.mark.parametrize("family", ["train", "infer"])
def test_measuring_once_answers_as_the_search_of_each_problem_does(family, monkeypatch):
    cases = cases_of(subjects(), family)
    (once,) = played(cases, "random:9", every=41 if family == "infer" else 1)
    monkeypatch.setattr("edgetune.stages.search.strategies.baselines.Random.budget_free", False)
    monkeypatch.setattr("zlib.crc32", lambda name: 0)  # the seed that measuring once has
    (each,) = played(cases, "random:9", every=41 if family == "infer" else 1)
    assert once.solved.tolist() == each.solved.tolist()
    assert np.array_equal(once.excess, each.excess, equal_nan=True)
    assert once.solved.sum() > 0
    assert np.nanmax(once.excess) > 0


def test_a_pair_is_near_when_both_its_halves_are_measured():
    (case,) = cases_of(subjects(), "train+infer")
    (run,) = played([case], "exhaustive", every=97)
    found = run.points_to_1_percent[run.solvable]
    assert found.min() >= 2
    assert not np.isnan(found).any()
    assert np.isnan(run.points_to_1_percent[~run.solvable]).all()
