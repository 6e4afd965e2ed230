"""What a pair of workloads is worth, against random draws and against cases that can be worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.problem import Problem
from edgetune.stages.search.model.beliefs import Belief
from edgetune.stages.search.model.gain import SLOPE, TIE, BestPair, PairGain, Pairs, pair_gain

PROBLEM = Problem("train+infer", power_budget_w=30.0, latency_budget_s=1.0, arrival_rate_per_s=20.0)


def belief(time_s: float, time_sd: float, power_w: float = 20.0, power_sd: float = 0.0) -> Belief:
    return Belief(*(np.array([value]) for value in (math.log(time_s), time_sd, math.log(power_w), power_sd)))


def gain_of(urgent: Belief, background: Belief, best=None, *, problem=PROBLEM, size: int = 4) -> PairGain:
    return pair_gain(problem, Pairs(urgent, background, np.array([float(size)]), 16), best)


def drawn(t_inf, t_bg, throughput, *, size=4, count=200_000) -> tuple[float, float, float]:
    """Return gain, chance of the urgent half and chance of room for one, by drawing times at random."""
    random = np.random.default_rng(0)
    arrives_s = size / PROBLEM.arrival_rate_per_s
    limit_s = min(arrives_s, PROBLEM.latency_budget_s - (size - 1) / PROBLEM.arrival_rate_per_s)
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
    assert gain_of(even, fine, problem=replace(PROBLEM, margin=0.1)).urgent_chance[0] == pytest.approx(0.146, abs=1e-3)


def test_a_batch_that_takes_the_latency_budget_to_fill_is_worth_nothing():
    found = gain_of(belief(0.01, 0.3), belief(0.01, 0.3), size=21)  # 20 / 20 s
    assert found.urgent_chance[0] == 0.0
    assert found.score[0] == 0.0


def test_without_a_best_the_likeliest_pair_is_worth_most_and_of_equals_the_one_that_leaves_more_room():
    times, sd = np.log([0.03, 0.03, 0.19]), np.full(3, 0.1)
    powers, power_sd = np.log([20.0, 31.0, 20.0]), np.full(3, 0.05)
    half = Belief(np.log(np.full(3, 0.02)), sd, np.log(np.full(3, 20.0)), power_sd)
    found = pair_gain(PROBLEM, Pairs(Belief(times, sd, powers, power_sd), half, np.full(3, 4.0), 16), None)
    assert found.score[0] > 2 * found.score[1]
    assert found.score[0] > found.score[2]


@settings(max_examples=15, deadline=None)
@given(
    t_inf=st.tuples(st.floats(0.01, 0.15), st.floats(0.01, 0.3)),
    t_bg=st.tuples(st.floats(0.01, 0.2), st.floats(0.01, 0.3)),
    best=st.floats(0.5, 8.0),
)
def test_the_gain_without_pauses_is_that_of_random_draws(t_inf, t_bg, best):
    problem = replace(PROBLEM, objective="continuous-throughput")
    throughput, random, count = best * 16 / 0.2, np.random.default_rng(0), 200_000
    first = t_inf[0] * np.exp(t_inf[1] * random.normal(size=count))
    second = t_bg[0] * np.exp(t_bg[1] * random.normal(size=count))
    ok = first <= 0.2
    gained = np.maximum((0.2 - first) / second * 16 / 0.2 - throughput, 0) * ok
    found = gain_of(belief(*t_inf), belief(*t_bg), BestPair(throughput, 0.3), problem=problem)
    assert found.gain[0] * found.urgent_chance[0] == pytest.approx(gained.mean() / throughput, rel=0.12, abs=0.02)


def test_unknown_power_does_not_stand_in_the_way():
    unknown = Belief(np.log([0.03]), np.zeros(1), np.full(1, np.nan), np.full(1, np.nan))
    assert gain_of(unknown, unknown).urgent_chance[0] == 1.0
