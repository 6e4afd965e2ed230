"""What is found before a run is no worse than ``reuse``, whatever the size; and it is followed as costs turn out."""

import random

import pytest
from schedule_builder import MS, batch, chain, layer, loop_of

from edgetune.stages.schedule.best_schedule import MOST_TASKS, best_schedule, lower_bound_ns
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.plan import SchedulingProblem
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.optimum import Optimum
from edgetune.stages.schedule.policies.reuse import Reuse
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.tasks import Machine


def problem(networks, requests, *, budget_bytes=1000, workers=2, **options):
    return SchedulingProblem({each.name: each for each in networks}, requests, budget_bytes, workers, **options)


def ran(policy, case, machine, networks=None):
    """Return tasks and requests of a run whose layers really are those of ``networks``."""
    loop, _ = loop_of(
        list(case.networks.values()), case.requests, policy=policy, budget=case.budget_bytes, workers=case.workers,
        machine=machine, real=networks, cores=machine.cores, streams=round(machine.streams),
    )  # fmt: skip
    loop.run()
    return loop.tasks, loop.requests


def many_requests(seed=0, count=40):
    """More than constraint programming is asked for."""
    rng = random.Random(seed)
    networks = [
        chain(name, *({"weights": rng.randint(5, 40), "load_ms": rng.randint(1, 9), "execute_ms": rng.randint(1, 9)}
                      for _ in range(6)))
        for name in "abc"
    ]  # fmt: skip
    requests = [Request(number, rng.choice("abc"), number * MS) for number in range(count)]
    return problem(networks, requests, budget_bytes=120)


def test_beyond_what_is_proved_it_is_what_reuse_does_and_a_bound(monkeypatch):
    monkeypatch.setattr("edgetune.stages.schedule.best_schedule.optimum", None)  # nobody may ask for it
    case, machine = many_requests(), Machine(cores=2)
    assert case.tasks > MOST_TASKS
    found = best_schedule(case, "response", machine, limit_s=0.5)
    for policy in (Reuse(), Optimum(plan=found)):
        _, requests = ran(policy, case, machine)
        assert sum(each.response_ns for each in requests) / len(requests) == found.value_ns
    assert 0 < found.bound_ns <= found.value_ns
    assert not found.proved


def test_the_bound_is_of_paths_and_of_work():
    fork = LayeredNetwork("f", (layer(execute_ms=3), layer(execute_ms=5, after=[0]), layer(execute_ms=4, after=[0])), 0)
    case = problem([fork], batch("f"), workers=4)
    assert lower_bound_ns(case, "response") == lower_bound_ns(case, "makespan") == (3 + 5) * MS
    one = problem([fork], batch("f", "f"), workers=1)
    assert lower_bound_ns(one, "response") == (12 + 24) / 2 * MS
    assert lower_bound_ns(one, "makespan") == 24 * MS
    late = problem([fork], [Request(0, "f", 0), Request(1, "f", 100 * MS)], workers=1)
    assert lower_bound_ns(late, "response") == 12 * MS
    assert lower_bound_ns(late, "makespan") == (100 + 8) * MS
    loads = problem([chain("a", {"weights": 1, "load_ms": 50, "execute_ms": 1})], batch("a", "a"), workers=2)
    assert lower_bound_ns(loads, "makespan") == 25 * MS


def test_the_bound_lets_the_shortest_remaining_time_go_first():
    """At 2 ms the short one interrupts the long one: 2 + 3 + 8 ms of work, answers at 5 and 10 ms."""
    networks = [chain("long", {"execute_ms": 7}), chain("short", {"execute_ms": 3})]
    case = problem(networks, [Request(0, "long", 0), Request(1, "short", 2 * MS)], workers=1)
    assert lower_bound_ns(case, "response") == (10 + 3) / 2 * MS


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_holds_for_durations_and_arrivals_that_lie_on_no_grid(seed):
    """No policy that keeps the budget is better, nor the plan itself; and few tasks are solved to the rounding."""
    pytest.importorskip("ortools", reason="the optimum needs OR-Tools: pip install 'edgetune[optimum]'")
    rng = random.Random(seed)
    networks = [
        chain(name, *({"weights": rng.randint(5, 40), "load_ms": rng.uniform(1, 20), "execute_ms": rng.uniform(1, 20)}
                      for _ in range(2)))
        for name in "ab"
    ]  # fmt: skip
    requests = [Request(0, "a", 0), Request(1, "b", rng.randint(0, 10**7)), Request(2, "a", 10**7 + 1)]
    case, machine = problem(networks, requests, budget_bytes=60, streams=None), Machine(cores=2, streams=2)
    found = best_schedule(case, "response", machine, limit_s=60.0)
    assert 0.97 * found.value_ns <= found.bound_ns <= found.value_ns
    tasks, answers = ran(Optimum(plan=found), case, machine)
    assert sum(each.response_ns for each in answers) / len(answers) == found.value_ns
    assert max(task.held_bytes for task in tasks) <= case.budget_bytes
    _, answers = ran(Reuse(), case, machine)
    assert found.value_ns <= sum(each.response_ns for each in answers) / len(answers)
    for name in ("reuse", "masa", "fcfs", "sjf", "snf", "partial", "deepeye", "linear"):
        tasks, answers = ran(make_policy(name), case, machine)
        mean_ns = sum(each.response_ns for each in answers) / len(answers)
        assert mean_ns >= found.bound_ns or max(task.held_bytes for task in tasks) > case.budget_bytes
