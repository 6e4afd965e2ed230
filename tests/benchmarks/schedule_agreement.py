"""Whether the simulator says what real runs show: mean response times of the study's scenarios, simulated and for real.

    python tests/benchmarks/schedule_agreement.py --prepared FOLDER --costs FILE [--images 3] [--turns 5]
                                                  [--limits 512MiB,1GiB] [--scenarios small-3,mixed-3] [--others 10%]

FOLDER is made by ``edgetune schedule prepare``, FILE by ``edgetune schedule profile FOLDER --cold --whole`` on this
machine; real runs are under the kernel's limit. Policies run in alternation, a command for each run, each turn with
another seed; the simulation gets the same. Of each policy the medians over turns are compared; "order" says in how many
pairs of policies the simulation prefers the one that is really faster; pairs within 5 % of each other are left out.

A model of a machine says nothing of what other programs take of it. The share of all cores that they had while a
command ran is told (of turns that count, the most), and a turn with more than ``--others`` counts only where all have
more: then the quieter half does. Others only ever slow a run down, in what they take of caches, memory and storage too:
"least" is the error in the turn that they disturbed least, the one that is nearest to its simulation from above.
``--again`` only simulates: real runs are those that ``-o`` has already.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.units import parse_share

SCENARIOS = (
    "small-3", "mixed-3", "large-3", "lifelogging-5", "all",
    "stochastic-fixed-0.8", "stochastic-fixed-1.0", "stochastic-fixed-1.2",
)  # fmt: skip
POLICIES = ("bulk:default", "bulk:external", "deepeye", "deepeye:greedy", "masa", "masa:mapped", "reuse")
FILES = Path(__file__).parents[2] / "examples" / "scenarios"
_APART = 0.05
"""Policies whose real means differ by less are in no order that a few turns could tell."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Turn:
    """One run and its simulation.

    Args:
        real_s, simulated_s: Mean response time, s; ``None`` where not every request was answered.
        others: Share of all cores that other programs had, 0 to 1.
    """

    real_s: float | None
    simulated_s: float | None
    others: float


class Others:
    """What programs other than those started here take of the processor while a block runs.

    Source: proc_stat(5), of the first line the time that was not idle, and getrusage(2).
    """

    share = 0.0

    def __enter__(self) -> Others:
        self._begun = self._taken()
        return self

    def __exit__(self, *_: object) -> None:
        (clock_s, busy_s), (then_s, before_s) = self._taken(), self._begun
        self.share = max(busy_s - before_s, 0.0) / (clock_s - then_s) / (os.cpu_count() or 1)

    def _taken(self) -> tuple[float, float]:
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy_s = (user + nice + system + irq + softirq + steal) / _TICKS_PER_S
        return time.monotonic(), busy_s - own.ru_utime - own.ru_stime


def run(what: tuple[str, str, str, int], asked: argparse.Namespace, folder: Path) -> Turn:
    """Run one policy once, for real and simulated, or read what came of it."""
    scenario, limit, policy, turn = what
    name = f"{scenario}-{limit}-{policy.replace(':', '-')}-{turn}"
    jobs, kept = folder / f"{scenario}.yaml", folder / f"{name}.json"
    before = Turn(**json.loads(kept.read_text())) if asked.again and kept.exists() else None
    jobs.write_text(re.sub(r"count: \d+", f"count: {asked.images}", (FILES / f"{scenario}.yaml").read_text()))
    command = [sys.executable, "-m", "edgetune", "schedule", "run", str(jobs), "--quiet", "--json", "--policy", policy]
    command += ["--memory", limit, "--prepared", asked.prepared, "--costs", asked.costs, "--seed", str(turn), "-o"]
    simulated_s = _mean_s([*command, str(folder / f"{name}-simulated.parquet"), "--simulate"])
    if before is not None:
        return replace(before, simulated_s=simulated_s)
    with Others() as others:
        real_s = _mean_s([*command, str(folder / f"{name}.parquet")])
    found = Turn(real_s, simulated_s, others.share)
    kept.write_text(json.dumps({"real_s": found.real_s, "simulated_s": found.simulated_s, "others": found.others}))
    return found


def _mean_s(command: list[str]) -> float | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        print(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        return None
    (policy,) = json.loads(done.stdout)["policies"]
    told = policy["responses"]
    return told["mean_s"] if told["answered"] == told["requests"] else None


def counting(turns: list[Turn], most: float) -> list[Turn]:
    """Return the turns that count: those that were not disturbed, or else the quieter half."""
    whole = [turn for turn in turns if turn.real_s is not None and turn.simulated_s is not None]
    quiet = [turn for turn in whole if turn.others <= most]
    return quiet or sorted(whole, key=lambda turn: turn.others)[: (len(whole) + 1) // 2]


def compare(scenario: str, limit: str, turns: dict[str, list[Turn]], most: float) -> list[float]:
    """Print a line for each policy, and how far their order agrees; return the errors."""
    medians, errors = {}, []
    for policy, taken in turns.items():
        used = counting(taken, most)
        shown = f"{scenario:21} {limit:7} {policy:14} {len(used):2}/{len(taken)}"
        if not used:
            print(f"{shown}  not every request was answered", flush=True)
            continue
        real_s, simulated_s = (statistics.median(each) for each in zip(*map(_times_s, used), strict=True))
        errors.append(simulated_s / real_s - 1)
        medians[policy] = real_s, simulated_s
        least = max(simulated_s / real_s for real_s, simulated_s in map(_times_s, used)) - 1
        others = f"{max(turn.others for turn in used):6.0%}"
        times = f"{1e3 * real_s:9.1f} {1e3 * simulated_s:9.1f}"
        print(f"{shown} {times} {errors[-1]:+8.0%} {least:+8.0%} {others}", flush=True)
    pairs = [(a, b) for a, b in itertools.combinations(medians.values(), 2) if abs(a[0] / b[0] - 1) >= _APART]
    agreeing = sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs)
    print(f"{scenario:21} {limit:7} order: {agreeing} of {len(pairs)} pairs", flush=True)
    return errors


def _times_s(turn: Turn) -> tuple[float, float]:
    assert turn.real_s is not None
    assert turn.simulated_s is not None
    return turn.real_s, turn.simulated_s


def main() -> None:
    """Run the scenarios and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepared", required=True)
    parser.add_argument("--costs", required=True)
    parser.add_argument("--limits", default="512MiB,1GiB")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--images", type=int, default=3)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--others", default="10%")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("-o", "--output", default=None)
    asked = parser.parse_args()
    folder = Path(asked.output or tempfile.mkdtemp(prefix="agreement-"))
    folder.mkdir(parents=True, exist_ok=True)
    most, errors = parse_share(asked.others, what="--others"), []
    print(f"{'scenario':21} {'limit':7} {'policy':14} turns   real ms simulated    error    least others")
    for limit, scenario in itertools.product(asked.limits.split(","), asked.scenarios.split(",")):
        turns: dict[str, list[Turn]] = {policy: [] for policy in asked.policies.split(",")}
        for turn in range(asked.turns):
            for policy in list(turns)[:: -1 if turn % 2 else 1]:
                turns[policy].append(run((scenario, limit, policy, turn), asked, folder))
        errors += compare(scenario, limit, turns, most)
    within = sum(abs(error) <= 0.15 for error in errors)
    print(
        f"{within} of {len(errors)} within 15 %; median of errors {statistics.median(map(abs, errors)):.0%}; {folder}"
    )


if __name__ == "__main__":
    main()
