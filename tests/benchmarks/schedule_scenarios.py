"""Policies side by side in little memory, for real: the scenarios of the EdgeCaffe study under the kernel's limit.

    python tests/benchmarks/schedule_scenarios.py --prepared FOLDER --costs FILE [--limits 512MiB,1GiB,2GiB]
                                                  [--scenarios small-3,mixed-3] [--images 5] [--turns 5] [-o FOLDER]

FOLDER is made by ``edgetune schedule prepare``, FILE by ``edgetune schedule profile FOLDER --cold``; the scenarios are
those of ``examples/scenarios``, with fewer images so that an hour is enough. For each scenario and limit the policies
run in alternation. Printed are, of the turns, the median of the mean and of the 95th percentile of response times (one
disturbed turn moves neither), that mean relative to ``bulk:default`` (whole networks as ONNX Runtime opens them by
default), the peak that the kernel counted relative to the limit, and what was swapped out. A run that is killed at its
limit counts as nothing. ``--again`` prints the table of timelines that are in the folder already. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from edgetune.artifacts import io
from edgetune.artifacts.timeline import Timeline
from edgetune.stats import percentile

SCENARIOS = (
    "small-3", "mixed-3", "large-3", "lifelogging-5", "all",
    "stochastic-fixed-0.8", "stochastic-fixed-1.0", "stochastic-fixed-1.2",
)  # fmt: skip
POLICIES = ("bulk:default", "bulk:external", "deepeye", "deepeye:greedy", "masa", "masa:mapped", "reuse")
"""``masa`` with both accounts: weights that count for each request, as published, and once, as they are held."""
FILES = Path(__file__).parents[2] / "examples" / "scenarios"


def run(scenario: str, limit: str, asked: argparse.Namespace, output: Path) -> None:
    """Run one scenario under one limit and write the timeline, whatever it ends with."""
    text = (FILES / f"{scenario}.yaml").read_text()
    jobs = output.with_suffix(".yaml")
    jobs.write_text(re.sub(r"count: \d+", f"count: {asked.images}", text))
    command = [sys.executable, "-m", "edgetune", "schedule", "run", str(jobs), "--quiet", "-o", str(output)]
    command += ["--memory", limit, "--turns", str(asked.turns), "--policy", asked.policies]
    command += ["--prepared", asked.prepared, "--costs", asked.costs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not output.exists():
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")


def turns(timeline: Timeline, policy: str) -> list[tuple[float, float]]:
    """Return mean and 95th percentile of response times of each turn in which every request was answered, s."""
    found = []
    for turn in sorted({row.turn for row in timeline.rows}):
        mine = [r for r in timeline.rows if (r.event, r.policy, r.turn) == ("request", policy, turn)]
        if mine and all(row.status == "ok" for row in mine):
            times_s = [row.finished_s - (row.arrived_s or 0.0) for row in mine]
            found.append((statistics.fmean(times_s), percentile(times_s, 95)))
    return found


def print_rows(scenario: str, limit: str, timeline: Timeline) -> None:
    """Print a line for each policy."""
    conditions, first_s = timeline.header.conditions, None
    for policy in dict.fromkeys(row.policy for row in timeline.rows):
        done = turns(timeline, policy)
        groups = [turn["group"] for turn in conditions["policies"][policy] if turn.get("group")]
        peak = max((group["peak_bytes"] for group in groups), default=0) / conditions["limit_bytes"]
        swap_mib = max((group["swap_bytes"] for group in groups), default=0) / 2**20
        shown = f"{scenario:21} {limit:7} {policy:14} {len(done):5}"
        if not done:
            print(f"{shown} {'-':>9} {'-':>9} {'-':>10} {peak:11.3f} {swap_mib:9.1f}")
            continue
        mean_s, p95_s = (statistics.median(each) for each in zip(*done, strict=True))
        first_s = first_s or mean_s
        print(f"{shown} {1e3 * mean_s:9.1f} {1e3 * p95_s:9.1f} {mean_s / first_s:10.3f} {peak:11.3f} {swap_mib:9.1f}")
    sys.stdout.flush()


def main() -> None:
    """Run the scenarios and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepared")
    parser.add_argument("--costs")
    parser.add_argument("--limits", default="512MiB,1GiB,2GiB")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("-o", "--output", default=None)
    asked = parser.parse_args()
    folder = Path(asked.output or tempfile.mkdtemp(prefix="scenarios-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'scenario':21} {'limit':7} {'policy':14} turns   mean ms    p95 ms  to default  peak/limit  swap MiB")
    for limit in asked.limits.split(","):
        for scenario in asked.scenarios.split(","):
            output = folder / f"{scenario}-{limit}.parquet"
            if not asked.again:
                run(scenario, limit, asked, output)
            if output.exists():
                print_rows(scenario, limit, io.read(Timeline, str(output)))
    print(f"timelines are in {folder}")


if __name__ == "__main__":
    main()
