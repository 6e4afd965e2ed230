"""Whatever comes in whatever order: each logical block is launched once, and beside critical work only what fits.

    python tests/benchmarks/elastic_histories.py                     10,000 histories of each policy
    python tests/benchmarks/elastic_histories.py --histories 500 --seed 7 --policy elastic
    python tests/benchmarks/elastic_histories.py --compiled          decisions of the C++ tables are those of the policy

Every history is a run of the loop, with tasks, arrivals and a GPU made at random, whose kernels begin late, take long,
or fail; see ``edgetune.testing.elastic_histories``. Each answer of a policy is checked against what was known when it
was asked, and what was launched in the end against what was wanted.
"""

import argparse
import time
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from random import Random

from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.native.table import CompiledPolicy, compile_policy
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.policies.elastic import Elastic
from edgetune.stages.elastic.policies.persistent import Persistent
from edgetune.stages.elastic.shrink import kept_pieces
from edgetune.stages.elastic.view import LaunchPiece
from edgetune.testing.elastic_contract import check_leftovers, check_work, critical_kernels
from edgetune.testing.elastic_histories import CALLS, AnyOrder, made_case, play

_ARRIVALS = ("closed:1", "closed:2", "poisson:30000000")
_DURATION_S = 300e-9
"""Kernels of these histories take up to 50 ns."""


@cache
def tables(gpu):
    """Return the kept pieces of all kernels that histories are made of."""
    return {(call.kernel, call.logical): kept_pieces(call, gpu) for call in CALLS if call.elastic}


class Watched:
    """A policy each of whose answers is checked and counted."""

    name = "watched"

    def __init__(self, policy, seen: Counter) -> None:
        self.policy, self.seen = policy, seen

    def decide(self, view):
        decisions = self.policy.decide(view)
        check_work(view, decisions)
        if self.policy.name in ("elastic", "persistent"):
            check_leftovers(view, decisions)
        self.seen["decisions"] += 1
        if critical_kernels(view):
            self.seen["beside critical kernels"] += sum(isinstance(decision, LaunchPiece) for decision in decisions)
        return decisions


def check_run(loop: ElasticLoop) -> None:
    """Check that no logical block was launched twice, and of requests that were answered none was left out.

    Raises:
        AssertionError: one was.
    """
    launched = defaultdict(list)
    for record in loop.launches:
        launch = record.launch
        launched[launch.task, launch.request, launch.call] += range(launch.first, launch.first + launch.count)
    for blocks in launched.values():
        assert len(set(blocks)) == len(blocks)
    for record in loop.requests:
        for place, call in enumerate(record.task.network.calls):
            blocks = sorted(launched[record.task.name, record.number, place])
            assert blocks == [*range(call.logical.blocks if record.outcome == "ok" else len(blocks))]


def histories(policy: str, count: int, seed: int) -> Counter:
    """Run a policy through random histories and return what came up in them.

    Raises:
        AssertionError: a block was launched twice or never, or more than what a critical kernel leaves.
    """
    seen, rng = Counter(), Random(seed)
    for _ in range(count):
        case = made_case(rng)
        known = {"elastic": Elastic, "persistent": Persistent}
        made = known[policy](tables(case.gpu)) if policy in known else POLICIES[policy]()
        tasks = [replace(task, arrivals=rng.choice(_ARRIVALS)) for task in case.tasks]
        backend = AnyOrder(Random(case.seed))
        loop = ElasticLoop(Watched(made, seen), backend, tasks, gpu=case.gpu, duration_s=_DURATION_S, seed=case.seed)
        loop.run()
        check_run(loop)
        ended = sorted(record.launch.number for record in loop.launches)
        assert ended == [launch.number for launch in backend.launches]
        seen.update(record.outcome for record in loop.requests)
        launches = [record.launch for record in loop.launches]
        seen["launches"] += len(launches)
        seen["failed launches"] += sum(record.failure is not None for record in loop.launches)
        seen["logical blocks"] += sum(launch.count for launch in launches)
        seen["blocks that go on"] += sum(launch.physical_blocks < launch.count for launch in launches)
        seen["persistent"] += sum(launch.persistent for launch in launches)
        seen["threads of several"] += sum(launch.per_thread > 1 for launch in launches)
    return seen


def compared(policy: str, count: int, seed: int, library=None) -> Counter:
    """Ask a policy and its compiled table through random histories; return how many decisions were alike.

    Half of the kernels have measured times, so that both ways of estimating durations are compared.

    Args:
        policy: Its name.
        count: Histories.
        seed: Of all of them.
        library: In place of the compiled evaluator.

    Raises:
        AssertionError: the two decided differently.
    """
    seen, rng = Counter(), Random(seed)
    for _ in range(count):
        case = made_case(rng)
        gpu = replace(case.gpu, launch_s=rng.choice((1e-6, 5e-6, 40e-6, 1e-3)))
        tasks = tuple(replace(task, network=measured(task.network, rng)) for task in case.tasks)
        made = Elastic(tables(case.gpu)) if policy == "elastic" else POLICIES[policy]()
        compiled = CompiledPolicy(compile_policy(made, tasks, gpu), library)

        def watch(view, decisions, compiled=compiled):
            found = compiled.decide(view)
            assert list(found) == list(decisions[:1]), f"{found} where the policy decides {decisions}: {view}"
            seen["decisions"] += 1
            seen["pieces"] += any(isinstance(decision, LaunchPiece) for decision in decisions)
            seen["beside critical kernels"] += bool(decisions) and bool(critical_kernels(view))

        play(made, replace(case, gpu=gpu, tasks=tasks), watch)
    return seen


def measured(network, rng: Random):
    """Return a network half of whose kernels have measured times."""

    def call_of(call):
        if rng.random() < 0.5:
            return call
        block_s = rng.uniform(1e-7, 2e-5)
        return replace(call, block_s=block_s, whole_s=rng.choice((None, block_s * call.logical.blocks * rng.random())))

    return replace(network, calls=tuple(map(call_of, network.calls)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", choices=POLICIES, action="append")
    parser.add_argument("--compiled", action="store_true", help="compare policies with their compiled tables")
    asked = parser.parse_args()
    if asked.compiled:
        for policy in asked.policy or ("elastic", "multistream", "sequential"):
            seen = compared(policy, asked.histories, asked.seed)
            print(f"{policy}: {asked.histories} histories, seed {asked.seed}: {dict(seen)}")
        print("every decision of the compiled tables is that of the policy")
        return
    for policy in asked.policy or POLICIES:
        begun_s = time.monotonic()
        seen = histories(policy, asked.histories, asked.seed)
        took_s = time.monotonic() - begun_s
        print(f"{policy}: {asked.histories} histories, seed {asked.seed}, {took_s:.0f} s: {dict(seen)}")
    print("every logical block was launched once; elastic kept to what critical kernels leave")


if __name__ == "__main__":
    main()
