"""Print how well one BERT stands for another on measured GPUs: python tests/benchmarks/time_to_accuracy.py --help.

Data: Zeus (NSDI '23), BERT on SQuAD and on Sentiment140, a V100 and a P100: seconds and watts by batch size and power
limit, and the epochs that ten runs at each batch size took to each target. The batch size and the limit are chosen by
the epochs of one data set, paid for by those of the other, and held against the best there is.

Two readings: `common` chooses from, and is held against, the batch sizes that both data sets were trained at, as when a
proxy was trained at every size of the profile; `all` is held against every size of the target, also those that the
proxy knows nothing of.

Both baselines set the limit first, the highest at which every batch size keeps the budget: one then takes the largest
batch, the other the batch that is best by the same proxy's epochs.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.artifacts.convergence import Convergence, ConvergenceRow, epochs_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.problem import Objective
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InfeasibleError, InputError
from edgetune.stages.search.accuracy import Comparison, TrainingChoice, accuracy_problem, choice_of, compare, optimum

DATA = Path(__file__).parents[2] / "../shared/data/zeus"
GPUS = ("v100", "p100")
PROXY_OF = {"squad": "sentiment140", "sentiment140": "squad"}
BUDGETS_W = (None, 100.0, 125.0, 150.0, 175.0, 200.0, 225.0, 250.0)
_SAMPLES = 100_000
"""Of an epoch. It cancels out."""

Epochs = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Case:
    """One choice by a proxy.

    Args:
        gpu, dataset: Where and what for.
        budget_w: Power budget, W.
        lost: Cost of the choice over that of the best, less one.
        comparison: The choice beside the baselines.
    """

    gpu: str
    dataset: str
    budget_w: float | None
    lost: float
    comparison: Comparison


def load_epochs(folder: Path, average: Callable[[Sequence[float]], float]) -> dict[tuple[str, str], Epochs]:
    """Return epochs by batch size, by data set and target; targets that most runs miss at every size are left out."""
    runs: dict[tuple[str, str], list[ConvergenceRow]] = defaultdict(list)
    with (folder / "epochs_to_target.csv").open() as file:
        for line in csv.DictReader(file):
            if line["network"] == "bert_base_uncased":
                epochs = float(line["target_epoch"])
                missed = math.isnan(epochs)
                row = ConvergenceRow(
                    line["network"],
                    int(line["batch_size"]),
                    None if missed else epochs,
                    line["dataset"],
                    seed=int(line["run"]),
                    target_accuracy=float(line["target_metric"]),
                    optimizer=line["optimizer"],
                    status="missed" if missed else "reached",
                )
                runs[line["dataset"], line["target_metric"]].append(row)
    found: dict[tuple[str, str], Epochs] = {}
    for task, rows in runs.items():
        try:
            found[task] = epochs_of(Convergence(Header.new("convergence", 1), tuple(rows)), average=average).by_batch
        except InputError:
            continue
    return found


def load_profile(folder: Path, gpu: str, dataset: str) -> list[ProfileRow]:
    with (folder / f"{gpu}_epochs.csv").open() as file:
        return [
            ProfileRow(
                line["workload"],
                "train",
                size := int(line["batch_size"]),
                float(line["epoch_s"]) * size / _SAMPLES,
                power_limit_w=float(line["power_limit_w"]),
                power_w=float(line["power_w"]),
            )
            for line in csv.DictReader(file)
            if line["workload"] == f"bert_base_uncased@{dataset}"
        ]


def cases(
    folder: Path,
    *,
    objective: Objective = "time",
    common: bool = True,
    average: Callable[[Sequence[float]], float] = statistics.fmean,
) -> Iterator[Case]:
    """Yield a case for each GPU, data set, target, target of the proxy, and budget that can be kept."""
    epochs = load_epochs(folder, average)
    for gpu in GPUS:
        for dataset, proxy_dataset in PROXY_OF.items():
            rows = load_profile(folder, gpu, dataset)
            targets = [own for (name, _), own in epochs.items() if name == dataset]
            proxies = [own for (name, _), own in epochs.items() if name == proxy_dataset]
            for target in targets:
                for proxy in proxies:
                    for budget_w in BUDGETS_W:
                        case = _case(rows, target, proxy, objective=objective, budget_w=budget_w, common=common)
                        if case is not None:
                            yield Case(gpu, dataset, budget_w, *case)


def _case(
    rows: Sequence[ProfileRow],
    target: Epochs,
    proxy: Epochs,
    *,
    objective: Objective,
    budget_w: float | None,
    common: bool,
) -> tuple[float, Comparison] | None:
    shared = target.keys() & proxy.keys()
    known = {size: value for size, value in target.items() if size in shared or not common}
    believed = accuracy_problem(
        {s: e for s, e in proxy.items() if s in shared}, power_budget_w=budget_w, objective=objective
    )
    truth = accuracy_problem(known, power_budget_w=budget_w, objective=objective)
    try:
        chosen, best = optimum(believed, rows), optimum(truth, rows)
    except InfeasibleError:
        return None

    def cost(choice: TrainingChoice) -> float:
        return choice.time_s if objective == "time" else choice.energy_j or math.nan

    beside = compare(truth, rows, chosen.row)
    if beside.best_batch is not None:  # whoever sets the clock first knows no more epochs than whoever sets it jointly
        first = compare(believed, rows).best_batch
        beside = replace(beside, best_batch=None if first is None else choice_of(truth, first.row))
    return cost(beside.answer) / cost(best) - 1, beside


def summary(found: Sequence[Case], objective: Objective) -> dict[str, float]:
    """Return the mean and the largest loss, and the mean speed-up (or saving) over both baselines."""
    figures = {"cases": len(found), "mean lost": statistics.fmean(c.lost for c in found)}
    figures["max lost"] = max(case.lost for case in found)
    for name in ("largest_batch", "best_batch"):
        ratios = []
        for case in found:
            base = getattr(case.comparison, name)
            if base is not None:
                over = case.comparison.times_faster if objective == "time" else case.comparison.times_less_energy
                ratios.append(over(base) or math.nan)
        figures[f"over {name}"] = statistics.fmean(ratios) if ratios else math.nan
        figures[f"over {name}, max"] = max(ratios, default=math.nan)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder of the tables")
    options = parser.parse_args()
    averages = {"mean": statistics.fmean, "median": statistics.median}
    for objective in ("time", "energy"):
        for common in (True, False):
            for average, function in averages.items():
                found = list(cases(options.data, objective=objective, common=common, average=function))
                sizes = "common" if common else "all"
                print(f"\n{objective} to accuracy; batch sizes: {sizes}; epochs: {average} of ten runs")
                print(
                    f"{'':20} {'cases':>6} {'lost':>7} {'max':>7}   {'over largest batch':>20}  {'over best batch':>18}"
                )
                groups: dict[str, list[Case]] = defaultdict(list)
                for case in found:
                    groups[f"{case.gpu} {case.dataset}"].append(case)
                for name, group in [*groups.items(), ("all", found)]:
                    s = summary(group, objective)
                    print(
                        f"{name:20} {s['cases']:6.0f} {s['mean lost']:7.2%} {s['max lost']:7.2%}   "
                        f"{s['over largest_batch']:8.2f}x max {s['over largest_batch, max']:5.2f}x  "
                        f"{s['over best_batch']:8.2f}x max {s['over best_batch, max']:5.2f}x"
                    )


if __name__ == "__main__":
    main()
