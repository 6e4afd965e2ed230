"""What is known beforehand moves where the physics begins, and never decides."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.model.board_laws import COMPUTE, TRAFFIC, WEIGHTS, PowerModel, TimeModel
from edgetune.stages.search.model.coordinates import Coordinates
from edgetune.stages.search.model.priors import LIMIT, TRUST, informed_priors
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import NO_HINTS, Hints, OperatorTotals
from edgetune.testing.strategy_contract import grid_points, measure_formula

SPACE = Space.of(grid_points())
COORDINATES = Coordinates.of(SPACE)
ROWS = {point: measure_formula(point) for point in grid_points()}
BUDGETS = tuple(float(budget_w) for budget_w in range(20, 47))
SHARES = slice(2, 5)
assert (COMPUTE, WEIGHTS, TRAFFIC) == (0, 1, 2)


def relative(power_w: float = 1.0, time_s: float = 2.0, name: str = "other") -> tuple[ProfileRow, ...]:
    """Another network on the same board: so many times the time and power of the formula."""
    return tuple(
        replace(row, workload=name, minibatch_s=row.minibatch_s * time_s, power_w=row.power_w * power_w)
        for row in ROWS.values()
    )


def backwards() -> tuple[ProfileRow, ...]:
    """Rows of a board that does not exist: what each mode measures is what the opposite mode would."""
    rows = list(ROWS.values())
    return tuple(
        replace(row, workload="other", minibatch_s=other.minibatch_s, power_w=other.power_w)
        for row, other in zip(rows, rows[::-1], strict=True)
    )


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


def test_nothing_known_leaves_the_physics_as_it_is():
    assert informed_priors(COORDINATES, NO_HINTS) is None
    assert informed_priors(COORDINATES, Hints(operators=(OperatorTotals(16, 10**9, 10**7, 10**6),))) is None
    failed = tuple(replace(row, minibatch_s=None, status="failed") for row in ROWS.values())
    assert informed_priors(COORDINATES, Hints(relatives=failed)) is None


def test_relatives_move_coefficients_towards_theirs_and_not_the_scale():
    time, power = informed_priors(COORDINATES, Hints(relatives=relative()))
    own_time, own_power = TimeModel.of(COORDINATES).prior, PowerModel.of(COORDINATES).prior
    for found, own in ((time, own_time), (power, own_power)):
        assert found.mean.shape == own.mean.shape
        assert found.mean[0] == own.mean[0]
        assert found.sd[0] == own.sd[0]
        assert not np.allclose(found.mean[1:], own.mean[1:])
        assert (found.sd >= 0.5 * own.sd).all()  # never sure
    # The board's GPU draws more when busy or not: a law of c x knob, not its cube.
    assert power.mean[4] + power.mean[6] > own_power.mean[4] + own_power.mean[6]


def test_a_relative_twice_as_slow_at_half_the_power_says_the_same():
    once = informed_priors(COORDINATES, Hints(relatives=relative(1.0, 1.0)))
    again = informed_priors(COORDINATES, Hints(relatives=relative(0.5, 2.0)))
    for a, b in zip(once, again, strict=True):
        assert a.mean == pytest.approx(b.mean, abs=0.02)


def test_relatives_whose_other_knobs_vary_say_nothing():
    rows = tuple(replace(row, cpu_cores=4) for row in relative())
    assert informed_priors(COORDINATES, Hints(relatives=rows)) is None


def test_relatives_without_power_tell_of_time_alone():
    rows = tuple(replace(row, power_w=None) for row in relative())
    time, power = informed_priors(COORDINATES, Hints(relatives=rows))
    assert not np.allclose(time.mean, TimeModel.of(COORDINATES).prior.mean)
    assert power.mean == pytest.approx(PowerModel.of(COORDINATES).prior.mean)


@pytest.mark.parametrize("intensity", [5.0, 90.0, 400.0])
def test_operators_set_arithmetic_against_traffic_halfway(intensity):
    own = TimeModel.of(COORDINATES).prior
    totals = OperatorTotals(16, int(intensity * 10**8), 10**8 + 10**6, 10**6)
    time, _ = informed_priors(COORDINATES, Hints(operators=(totals,), balance_flop_per_byte=90.0))
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
        Hints(relatives=relative()),
        Hints(relatives=backwards()),
        Hints(operators=(OperatorTotals(16, 10**3, 10**12, 10**3),), balance_flop_per_byte=90.0),
        Hints(operators=(OperatorTotals(16, 10**15, 10**3, 10**3),), balance_flop_per_byte=90.0),
    ],
    ids=["a relative", "a relative that is backwards", "all traffic", "all arithmetic"],
)
def test_a_wrong_prior_costs_at_most_one_per_cent_at_ten_points(hints):
    assert mean_excess(hints) <= mean_excess(NO_HINTS) + 0.01
