"""Print how far policies are from the optimum on random small cases: python tests/benchmarks/schedule_optimum.py

    cases -> constraint programme: optimum, or a bound -> ratio of each policy's mean response to it, mean and worst

Cases are two or three networks of three to five layers, each asked for once, up to two of them again, on one to four
workers, with memory between the least that works and what is enough for everything; half of them arrive together.
Where an optimum is not proved in time, the ratio is somewhere between that to the best that was found and that to the
bound: a row for each.

The optimum knows what will come and may wait for it, which policies cannot: that is a part of the ratios of staggered
arrivals. With as many streams and cores as workers (the default) nothing is shared, and nothing within the budget can
be better than the bound. With --streams 1, as storage is, policies may share what it delivers, which the programme
never does.
"""

import argparse
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from edgetune.stages.schedule.best_schedule import optimum
from edgetune.stages.schedule.network import Layer, LayeredNetwork, least_budget_bytes
from edgetune.stages.schedule.plan import SchedulingProblem
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.optimum import Optimum
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import Machine, RequestRecord, TaskRecord
from edgetune.stats import median

MS = 1_000_000
POLICIES = ("reuse", "masa", "fcfs", "sjf", "partial", "deepeye", "linear")


@dataclass(frozen=True, slots=True)
class Result:
    """What one case came to: mean responses, ns.

    Args:
        seed: Which case.
        together: Whether all requests arrived at once.
        workers: How many.
        best_ns: The best that was found: planned, or the plan followed, which closes gaps that a plan may have.
        bound_ns: No better is possible.
        proved: Whether the two are the same.
        followed_ns: What following the plan gave.
        policies_ns: Of each policy.
        over: Policies that held more than the budget.
    """

    seed: int
    together: bool
    workers: int
    best_ns: float
    bound_ns: float
    proved: bool
    followed_ns: float
    policies_ns: dict[str, float]
    over: tuple[str, ...]

    def ratio(self, policy: str, to_ns: float) -> float:
        """Return how many times as long as ``to_ns`` a policy's mean response is."""
        return (self.best_ns if policy == "optimum" else self.policies_ns[policy]) / to_ns


def random_network(name: str, rng: random.Random) -> LayeredNetwork:
    """Return a chain with a few branches, whose layers take 1 to 20 ms and 10 to 100 bytes."""
    layers = []
    for index in range(rng.randint(3, 5)):
        after = (index - 1,) if rng.random() < 0.8 else (rng.randrange(index), index - 1) if index else ()
        kind = rng.choice(["conv", "fc"])
        sizes = rng.randint(10, 100), rng.randint(1, 15), rng.randint(0, 10)
        times_s = rng.randint(1, 20) / 1e3, rng.randint(1, 20) / 1e3
        layers.append(Layer(f"{name}{index}", kind, *sizes, *times_s, tuple(sorted(set(after))) if index else ()))
    return LayeredNetwork(name, tuple(layers), rng.randint(0, 10))


def random_case(seed: int, streams: int | None) -> SchedulingProblem:
    """Return the case of a seed."""
    rng = random.Random(seed)
    names = "abc"[: rng.randint(2, 3)]
    networks = {name: random_network(name, rng) for name in names}
    asked = [*names, *(rng.choice(names) for _ in range(rng.randint(0, 2)))]
    rng.shuffle(asked)
    longest = rng.choice([0, 40])
    requests, at_ns = [], 0
    for number, name in enumerate(asked):
        requests.append(Request(number, name, at_ns))
        at_ns += rng.randint(0, longest) * MS
    least = max(map(least_budget_bytes, networks.values()))
    everything = sum(networks[name].weight_bytes for name in names) + sum(
        networks[name].input_bytes + sum(each.output_bytes + each.scratch_bytes for each in networks[name].layers)
        for name in asked
    )
    share = rng.random() ** 2  # tight budgets are the harder ones
    return SchedulingProblem(
        networks, requests, round(least + share * (everything - least)), rng.randint(1, 4), streams
    )


