"""The planner: the equations written out, what is feasible and what would be, and where the time goes."""

import itertools
import math
import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from simulated_run import NS, evenly, of, simulated

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InfeasibleError
from edgetune.serving.arrivals import parse_arrivals
from edgetune.stages.interleave.backend import Inference, Training
from edgetune.stages.interleave.cycle import (
    CycleGoals,
    WorkloadPoint,
    broken,
    cycle_of,
    explain,
    feasible_rates,
    nearest_rate_per_s,
)
from edgetune.stages.interleave.planner import best_cycle, cautious_s, halves, tenants_of
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.search.problem import Half, behind_background_s, judge_pair, peak_latency_s
from edgetune.stats import percentile

SECONDS = 6

SLOW, FAST = Mode(gpu_mhz=600.0), Mode(gpu_mhz=1200.0)
CAMERA = [WorkloadPoint("camera", size, 0.004 + 0.002 * size, 20.0) for size in (1, 2, 4, 8, 16, 32)]
NIGHT = [WorkloadPoint("night", 16, 0.02, 30.0)]
ROW = ProfileRow("camera", "infer", 4, 0.012, gpu_mhz=1200.0)


def wanted(rate=60.0, budget_s=0.2, **others):
    return CycleGoals(budget_s, rate, **{"headroom": 0.0, **others})


def names(cycle, want):
    return [each.constraint for each in broken(cycle, want)]


# ---- one cycle


def test_a_cycle_by_hand():
    # 8 requests at 40/s: one batch every 200 ms; 20 ms to answer; 180 ms hold seven steps of 25 ms and leave 5 ms
    cycle = cycle_of(WorkloadPoint("camera", 8, 0.020, 12.0), 40.0, WorkloadPoint("night", 16, 0.025, 15.0))
    assert cycle.period_s == pytest.approx(8 / 40)
    assert cycle.fill_s == pytest.approx(7 / 40)
    assert cycle.latency_s == pytest.approx(7 / 40 + 0.020)
    assert cycle.train_minibatches == 7
    assert cycle.idle_s == pytest.approx(0.005)
    assert cycle.utilisation == pytest.approx(0.195 / 0.2)
    assert cycle.throughput_per_s == pytest.approx(7 * 16 / 0.2)
    assert cycle.power_w == 15.0


@pytest.mark.parametrize(
    ("half", "rate", "step_s", "want", "constraints"),
    [
        (WorkloadPoint("c", 1, 0.021), 50, None, {}, ["rate"]),
        (WorkloadPoint("c", 1, 0.020), 50, None, {}, []),
        (WorkloadPoint("c", 1, 0.020), 50, None, {"headroom": 0.05}, ["rate"]),
        (WorkloadPoint("c", 4, 0.050), 50, 0.031, {}, ["room"]),
        (WorkloadPoint("c", 4, 0.050), 50, 0.030, {}, []),
        (WorkloadPoint("c", 4, 0.050), 50, None, {"budget_s": 0.109}, ["latency"]),
        (WorkloadPoint("c", 4, 0.050), 50, None, {"budget_s": 0.1101}, []),
        (WorkloadPoint("c", 4, 0.050), 50, None, {"budget_s": 0.1101, "headroom": 0.01}, ["latency"]),
        (WorkloadPoint("c", 1, 0.010), 5, 0.100, {"budget_s": 0.109}, ["step"]),
        (WorkloadPoint("c", 1, 0.010), 5, 0.100, {"budget_s": 0.1101}, []),
        (WorkloadPoint("c", 1, 0.010, 31.0), 5, None, {"power_budget_w": 30.0}, ["power"]),
        (WorkloadPoint("c", 1, 0.010, 30.0), 5, None, {"power_budget_w": 30.0}, []),
    ],
)
def test_each_constraint_breaks_just_beyond_its_limit(half, rate, step_s, want, constraints):
    cycle = cycle_of(half, rate, None if step_s is None else WorkloadPoint("n", 1, step_s, half.power_w))
    assert names(cycle, wanted(rate, **want)) == constraints


# ---- the best


def by_hand(infer, train, want):
    """Every pair, by the equations: the highest training throughput, then the lowest latency."""
    found = []
    for i, t in itertools.product(infer, train):
        kept = (1 - want.headroom) * want.latency_budget_s
        in_time = [n for n in range(1, i.batch_size + 1) if (n - 1) / want.rate_per_s + i.minibatch_s <= kept + 1e-12]
        together = max(in_time, default=1)
        period, latency = together / want.rate_per_s, (together - 1) / want.rate_per_s + i.minibatch_s
        k = math.floor((period - i.minibatch_s) / t.minibatch_s + 1e-9)
        if (
            i.minibatch_s <= period * (1 - want.headroom)
            and k >= 1
            and max(latency, i.minibatch_s + t.minibatch_s) <= kept
        ):
            found.append((k * t.batch_size / period, -latency, i.batch_size, t.batch_size, k))
    return max(found, default=None)


