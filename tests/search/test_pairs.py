"""Two workloads: the equations of interleaving, the search over halves, and the worth of a pair."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.errors import InfeasibleError, InputError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.model.beliefs import Belief
from edgetune.stages.search.model.gain import SLOPE, TIE, BestPair, PairGain, Pairs, pair_gain
from edgetune.stages.search.problem import Half, background_minibatches, judge_pair
from edgetune.stages.search.space import offered_space

PROBLEM = Problem("train+infer", power_budget_w=30.0, latency_budget_s=1.2, arrival_rate_per_s=20.0)
CLOCKS = (200.0, 400.0, 600.0, 800.0)
BATCHES = (1, 4, 16)


def infer_row(clock: float, batch: int, name: str = "answers") -> ProfileRow:
    return ProfileRow(
        name, "infer", batch, (0.01 + 0.008 * batch) * 800 / clock, gpu_mhz=clock, power_w=10 + clock / 40
    )


def train_row(clock: float, batch: int = 16, name: str = "learns") -> ProfileRow:
    return ProfileRow(name, "train", batch, 0.1 * 800 / clock, gpu_mhz=clock, power_w=8 + clock / 32)


ROWS = [infer_row(c, b) for c in CLOCKS for b in BATCHES] + [train_row(c) for c in CLOCKS]
TABLE = {row.point: row for row in ROWS}


def search(problem=PROBLEM, rows=ROWS, **options):
    table = {row.point: row for row in rows}
    return run_search(problem, list(table), table.__getitem__, SearchSettings(**{"strategy": "exhaustive"} | options))


def best_by_hand(problem: Problem) -> tuple[float, float, int, int] | None:
    """Return throughput, minus latency, batch and k of the best pair, from the equations as printed."""
    found = []
    rate = problem.arrival_rate_per_s
    for clock in CLOCKS:
        for b in BATCHES:
            t_inf, t_bg = infer_row(clock, b).minibatch_s, train_row(clock).minibatch_s
            power = max(infer_row(clock, b).power_w, train_row(clock).power_w)
            latency = (b - 1) / rate + t_inf
            k = math.floor((b / rate - t_inf) / t_bg + 1e-9)
            if power <= problem.power_budget_w and latency <= problem.latency_budget_s and k >= 1:
                found.append((k * 16 / (b / rate), -latency, b, k))
    return max(found, default=None)


def test_as_many_background_minibatches_fit_as_the_time_between_two_batches_holds():
    problem = replace(PROBLEM, arrival_rate_per_s=10.0)
    assert background_minibatches(problem, Half(4, 0.1, None), 0.1) == 3  # (0.4 - 0.1) / 0.1, whatever rounding says
    assert background_minibatches(problem, Half(4, 0.1, None), 0.31) == 0
    assert background_minibatches(problem, Half(4, 0.5, None), 0.1) == 0


def test_a_pair_draws_the_larger_power_and_answers_as_late_as_the_urgent_half():
    judgement = judge_pair(PROBLEM, Half(4, 0.04, 31.0), Half(16, 0.03, 20.0))
    assert [v.constraint for v in judgement.violations] == ["power"]
    judgement = judge_pair(PROBLEM, Half(4, 0.04, 20.0), Half(16, 0.03, 29.0))
    assert judgement.feasible
    assert judgement.objective == pytest.approx(5 * 16 / 0.2)  # (0.2 - 0.04) / 0.03 = 5.3
    assert judgement.second == pytest.approx(-(3 / 20 + 0.04))


@pytest.mark.parametrize(
    ("urgent", "background_s", "broken"),
    [
        (Half(4, 0.21, 20.0), 0.01, {"rate"}),
        (Half(4, 0.19, 20.0), 0.02, {"room"}),
        (Half(16, 0.5, 20.0), 0.02, {"latency"}),  # 15 / 20 + 0.5 s
    ],
)
def test_each_constraint_of_a_pair_is_named(urgent, background_s, broken):
    judgement = judge_pair(PROBLEM, urgent, Half(16, background_s, 20.0))
    assert {v.constraint for v in judgement.violations} == broken
    assert judgement.feasible is False


@given(power=st.floats(14, 40), latency=st.floats(0.05, 2), rate=st.floats(1, 60))
def test_the_best_of_every_pair_is_the_answer(power, latency, rate):
    problem = replace(PROBLEM, power_budget_w=power, latency_budget_s=latency, arrival_rate_per_s=rate)
    expected = best_by_hand(problem)
    if expected is None:
        with pytest.raises(InfeasibleError):
            search(problem)
        return
    plan = search(problem).plan
    assert plan.measured.throughput_per_s == pytest.approx(expected[0])
    assert plan.measured.latency_s == pytest.approx(-expected[1])
    assert plan.configuration.infer_batch_size == expected[2]
    assert plan.configuration.train_minibatches == expected[3]
    assert plan.configuration.train_batch_size == 16


def test_a_half_that_breaks_a_budget_by_itself_spares_the_other():
    problem = replace(PROBLEM, power_budget_w=22.0, latency_budget_s=2.0)
    spared = search(problem, strategy="random")
    assert not [row for row in spared.trace.rows if row.task == "train" and row.gpu_mhz == 800.0]
    assert len(search(problem).trace.rows) == len(ROWS)  # all are all


def test_an_infeasible_budget_of_two_is_explained_by_whole_pairs():
    problem = replace(PROBLEM, power_budget_w=12.0, latency_budget_s=10.0, arrival_rate_per_s=1.0)
    rows = [infer_row(c, 1) for c in CLOCKS] + [replace(train_row(c), power_w=20 + c / 40) for c in CLOCKS]
    with pytest.raises(InfeasibleError) as caught:
        search(problem, rows)
    assert caught.value.message == "no offered point draws at most 12 W; the nearest of all 4 draws 25 W"
    assert caught.value.hint == "--power-budget 25W"
    assert search(replace(problem, power_budget_w=25.0), rows).plan.configuration.mode == Mode(gpu_mhz=200.0)


def test_where_no_pair_is_whole_the_budget_named_is_the_least_there_can_be():
    with pytest.raises(InfeasibleError) as caught:
        search(replace(PROBLEM, power_budget_w=12.0), strategy="random")
    assert "the nearest of 12 draws 15 W" in caught.value.message
    assert caught.value.hint == (
        "--power-budget 15W at least, for only one of the two workloads was measured there, or more points"
    )


def test_two_inference_workloads_one_with_a_deadline():
    rows = [infer_row(c, b) for c in CLOCKS for b in BATCHES] + [
        infer_row(c, b, "tags") for c in CLOCKS for b in (8, 16)
    ]
    problem = replace(PROBLEM, kind="infer+infer", background="tags", background_batch_size=8)
    plan = search(problem, rows).plan
    assert plan.configuration.background_batch_size == 8
    assert plan.configuration.background_minibatches >= 1
    assert plan.measured.background is not None
    with pytest.raises(InputError, match="offered at batch sizes 8, 16"):
        search(replace(problem, background_batch_size=None), rows)
    with pytest.raises(InputError, match="which of answers, tags is the background"):
        search(replace(problem, background=None), rows)


def test_modes_in_which_only_one_workload_was_measured_are_not_offered():
    rows = [row for row in ROWS if not (row.task == "train" and row.gpu_mhz == 800.0)]
    assert all(point.mode.gpu_mhz != 800.0 for point in offered_space(PROBLEM, [row.point for row in rows]).points)
    with pytest.raises(InputError, match="no mode with points of both"):
        offered_space(PROBLEM, [infer_row(200.0, 1).point, train_row(400.0).point])
    with pytest.raises(InputError, match="no train points"):
        offered_space(PROBLEM, [infer_row(200.0, 1).point])


def test_a_failed_half_settles_its_point():
    def measure(point: Point) -> ProfileRow:
        if point.task == "train" and point.mode == Mode(gpu_mhz=600.0):
            return ProfileRow(point.workload, "train", 16, None, gpu_mhz=600.0, status="failed", reason="no memory")
        return TABLE[point]

    result = run_search(PROBLEM, list(TABLE), measure, SearchSettings("exhaustive"))
    assert "no memory" in [row.reason for row in result.trace.rows]
    assert result.plan.configuration.mode != Mode(gpu_mhz=600.0)


def test_a_pair_without_power_is_no_answer_to_a_power_budget():
    rows = [replace(row, power_w=None) for row in ROWS]
    with pytest.raises(InputError, match="cannot be checked"):
        search(rows=rows)
    assert search(replace(PROBLEM, power_budget_w=None), rows).plan.measured.power_w is None


CONTINUOUS = replace(PROBLEM, objective="continuous-throughput")


def test_continuous_throughput_counts_the_time_that_no_whole_minibatch_fills():
    urgent, background = Half(4, 0.04, 20.0), Half(16, 0.1, 20.0)  # (0.2 - 0.04) / 0.1 = 1.6 minibatches
    assert judge_pair(PROBLEM, urgent, background).objective == pytest.approx(1 * 16 / 0.2)
    assert judge_pair(CONTINUOUS, urgent, background).objective == pytest.approx(1.6 * 16 / 0.2, rel=0.01)


def test_a_background_minibatch_longer_than_the_gap_runs_on_where_the_next_batch_can_wait_for_it():
    # 0.06 s of 0.2 answer, a step takes 0.2. A request that came 0.05 s after a batch was full waits for the last 0.01
    # of it, for the step and for its own batch: 0.27 s.
    urgent, background = Half(4, 0.06, 20.0), Half(16, 0.2, 20.0)
    assert {v.constraint for v in judge_pair(PROBLEM, urgent, background).violations} == {"room"}
    within = judge_pair(replace(CONTINUOUS, latency_budget_s=0.271), urgent, background)
    assert within.feasible
    assert within.objective == pytest.approx(0.5 * 16 / 0.2, rel=0.02)  # one every other batch
    beyond = judge_pair(replace(CONTINUOUS, latency_budget_s=0.269), urgent, background)
    assert [(v.constraint, v.value) for v in beyond.violations] == [("room", pytest.approx(0.27))]


def test_a_search_for_continuous_throughput_finds_the_most_of_all_pairs():
    found = search(CONTINUOUS)
    most = max(
        judged.objective
        for clock in CLOCKS
        for batch in BATCHES
        if (
            judged := judge_pair(
                CONTINUOUS,
                Half(batch, infer_row(clock, batch).minibatch_s, infer_row(clock, batch).power_w),
                Half(16, train_row(clock).minibatch_s, train_row(clock).power_w),
            )
        ).feasible
    )
    assert found.plan.measured.throughput_per_s == most > search().plan.measured.throughput_per_s
    assert search(CONTINUOUS, strategy="roofline").plan.measured.throughput_per_s == most


GAP = Problem("train+infer", power_budget_w=30.0, latency_budget_s=1.0, arrival_rate_per_s=20.0)


def belief(time_s: float, time_sd: float, power_w: float = 20.0, power_sd: float = 0.0) -> Belief:
    return Belief(*(np.array([value]) for value in (math.log(time_s), time_sd, math.log(power_w), power_sd)))


def gain_of(urgent: Belief, background: Belief, best=None, *, problem=GAP, size: int = 4) -> PairGain:
    return pair_gain(problem, Pairs(urgent, background, np.array([float(size)]), 16), best)


def drawn(t_inf, t_bg, throughput, *, size=4, count=200_000) -> tuple[float, float, float]:
    """Return gain, chance of the urgent half and chance of room for one, by drawing times at random."""
    random = np.random.default_rng(0)
    arrives_s = size / GAP.arrival_rate_per_s
    limit_s = min(arrives_s, GAP.latency_budget_s - (size - 1) / GAP.arrival_rate_per_s)
    first = t_inf[0] * np.exp(t_inf[1] * random.normal(size=count))
    second = t_bg[0] * np.exp(t_bg[1] * random.normal(size=count))
    ok = first <= limit_s
    k = np.floor(np.maximum(arrives_s - first, 0) / second) * ok
    gained = np.maximum(k * 16 / arrives_s - throughput, 0) * (k >= 1)
    return gained.mean() / throughput, ok.mean(), ((k >= 1) & ok).sum() / max(ok.sum(), 1)


@settings(max_examples=25, deadline=None)
@given(
    t_inf=st.tuples(st.floats(0.01, 0.25), st.floats(0.01, 0.4)),
    t_bg=st.tuples(st.floats(0.003, 0.2), st.floats(0.01, 0.4)),
    best=st.floats(0.5, 12.0),
)
def test_expected_gain_is_that_of_random_draws(t_inf, t_bg, best):
    throughput = best * 16 / 0.2
    gained, in_time, fits = drawn(t_inf, t_bg, throughput)
    found = gain_of(belief(*t_inf), belief(*t_bg), BestPair(throughput, 0.3))
    assert found.urgent_chance[0] == pytest.approx(in_time, abs=0.005)
    assert in_time < 0.02 or found.background_chance[0] == pytest.approx(fits, abs=0.08)
    assert found.gain[0] * found.urgent_chance[0] == pytest.approx(gained, rel=0.12, abs=0.02)


def test_the_gain_of_measured_pairs_is_exact():
    # (0.2 - 0.04) / 0.03 = 5.3 fit: 5 x 16 / 0.2 = 400 samples per s, a quarter more than 320.
    found = gain_of(belief(0.04, 0.0), belief(0.03, 0.0), BestPair(320.0, 0.19))
    assert found.gain[0] == pytest.approx(0.25, abs=1e-6)
    # Without whole numbers 426.7 fit: a third more, of which a share counts; latency is 3 / 20 + 0.04 s, as before.
    assert found.score[0] == pytest.approx(0.25 + SLOPE / 3, abs=1e-4)


def test_a_lower_latency_decides_between_pairs_of_equal_throughput():
    best = BestPair(5 * 16 / 0.2, 0.4)
    found = gain_of(belief(0.04, 0.0), belief(0.032, 0.0), best)  # exactly 5 fit: no gain, and half of the latency
    assert found.gain[0] == pytest.approx(0.0, abs=1e-9)
    assert found.score[0] == pytest.approx(TIE * (1 - 0.19 / 0.4), rel=0.55)


def test_each_half_answers_for_its_own_budgets():
    over = belief(0.03, 0.0, power_w=31.0)
    fine = belief(0.03, 0.0)
    assert gain_of(over, fine).urgent_chance[0] == pytest.approx(0.0, abs=1e-9)
    assert gain_of(fine, over).background_chance[0] == pytest.approx(0.0, abs=1e-9)
    assert gain_of(over, fine, BestPair(1.0, 1.0)).score[0] == gain_of(fine, over, BestPair(1.0, 1.0)).score[0] == 0.0
    even = belief(0.03, 0.0, power_w=30.0, power_sd=0.1)
    assert gain_of(even, fine).urgent_chance[0] == pytest.approx(0.5)
    assert gain_of(even, fine, problem=replace(GAP, margin=0.1)).urgent_chance[0] == pytest.approx(0.146, abs=1e-3)


def test_without_a_best_the_likeliest_pair_is_worth_most_and_of_equals_the_one_that_leaves_more_room():
    times, sd = np.log([0.03, 0.03, 0.19]), np.full(3, 0.1)
    powers, power_sd = np.log([20.0, 31.0, 20.0]), np.full(3, 0.05)
    half = Belief(np.log(np.full(3, 0.02)), sd, np.log(np.full(3, 20.0)), power_sd)
    found = pair_gain(GAP, Pairs(Belief(times, sd, powers, power_sd), half, np.full(3, 4.0), 16), None)
    assert found.score[0] > 2 * found.score[1]
    assert found.score[0] > found.score[2]


@settings(max_examples=15, deadline=None)
@given(
    t_inf=st.tuples(st.floats(0.01, 0.15), st.floats(0.01, 0.3)),
    t_bg=st.tuples(st.floats(0.01, 0.2), st.floats(0.01, 0.3)),
    best=st.floats(0.5, 8.0),
)
def test_the_gain_without_pauses_is_that_of_random_draws(t_inf, t_bg, best):
    problem = replace(GAP, objective="continuous-throughput")
    throughput, random, count = best * 16 / 0.2, np.random.default_rng(0), 200_000
    first = t_inf[0] * np.exp(t_inf[1] * random.normal(size=count))
    second = t_bg[0] * np.exp(t_bg[1] * random.normal(size=count))
    ok = first <= 0.2
    gained = np.maximum((0.2 - first) / second * 16 / 0.2 - throughput, 0) * ok
    found = gain_of(belief(*t_inf), belief(*t_bg), BestPair(throughput, 0.3), problem=problem)
    assert found.gain[0] * found.urgent_chance[0] == pytest.approx(gained.mean() / throughput, rel=0.12, abs=0.02)
