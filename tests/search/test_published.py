"""The study's strategies and published medians, and twins that break the model of ``roofline``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.search.evaluation.answering import Contender, answer_each, answer_once
from edgetune.stages.search.evaluation.cases import ProfiledWorkload, cases_of
from edgetune.stages.search.evaluation.misspecified import MISSPECIFIED, misspecified
from edgetune.stages.search.evaluation.problems import STUDY_PAIRS
from edgetune.stages.search.evaluation.published import (
    MEDIANS,
    STUDY_STRATEGIES,
    beside_published,
    study_contenders,
)
from edgetune.stages.search.evaluation.runner import EvaluationConditions, EvaluationRunner, truths
from edgetune.stages.search.evaluation.truth import judge_answers
from edgetune.stages.search.strategies import STRATEGIES


def subject(workload: str, task: str, sizes=(16,)) -> ProfiledWorkload:
    rows = [
        ProfileRow(
            workload, task, size, 0.02 * size**0.7 * (0.3 * 1300 / gpu + 0.2 * 2200 / cpu + 0.1 * 3199 / mem),
            cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem, power_w=8 + gpu / 60 + cpu / 500 + mem / 900,
            device="twin:orin-agx",
        )
        for size in sizes for cpu in (422.0, 1344.0, 2200.0)
        for gpu in (115.0, 500.0, 900.0, 1300.0) for mem in (665.0, 2133.0, 3199.0)
    ]  # fmt: skip
    return ProfiledWorkload(f"{workload}-{task}.parquet", "twin:orin-agx", workload, task, tuple(rows))


def test_every_published_median_has_a_strategy_and_a_workload_of_the_study():
    for family, workloads in MEDIANS.items():
        strategies = STUDY_STRATEGIES.get(family, STUDY_STRATEGIES["train+infer"])
        assert {name for each in workloads.values() for name in each} <= set(strategies)
        if family in STUDY_PAIRS:
            assert set(workloads) == {"+".join(pair) for pair in STUDY_PAIRS[family]}
        for contender in study_contenders(family).split(","):
            assert contender.partition(":")[0] in STRATEGIES


def test_medians_are_printed_beside_the_published():
    cases = cases_of([subject("resnet18", "train")], "train")
    best, contenders = truths(cases), [Contender("gmd-study", 10), Contender("random-study", 50)]
    chosen = [np.arange(len(case.problems)) for case in cases]
    runner = EvaluationRunner(cases, best, chosen, contenders, EvaluationConditions())
    runner.run()
    rows = {(row.workload, row.strategy): row for row in beside_published(runner.runs())}
    assert rows["resnet", "gmd"].theirs == 8.8
    assert rows["resnet", "rnd50"].ours == 0.0  # more points than the table has
    assert rows["all", "gmd"].theirs is None
    assert rows["resnet", "gmd"].points <= 10


def test_the_studys_random_modes_are_measured_with_every_batch_size():
    (case,) = cases_of([subject("resnet50", "infer", (1, 4, 16))], "infer")
    strategy = STRATEGIES["random-study"](case.space, case.problems.unbounded(), seed=3)
    asked = [strategy.ask().point for _ in range(6)]
    assert [point.batch_size for point in asked] == [1, 4, 16, 1, 4, 16]
    assert len({point.mode for point in asked}) == 2


def test_where_readings_waver_all_strategies_confirm_their_answer():
    (case,) = cases_of([subject("resnet18", "train")], "train")
    numbers = np.flatnonzero(truths([case])[0].rows >= 0)
    over = {}
    for contender in (Contender("random-study", 50), Contender("roofline", 12)):
        answer = answer_once if contender.measures_once else answer_each
        found = answer(case, contender, numbers, seed=1, noise=0.06)[0]
        answered = found.rows >= 0
        judged = judge_answers(case.measured, case.problems.take(numbers[answered]), found.rows[answered])
        over[contender.strategy] = float((~judged.feasible).mean())
        assert answered.mean() > 0.7
        if contender.measures_once:
            assert found.points.max() > len(case.space.points)  # measured again
    assert max(over.values()) < 0.1


def test_no_problem_has_no_answer_where_readings_waver():
    (case,) = cases_of([subject("resnet18", "train")], "train")
    (found,) = answer_once(case, Contender("random", 9), np.array([], dtype=np.intp), seed=0, noise=0.02)
    assert len(found.rows) == len(found.points) == 0


@pytest.mark.parametrize("law", MISSPECIFIED)
def test_a_misspecified_table_follows_another_law(law):
    rows = subject("net", "train").rows
    changed = misspecified(rows, law)
    ratios = np.array(
        [(b.minibatch_s / a.minibatch_s, b.power_w / a.power_w) for a, b in zip(rows, changed, strict=True)]
    )
    assert (ratios.max(axis=0) / ratios.min(axis=0)).max() > 1.2
    assert changed[0].energy_j == pytest.approx(changed[0].minibatch_s * changed[0].power_w)
    if law == "falling":
        slow, fast = (next(row for row in changed if row.cpu_mhz == mhz) for mhz in (422.0, 2200.0))
        assert slow.power_w > fast.power_w * 0.9
    failed = replace(rows[0], minibatch_s=None, status="failed")
    assert misspecified([failed, *rows[1:]], law)[0] == failed
