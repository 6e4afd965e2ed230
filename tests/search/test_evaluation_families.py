"""The grids of problems: counts of the study, and ranges that suit any table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InputError
from edgetune.stages.search.evaluation.cases import ProfiledWorkload, cases_of, stratified
from edgetune.stages.search.evaluation.problems import (
    STUDY_NETWORKS,
    STUDY_PAIRS,
    Measured,
    fulcrum_problems,
    power_budgets_w,
)
from edgetune.stages.search.evaluation.truth import best_answers


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


def test_ranges_of_the_study():
    found = fulcrum_problems("infer", "resnet50")
    assert set(found.power_budget_w) == set(range(10, 51))
    assert (found.latency_budget_s.min(), found.latency_budget_s.max()) == (0.05, 1.0)
    assert sorted(set(found.arrival_rate_per_s)) == list(range(30, 91, 5))
    bert = fulcrum_problems("infer", "bert_large")
    assert (bert.power_budget_w.max(), bert.latency_budget_s.min(), bert.latency_budget_s.max()) == (60, 1, 10)
    assert sorted(set(bert.arrival_rate_per_s)) == list(range(1, 16))


def test_other_networks_and_boards_get_a_grid_of_their_own():
    assert [case.grid for case in cases_of([subject("resnet18")], "train")] == ["fulcrum"]
    assert [case.grid for case in cases_of([subject("vgg16")], "train")] == ["auto"]
    assert [case.grid for case in cases_of([subject("resnet50", "infer")], "infer")] == ["fulcrum"]
    assert [case.grid for case in cases_of([subject("resnet18", "infer")], "infer")] == ["auto"]
    assert [case.grid for case in cases_of([subject("resnet18", device="xavier")], "train")] == ["auto"]
    with pytest.raises(InputError, match="no train problems of vgg16"):
        cases_of([subject("vgg16")], "train", grid="fulcrum")


def test_budgets_go_in_watts_and_finer_where_the_board_is_small():
    watts = Measured(np.ones(2), np.ones(2), np.array([10.4, 33.2]))
    assert power_budgets_w(watts).tolist() == list(range(11, 35))
    small = power_budgets_w(Measured(np.ones(2), np.ones(2), np.array([2.05, 4.4])))
    assert (small[0], small[-1], len(small)) == (2.1, 4.4, 24)


def test_a_table_of_a_slower_board_gets_slower_problems():
    (fast,) = cases_of([subject("net", "infer", sizes=(1, 4))], "infer", grid="auto")
    (slow,) = cases_of([subject("net", "infer", sizes=(1, 4), scale=10.0)], "infer", grid="auto")
    assert slow.problems.latency_budget_s.max() == pytest.approx(10 * fast.problems.latency_budget_s.max(), rel=0.01)
    assert slow.problems.arrival_rate_per_s.max() == pytest.approx(
        fast.problems.arrival_rate_per_s.max() / 10, rel=0.01
    )
    solvable = (best_answers(fast.measured, fast.problems).rows >= 0).mean()
    assert 0.5 < solvable < 1.0  # neither all nor nothing


def test_one_network_on_two_boards_is_two_workloads():
    cases = cases_of([subject("net", device="nano"), subject("net", device="xavier")], "train")
    assert [case.label for case in cases] == ["net on nano", "net on xavier"]
    cases = cases_of([replace(subject("net", device="nano"), device=None, table="a.csv"), subject("net")], "train")
    assert cases[0].label == "net on a.csv"


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
