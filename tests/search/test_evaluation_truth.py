"""The best answers by sorted arrays are those of judging every point of every problem."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.search.evaluation.cases import EvaluationCase, ProfiledWorkload, cases_of
from edgetune.stages.search.evaluation.problems import Measured, ProblemSet
from edgetune.stages.search.evaluation.truth import best_answers, excess_of, judge_answers
from edgetune.stages.search.history import half_of
from edgetune.stages.search.problem import Judgement, judge, judge_pair

KINDS = ["train", "infer", "train+infer", "infer+infer", "accuracy"]
EPOCHS = ((1, 30.0), (4, 20.0), (16, 35.0))


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
    return cases_of(subjects, kind, grid="auto", epochs={"net": EPOCHS} if kind == "accuracy" else None)[0]


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
    assert excess("accuracy", -12.0, -10.0) == pytest.approx(0.2)


def test_no_problems_and_nothing_measured():
    measured = Measured(np.ones(1), np.full(1, np.nan), np.full(1, np.nan))
    nothing = np.full(0, np.nan)
    assert len(best_answers(measured, ProblemSet(Problem("train"), nothing, nothing, nothing)).rows) == 0
    one = np.full(1, 20.0)
    best = best_answers(measured, ProblemSet(Problem("infer"), one, one, one))
    assert best.rows.tolist() == [-1]
    assert math.isnan(best.objective[0])
