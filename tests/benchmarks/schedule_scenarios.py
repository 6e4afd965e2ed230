"""Policies side by side in little memory, for real: the scenarios of the EdgeCaffe study under the kernel's limit.

    python tests/benchmarks/schedule_scenarios.py --prepared FOLDER --costs FILE [--limits 512MiB,1GiB,2GiB]
                                                  [--scenarios small-3,mixed-3] [--images 5] [--turns 5] [-o FOLDER]

FOLDER is made by ``edgetune schedule prepare``, FILE by ``edgetune schedule profile FOLDER --cold``; the scenarios are
those of ``examples/scenarios``, with fewer images so that an hour is enough. For each scenario and limit the policies
run in alternation. Printed are the mean and the 95th percentile of response times over all turns, the mean relative to
``bulk:default`` (whole networks as ONNX Runtime opens them by default), the peak that the kernel counted relative to
the limit, and what was swapped out. Nothing is asserted; other work on the machine shows.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SCENARIOS = (
    "small-3", "mixed-3", "large-3", "lifelogging-5", "all",
    "stochastic-fixed-0.8", "stochastic-fixed-1.0", "stochastic-fixed-1.2",
)  # fmt: skip
POLICIES = ("bulk:default", "bulk:external", "deepeye", "masa", "reuse")
FILES = Path(__file__).parents[2] / "examples" / "scenarios"


def run(scenario: str, limit: str, asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run one scenario under one limit and return the answer of the command, whatever it ended with."""
    text = (FILES / f"{scenario}.yaml").read_text()
    jobs = folder / f"{scenario}.yaml"
    jobs.write_text(re.sub(r"count: \d+", f"count: {asked.images}", text))
    command = [sys.executable, "-m", "edgetune", "schedule", "run", str(jobs), "--json", "--quiet"]
    command += ["--memory", limit, "--turns", str(asked.turns), "--policy", asked.policies]
    command += ["--prepared", asked.prepared, "--costs", asked.costs]
    command += ["-o", str(folder / f"{scenario}-{limit}.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> None:
    """Run the scenarios and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepared", required=True)
    parser.add_argument("--costs", required=True)
    parser.add_argument("--limits", default="512MiB,1GiB,2GiB")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--images", type=int, default=5)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("-o", "--output", default=None)
    asked = parser.parse_args()
    folder = Path(asked.output or tempfile.mkdtemp(prefix="scenarios-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'scenario':22} {'limit':7} {'policy':14} answered   mean ms    p95 ms  of the first  peak/limit  swap MiB")
    for limit in asked.limits.split(","):
        for scenario in asked.scenarios.split(","):
            answer = run(scenario, limit, asked, folder)
            first: float | None = None
            limit_bytes = answer["header"]["conditions"]["limit_bytes"]
            for each in answer["policies"]:
                told = each["responses"]
                turns = answer["header"]["conditions"]["policies"][each["policy"]]
                peak = max(turn["group"]["peak_bytes"] for turn in turns if turn.get("group"))
                swap = max(turn["group"]["swap_bytes"] for turn in turns if turn.get("group"))
                mean_s, p95_s = told["mean_s"], told["p95_s"]
                whole = mean_s is not None and told["answered"] == told["requests"]
                first = mean_s if first is None and whole else first
                ratio = f"{mean_s / first:.3f}" if first and whole else "-"
                times = f"{1e3 * mean_s:9.1f} {1e3 * p95_s:9.1f}" if mean_s is not None else f"{'-':>9} {'-':>9}"
                count = f"{told['answered']}/{told['requests']}"
                shown = f"{scenario:22} {limit:7} {each['policy']:14} {count:>8} {times} {ratio:>13}"
                print(f"{shown} {peak / limit_bytes:11.3f} {swap / 2**20:9.1f}", flush=True)
    print(f"timelines are in {folder}")


if __name__ == "__main__":
    main()
