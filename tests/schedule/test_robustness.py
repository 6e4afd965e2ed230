"""How the order of policies changes with durations: not by little noise, and by luck where two are nearly alike."""

from dataclasses import replace

import pytest
from schedule_builder import batch, chain

from edgetune.stages.schedule.machine import Machine
from edgetune.stages.schedule.policies import POLICIES
from edgetune.stages.schedule.robustness import Study, responses, robustness
from edgetune.stages.schedule.simulation import SimulationCase

SLOW = chain("slow", {"weights": 100, "load_ms": 50, "execute_ms": 60}, {"weights": 50, "load_ms": 20, "execute_ms": 9})
FAST = chain("fast", {"weights": 20, "load_ms": 5, "execute_ms": 4}, {"weights": 10, "load_ms": 2, "execute_ms": 3})


def study(*policies, networks=(SLOW, FAST), budget=130, memory=None):
    known = {network.name: network for network in networks}
    machine = Machine(cores=1, memory_bytes=memory)
    requests = batch(*[network.name for network in networks] * 4)
    case = SimulationCase(known, requests, budget, 1, machine, known)
    return Study(case, {name: POLICIES[name] for name in policies})


def test_responses_are_those_of_the_clock():
    network = chain("a", {"weights": 1, "load_ms": 3, "execute_ms": 2})
    alone = study("linear", networks=[network])
    assert responses(alone)["linear"] == pytest.approx((5 + 10 + 15 + 20) / 4 / 1e3)


def test_little_noise_leaves_the_order_of_policies_that_differ_much():
    found = robustness(study("fcfs", "sjf", "reuse"), 0.01, runs=5, seed=0)
    assert found.tau == (1.0,) * 5
    assert (found.best_stays, found.regret) == (5, 0.0)
    measured = responses(study("fcfs", "sjf", "reuse"))
    assert found.mean_s == pytest.approx(measured, rel=0.01)


def test_two_policies_that_do_the_same_are_in_one_order():
    found = robustness(study("fcfs", "partial"), 0.5, runs=3, seed=0)
    assert found.tau == (1.0,) * 3
    assert found.best_stays == 3


def test_the_shorter_network_is_a_matter_of_luck_where_both_are_alike():
    """Shortest network first and first come first served differ by which of two networks goes first."""
    one = chain("one", {"weights": 9, "load_ms": 5, "execute_ms": 10.1})
    two = chain("two", {"weights": 9, "load_ms": 5, "execute_ms": 10})
    tossed = robustness(study("fcfs", "snf", networks=[one, two], budget=9), 0.5, runs=30, seed=3)
    assert 5 < tossed.best_stays < 25
    assert {-1.0, 1.0} == set(tossed.tau)
    assert tossed.regret > 0


def test_the_same_seed_draws_the_same_and_bytes_change_no_times():
    first, again, other = (robustness(study("fcfs", "reuse"), 0.3, runs=3, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert robustness(study("fcfs", "reuse"), 0.3, runs=3, seed=1, with_bytes=True).mean_s == first.mean_s


def test_bytes_that_are_more_than_believed_cost_time_where_memory_is_short():
    from edgetune.stages.schedule.machine import Paging

    short = study("fcfs", "reuse")
    slow = Paging(s_per_byte=1e-3)
    machine = Machine(cores=1, memory_bytes=115, paging=slow)
    paged = replace(short, case=replace(short.case, machine=machine))
    exact = robustness(paged, 0.3, runs=3, seed=1)
    wrong = robustness(paged, 0.3, runs=3, seed=1, with_bytes=True)
    assert wrong.mean_s["reuse"] != exact.mean_s["reuse"]
