"""Strategies as a study prints them, and answers where readings waver."""

from __future__ import annotations

import numpy as np

from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.search.evaluation.answering import Contender, answer_each, answer_once
from edgetune.stages.search.evaluation.cases import ProfiledWorkload, cases_of
from edgetune.stages.search.evaluation.runner import truths
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
