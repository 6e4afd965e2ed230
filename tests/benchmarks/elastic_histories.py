"""Whatever comes in whatever order: each logical block is launched once, and beside critical work only what fits.

    python tests/benchmarks/elastic_histories.py                     10,000 histories of each policy
    python tests/benchmarks/elastic_histories.py --histories 500 --seed 7 --policy elastic

Every history is a run of the loop, with tasks, arrivals and a GPU made at random, whose kernels begin late, take long,
or fail; see ``tests/contracts/elastic_histories.py``. Each answer of a policy is checked against what was known when it
was asked, and what was launched in the end against what was wanted.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contracts.elastic_contract import check_leftovers, check_work, critical_kernels
from contracts.elastic_histories import CALLS, AnyOrder, made_case
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.policies.elastic import Elastic
from edgetune.stages.elastic.policies.persistent import Persistent
from edgetune.stages.elastic.shrink import kept_pieces
from edgetune.stages.elastic.view import LaunchPiece

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", choices=POLICIES, action="append")
    asked = parser.parse_args()
    for policy in asked.policy or POLICIES:
        begun_s = time.monotonic()
        seen = histories(policy, asked.histories, asked.seed)
        took_s = time.monotonic() - begun_s
        print(f"{policy}: {asked.histories} histories, seed {asked.seed}, {took_s:.0f} s: {dict(seen)}")
    print("every logical block was launched once; elastic kept to what critical kernels leave")


if __name__ == "__main__":
    main()