def run(policy: SchedulePolicy, case: SchedulingProblem) -> tuple[float, list[TaskRecord]]:
    """Return a policy's mean response, ns, and its tasks."""
    machine = Machine(cores=case.cores or case.workers, streams=case.streams or case.workers)
    records = simulate(
        policy, SimulationCase(case.networks, case.requests, case.budget_bytes, case.workers, machine)
    ).records
    responses = [record.response_ns for record in records if isinstance(record, RequestRecord)]
    return sum(responses) / len(responses), [record for record in records if isinstance(record, TaskRecord)]


def solve(seed: int, *, streams: int | None, limit_s: float) -> Result:
    """Return what the case of a seed comes to; the search begins with what ``reuse`` does."""
    case = random_case(seed, streams)
    ran = {name: run(make_policy(name), case) for name in POLICIES}
    over = tuple(name for name, (_, tasks) in ran.items() if max(t.held_bytes for t in tasks) > case.budget_bytes)
    plan = optimum(case, limit_s=limit_s, known=ran["reuse"][1])
    assert plan is not None, "no plan in this time: raise --limit"
    followed_ns, _ = run(Optimum(plan=plan), case)
    together = not any(request.arrival_ns for request in case.requests)
    policies_ns = {name: response_ns for name, (response_ns, _) in ran.items()}
    return Result(
        seed, together, case.workers, min(plan.value_ns, followed_ns), plan.bound_ns, plan.proved, followed_ns,
        policies_ns, over,
    )  # fmt: skip


def tell(results: Sequence[Result]) -> None:
    """Print the table."""
    proved = [result for result in results if result.proved]
    apart = max((abs(result.followed_ns - result.best_ns) for result in proved), default=0.0)
    print(f"{len(results)} cases, {len(proved)} optima proved; followed, they differ by {apart:.0f} ns at the most")
    groups = {
        "all": results,
        "proved": proved,
        "together": [result for result in results if result.together],
        "staggered": [result for result in results if not result.together],
        **{f"{workers} workers": [r for r in results if r.workers == workers] for workers in (1, 2, 3, 4)},
    }
    names = [*POLICIES, "optimum"]
    print("mean response over the optimum: mean, median and worst ratio")
    print("".join([f"{'cases':23}", *(f"{name:>18}" for name in names)]))
    for group, some in groups.items():
        for to in ("best", "bound") if group != "proved" else ("optimum",):
            cells = []
            for name in names:
                ratios = sorted(r.ratio(name, r.bound_ns if to == "bound" else r.best_ns) for r in some) or [1.0]
                cells.append(f"{sum(ratios) / len(ratios):6.3f} {median(ratios):5.2f} {ratios[-1]:5.2f}")
            print("".join([f"{group:10}{len(some):4} {to:8}", *(f"{cell:>18}" for cell in cells)]))
    over = {name: sum(name in result.over for result in results) for name in POLICIES}
    print("cases above the budget:", ", ".join(f"{name} {count}" for name, count in over.items()))
    worst = sorted(results, key=lambda result: -result.ratio("reuse", result.best_ns))[:6]
    found = ", ".join(f"case {result.seed} ({result.ratio('reuse', result.best_ns):.2f})" for result in worst)
    print("reuse is furthest from the best that was found at", found)


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, metavar="N")
    parser.add_argument("--limit", type=float, default=6.0, metavar="SECONDS", help="for each case; default: 6")
    parser.add_argument("--streams", type=int, metavar="N", help="loads at full speed; default: one per worker")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="cases at a time; default: 2")
    asked = parser.parse_args()
    work = partial(solve, streams=asked.streams, limit_s=asked.limit)
    with ProcessPoolExecutor(asked.processes) as pool:
        tell(list(pool.map(work, range(asked.cases))))


if __name__ == "__main__":
    main()
