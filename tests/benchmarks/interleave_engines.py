"""Engines side by side on one device: a real ONNX network answers while a real PyTorch training goes on.

    python tests/benchmarks/interleave_engines.py [--duration 60s] [--only 1,4] [--infer zoo:mobilenet_v2]
                                                  [--train examples/train_tiny.py] [--device host] [-o FOLDER]
                                                  [--problem 800,300ms,256 ...]

Ten problems, each a rate of requests, a latency budget and a training batch size, as in the study that managed
interleaving comes from (Fulcrum, 2025). The command measures both networks and says whether a plan is feasible; then
``managed``, ``native`` and ``streams`` serve the same requests one after another, the order turned round from problem
to problem, and ``simulated`` computes them from the times of the managed run. Printed are, per problem and engine,
violations, latency and training throughput; then what managed keeps of native's throughput, what deciding costs, and
how near the simulation comes. ``--problem`` gives other problems; these suit a host of two cores. Nothing is asserted:
another machine has other times, and other work shows in the tails.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROBLEMS: tuple[tuple[float, str, int], ...] = (
    (10, "100ms", 64), (30, "100ms", 64), (60, "100ms", 64), (90, "150ms", 64), (120, "200ms", 64),
    (10, "150ms", 256), (30, "150ms", 256), (60, "200ms", 256), (90, "300ms", 256), (60, "50ms", 64),
)  # fmt: skip
"""Requests per second, latency budget, training batch size."""
ENGINES = ("managed", "native", "streams", "simulated")


def edgetune(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command; ends the benchmark where it fails."""
    done = subprocess.run([sys.executable, "-m", "edgetune", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"edgetune {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
    return done


def problem_of(words: str) -> tuple[float, str, int]:
    """Return a problem from its words: rate, budget, training batch size."""
    rate, budget, size = words.split(",")
    return float(rate), budget, int(size)


def solve(problem: tuple[float, str, int], number: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Run one problem on every engine and return the answer of the command, and whether a plan was feasible."""
    rate, budget, size = problem
    pair = ("--infer", asked.infer, "--train", asked.train, "--device", asked.device, "--train-batch-size", str(size))
    wanted = ("--arrivals", f"uniform:{rate:g}", "--latency-budget", budget)
    engines = ENGINES if number % 2 else (*reversed(ENGINES[:3]), ENGINES[3])
    output = str(Path(asked.output) / f"problem-{number}.parquet")
    order = ("--engine", ",".join(engines), "--duration", asked.duration, "--best-effort", "-o", output, "--json")
    done = edgetune("interleave", *pair, *wanted, *order)
    (Path(asked.output) / f"problem-{number}.log").write_text(done.stderr)
    return {"feasible": "not feasible" not in done.stderr, **json.loads(done.stdout)}


def row(engine: dict[str, Any]) -> tuple[int, int, float, float, float]:
    """Return requests, violations, median and p99 latency in s, samples trained per s."""
    (answered,), (trained,) = engine["answered"], engine["trained"]
    times = (answered["latency_median_s"], answered["latency_p99_s"])
    return answered["requests"], answered["violations"], *times, trained["samples_per_s"]


def main() -> None:
    """Run the problems and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duration", default="60s")
    parser.add_argument("--only")
    parser.add_argument("--infer", default="zoo:mobilenet_v2")
    parser.add_argument("--train", default=str(Path(__file__).parents[2] / "examples" / "train_tiny.py"))
    parser.add_argument("--device", default="host")
    parser.add_argument("--problem", type=problem_of, action="append", metavar="RATE,BUDGET,TRAIN_BATCH")
    parser.add_argument("-o", "--output", default=None)
    asked = parser.parse_args()
    asked.output = asked.output or tempfile.mkdtemp(prefix="interleave-")
    folder = Path(asked.output)
    folder.mkdir(parents=True, exist_ok=True)
    problems = asked.problem or PROBLEMS
    numbers = [int(word) for word in asked.only.split(",")] if asked.only else range(1, len(problems) + 1)
    kept: list[float] = []
    near: list[tuple[float, float]] = []
    late_where_feasible = 0
    print("problem                          engine     requests  violations   median ms   p99 ms   samples/s")
    for number in numbers:
        rate, budget, size = problems[number - 1]
        answer = solve(problems[number - 1], number, asked)
        figures = {engine["engine"]: row(engine) for engine in answer["engines"]}
        feasible = "feasible" if answer["feasible"] else "refused"
        for engine in ENGINES:
            requests, violations, median_s, p99_s, samples = figures[engine]
            named = f"{number:2} {rate:g}/s {budget} b{size} {feasible}"
            shown = f"{named:32} {engine:10} {requests:8} {violations:11} {1e3 * median_s:11.1f} {1e3 * p99_s:8.1f}"
            print(f"{shown} {samples:11.1f}", flush=True)
        conditions = answer["header"]["conditions"]
        overhead = conditions["overhead"]["managed"]
        median_us, p99_us = (1e6 * overhead[name] for name in ("decision_median_s", "decision_p99_s"))
        share = overhead["gaps_s"] / conditions["duration_s"]
        print(f"{'':32} managed decides in {median_us:.0f} us (p99 {p99_us:.0f} us) and loses {share:.2%} of the time")
        if answer["feasible"]:
            kept.append(figures["managed"][4] / figures["native"][4])
            near.append(tuple(figures["simulated"][i] / figures["managed"][i] - 1 for i in (3, 4)))  # type: ignore[arg-type]
            late_where_feasible += figures["managed"][1]
    print(f"\nfeasible problems: {len(kept)}; violations of managed in them: {late_where_feasible}")
    if kept:
        print(f"managed keeps of native's training: median {statistics.median(kept):.1%}, least {min(kept):.1%}")
        for what, errors in zip(("p99 latency", "training"), zip(*near, strict=True), strict=True):
            worst, typical = max(map(abs, errors)), statistics.median(map(abs, errors))
            print(f"simulated {what} against managed: median error {typical:.1%}, largest {worst:.1%}")
    print(f"runs are in {folder}")


if __name__ == "__main__":
    main()
