"""Print how strategies fare on fully measured tables: python tests/benchmarks/search_tables.py --help.

Tables: the twin's 441 modes for five training networks (made here when the folder lacks them), and, where the folder of
public measurements is given, FlexiBO (times of a Jetson TX2, power from the formula of `flexibo_power_w`), LoudVA
(Jetson Xavier NX and Nano) and Zeus (batch size x power limit on two GPUs).
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from edgetune.artifacts.io import read_profile
from edgetune.artifacts.profile import ProfileRow

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))

from strategy_scores import Score, evaluate, infer_problems, summarise, train_problems

TWIN_NETWORKS = ("mobilenet_v3_large", "resnet18", "yolov8n", "bert_base", "lstm")
INFER_NETWORKS = ("mobilenet_v3_large", "resnet18", "bert_base")

Tables = dict[str, list[ProfileRow]]


def twin_tables(folder: Path, task: str = "train", batch_sizes: str = "16", names: tuple[str, ...] = TWIN_NETWORKS):
    folder.mkdir(parents=True, exist_ok=True)
    tables: Tables = {}
    for name in names:
        path = folder / f"{task}-{name}.parquet"
        if not path.exists():
            command = [sys.executable, "-c", "from edgetune.cli.main import main; main()", "profile", f"zoo:{name}"]
            command += ["--task", task, "--batch-sizes", batch_sizes, "--device", "twin:orin-agx"]
            subprocess.run([*command, "--modes", "grid:441", "-o", str(path)], check=True, capture_output=True)
        tables[f"twin {name}"] = list(read_profile(str(path)).rows)
    return tables


def flexibo_power_w(row: ProfileRow) -> float:
    """Return a made-up power, W, for a time-only table: 2 W static, clocks cubed (half linear), CPU cores counted."""
    g, m = (row.gpu_mhz or 0) / 1300.5, (row.mem_mhz or 0) / 1866.0
    f, c = (row.cpu_mhz or 0) / 2035.2, (row.cpu_cores or 0) / 4
    return 2.0 + 5.0 * (0.5 * g + 0.5 * g**3) + 1.5 * m + 4.0 * c * (0.4 * f + 0.6 * f**3)


def public_tables(data: Path) -> Tables:
    tables: Tables = {}
    for path in sorted((data / "flexibo").glob("*.csv")):
        rows = [replace(row, task="train") for row in read_profile(str(path)).rows]
        tables[f"flexibo {path.stem[4:]}"] = [replace(row, power_w=flexibo_power_w(row)) for row in rows]
    for path in sorted((data / "loudva").glob("*.csv")):
        tables[f"loudva {path.stem}"] = [replace(row, task="train") for row in read_profile(str(path)).rows]
    for path in sorted((data / "zeus").glob("*_epochs.csv")):
        groups: dict[str, list[ProfileRow]] = defaultdict(list)
        with path.open() as file:
            for line in csv.DictReader(file):
                batch = int(line["batch_size"])
                groups[f"{line['workload']} {line['optimizer']}"].append(
                    ProfileRow(
                        line["workload"],
                        "train",
                        batch,
                        float(line["epoch_s"]) * batch / 1e5,  # an epoch of 100,000 samples: only ratios matter
                        power_limit_w=float(line["power_limit_w"]),
                        power_w=float(line["power_w"]),
                    )
                )
        tables |= {f"zeus {path.stem[:4]} {name}": rows for name, rows in groups.items()}
    return tables


def step_w(rows: list[ProfileRow]) -> float:
    """Return 1 W, or less for a small board, so that there are at least 20 budgets."""
    powers = [row.power_w for row in rows if row.power_w]
    return next(step for step in (1.0, 0.5, 0.2, 0.1) if (max(powers) - min(powers)) / step >= 20 or step == 0.1)


def line_of(name: str, scores: list[Score]) -> str:
    s = summarise(scores)
    figures = "  ".join(f"{100 * v:7.2f}" for v in (s.median, s.mean, s.p90, s.p99))
    return (
        f"{name:34} {s.solved:5}/{s.problems:<5} {s.violations:4}  {figures}  {s.points:6.1f} {1e3 * s.strategy_s:8.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "../shared/data")
    parser.add_argument("--cache", type=Path, default=Path("build/search-tables"), help="where twin tables are kept")
    parser.add_argument("--runs", nargs="+", default=["roofline:10", "roofline:8", "gmd:10", "random:50", "random:250"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="tables whose name contains this")
    parser.add_argument("--noise", type=float, default=0.0, help="sd of times; powers get half of it")
    parser.add_argument("--infer", type=int, default=0, metavar="N", help="N inference problems per network instead")
    parser.add_argument("--every", type=int, default=1, help="only every n-th problem")
    parser.add_argument("--worst", action="store_true", help="name the worst problems")
    options = parser.parse_args()
    if options.infer:
        tables = twin_tables(options.cache, "infer", "1,4,16,32,64", INFER_NETWORKS)
    else:
        tables = {**twin_tables(options.cache), **public_tables(options.data)}
    tables = {name: rows for name, rows in tables.items() if options.only in name}
    for run in options.runs:
        strategy, points = run.split(":")
        print(f"\n{run:34} {'solved':>11} viol   median     mean      p90      p99  points  ms/problem")
        families: dict[str, list[Score]] = defaultdict(list)
        for name, rows in tables.items():
            scores: list[Score] = []
            if options.infer:
                problems = infer_problems(rows, sample=options.infer)
            else:
                problems = train_problems(rows, step_w=step_w(rows))
            for seed in range(options.seeds):
                arguments = {"time_noise": options.noise, "power_noise": options.noise / 2}
                scores += evaluate(
                    rows, problems[:: options.every], strategy, max_points=int(points), seed=seed, **arguments
                )
            if len(tables) <= 8 or not name.startswith("zeus"):
                print(line_of(name, scores), flush=True)
            families[name.split(" ", maxsplit=1)[0]] += scores
            families["all"] += scores
            if options.worst:
                for score in sorted(scores, key=lambda s: -1e9 if s.excess is None else -s.excess)[:4]:
                    p = score.problem
                    print("    ", p.power_budget_w, p.latency_budget_s, p.arrival_rate_per_s, score.excess)
        for family, scores in families.items():
            print(line_of(f"= {family}", scores), flush=True)


if __name__ == "__main__":
    main()
