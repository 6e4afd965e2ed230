"""The formulas that the simulator is held against, and that it holds."""

import math
import statistics

import pytest
from interleave_queue import mean_wait_s, own_error, share_waiting_at_most, simulated_waits_s, wait_percentile_s


def erlang(wait_s, load, service_s):
    """Erlang's sum of 1909, whose terms alternate in sign."""
    x = wait_s / service_s
    terms = ((load * (j - x)) ** j / math.factorial(j) * math.exp(-load * (j - x)) for j in range(math.floor(x) + 1))
    return (1 - load) * math.fsum(terms)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
def test_franx_and_erlang_agree(load):
    assert share_waiting_at_most(0.0, load, 0.01) == pytest.approx(1 - load), "as many find nobody"
    for wait_s in (0.004, 0.01, 0.025, 0.0631):
        assert share_waiting_at_most(wait_s, load, 0.01) == pytest.approx(erlang(wait_s, load, 0.01), rel=1e-9)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_the_distribution_has_the_mean_of_pollaczek_and_khinchine(load):
    step_s = 1e-4
    beyond = math.fsum(1 - share_waiting_at_most((n + 0.5) * step_s, load, 0.01) for n in range(2_000))
    assert beyond * step_s == pytest.approx(mean_wait_s(load, 0.01), rel=1e-3)


def test_a_percentile_is_where_the_distribution_reaches_it():
    assert share_waiting_at_most(wait_percentile_s(99, 0.6, 0.01), 0.6, 0.01) == pytest.approx(0.99)
    assert wait_percentile_s(50, 0.6, 0.01) > 0
    assert wait_percentile_s(30, 0.6, 0.01) == pytest.approx(0, abs=1e-12), "40 % do not wait"


def test_the_simulator_is_within_its_own_error_of_theory():
    waits = simulated_waits_s(0.5, 0.01, 6_000, seed=3)
    assert abs(statistics.fmean(waits) / mean_wait_s(0.5, 0.01) - 1) < own_error(waits) < 0.2
