"""Engines side by side on one device: a real ONNX network answers while a real PyTorch training goes on.

    python tests/benchmarks/interleave_engines.py [--duration 60s] [--only 1,4] [--infer zoo:mobilenet_v2]
                                                  [--train examples/train_tiny.py] [--device host] [-o FOLDER]
                                                  [--problem 800,300ms,256 ...] [--turns 3]
    python tests/benchmarks/interleave_engines.py --figure-2

Ten problems, each a rate of requests, a latency budget and a training batch size, as in the study that managed
interleaving comes from (Fulcrum, 2025). The command measures both networks and says whether a plan is feasible; then
``managed``, ``native`` and ``streams`` serve the same requests one after another, the order turned round from problem
to problem, and ``simulated`` predicts ``managed`` from the measured points. Printed are, per problem and engine,
violations, latency and training throughput; then what managed keeps of native's throughput, what deciding costs, and
how near the prediction comes, turn by turn, with the load of the machine.
``--problem`` gives other problems; these suit a host of two cores. Nothing is asserted: another machine has other
times, and other work shows in the tails.

``--figure-2`` is that study's Fig. 2, SIMULATED on the twin of its board: answers and training of MobileNetV3 (large),
200 training minibatches, ten configurations within its ranges (40 to 120 requests/s, 600 to 1200 ms, 22 to 40 W; the
ones it ran are not in its text). GMD chooses the mode, at the largest batch size that has a plan, as it does there.
``managed``, ``native`` and ``streams`` then serve the same requests with the contention of the device
(``Device.contention``), and the figures stand beside what its text says of them.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from edgetune.artifacts.io import read
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.run import Run, RunRow
from edgetune.stats import percentile

PROBLEMS: tuple[tuple[float, str, int], ...] = (
    (10, "100ms", 64), (30, "100ms", 64), (60, "100ms", 64), (90, "150ms", 64), (120, "200ms", 64),
    (10, "150ms", 256), (30, "150ms", 256), (60, "200ms", 256), (90, "300ms", 256), (60, "50ms", 64),
)  # fmt: skip
"""Requests per second, latency budget, training batch size."""
REAL = ("managed", "native", "streams")


FIGURE_2: tuple[tuple[float, int, int], ...] = (
    (40, 900, 24), (40, 1200, 32), (60, 700, 28), (60, 1200, 36), (80, 600, 22),
    (80, 900, 30), (100, 800, 34), (100, 1000, 26), (120, 700, 40), (120, 1100, 28),
)  # fmt: skip
"""Requests per second, latency budget in ms, power budget in W."""
MINIBATCHES = 200
RUNS: tuple[tuple[str, str, str], ...] = (
    ("managed", "simulated", "managed"), ("native", "simulated-native", "native-full"),
    ("streams", "simulated-streams", "native-full"), ("native, early", "simulated-native", "native"),
)  # fmt: skip
"""Name in the table, engine and policy: those of the study wait for full batches, the last one heeds deadlines."""
STUDY = """
of the study (Fulcrum, 2025, sections 1 and 3.2)                     here, of the configurations above
managed: "always stays within the inference latency deadline"        {managed_late} with a late answer
native: the third quartile "often" violates the budget               {native_q3}
native: the median does so "occasionally"                            {native_q2}
native, Cfg 8: 65 % of the requests violate                          {native_share}
native, Cfg 8: training 10.8 % below a nominal optimum               {native_loss} of the limit (the twin is fitted)
streams: the median is slightly lower than native's                  {streams_lower} (median {streams_ratio:.2f} times)
streams: "we still see wide variability leading to violations"       {streams_late} with a late answer
streams: "occasionally" train faster, through sharing                {streams_faster} than managed
managed may train less than native, whole minibatches alone fit      {managed_slower}, and more in {managed_faster}
"""


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
    engines = (*(REAL if number % 2 else reversed(REAL)), "simulated")
    output = str(Path(asked.output) / f"problem-{number}.parquet")
    order = ("--engine", ",".join(engines), "--duration", asked.duration, "--best-effort", "-o", output, "--json")
    order += ("--turns", str(asked.turns))
    done = edgetune("interleave", *pair, *wanted, *order)
    (Path(asked.output) / f"problem-{number}.log").write_text(done.stderr)
    return {"feasible": "not feasible" not in done.stderr, **json.loads(done.stdout)}


def plan_of(rate: float, budget_ms: int, power_w: int, file: str, device: str) -> Plan | None:
    """Search on the twin, at the largest batch size that has a plan; ``None`` where none has."""
    network = "zoo:mobilenet_v3_large"
    pair = (
        "--kind",
        "train+infer",
        "--background",
        network,
        "--background-batch",
        "16",
        "--modes",
        "grid:441",
        "-d",
        device,
    )
    within = ("--arrival-rate", f"{rate:g}/s", "--latency-budget", f"{budget_ms}ms", "--power-budget", f"{power_w}W")
    for size in (64, 32, 16, 4, 1):
        if (size - 1) / rate >= budget_ms / 1000:
            continue
        words = ("search", network, *pair, *within, "--batch-sizes", str(size), "--strategy", "gmd", "-o", file)
        done = subprocess.run([sys.executable, "-m", "edgetune", *words], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return read(Plan, file)
    return None


def latencies_s(rows: list[RunRow]) -> list[float]:
    """Return the latency of every request, s."""
    return [row.finished_s - row.arrived_s for row in rows if row.event == "request" and row.arrived_s is not None]


def figure_2(asked: argparse.Namespace) -> None:
    """Print Fig. 2 of the study as the twin has it, SIMULATED, beside what its text says."""
    print(f"SIMULATED: {asked.twin}, with its contention of native sharing and streams")
    print("nominal: k whole training minibatches a batch, as planned; limit: all the time that answers leave")
    print(f"{'configuration':29} {'sharing':14} Q1 ms median     Q3    p99   over  samples/s  nominal   limit")
    found: list[dict[str, tuple[list[float], float, float]]] = []
    for number, (rate, budget_ms, power_w) in enumerate(FIGURE_2, 1):
        named = f"{number:2} {rate:g}/s {budget_ms} ms {power_w} W"
        file = str(Path(asked.output) / f"figure-2-{number}")
        plan = plan_of(rate, budget_ms, power_w, f"{file}.yaml", asked.twin)
        if plan is None or plan.measured.throughput_per_s is None:
            print(f"{named:24} no plan")
            continue
        nominal, infer, train = plan.measured.throughput_per_s, plan.measured.infer, plan.measured.train
        size = plan.configuration.infer_batch_size
        infer_s, train_s = (half.minibatch_s if half and half.minibatch_s else math.nan for half in (infer, train))
        limit = 16 * (1 - infer_s * rate / (size or math.nan)) / train_s
        duration_s = math.ceil(MINIBATCHES * 16 / nominal)
        found.append({})
        for shared, engine, policy in RUNS:
            order = ("--engine", engine, "--policy", policy, "--best-effort", "--duration", f"{duration_s}s")
            edgetune("interleave", f"{file}.yaml", "--device", asked.twin, *order, "-o", f"{file}.parquet", "--force")
            rows = read(Run, f"{file}.parquet").rows
            times_s = latencies_s(rows)
            quartiles = [1e3 * percentile(times_s, share) for share in (25, 50, 75, 99)]
            over = sum(time_s > budget_ms / 1e3 + 1e-9 for time_s in times_s) / len(times_s)
            trained = sum(row.samples or 0 for row in rows if row.event == "train") / max(r.finished_s for r in rows)
            found[-1][shared] = ([each / budget_ms for each in quartiles], over, trained / limit)
            shown = " ".join(f"{each:6.0f}" for each in quartiles)
            shares = f"{over:6.1%} {trained:10.1f} {trained / nominal:8.1%} {trained / limit:7.1%}"
            print(f"{named:24} {f'b{size}':4} {shared:13} {shown} {shares}", flush=True)
    print(beside_study(found))


def beside_study(found: list[dict[str, tuple[list[float], float, float]]]) -> str:
    """Return what the study's text says beside the same of these configurations.

    Args:
        found: For each engine of each configuration: quartiles and 99th percentile of the latency as shares of the
            budget, the share of requests over it, and training as a share of all the time that answers leave.
    """
    every = len(found)

    def count(holds: Any) -> str:
        return f"{sum(map(holds, found))} of {every}"

    natives, ratios = [each["native"] for each in found], [e["streams"][0][1] / e["native"][0][1] for e in found]
    losses = [loss for _, _, loss in natives]
    return STUDY.format(
        managed_late=count(lambda each: each["managed"][1] > 0),
        native_q3=count(lambda each: each["native"][0][2] > 1),
        native_q2=count(lambda each: each["native"][0][1] > 1),
        native_share=f"{min(share for _, share, _ in natives):.0%} to {max(share for _, share, _ in natives):.0%}",
        native_loss=f"{min(losses) - 1:+.1%} to {max(losses) - 1:+.1%}",
        streams_lower=count(lambda each: each["streams"][0][1] < each["native"][0][1]),
        streams_ratio=statistics.median(ratios),
        streams_late=count(lambda each: each["streams"][1] > 0),
        streams_faster=count(lambda each: each["streams"][2] > each["managed"][2]),
        managed_slower=count(lambda each: each["managed"][2] < each["native"][2]),
        managed_faster=count(lambda each: each["managed"][2] > each["native"][2]),
    )


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
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--infer", default="zoo:mobilenet_v2")
    parser.add_argument("--train", default=str(Path(__file__).parents[2] / "examples" / "train_tiny.py"))
    parser.add_argument("--device", default="host")
    parser.add_argument("--problem", type=problem_of, action="append", metavar="RATE,BUDGET,TRAIN_BATCH")
    parser.add_argument("--figure-2", action="store_true")
    parser.add_argument("--twin", default="twin:orin-agx")
    parser.add_argument("-o", "--output", default=None)
    asked = parser.parse_args()
    asked.output = asked.output or tempfile.mkdtemp(prefix="interleave-")
    folder = Path(asked.output)
    folder.mkdir(parents=True, exist_ok=True)
    if asked.figure_2:
        figure_2(asked)
        return
    problems = asked.problem or PROBLEMS
    numbers = [int(word) for word in asked.only.split(",")] if asked.only else range(1, len(problems) + 1)
    kept: list[float] = []
    near: list[tuple[float, float, float]] = []
    loads = [os.getloadavg()[0]]
    late_where_feasible = 0
    print("problem                          engine     requests  violations   median ms   p99 ms   samples/s")
    for number in numbers:
        rate, budget, size = problems[number - 1]
        answer = solve(problems[number - 1], number, asked)
        figures = {engine["engine"]: row(engine) for engine in answer["engines"]}
        feasible = "feasible" if answer["feasible"] else "refused"
        for engine in (*REAL, "simulated"):
            requests, violations, median_s, p99_s, samples = figures[engine]
            named = f"{number:2} {rate:g}/s {budget} b{size} {feasible}"
            shown = f"{named:32} {engine:9} {requests:9} {violations:11} {1e3 * median_s:11.1f} {1e3 * p99_s:8.1f}"
            print(f"{shown} {samples:11.1f}", flush=True)
        conditions = answer["header"]["conditions"]
        overhead = conditions["overhead"]["managed"]
        median_us, p99_us = (1e6 * overhead[name] for name in ("decision_median_s", "decision_p99_s"))
        share = overhead["gaps_s"] / conditions["duration_s"]
        print(f"{'':32} managed decides in {median_us:.0f} us (p99 {p99_us:.0f} us) and loses {share:.2%} of the time")
        loads.append(os.getloadavg()[0])
        turns = {(each["engine"], each["turns"][0]): row(each) for each in answer["turns"]}
        for turn in range(asked.turns):
            real, said = turns["managed", turn], turns["simulated", turn]
            if all(real[i] for i in (2, 3, 4)):
                near.append((said[2] / real[2] - 1, said[3] / real[3] - 1, said[4] / real[4] - 1))
        if answer["feasible"]:
            kept.append(figures["managed"][4] / figures["native"][4])
            late_where_feasible += figures["managed"][1]
    print(f"\nfeasible problems: {len(kept)}; violations of managed in them: {late_where_feasible}")
    if kept:
        print(f"managed keeps of native's training: median {statistics.median(kept):.1%}, least {min(kept):.1%}")
    print(f"load of the machine: {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} cores")
    print("errors of the prediction, from times measured before: median of the turns (least to largest)")
    for what, of in zip(("median latency", "p99 latency", "training"), zip(*near, strict=True), strict=False):
        print(f"  {what:14} {statistics.median(of):+.1%} ({min(of):+.1%} to {max(of):+.1%}), {len(of)} turns")
    print(f"runs are in {folder}")


if __name__ == "__main__":
    main()
