"""How much headroom a plan needs where minibatch times scatter: random problems, planned, then simulated.

    python tests/benchmarks/interleave_headroom.py [--problems 60] [--seconds 30] [--seed 11] [--headrooms 0,0.05,0.1]

Each problem has an inference measured at six batch sizes and a training, with 400 recorded times each: log-normal with
a spread of 3 %, and the same with one in a hundred up to twice as long. The planner sees what a profile keeps of them;
where it finds a plan, the managed policy runs it on times drawn from the same recordings. Printed are the plans found,
those with any violation, the share of requests that were late, and training as a share of what was planned.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from dataclasses import replace

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow, Task
from edgetune.errors import InfeasibleError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.cycle import Cycle, CycleGoals
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.planner import best_cycle, halves, tenants_of
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend, resampled
from edgetune.stats import percentile

NS = 1_000_000_000
SIZES = (1, 2, 4, 8, 16, 32)
SPREAD, SLOW_SHARE, TIMES = 0.03, 0.01, 400
OVERHEAD_NS = 100_000
MODE = Mode(cpu_cores=2)


def recorded(draw: random.Random, workload: str, task: Task, size: int, median_s: float, *, tail: bool) -> ProfileRow:
    """Return a profile row with so many scattered times."""
    times = [median_s * math.exp(draw.gauss(0, SPREAD)) for _ in range(TIMES)]
    if tail:
        times = [time * (1 + draw.random() if draw.random() < SLOW_SHARE else 1) for time in times]
    row = ProfileRow(workload, task, size, statistics.median(times), cpu_cores=MODE.cpu_cores)
    return replace(row, minibatch_p95_s=percentile(times, 95), times_s=tuple(times), warmups=0)


def problem(draw: random.Random, *, tail: bool) -> tuple[list[ProfileRow], CycleGoals]:
    """Return what was measured and what is wanted, without headroom."""
    base_s, per_s, step_s = draw.uniform(0.002, 0.02), draw.uniform(0.0005, 0.005), draw.uniform(0.005, 0.06)
    rows = [recorded(draw, "answers", "infer", size, base_s + per_s * size, tail=tail) for size in SIZES]
    rows.append(recorded(draw, "trains", "train", 16, step_s, tail=tail))
    budget_s, rate = draw.choice((0.03, 0.05, 0.1, 0.2, 0.4)), draw.choice((10.0, 20.0, 40.0, 60.0, 90.0, 120.0))
    return rows, CycleGoals(budget_s, rate, headroom=0.0)


def simulate(
    rows: list[ProfileRow], cycle: Cycle, wanted: CycleGoals, seconds: float, seed: int
) -> tuple[int, int, float]:
    """Return requests, those late, and training as a share of what was planned."""
    tenants = tenants_of(cycle, wanted)
    times_ns = {(row.workload, row.batch_size, MODE): [round(t * NS) for t in row.times_s or ()] for row in rows}
    drawn = resampled(lambda *of: times_ns[of], seed)
    stage = SimulatedMinibatchBackend(EventClock(), tenants, SimulatedDevice(drawn, mode=MODE, overhead_ns=OVERHEAD_NS))
    end_ns = round(seconds * NS)
    source = ArrivalSpec("uniform", (wanted.rate_per_s or 0.0,)).source(0, end_ns)
    loop = InterleaveLoop(EngineTurn("simulated", end_ns), stage, Managed(), tenants, {"answers": source})
    loop.run()
    requests = [row for row in loop.rows if row.event == "request"]
    samples = sum(row.samples or 0 for row in loop.rows if row.event == "train")
    return len(requests), sum(not row.met for row in requests), samples / seconds / cycle.throughput_per_s


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--headrooms", default="0,0.05,0.1")
    asked = parser.parse_args()
    print("tail  headroom  plans  with violations  late of all   training of planned: least, median")
    for tail in (False, True):
        for headroom in map(float, asked.headrooms.split(",")):
            draw = random.Random(asked.seed)
            found: list[tuple[int, int, float]] = []
            for number in range(asked.problems):
                rows, wanted = problem(draw, tail=tail)
                wanted = replace(wanted, headroom=headroom)
                try:
                    cycle = best_cycle(halves(rows, "infer"), halves(rows, "train"), wanted)
                except InfeasibleError:
                    continue
                found.append(simulate(rows, cycle, wanted, asked.seconds, number))
            late, requests = sum(each[1] for each in found), sum(each[0] for each in found)
            shares = [each[2] for each in found]
            print(
                f"{'yes' if tail else 'no':>4} {headroom:9.0%} {len(found):6} {sum(each[1] > 0 for each in found):16} "
                f"{late:6} / {requests} {min(shares):10.2f} {statistics.median(shares):8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
