"""Whether ``optimum`` is the best for real: ten small instances under the kernel's limit, all policies in alternation.

    python tests/benchmarks/schedule_optimum_live.py --prepared FOLDER --costs FILE [--turns 7] [--instances 10]

FOLDER is made by ``edgetune schedule prepare`` of three networks or more, FILE by ``edgetune schedule profile FOLDER
--cold``. An instance is two or three of the networks, one or two requests for each, all at once or 50 ms apart, and a
limit between what the hungriest layer needs and what keeps everything. Of the turns, printed are the median of the mean
response and of the time until all is answered, each as a multiple of that of the best other policy, chosen afterwards;
the same of the least mean response, since other programs only ever slow a run down; the plan of ``optimum`` beside its
bound; and, of all instances, its mean response beside that of each policy in the same turn. Without a control group
the output says who kept the limit. ``--again`` prints the table of timelines that are in ``-o``. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from edgetune.artifacts import io
from edgetune.artifacts.timeline import Timeline
from edgetune.stages.schedule.costs import network_of
from edgetune.stages.schedule.network import LayeredNetwork, least_budget_bytes
from edgetune.workloads.prepared import open_prepared

POLICIES = ("optimum", "reuse", "masa", "sjf", "fcfs", "deepeye", "linear")
_BESIDE_BYTES = 96 << 20
"""Of the process itself: ONNX Runtime, the sessions of all layers, and what is allowed for beside them."""


def instance(seed: int, networks: dict[str, LayeredNetwork], folder: Path) -> str:
    """Return the jobs of a seed, as in their file."""
    rng = random.Random(seed)
    names = rng.sample(sorted(networks), rng.randint(2, 3))
    least = max(least_budget_bytes(networks[name]) for name in names)
    everything = sum(networks[name].weight_bytes for name in names) + least
    budget = 1.1 * (least + rng.random() ** 2 * (everything - least)) + _BESIDE_BYTES
    lines = ["kind: jobs", "version: 1", f"memory: {round(budget / 2**20)}MiB", "workers: 2", "networks:"]
    lines += [f"  {name}: {folder / name}" for name in names]
    arrivals = rng.choice(["batch", "periodic:50ms"])
    lines += ["jobs:"] + [
        f"- {{name: {name}, networks: [{name}], arrivals: '{arrivals}', count: {rng.randint(1, 2)}}}" for name in names
    ]
    return "\n".join(lines) + "\n"


def means_s(timeline: Timeline, policy: str) -> dict[int, float]:
    """Return the mean response of each turn in which every request was answered, s."""
    found = {}
    for turn in sorted({row.turn for row in timeline.rows if row.policy == policy}):
        mine = [r for r in timeline.rows if (r.event, r.policy, r.turn) == ("request", policy, turn)]
        if mine and all(row.status == "ok" for row in mine):
            found[turn] = statistics.fmean(row.finished_s - (row.arrived_s or 0.0) for row in mine)
    return found


def tell_pairs(timelines: list[Timeline]) -> None:
    """Print, for each other policy, the ratio of optimum's mean response to its in the same turns of all instances."""
    others = dict.fromkeys(row.policy for each in timelines for row in each.rows if row.policy != "optimum")
    for policy in others:
        ratios = []
        for each in timelines:
            mine, its = means_s(each, "optimum"), means_s(each, policy)
            ratios += [mine[turn] / its[turn] for turn in mine.keys() & its.keys()]
        low, middle, high = statistics.quantiles(ratios, n=4)
        sooner = sum(ratio <= 1.0 for ratio in ratios)
        print(
            f"optimum beside {policy}, turn by turn: {middle:.3f} in the median ({low:.3f} to {high:.3f}), "
            f"no later in {sooner} of {len(ratios)}"
        )


def figures(timeline: Timeline, policy: str) -> tuple[float, float, float, int]:
    """Return the medians of mean response and of the last answer, the least mean response, s, and how many turns."""
    found = []
    for turn in {row.turn for row in timeline.rows if row.policy == policy}:
        mine = [r for r in timeline.rows if (r.event, r.policy, r.turn) == ("request", policy, turn)]
        if mine and all(row.status == "ok" for row in mine):
            responses = [row.finished_s - (row.arrived_s or 0.0) for row in mine]
            found.append((statistics.fmean(responses), max(row.finished_s for row in mine)))
    if not found:
        return float("inf"), float("inf"), float("inf"), 0
    mean_s, end_s = (statistics.median(each) for each in zip(*found, strict=True))
    return mean_s, end_s, min(each[0] for each in found), len(found)


def tell(seed: int, timeline: Timeline) -> tuple[float, float, float]:
    """Print the lines of an instance; return what optimum took, in multiples of the best other policy."""
    conditions = timeline.header.conditions
    policies = list(dict.fromkeys(row.policy for row in timeline.rows))
    by_policy = {policy: figures(timeline, policy) for policy in policies}
    others = {policy: each for policy, each in by_policy.items() if policy != "optimum"}
    best = [min(each[place] for each in others.values()) for place in range(3)]
    limit = f"{conditions['limit_bytes'] / 2**20:.0f} MiB by {conditions.get('enforced_by')}"
    plan = conditions["policies"]["optimum"][0]["plan"]
    print(f"instance {seed}, {limit}: planned {1e3 * plan['value_s']:.1f} ms, bound {1e3 * plan['bound_s']:.1f} ms")
    for policy, (*told, turns) in by_policy.items():
        times = " ".join(f"{1e3 * each_s:9.1f}" for each_s in told)
        ratios = " ".join(f"{each_s / best_s:7.3f}" for each_s, best_s in zip(told, best, strict=True))
        print(f"   {policy:10} {turns:3} turns {times}  {ratios}", flush=True)
    mean_s, end_s, least_s, _ = by_policy["optimum"]
    return mean_s / best[0], end_s / best[1], least_s / best[2]


def main() -> None:
    """Run the instances and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--costs", required=True)
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--time-limit", default="5s")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("-o", "--output", default=None)
    asked = parser.parse_args()
    output = Path(asked.output or tempfile.mkdtemp(prefix="optimum-live-"))
    output.mkdir(parents=True, exist_ok=True)
    networks = {each.name: network_of(open_prepared(each)) for each in sorted(asked.prepared.iterdir())}
    print("ms: median mean response, median last answer, least mean response; all as multiples of the best other's")
    ratios, timelines = [], []
    for seed in range(asked.instances):
        jobs, timeline = output / f"{seed}.yaml", output / f"{seed}.parquet"
        if not asked.again:
            jobs.write_text(instance(seed, networks, asked.prepared.resolve()))
            command = [sys.executable, "-m", "edgetune", "schedule", "run", str(jobs), "--quiet", "-o", str(timeline)]
            command += ["--costs", asked.costs, "--turns", str(asked.turns), "--policy", asked.policies]
            done = subprocess.run(
                [*command, "--time-limit", asked.time_limit], capture_output=True, text=True, check=False
            )
            if not timeline.exists():
                sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        if timeline.exists():
            timelines.append(io.read(Timeline, str(timeline)))
            ratios.append(tell(seed, timelines[-1]))
    for name, each in zip(
        ("mean response", "last answer", "least mean response"), zip(*ratios, strict=True), strict=True
    ):
        no_later = sum(ratio <= 1.0 for ratio in each)
        print(
            f"optimum, {name}: {statistics.median(each):.3f} of the best other policy's in the median, "
            f"{max(each):.3f} at the most, no later in {no_later} of {len(each)}"
        )
    tell_pairs(timelines)
    print(f"timelines are in {output}")


if __name__ == "__main__":
    main()
