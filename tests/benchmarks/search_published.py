"""Print Fulcrum's medians beside ours: its strategies, networks and problems, on SIMULATED tables with noise.

    python tests/benchmarks/search_published.py FOLDER [--families train,infer] [--sample 1000] [--seeds 1]

The tables are those of `twin:orin-agx?noise=on`, whose readings scatter as the study's do; they are made in FOLDER
unless they are there. Half an hour on one core, most of it for the networks of `als-study` and `nn-study`. The last
lines say which medians of all workloads together are outside the bands of this file, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

DEVICE = "twin:orin-agx?noise=on"
TABLES = {
    "train": (("resnet18", "mobilenet_v3_large", "yolov8n", "bert_base", "lstm_wikitext"), "16"),
    "infer": (("resnet50", "mobilenet_v3_large", "yolov8n", "bert_large", "lstm_wikitext"), "1,4,16,32,64"),
}
BANDS = {
    "train": {"gmd": (1, 12), "als": (0, 8), "rnd50": (1, 12), "rnd250": (0, 2), "nn250": (0, 8)},
    "infer": {"gmd": (0, 8), "als": (0, 6), "rnd150": (2, 16), "rnd250": (0, 8), "nn250": (0, 12)},
    "train+infer": {"gmd": (0, 20), "als": (0, 15), "rnd150": (0, 35), "rnd250": (0, 25), "nn250": (0, 45)},
}
"""Medians of all workloads together, in %, that the study's and ours are within: no promise of a board."""


def edgetune(*words: str) -> str:
    """Run a command and return what it printed."""
    command = [sys.executable, "-m", "edgetune", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def table(folder: Path, network: str, task: str, sizes: str) -> Path:
    """Return the table of a network, which is measured unless it is there."""
    path = folder / f"{network}-{task}.parquet"
    if not path.exists():
        sizes = sizes.removesuffix(",64") if network == "bert_large" else sizes
        words = ("--task", task, "--batch-sizes", sizes, "--device", DEVICE, "--modes", "grid:441", "-q")
        edgetune("profile", f"zoo:{network}", *words, "-o", str(path))
    return path


def outside(family: str, beside: list[dict[str, object]]) -> list[str]:
    """Return a line for each median that is outside its band."""
    found = {row["strategy"]: row["ours"] for row in beside if row["workload"] == "all"}
    return [
        f"{family} {strategy}: median {found[strategy]} %, not within {low} to {high}"
        for strategy, (low, high) in BANDS.get(family, {}).items()
        if strategy in found and not (isinstance(found[strategy], float) and low <= found[strategy] <= high)
    ]


def main() -> int:
    """Print the tables of the families, and what is outside its band."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--families", default="train,infer,train+infer,infer+infer")
    parser.add_argument("--sample", default="1000")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--jobs", default=str(len(os.sched_getaffinity(0))))
    opts = parser.parse_args()
    opts.folder.mkdir(exist_ok=True)
    paths = [
        str(table(opts.folder, network, task, sizes))
        for task, (networks, sizes) in TABLES.items()
        for network in networks
    ]
    wrong = []
    for family in opts.families.split(","):
        words = ("--family", family, "--published", "--sample", opts.sample, "--seeds", opts.seeds)
        words = (*words, "--jobs", opts.jobs, "--json", "-q", "-o", str(opts.folder / f"{family}.eval.parquet"))
        answer = json.loads(edgetune("search", "evaluate", *paths, *words))
        counts = answer["problems"]
        found = ", ".join(
            f"{counts[key]:,} {what}" for key, what in (("solvable", "solvable"), ("replayed", "replayed"))
        )
        print(f"\nSIMULATED {family}: {counts['all']:,} problems, {found}")
        print(f"{'workload':22}{'strategy':10}{'theirs %':>9}{'ours %':>9}{'solved %':>10}{'ours %':>9}{'points':>8}")
        for row in answer["beside"]:
            cells = [
                "-" if row[key] is None else f"{row[key]:.1f}"
                for key in ("theirs", "ours", "solved_theirs", "solved_ours", "points")
            ]
            widths = (9, 9, 10, 9, 8)
            print(f"{row['workload']:22}{row['strategy']:10}" + "".join(map(str.rjust, cells, widths)), flush=True)
        wrong += outside(family, answer["beside"])
    print("\n" + ("\n".join(wrong) or "every median of all workloads is within its band"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
