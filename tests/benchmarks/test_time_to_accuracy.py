"""On measured GPUs, a batch size and power limit chosen by a proxy's epochs are near the best there is."""

from __future__ import annotations

import statistics

import pytest
import time_to_accuracy as benchmark

pytestmark = pytest.mark.skipif(not benchmark.DATA.is_dir(), reason="no folder of public measurements beside this one")


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("objective", ["time", "energy"])
def test_chosen_by_proxy_within_five_per_cent_of_the_best_in_the_mean(objective, common):
    found = list(benchmark.cases(benchmark.DATA, objective=objective, common=common))
    assert len(found) > 1000
    assert {(case.gpu, case.dataset) for case in found} == {(g, d) for g in benchmark.GPUS for d in benchmark.PROXY_OF}
    assert statistics.fmean(case.lost for case in found) <= 0.05
    assert all(case.lost >= -1e-9 for case in found)
    assert all(case.budget_w is None or case.comparison.answer.row.power_w <= case.budget_w for case in found)


def test_the_joint_choice_is_faster_than_the_usual_one():
    found = [case for case in benchmark.cases(benchmark.DATA) if case.comparison.largest_batch is not None]
    figures = benchmark.summary(found, "time")
    assert figures["over largest_batch"] > 1
    assert figures["over best_batch"] >= 1