@given(
    st.lists(st.floats(0.001, 0.1), min_size=6, max_size=6),
    st.lists(st.floats(0.005, 0.2), min_size=2, max_size=2),
    st.floats(5, 200),
    st.floats(0.02, 0.5),
    st.sampled_from([0.0, 0.05]),
)
def test_the_best_cycle_is_the_best_of_all_pairs(infer_s, train_s, rate, budget_s, headroom):
    infer = [WorkloadPoint("c", 2**place, time_s) for place, time_s in enumerate(sorted(infer_s))]
    train = [WorkloadPoint("n", size, time_s) for size, time_s in zip((8, 32), sorted(train_s), strict=True)]
    want = wanted(rate, budget_s, headroom=headroom)
    best = by_hand(infer, train, want)
    if best is None:
        with pytest.raises(InfeasibleError):
            best_cycle(infer, train, want)
        assert broken(best_cycle(infer, train, want, best_effort=True), want)
    else:
        found = best_cycle(infer, train, want)
        assert (found.throughput_per_s, -found.latency_s) == pytest.approx(best[:2])
        assert broken(found, want) == ()


def test_without_a_rate_the_most_answers_per_second_win_within_the_budget():
    assert best_cycle(CAMERA, NIGHT, wanted(None, 0.040)).infer.batch_size == 8, "with a step of 20 ms"
    assert best_cycle(CAMERA, [], wanted(None, 0.040)).infer.batch_size == 16
    assert best_cycle(CAMERA, NIGHT, wanted(None, 0.5)).infer.batch_size == 32


# ---- what would be feasible


def test_feasible_rates_of_one_batch_size_by_hand():
    # batch 4 in 20 ms, a step of 30 ms, 170 ms allowed: 3 / a <= 150 ms, and 4 / a >= 50 ms
    cycle = cycle_of(WorkloadPoint("c", 4, 0.02), 1000.0, WorkloadPoint("n", 1, 0.03))
    assert feasible_rates(cycle, wanted(1000.0, 0.17)) == pytest.approx((20.0, 80.0))
    assert feasible_rates(cycle_of(WorkloadPoint("c", 1, 0.02), 1000.0), wanted(1000.0, 0.02)) == pytest.approx(
        (0.0, 50.0)
    )
    assert feasible_rates(cycle_of(WorkloadPoint("c", 1, 0.02), 1000.0), wanted(1000.0, 0.019)) is None
    assert feasible_rates(cycle_of(WorkloadPoint("c", 2, 0.02), 1000.0), wanted(1000.0, 0.02)) is None


def test_too_high_a_rate_is_refused_with_the_nearest():
    with pytest.raises(InfeasibleError, match=r"no plan answers 600 requests/s within 100 ms") as raised:
        best_cycle(CAMERA, NIGHT, wanted(600.0, 0.1))
    # batch 16 takes 36 ms: 16 / (0.036 + 0.020) = 285.7, to the feasible side; batch 32 would be late at any such rate
    assert raised.value.hint.startswith("feasible: 285 requests/s (batch 16, 88.6 ms); or")
    assert "--best-effort" in raised.value.hint


@given(st.floats(1, 3000), st.floats(0.005, 0.5), st.sampled_from([0.0, 0.05, 0.2]), st.booleans())
def test_the_nearest_rate_is_feasible(rate, budget_s, headroom, trains):
    want = wanted(rate, budget_s, headroom=headroom)
    train = NIGHT if trains else []
    cycles = [cycle_of(half, rate, NIGHT[0] if trains else None) for half in CAMERA]
    assume(all(broken(cycle, want) for cycle in cycles))
    found = nearest_rate_per_s(cycles, want)
    if found is not None:
        slack = 1 + 1e-9  # the ends of the range are where equality holds, give or take rounding
        again = replace(want, rate_per_s=found[0], latency_budget_s=budget_s * slack)
        assert broken(best_cycle(CAMERA, train, again), again) == ()


def test_the_least_bad_exceeds_its_limits_the_least():
    want = wanted(600.0, 0.1)
    cycle = best_cycle(CAMERA, NIGHT, want, best_effort=True)
    worst = {
        half.batch_size: max(each.value / each.limit for each in broken(cycle_of(half, 600.0, NIGHT[0]), want))
        for half in CAMERA
    }
    assert cycle.infer.batch_size == min(worst, key=worst.get)


# ---- from tables


def test_a_minibatch_is_taken_to_last_as_long_as_its_95th_percentile():
    assert cautious_s(ROW) == 0.012
    assert cautious_s(replace(ROW, minibatch_p95_s=0.015, minibatch_ci95_high_s=0.013)) == 0.015
    assert cautious_s(replace(ROW, minibatch_p95_s=0.012, minibatch_ci95_high_s=0.013)) == 0.013


