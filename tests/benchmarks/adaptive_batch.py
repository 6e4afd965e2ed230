"""Print what choosing the batch size again while training gains: python tests/benchmarks/adaptive_batch.py --help.

Real trainings of the proxies on one core of this CPU; times are processor seconds, so that other work does not count.

    fixed     one batch size until the target, each of them
    noise     chosen once, by the noise scale of the gradients after a quarter of an epoch
    adaptive  chosen again every epoch, by the noise scale of then; its measurements count

With `--table`, a profile of training by batch size and mode, and `--power-budget`, batch and mode are chosen together:
the trainings are real, and their time is what their minibatches take in the table, at the fastest mode within budget.

A batch size is chosen by the seconds per sample of its minibatches, measured first, times 1 + batch size / noise scale.

Five seeds, median seconds on one core: chosen once by the noise scale is 1.06 to 1.26 times as long as the best batch
size, which only hindsight knows, and 0.54 to 0.88 times the largest; chosen every epoch is 1.16 to 1.47 times the best.

                       best fixed   largest    once   every epoch
    cnn@shapes         1.74 (64)       2.16    1.89          2.02
    cnn@gratings       1.39 (64)       2.09    1.47          2.05
    transformer@chain  6.89 (32)      16.10    8.70          9.84
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

import edgetune as et
from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.profiling.convergence import training
from edgetune.stages.profiling.convergence.datasets import DRAWN, Dataset, load_dataset
from edgetune.stages.profiling.convergence.noise_scale import gradient_noise_scale
from edgetune.stages.profiling.convergence.proxy import TrainingOptions, resolve_proxy, takes_tokens
from edgetune.stages.search.accuracy import accuracy_problem, epochs_of_noise, optimum

SIZES = (8, 16, 32, 64, 128, 256)
PARTS, PART = 8, 64
"""Of a measurement of the noise scale."""
MOST_EPOCHS = 30


@dataclass(frozen=True, slots=True)
class Result:
    """A training.

    Args:
        time_s: Processor seconds until the target, without evaluations.
        epochs: Until then.
        sizes: Batch sizes that it used, in order.
    """

    time_s: float
    epochs: float
    sizes: tuple[int, ...]


class Trainer:
    """A proxy on a data set, from the weights of a seed."""

    def __init__(self, reference: str, data: Dataset, seed: int) -> None:
        self._data = data
        self._options = TrainingOptions(0.5, 1)
        self._trainee = training.build_network(resolve_proxy(reference), data, batch_size=32, seed=seed)
        self._module = self._trainee.module
        self._optimiser = torch.optim.Adam(self._module.parameters())
        self._x, self._y = torch.from_numpy(data.x), torch.from_numpy(data.y)
        self._generator = torch.Generator().manual_seed(seed)

    def draw(self, count: int) -> torch.Tensor:
        return torch.randperm(len(self._x), generator=self._generator)[:count]

    def loss(self, chosen: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self._module(self._x[chosen]).flatten(0, -2), self._y[chosen].flatten())

    def step(self, chosen: torch.Tensor) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = self._options.learning_rate_at(len(chosen))
        self._optimiser.zero_grad(set_to_none=True)
        self.loss(chosen).backward()
        self._optimiser.step()

    def noise(self) -> float:
        parts = self.draw(PARTS * PART).split(PART)
        return gradient_noise_scale(self._module.parameters(), map(self.loss, parts), samples=PART)

    def accuracy(self) -> float:
        return training._accuracy(self._trainee, self._data, "cpu", 256)


def minibatch_times(reference: str, data: Dataset) -> dict[int, float]:
    """Return the processor seconds of a minibatch by batch size: the median of twenty."""
    trainer, found = Trainer(reference, data, 0), {}
    for size in SIZES:
        times = []
        for _ in range(20):
            chosen, begun_s = trainer.draw(size), time.process_time()
            trainer.step(chosen)
            times.append(time.process_time() - begun_s)
        found[size] = statistics.median(times)
    return found


def table_times(path: str, budget_w: float | None) -> dict[int, float]:
    """Return the seconds of a minibatch by batch size at its fastest mode within the power budget."""
    rows = [row for row in et.read(path).rows if row.batch_size in SIZES]
    sizes = {row.batch_size for row in rows}
    problem = accuracy_problem(dict.fromkeys(sizes, 1.0), power_budget_w=budget_w)
    best = {size: optimum(problem, [row for row in rows if row.batch_size == size]).row for size in sizes}
    print(", ".join(f"{size}: {row.mode}" for size, row in sorted(best.items())))
    return {size: row.minibatch_s for size, row in sorted(best.items())}


def chosen_size(times: Mapping[int, float], noise: float) -> int:
    """Return the batch size that is soonest at the target, if the noise scale stays as it is."""
    rows = [ProfileRow("net", "train", size, minibatch_s) for size, minibatch_s in times.items()]
    return optimum(accuracy_problem(epochs_of_noise(noise, times)), rows).row.batch_size


def run(
    reference: str, data: Dataset, target: float, times: Mapping[int, float], *, seed: int, how: int | str, table: bool
) -> Result:
    """Train to the target at a fixed batch size, or at one chosen once (``noise``) or every epoch (``adaptive``)."""
    trainer, quarter = Trainer(reference, data, seed), len(data.x) // 4
    size = how if isinstance(how, int) else 32
    spent_s, samples, sizes = 0.0, 0, [size]
    for number in range(4 * MOST_EPOCHS):
        begun_s, table_s = time.process_time(), 0.0
        if (how == "adaptive" and number % 4 == 1) or (how == "noise" and number == 1):
            size = chosen_size(times, trainer.noise())
            table_s += PARTS * times[PART]
        for chosen in trainer.draw(quarter).split(size):
            if len(chosen) == size:
                trainer.step(chosen)
                samples += size
                table_s += times[size]
        spent_s += table_s if table else time.process_time() - begun_s
        sizes += [size] if sizes[-1] != size else []
        if trainer.accuracy() >= target:
            return Result(spent_s, samples / len(data.x), tuple(sizes))
    return Result(math.inf, MOST_EPOCHS, tuple(sizes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="*", default=["cnn@shapes", "cnn@gratings", "transformer@chain"])
    parser.add_argument("--table", help="a profile of training; default: measured on this CPU")
    parser.add_argument("--power-budget", type=float, help="W, with --table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for task in options.tasks:
        proxy, _, dataset = task.partition("@")
        reference = f"proxy:{proxy}"
        data = load_dataset(dataset, tokens=takes_tokens(resolve_proxy(reference)))
        table = options.table is not None
        times = table_times(options.table, options.power_budget) if table else minibatch_times(reference, data)
        print(f"\n{task}: us per sample {', '.join(f'{s}: {1e6 * t / s:.0f}' for s, t in times.items())}")
        for how in (*times, "noise", "adaptive"):
            found = [
                run(reference, data, DRAWN[dataset].target_accuracy, times, seed=seed, how=how, table=table)
                for seed in range(options.seeds)
            ]
            each = statistics.median(result.time_s for result in found)
            epochs = statistics.fmean(result.epochs for result in found)
            said = f"; batch sizes {found[0].sizes}" if isinstance(how, str) else ""
            print(f"{how!s:>9}: {each:6.2f} s, {epochs:.2f} epochs{said}", flush=True)


if __name__ == "__main__":
    main()
