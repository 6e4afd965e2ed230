"""Judging strategies: grids of problems, best answers, contenders on a small table, and their figure."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.evaluation.answering import Contender, parse_contenders, require_solvers
from edgetune.stages.search.evaluation.cases import EvaluationCase, ProfiledWorkload, cases_of, stratified
from edgetune.stages.search.evaluation.problems import (
    STUDY_NETWORKS,
    STUDY_PAIRS,
    Best,
    Measured,
    ProblemSet,
    best_answers,
    excess_of,
    fulcrum_problems,
    judge_answers,
)
from edgetune.stages.search.evaluation.results import merits
from edgetune.stages.search.evaluation.runner import EvaluationConditions, EvaluationRunner
from edgetune.stages.search.history import half_of
from edgetune.stages.search.problem import Judgement, judge, judge_pair


def subject(
    workload: str, task: str = "train", device: str = "twin:orin-agx", sizes=(16,), scale=1.0
) -> ProfiledWorkload:
    rows = [
        ProfileRow(
            workload, task, size, scale * size**0.5 / clock, gpu_mhz=clock, device=device, power_w=8 + clock / 30
        )
        for size in sizes
        for clock in (300.0, 600.0, 900.0, 1200.0)
    ]
    return ProfiledWorkload(f"{workload}-{task}.parquet", device, workload, task, tuple(rows))


@pytest.mark.parametrize(("family", "networks", "count"), [
    ("train", STUDY_NETWORKS["train"], 215),
    ("infer", STUDY_NETWORKS["infer"], 239_862),
    ("train+infer", [urgent for _, urgent in STUDY_PAIRS["train+infer"]], 33_125),
    ("infer+infer", [urgent for _, urgent in STUDY_PAIRS["infer+infer"]], 6_870),
])  # fmt: skip
def test_the_study_has_so_many_problems(family, networks, count):
    assert sum(len(fulcrum_problems(family, name)) for name in networks) == count


def test_other_networks_and_boards_get_a_grid_of_their_own():
    assert [case.grid for case in cases_of([subject("resnet18")], "train")] == ["fulcrum"]
    assert [case.grid for case in cases_of([subject("vgg16")], "train")] == ["auto"]
    assert [case.grid for case in cases_of([subject("resnet50", "infer")], "infer")] == ["fulcrum"]
    assert [case.grid for case in cases_of([subject("resnet18", "infer")], "infer")] == ["auto"]
    assert [case.grid for case in cases_of([subject("resnet18", device="xavier")], "train")] == ["auto"]
    with pytest.raises(InputError, match="no train problems of vgg16"):
        cases_of([subject("vgg16")], "train", grid="fulcrum")


def test_pairs_are_those_of_the_study_else_all_there_are():
    subjects = [subject("resnet18"), subject("vgg16"), subject("bert_large", "infer", sizes=(1, 4))]
    assert [case.label for case in cases_of(subjects, "train+infer")] == ["resnet18+bert_large"]
    assert [case.label for case in cases_of(subjects, "train+infer", grid="auto")] == [
        "resnet18+bert_large",
        "vgg16+bert_large",
    ]
    (case,) = cases_of(subjects, "train+infer")
    assert case.problems.power_budget_w.max() == 60  # the urgent one is BERT: its ranges
    assert case.problems.base.background_batch_size == 16
    with pytest.raises(InputError, match="two networks on one device"):
        cases_of([subject("resnet18", "infer")], "infer+infer")


@pytest.mark.parametrize(
    ("family", "lacking"), [("infer", "infer"), ("train+infer", "infer"), ("infer+infer", "infer")]
)
def test_a_missing_partner_table_is_named(family, lacking):
    with pytest.raises(InputError, match=f"no table has {lacking} rows") as raised:
        cases_of([subject("resnet18")], family)
    assert "resnet18 train (resnet18-train.parquet)" in raised.value.hint


def test_tables_with_contradictory_knobs_make_no_pair():
    other = [ProfileRow("b", "infer", 1, 0.01, cpu_mhz=clock, device="d", power_w=9.0) for clock in (700.0, 1400.0)]
    subjects = [subject("a", device="d"), ProfiledWorkload("b.csv", "d", "b", "infer", tuple(other))]
    with pytest.raises(InputError, match=r"gpu_mhz|no mode"):
        cases_of(subjects, "train+infer")


def test_a_sample_is_spread_over_workloads_and_budgets():
    cases = cases_of([subject("resnet18"), subject("lstm")], "train")
    everything = [np.arange(len(case.problems)) for case in cases]
    chosen = stratified(cases, everything, 20, seed=0)
    assert sum(map(len, chosen)) == 20
    assert min(map(len, chosen)) >= 5
    infer = cases_of([subject("resnet50", "infer", sizes=(1, 4))], "infer")
    (numbers,) = stratified(infer, [np.arange(len(infer[0].problems))], 82, seed=0)
    budgets = infer[0].problems.power_budget_w[numbers]
    assert np.unique(budgets, return_counts=True)[1].tolist() == [2] * 41
    again = stratified(infer, [np.arange(len(infer[0].problems))], 82, seed=0)
    assert numbers.tolist() == again[0].tolist()
    other = stratified(infer, [np.arange(len(infer[0].problems))], 82, seed=1)
    assert numbers.tolist() != other[0].tolist()


KINDS = ["train", "infer", "train+infer", "infer+infer"]


def a_case(kind: str, random: np.random.Generator) -> EvaluationCase:
    """A small random table; figures are coarse, so that ties are common, and some rows failed or lack power."""
    rows = []
    for workload, task in (("net", "train"), ("net", "infer"), ("other", "infer")):
        for size in (1, 4, 16):
            for clock in (100.0, 200.0, 300.0, 400.0):
                time_s = round(size**0.7 * float(random.choice([1, 2, 3, 5])) / clock, 3)
                power_w = float(random.integers(10, 16))
                rows.append(ProfileRow(workload, task, size, time_s, gpu_mhz=clock, device="d", power_w=power_w))
    rows[3] = replace(rows[3], power_w=None)
    rows[8] = replace(rows[8], status="failed", minibatch_s=None, reason="out of memory")
    groups: dict[tuple[str, str], list[ProfileRow]] = {}
    for row in rows:
        groups.setdefault((row.workload, row.task), []).append(row)
    subjects = [ProfiledWorkload("t", "d", name, task, tuple(found)) for (name, task), found in groups.items()]
    if kind not in ("train+infer", "infer+infer"):
        subjects = [subject for subject in subjects if subject.workload == "net"]
    return cases_of(subjects, kind, grid="auto")[0]


def random_problems(case: EvaluationCase, random: np.random.Generator, count: int) -> ProblemSet:
    budgets_w = random.choice([9.0, 10.0, 12.0, 13.0, 15.0, np.nan], count)
    timed = case.problems.base.kind in ("infer", "train+infer", "infer+infer")
    latency_s = random.choice([0.01, 0.05, 0.1, 0.3, np.nan], count) if timed else np.full(count, np.nan)
    rate = random.choice([1.0, 20.0, 60.0, 150.0], count) if timed else np.full(count, np.nan)
    return ProblemSet(case.problems.base, budgets_w, latency_s, rate)


def judged(case: EvaluationCase, problems: ProblemSet, number: int, point: Point) -> Judgement:
    problem, row = problems.problem(number), case.rows[point]
    if case.space.background is None:
        return judge(problem, row)
    other = case.rows[case.space.partner(point)]
    if row.status != "ok" or other.status != "ok":
        return Judgement(None, None)
    return judge_pair(problem, half_of(row), half_of(other))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_best_answers_are_those_of_judging_every_point(kind, seed):
    random = np.random.default_rng(seed)
    case = a_case(kind, random)
    problems = random_problems(case, random, 25)
    best = best_answers(case.measured, problems)
    for number in range(len(problems)):
        every = [judged(case, problems, number, point) for point in case.space.points]
        feasible = [judgement for judgement in every if judgement.feasible]
        assert (best.rows[number] >= 0) == bool(feasible)
        if feasible:
            answer = max(feasible, key=lambda j: (j.objective, j.second))
            chosen = every[best.rows[number]]
            assert chosen.feasible
            assert (chosen.objective, chosen.second) == (answer.objective, answer.second)
            assert best.objective[number] == pytest.approx(answer.objective, rel=1e-12)
        rows = np.full(1, random.integers(len(every)))
        alone = judge_answers(case.measured, problems.take(np.array([number])), rows)
        assert bool(alone.feasible[0]) == bool(every[rows[0]].feasible)


def test_among_equal_answers_the_one_that_draws_least_is_taken():
    measured = Measured(np.ones(3), np.array([0.5, 0.2, 0.2]), np.array([10.0, 14.0, 12.0]))
    nothing = np.full(2, np.nan)
    best = best_answers(measured, ProblemSet(Problem("train"), np.array([11.0, 20.0]), nothing, nothing))
    assert best.rows.tolist() == [0, 2]


def test_excess_worked_by_hand():
    nothing = np.full(1, np.nan)

    def excess(kind, objective, best):
        problems = ProblemSet(Problem(kind), nothing, nothing, nothing)
        return float(excess_of(problems, np.array([objective]), np.array([best]))[0])

    assert excess("train", 80.0, 100.0) == pytest.approx(0.25)  # 1/80 s per sample over 1/100
    assert excess("infer", -0.3, -0.2) == pytest.approx(0.5)
    assert excess("train+infer", 80.0, 100.0) == pytest.approx(0.2)  # a fifth of the throughput is lost


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


def truths(cases: list[EvaluationCase]) -> list[Best]:
    return [best_answers(case.measured, case.problems) for case in cases]


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

    done = []

    def stop(count: float, _: str) -> None:
        done.append(count)
        if sum(done) > 5:
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
