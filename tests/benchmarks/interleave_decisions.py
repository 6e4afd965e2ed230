"""Print how long one decision of each policy takes: python tests/benchmarks/interleave_decisions.py.

Snapshots of one to four tenants, of the states that a run goes through: queues empty, filling and full, jobs that fit
and jobs that do not. Times are of the decision alone, the snapshot being there; medians of repeated blocks.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from edgetune.stages.interleave.policies import POLICIES
from edgetune.stages.interleave.snapshot import InferenceQueue, Snapshot, TrainingJob

MS = 1_000_000
_REPEATS = 7


def snapshots(queues: int, jobs: int, count: int, seed: int = 0) -> list[Snapshot]:
    """Return random states of so many tenants, at a utilisation of inference between 0.2 and 0.95."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        now_ns, share = 10_000 * MS, rng.uniform(0.2, 0.95) / max(queues, 1)
        waiting = []
        for number in range(queues):
            batch_size, gap_ns = rng.choice((1, 4, 16)), rng.uniform(5, 50) * MS
            work_ns = round(share * batch_size * gap_ns)
            ages = [round(place * gap_ns) for place in range(rng.randint(0, batch_size), 0, -1)]
            budget_ns = round(batch_size * gap_ns + rng.uniform(1, 8) * work_ns)
            arrivals_ns = [now_ns - age_ns for age_ns in ages]
            waiting.append(InferenceQueue(f"infer{number}", batch_size, budget_ns, work_ns, arrivals_ns, gap_ns))
        training = [
            TrainingJob(f"train{number}", rng.randint(5, 300) * MS, 1.0, rng.randint(0, 9) * MS)
            for number in range(jobs)
        ]
        made.append(Snapshot(now_ns, waiting, training))
    return made


def main() -> None:
    """Print microseconds per decision: the median state, the slowest in a hundred, the slowest of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--snapshots", type=int, default=2000)
    count = parser.parse_args().snapshots
    print("policy    queues  jobs   median us   p99 us   max us")
    for name, kind in POLICIES.items():
        policy = kind()
        for queues, jobs in ((1, 0), (1, 1), (2, 2), (3, 1), (4, 0), (4, 4)):
            times_us = []
            for snapshot in snapshots(queues, jobs, count):
                taken = []
                for _ in range(_REPEATS):
                    begun_ns = time.perf_counter_ns()
                    policy.decide(snapshot)
                    taken.append(time.perf_counter_ns() - begun_ns)
                times_us.append(statistics.median(taken) / 1000)
            median_us, p99_us = statistics.median(times_us), statistics.quantiles(times_us, n=100)[98]
            print(f"{name:<9} {queues:>5} {jobs:>6} {median_us:>10.1f} {p99_us:>8.1f} {max(times_us):>8.1f}")


if __name__ == "__main__":
    main()
