"""The optimum is what can be worked out by hand, no policy beats it, and following its plan gives what it promised."""

import random
import sys

import pytest
from schedule_builder import MS, batch, chain, layer

from contracts.schedule_contract import SchedulePolicyContract
from edgetune.errors import DeviceError
from edgetune.stages.schedule.best_schedule import optimum
from edgetune.stages.schedule.network import LayeredNetwork, least_budget_bytes
from edgetune.stages.schedule.plan import SchedulingProblem
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.optimum import Optimum
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import Machine

pytest.importorskip("ortools", reason="the optimum needs OR-Tools: pip install 'edgetune[optimum]'")


def case_of(networks, requests, **options):
    options = {"budget_bytes": 10**6, "workers": 1, "streams": None, **options}
    return SchedulingProblem({network.name: network for network in networks}, requests, **options)


def simulated(policy, case):
    streams, cores = case.streams or case.workers, case.cores or case.workers
    machine = Machine(cores=cores, streams=streams)
    ran = simulate(policy, SimulationCase(case.networks, case.requests, case.budget_bytes, case.workers, machine))
    requests = [record for record in ran.records if hasattr(record, "response_ns")]
    tasks = [record for record in ran.records if hasattr(record, "held_bytes") and hasattr(record, "layer")]
    assert {record.outcome for record in requests} == {"ok"}
    return {
        "response": sum(record.response_ns for record in requests) / len(requests),
        "makespan": max(record.end_ns for record in requests),
        "peak": max(task.held_bytes for task in tasks),
        "tasks": tasks,
    }


TWO = ({"weights": 10, "load_ms": 3, "execute_ms": 2}, {"weights": 20, "load_ms": 5, "execute_ms": 7})


@pytest.mark.parametrize(
    ("workers", "budget", "expected_ms"),
    [
        (1, 100, 3 + 2 + 5 + 7),  # everything in turn
        (2, 100, 5 + 7),  # both loads at once, the first execution beside the second load
        (2, 20, 3 + 2 + 5 + 7),  # the second weights have to wait until the first have left
    ],
)
@pytest.mark.parametrize("objective", ["response", "makespan"])
def test_two_layers(workers, budget, expected_ms, objective):
    case = case_of([chain("a", *TWO)], batch("a"), workers=workers, budget_bytes=budget)
    plan = optimum(case, objective)
    assert (plan.proved, plan.value_ns, plan.bound_ns) == (True, expected_ms * MS, expected_ms * MS)


def test_executions_one_at_a_time_where_there_is_one_core():
    networks = [chain(name, {"execute_ms": 4}) for name in "ab"]
    assert optimum(case_of(networks, batch("a", "b"), workers=2), "makespan").value_ns == 4 * MS
    assert optimum(case_of(networks, batch("a", "b"), workers=2, cores=1), "makespan").value_ns == 8 * MS


def test_requests_share_weights_as_long_as_memory_lets_them_stay():
    network = chain("a", *TWO)
    roomy, tight = (case_of([network], batch("a", "a"), budget_bytes=budget) for budget in (30, 20))
    assert optimum(roomy, "makespan").value_ns == (3 + 2 + 2 + 5 + 7 + 7) * MS
    assert optimum(tight, "makespan").value_ns == (3 + 2 + 2 + 5 + 7 + 7) * MS  # layer by layer, for both
    large = chain("a", {**TWO[0], "output": 10}, {**TWO[1]})  # two outputs beside the second weights are too much
    assert optimum(case_of([large], batch("a", "a"), budget_bytes=30), "makespan").value_ns == 2 * (3 + 2 + 5 + 7) * MS


def test_the_short_request_goes_first_for_the_response_only():
    networks = [chain("long", {"execute_ms": 10}), chain("short", {"execute_ms": 1})]
    case = case_of(networks, batch("long", "short"))
    assert optimum(case, "response").value_ns == (1 + 11) / 2 * MS
    assert optimum(case, "makespan").value_ns == 11 * MS


def test_the_optimum_knows_future_requests():
    networks = [chain("long", {"execute_ms": 10}), chain("short", {"execute_ms": 1})]
    requests = [Request(0, "long", 0), Request(1, "short", MS)]
    assert optimum(case_of(networks, requests)).value_ns == ((12 - 0) + (2 - 1)) / 2 * MS  # it waits for the short one


def test_requests_wait_for_the_answers_that_they_come_after():
    networks = [chain("a", {"weights": 1, "load_ms": 3, "execute_ms": 4}), chain("b", {"weights": 1, "load_ms": 5})]
    requests = [Request(0, "a", 0), Request(1, "b", 0, after=(0,))]
    plan = optimum(case_of(networks, requests, workers=2), "makespan")
    assert plan.value_ns == pytest.approx((3 + 4 + 5) * MS, abs=MS)  # an execution of no time takes a step of the grid


