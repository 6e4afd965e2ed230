"""Whatever comes in whatever order: each logical block is launched once, and beside critical work only what fits.

    python tests/benchmarks/elastic_histories.py                     10,000 histories of each policy
    python tests/benchmarks/elastic_histories.py --histories 500 --seed 7

Every history is of tasks, arrivals and a GPU made at random, with kernels that begin late, take long, or fail; see
``edgetune.testing.elastic_histories``. Each answer of a policy is checked against what was known when it was asked.
"""

import argparse
import time
from collections import Counter
from functools import cache
from random import Random

from edgetune.elastic.policies import POLICIES
from edgetune.elastic.policies.elastic import Elastic
from edgetune.elastic.shrink import kept_pieces
from edgetune.elastic.view import Piece
from edgetune.testing.elastic_contract import check_launched, check_leftovers, check_work, critical_kernels
from edgetune.testing.elastic_histories import CALLS, made_case, play


@cache
def tables(gpu):
    """Return the kept pieces of all kernels that histories are made of."""
    return {(call.kernel, call.logical): kept_pieces(call, gpu) for call in CALLS if call.elastic}


def histories(policy: str, count: int, seed: int) -> Counter:
    """Play a policy through random histories and return what came up in them.

    Raises:
        AssertionError: a block was launched twice or never, or more than what a critical kernel leaves.
    """
    seen: Counter = Counter()
    rng = Random(seed)

    def watch(view, decisions):
        check_work(view, decisions)
        if policy == "elastic":
            check_leftovers(view, decisions)
        seen["decisions"] += 1
        if critical_kernels(view):
            pieces = sum(isinstance(decision, Piece) for decision in decisions)
            seen["pieces beside critical kernels"] += pieces

    for _ in range(count):
        case = made_case(rng)
        made = Elastic(tables(case.gpu)) if policy == "elastic" else POLICIES[policy]()
        launches = play(made, case, watch)
        check_launched(launches, case)
        seen["launches"] += len(launches)
        seen["logical blocks"] += sum(launch.count for launch in launches)
        seen["of several blocks a thread block"] += sum(
            launch.blocks is not None and launch.blocks < launch.count for launch in launches
        )
        seen["of several threads a thread"] += sum(launch.per_thread > 1 for launch in launches)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for policy in POLICIES:
        begun_s = time.monotonic()
        seen = histories(policy, asked.histories, asked.seed)
        took_s = time.monotonic() - begun_s
        print(f"{policy}: {asked.histories} histories, seed {asked.seed}, {took_s:.0f} s: {dict(seen)}")
    print("every logical block was launched exactly once; elastic kept to what critical kernels leave")


if __name__ == "__main__":
    main()
