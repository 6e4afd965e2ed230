"""The operators of a network move the prior of the physics, and never decide."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest

from contracts.strategy_contract import grid_points, measure_formula
from edgetune.artifacts.problem import Problem
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.model.board_laws import COMPUTE, TRAFFIC, WEIGHTS, TimeModel
from edgetune.stages.search.model.coordinates import Coordinates
from edgetune.stages.search.model.priors import LIMIT, TRUST, informed_time_prior
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import NO_HINTS, Hints, OperatorTotals

SPACE = Space.of(grid_points())
COORDINATES = Coordinates.of(SPACE)
ROWS = {point: measure_formula(point) for point in grid_points()}
BUDGETS = tuple(float(budget_w) for budget_w in range(20, 47))
SHARES = slice(2, 5)
assert (COMPUTE, WEIGHTS, TRAFFIC) == (0, 1, 2)


@lru_cache
def mean_excess(hints: Hints) -> float:
    excess = []
    for budget_w in BUDGETS:
        problem = Problem("train", power_budget_w=budget_w)
        plan = run_search(
            problem, list(ROWS), ROWS.__getitem__, SearchSettings("roofline", max_points=10, hints=hints)
        ).plan
        best = min(row.minibatch_s for row in ROWS.values() if row.power_w <= budget_w)
        assert plan.measured.power_w <= budget_w
        excess.append(plan.measured.minibatch_s / best - 1)
    return float(np.mean(excess))


def test_the_prior_is_unchanged_without_operators():
    assert informed_time_prior(COORDINATES, NO_HINTS) is None
    assert informed_time_prior(COORDINATES, Hints(operators=(OperatorTotals(16, 10**9, 10**7, 10**6),))) is None


@pytest.mark.parametrize("intensity", [5.0, 90.0, 400.0])
def test_operators_set_arithmetic_against_traffic_halfway(intensity):
    own = TimeModel.of(COORDINATES).prior
    totals = OperatorTotals(16, int(intensity * 10**8), 10**8 + 10**6, 10**6)
    time = informed_time_prior(COORDINATES, Hints(operators=(totals,), balance_flop_per_byte=90.0))
    before, after = (prior.mean[2 + COMPUTE] - prior.mean[2 + TRAFFIC] for prior in (own, time))
    centre = TimeModel.of(COORDINATES).centre[[COORDINATES.names.index(name) for name in ("gpu_mhz", "mem_mhz")]]
    wanted = math.log(intensity / 90.0) - 0.95 * centre[0] + 0.9 * centre[1]
    assert min(before, wanted) - 1e-9 <= after <= max(before, wanted) + 1e-9
    assert np.abs(time.mean - own.mean).max() <= TRUST * LIMIT + 1e-9
    changed = np.flatnonzero(time.mean != own.mean)
    assert set(changed) <= {2, 3, 4}


@pytest.mark.parametrize(
    "hints",
    [
        pytest.param(
            Hints(operators=(OperatorTotals(16, 10**3, 10**12, 10**3),), balance_flop_per_byte=90.0),
            id="all traffic",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Hints(operators=(OperatorTotals(16, 10**15, 10**3, 10**3),), balance_flop_per_byte=90.0),
            id="all arithmetic",
        ),
    ],
)
def test_a_wrong_prior_costs_at_most_one_per_cent_at_ten_points(hints):
    assert mean_excess(hints) <= mean_excess(NO_HINTS) + 0.01