@pytest.mark.parametrize(
    ("layers", "least"),
    [
        ([layer(output=5, execute_ms=1), layer(output=1, execute_ms=1, after=[0])], 5 + 1),
        ([layer(output=5, execute_ms=1), layer(output=1, execute_ms=1), layer(execute_ms=1, after=[0, 1])], 5 + 1),
        ([layer(scratch=9, output=1, execute_ms=1), layer(execute_ms=1, after=[0])], 9 + 1),
        ([layer(output=4, execute_ms=1), layer(output=4, execute_ms=1)], 4 + 4),  # nobody reads either: both stay
    ],
)
def test_memory_is_what_the_ledger_holds(layers, least):
    network = LayeredNetwork("a", tuple(layers), 7)
    assert optimum(case_of([network], batch("a"), budget_bytes=7 + least)).proved
    with pytest.raises(Exception, match="there is no schedule within"):
        optimum(case_of([network], batch("a"), budget_bytes=least_budget_bytes(network) - 1))


def random_case(seed, *, streams=None):
    """Two or three requests for two networks of up to three layers."""
    rng = random.Random(seed)
    networks = []
    for name in "ab":
        layers = []
        for index in range(rng.randint(1, 3)):
            after = sorted({rng.randrange(index), index - 1}) if index else ()
            sizes = {"weights": rng.randint(0, 50), "output": rng.randint(0, 20), "scratch": rng.randint(0, 9)}
            layers.append(layer(**sizes, load_ms=rng.randint(1, 9), execute_ms=rng.randint(1, 9), after=after))
        networks.append(LayeredNetwork(name, tuple(layers), rng.randint(0, 9)))
    names = ["a", "b", *rng.sample("ab", rng.randint(0, 1))]
    requests, at_ns = [], 0
    for number, name in enumerate(names):
        requests.append(Request(number, name, at_ns, after=(number - 1,) if number and rng.random() < 0.2 else ()))
        at_ns += rng.choice([0, 5 * MS])
    least = max(map(least_budget_bytes, networks))
    budget = round(least * rng.choice([1.0, 1.2, 2.0]))
    return case_of(networks, requests, workers=rng.randint(1, 3), budget_bytes=budget, streams=streams)


@pytest.mark.parametrize("objective", ["response", "makespan"])
@pytest.mark.parametrize("streams", [None, 1])
@pytest.mark.parametrize("seed", range(4))
def test_following_the_plan_gives_what_it_promises(seed, streams, objective):
    case = random_case(seed, streams=streams)
    plan = optimum(case, objective)
    ran = simulated(Optimum(plan=plan), case)
    assert plan.proved
    assert ran[objective] == pytest.approx(plan.value_ns, abs=1)
    assert ran["peak"] <= case.budget_bytes


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_that_keeps_the_budget_is_better(seed):
    case = random_case(100 + seed)
    plan = optimum(case)
    for name in ("linear", "deepeye", "partial", "fcfs", "sjf", "rr", "masa", "reuse"):
        ran = simulated(make_policy(name), case)
        assert ran["response"] >= plan.bound_ns - 1 or ran["peak"] > case.budget_bytes


def test_a_proof_is_doubted(monkeypatch):
    """A search that calls a bad schedule optimal is found out by the second."""
    from ortools.sat.python import cp_model

    solve = cp_model.CpSolver.solve
    calls = []

    def hasty(self, model, *more):
        calls.append(self.parameters.random_seed)
        if len(calls) > 1:
            return solve(self, model, *more)
        self.parameters.stop_after_first_solution = True
        solve(self, model, *more)
        return cp_model.OPTIMAL

    monkeypatch.setattr(cp_model.CpSolver, "solve", hasty)
    networks = [chain("long", {"execute_ms": 10}), chain("short", {"execute_ms": 1})]
    case = case_of(networks, batch("long", "short"))
    plan = optimum(case, known=simulated(make_policy("linear"), case)["tasks"])
    assert len(set(calls)) == 2
    assert (plan.value_ns, plan.proved) == (6 * MS, False)


def test_without_or_tools_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(DeviceError, match="OR-Tools") as caught:
        optimum(case_of([chain("a", *TWO)], batch("a")))
    assert caught.value.hint == "pip install 'edgetune[optimum]'"


class TestOptimum(SchedulePolicyContract):
    policy = "optimum"