def test_lateness_follows_from_the_95th_percentile_and_rates_and_shares_from_the_mean():
    times_s = (0.9, *[0.009] * 90, *[0.019] * 9, 0.1)
    row = replace(ROW, minibatch_s=0.009, minibatch_p95_s=0.019, minibatch_ci95_high_s=0.01, times_s=times_s, warmups=1)
    (half,) = halves([row], "infer")
    mean_s = 0.01081
    assert (half.minibatch_s, half.cautious_s) == (pytest.approx(mean_s), 0.019), "one slow minibatch decides nothing"
    cycle = cycle_of(half, 100.0, replace(half, workload="night"))
    assert cycle.latency_s == pytest.approx(0.03 + 0.019)
    assert cycle.train_minibatches == 2, "2 x 10.81 ms beside 10.81 ms in 40 ms; of 19 ms one would fit"
    assert cycle.throughput_per_s == pytest.approx(2 * 4 / 0.04)
    assert names(cycle, wanted(100.0, 0.048)) == ["latency"]
    assert names(cycle, wanted(100.0, 0.0491)) == []
    assert feasible_rates(cycle, wanted(100.0, 0.049)) == pytest.approx((100.0, 4 / (2 * mean_s)))
    assert [tenant.minibatch_s for tenant in tenants_of(cycle, wanted(100.0, 0.05))] == [0.019, 0.019]


def test_the_slowest_and_hungriest_of_successful_visits_counts():
    rows = [
        replace(ROW, minibatch_s=0.011, power_w=9.0),
        replace(ROW, minibatch_s=0.014, times_s=(0.014, 0.016)),
        replace(ROW, minibatch_s=0.5, status="throttled"),
        replace(ROW, minibatch_s=None, status="failed"),
        replace(ROW, task="train", minibatch_s=0.2),
        replace(ROW, gpu_mhz=600.0, minibatch_s=0.030),
    ]
    fast, slow = halves(rows, "infer")
    assert fast == WorkloadPoint("camera", 4, 0.015, 9.0, FAST, percentile((0.014, 0.016), 95), trains=False)
    assert slow.mode == SLOW


# ---- what the planner promises, the policy keeps


@pytest.mark.parametrize("seed", range(15))
def test_a_feasible_plan_has_no_violations_and_trains_as_much_as_planned(seed):
    draw = random.Random(seed)
    base_s, per_s = draw.uniform(0.001, 0.02), draw.uniform(0.0002, 0.004)
    infer = [WorkloadPoint("camera", size, base_s + per_s * size) for size in (1, 2, 4, 8, 16)]
    train = [WorkloadPoint("night", 16, draw.uniform(0.004, 0.05))]
    want = CycleGoals(draw.uniform(0.08, 0.4), draw.uniform(10, 40))
    cycle = best_cycle(infer, train, want)
    loop = simulated(tenants_of(cycle, want), {"camera": evenly(want.rate_per_s, SECONDS)}, SECONDS, Managed())
    requests = of(loop, "request")
    assert len(requests) == math.ceil(SECONDS * want.rate_per_s) - 1
    assert all(row.met for row in requests)
    cycles = math.floor(SECONDS / cycle.period_s) - 1  # the first batch has to fill before there is a first cycle
    steps = sum(row.event == "train" for row in loop.rows)
    assert steps >= cycles * cycle.train_minibatches


# ---- continuous training


@pytest.mark.parametrize("seed", range(12))
def test_managed_achieves_the_continuous_throughput_of_the_search_and_keeps_every_deadline(seed):
    draw = random.Random(seed)
    batch, work_ms, load = draw.randint(1, 8), draw.randint(2, 40), draw.uniform(0.1, 0.8)
    step_ms, room = draw.randint(5, 150), draw.uniform(1.0, 2.0)
    rate = load * batch / (work_ms / 1e3)
    urgent, background = Half(batch, work_ms / 1e3, None), Half(16, step_ms / 1e3, None)
    problem = Problem("train+infer", arrival_rate_per_s=rate, objective="continuous-throughput")
    least_s = max(
        behind_background_s(problem, urgent, background.minibatch_s), peak_latency_s(problem, batch, urgent.minibatch_s)
    )
    problem = replace(problem, latency_budget_s=room * least_s + 1e-5)
    judged = judge_pair(problem, urgent, background)
    assert judged.feasible
    tenants = [Inference("a", batch, problem.latency_budget_s, rate, work_ms / 1e3), Training("t", 16, step_ms / 1e3)]
    end_s = 40 * max(batch / rate, step_ms / 1e3 / (1 - load))
    source = parse_arrivals(f"uniform:{rate}").source(0, round(end_s * NS), (0,), batch)
    loop = simulated(tenants, {"a": source}, end_s)
    trained_s = max(row.finished_s for row in loop.rows)
    achieved = sum(row.samples for row in loop.rows if row.event == "train") / trained_s
    assert all(row.met for row in loop.rows if row.event == "request")
    assert achieved == pytest.approx(judged.objective, rel=0.1)


def test_continuous_goals_let_a_step_run_on_that_no_cycle_holds():
    infer, train = WorkloadPoint("camera", 4, 0.06), WorkloadPoint("night", 16, 0.2)
    goals = wanted(20.0, 0.3)
    assert names(cycle_of(infer, 20.0, train), goals) == ["room"]
    goals = replace(goals, continuous=True)
    best = best_cycle([infer], [train], goals)
    assert names(best, goals) == []
    assert best.continuous_per_s(0.3) == pytest.approx(0.5 * 16 / 0.2)  # one every other batch
    assert explain(best, goals)[-1].endswith("40 samples/s where steps run on while batches fill")
