"""Print the tables and figures of the joint tuning of batch size and GPU clock (2025) beside ours, a row for each.

    python tests/benchmarks/joint_study.py FOLDER [--seeds 5]

Theirs: a Jetson Nano and a TX2 NX, time to accuracy in seconds. Neither board is here, and the study prints neither
times per minibatch nor watts by clock, from which a twin could be calibrated. So ours are ratios on other devices:

    time and power   SIMULATED: `twin:orin-agx`, GPU clock varied, all else at its top. Networks of the zoo for images
                     of 32 x 32, as the study's, and its transformer (six layers of six heads, 256 wide). Its limits are
                     set as the study's: the peak power at which a third and two thirds of the highest clock are safe
                     for every network and batch size.
    epochs           measured: `proxy:cnn` on two sets of drawn images, `proxy:transformer` on two sets of drawn text
                     and on the manual's pages; from first weights, where the study fine-tunes. Trained here when FOLDER
                     lacks them: half an hour on two cores, resumed when interrupted.
    zeus             measured by others (Zeus, NSDI '23): BERT on SQuAD and on Sentiment140, a V100 and a P100: seconds
                     and watts by batch size and power limit, and the epochs of ten runs at each batch size to each
                     target. Batch size and limit are chosen by the epochs of one data set, paid for by those of the
                     other, and held against the best of the batch sizes that both were trained at.

Of a row the second column is theirs, [lowest limit, middle limit, no limit] where there are three figures. Ours is the
mean over the seeds of the training, and its least and most where they differ.
"""

import argparse
import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import edgetune as et
from edgetune.artifacts.convergence import Convergence, ConvergenceRow, epochs_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.problem import Objective, Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InfeasibleError, InputError
from edgetune.stages.search.accuracy import Comparison, TrainingChoice, choice_of, compare
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.problem import judge

SIZES = (4, 8, 16, 32, 64, 128)
CLOCKS = "gpu_mhz=114:1301"
NETWORKS = {"resnet18": SIZES, "mobilenet_v2": SIZES[:-1], "transformer": SIZES}
"""Batch sizes by network; the Nano had no memory for 128 with MobileNetV2."""
EPOCHS = {
    "cnn": (("gratings", 0.85), ("shapes", None)),
    "transformer": (("words", None), ("chain", None), ("manual", 0.28)),
}
"""Data sets and their targets, by proxy."""
TARGETS = {
    "SVHN": ("gratings", "shapes"),
    "CINIC": ("shapes", "gratings"),
    "Austen": ("words", "chain"),
    "Dickens": ("manual", "chain"),
}
"""Our data set and its proxy, by the study's data set. Theirs have the proxies CIFAR-10 and Tiny Shakespeare."""
SAMPLES = 14_652
"""To learn from, of the study's quarter of SVHN: four fifths of 18,315 (table 1)."""

SECONDS = {
    ("2", "ResNet18", "SVHN"): ((14347, 8204, 6187), (11345, 7055, 5817), (8477, 4607, 4170), (8477, 4607, 4170)),
    ("2", "ResNet18", "CINIC"): ((18154, 10381, 7829), (12436, 7733, 6377), (9292, 4454, 4032), (9030, 4454, 4032)),
    ("2", "MobileNetV2", "SVHN"): ((8708, 5107, 3990), (8082, 4871, 3912), (5940, 3912, 3912), (5940, 3912, 3912)),
    ("2", "MobileNetV2", "CINIC"): ((8909, 5226, 4082), (8428, 5079, 4080), (6194, 4080, 4080), (6194, 4080, 4080)),
    ("3", "Transformer", "Austen"): ((8136, 4607, 3556), (9425, 6081, 5193), (7232, 3982, 3556), (7232, 3982, 3556)),
    ("3", "Transformer", "Dickens"): (
        (12347, 6991, 5397), (14278, 12941, 7867), (10956, 6043, 5397), (10956, 6043, 5397),
    ),
    ("4", "ResNet18", "SVHN"): ((7343, 3944, 3021), (7337, 4771, 4086), (4283, 2648, 2431), (4283, 2648, 2431)),
    ("4", "ResNet18", "CINIC"): ((9292, 4991, 3823), (8042, 5230, 4479), (5463, 2560, 2350), (5046, 2510, 2294)),
}  # fmt: skip
"""Time to accuracy, s: baseline 1, baseline 2, theirs, fastest configuration; by table, network and data set."""
OURS = {
    "ResNet18": ("resnet18", "cnn"),
    "MobileNetV2": ("mobilenet_v2", "cnn"),
    "Transformer": ("transformer", "transformer"),
}
NANO_MHZ = (307.2, 614.4, 921.6)
"""Clocks of the baselines at the three limits."""

ZEUS = Path(__file__).parents[2] / "../shared/data/zeus"
GPUS = ("v100", "p100")
PROXY_OF = {"squad": "sentiment140", "sentiment140": "squad"}
BUDGETS_W = (None, 100.0, 125.0, 150.0, 175.0, 200.0, 225.0, 250.0)
EPOCH_SAMPLES = 100_000
"""Of the data sets of Zeus. It cancels out."""

Epochs = Mapping[int, float]


def accuracy_problem(
    epochs: Epochs,
    *,
    power_budget_w: float | None = None,
    power_peak_budget_w: float | None = None,
    objective: Objective | None = None,
) -> Problem:
    """Return the problem of least time (or energy) to accuracy."""
    return Problem(
        "accuracy", power_budget_w=power_budget_w, power_peak_budget_w=power_peak_budget_w, objective=objective,
        epochs_to_target=tuple(sorted(epochs.items())),
    )  # fmt: skip


def optimum(problem: Problem, rows: Iterable[ProfileRow]) -> TrainingChoice:
    """Return the best of the rows within the budgets, of batch sizes with known epochs.

    Raises:
        InfeasibleError: no row is within the budgets.
    """
    epochs = dict(problem.epochs_to_target)
    judged = [(judge(problem, row), row) for row in rows if row.batch_size in epochs]
    within = [(judgement.objective or 0.0, row) for judgement, row in judged if judgement.feasible]
    if not within:
        raise InfeasibleError("no row is within the budgets", "raise them")
    return choice_of(problem, max(within, key=lambda pair: (pair[0], -(pair[1].power_w or 0.0)))[1])


@dataclass(frozen=True, slots=True)
class Study:
    """What our rows come from.

    Args:
        rows: By network: its profile.
        epochs: By proxy and data set: the epochs by batch size.
        limits_w: The three limits of peak power, W; ``None`` for no limit.
    """

    rows: Mapping[str, Sequence[ProfileRow]]
    epochs: Mapping[tuple[str, str], Epochs]
    limits_w: tuple[float | None, ...]

    def problem(self, network: str, proxy: str, dataset: str, limit_w: float | None) -> Problem:
        """Return the problem of a network with the epochs of a proxy on a data set."""
        epochs = {size: value for size, value in self.epochs[proxy, dataset].items() if size in NETWORKS[network]}
        return accuracy_problem(epochs, power_peak_budget_w=limit_w)

    def others(self, network: str) -> list[ProfileRow]:
        """Return the rows of the other networks, which the clock that is set first has to suit as well."""
        return [row for name, rows in self.rows.items() if name != network for row in rows]


@dataclass(frozen=True, slots=True)
class Choices:
    """What each way chooses by the proxy, and what it takes on the target: see ``SECONDS``."""

    largest: TrainingChoice
    fewest: TrainingChoice
    ours: TrainingChoice
    fastest: TrainingChoice


def limits(rows: Mapping[str, Sequence[ProfileRow]]) -> tuple[float | None, ...]:
    """Return the peak power at which a third and two thirds of the highest clock are always safe, and ``None``."""
    everything = [row for each in rows.values() for row in each]
    clocks = sorted({row.gpu_mhz or 0.0 for row in everything})
    found: list[float | None] = []
    for share in (1 / 3, 2 / 3):
        clock = min(clocks, key=lambda mhz: abs(mhz - share * clocks[-1]))
        found.append(max(row.power_peak_w or 0.0 for row in everything if row.gpu_mhz == clock))
    return (*found, None)


def choices(study: Study, ours: tuple[str, str], dataset: str, by: str, limit_w: float | None) -> Choices:
    """Return the choices for a network and its proxy (``ours``) on a data set, made by the epochs of ``by``."""
    network, proxy = ours
    rows, truth = study.rows[network], study.problem(network, proxy, dataset, limit_w)
    believed = study.problem(network, proxy, by, limit_w)
    beside = compare(believed, rows, optimum(believed, rows).row, others=study.others(network))
    assert beside.largest_batch is not None
    assert beside.fewest_epochs is not None
    ways = (beside.largest_batch, beside.fewest_epochs, beside.answer)
    return Choices(*(choice_of(truth, way.row) for way in ways), optimum(truth, rows))


Figures = tuple[str, Sequence[float]]
"""How a figure is written, e.g. ``.2f``, and its values by one seed's epochs."""
Row = tuple[str, str, str | Figures]
"""Of a figure: its name, theirs and ours."""


def over_seeds(rows: Sequence[Sequence[Row]]) -> Iterator[tuple[str, str, str]]:
    """Yield each row with the mean of its figures over the seeds, and their least and most where these differ."""
    for name, theirs, first in (row for row in rows[0]):
        found = [dict((row[0], row[2]) for row in of_seed)[name] for of_seed in rows]
        if isinstance(first, str):
            yield name, theirs, first
            continue
        form, told = first[0], []
        for values in zip(*(each[1] for each in found), strict=True):
            mean, *ends = (format(value, form) for value in (statistics.fmean(values), min(values), max(values)))
            told.append(mean if ends[0] == ends[1] else f"{mean} ({' to '.join(ends)})")
        yield name, theirs, f"[{', '.join(told)}]" if len(told) > 1 else told[0]


def table_rows(study: Study) -> Iterator[Row]:
    """Yield the ratios of tables 2 to 4."""
    words = ("baseline 1 / joint", "baseline 2 / joint", "joint / fastest")
    for (table, name, dataset), printed in SECONDS.items():
        ours: list[str | Figures] = ["not here: no TX2 NX, and the study prints neither its clocks nor its watts"] * 3
        if table != "4":
            found = [choices(study, OURS[name], *TARGETS[dataset], limit_w) for limit_w in study.limits_w]
            times = [[each.time_s for each in way] for way in zip(*map(_ways, found), strict=True)]
            ours = [(".2f", each) for each in _ratios(times)]
        for what, figures, value in zip(words, _ratios(printed), ours, strict=True):
            yield f"table {table}, {name}, {dataset}: {what}", _three(figures), value


def _ways(found: Choices) -> tuple[TrainingChoice, ...]:
    return found.largest, found.fewest, found.ours, found.fastest


def _ratios(times: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return both baselines over the joint choice, and that over the fastest, of times in the order of ``SECONDS``."""
    pairs = ((times[0], times[2]), (times[1], times[2]), (times[2], times[3]))
    return [[a / b for a, b in zip(*pair, strict=True)] for pair in pairs]


def figure_rows(study: Study) -> Iterator[Row]:
    """Yield figures 1 to 8 and the costs of profiling."""
    yield _figure_1(study)
    yield from _figure_2(study)
    yield "fig 3", "their workflow", "profile, profile --convergence, search --kind accuracy"
    images = (("ResNet18", "SVHN"), ("MobileNetV2", "SVHN"), ("ResNet18", "CINIC"), ("MobileNetV2", "CINIC"))
    text = (("Transformer", "Austen"), ("Transformer", "Dickens"))
    for what, data, way, theirs in (
        ("images: baseline 1", images, "largest", "up to 2"),
        ("images: baseline 2", images, "fewest", "up to 1.4"),
        ("text: baseline 1", text, "largest", "1.09 at the lowest limit"),
        ("text: baseline 2", text, "fewest", "1.25"),
    ):
        yield f"fig 4, {what} / joint energy, most and median", theirs, _energies(study, data, way)
    for figure, name, said in (
        ("5", "MobileNetV2", "0 % but for a few without a limit"),
        ("8", "ResNet18", "0 % but for a few at the lowest limit (3 % in table 2)"),
        ("6", "Transformer", "0 % everywhere"),
    ):
        yield f"fig {figure}, {name}: lost by a proxy, mean and worst", said, _lost(study, *OURS[name])
    yield "fig 7, ResNet18: GPU over CPU", "about 10 times faster", "not here: no Nano, and the twin trains on no CPU"
    yield from _profiling(study)


def _figure_1(study: Study) -> Row:
    low_w, middle_w, _ = study.limits_w
    assert low_w is not None
    assert middle_w is not None
    limit_w = low_w + 0.2 * (middle_w - low_w)  # 5 W lies so between 4.5 and 7
    rows = study.rows["resnet18"]
    problem = accuracy_problem(dict.fromkeys(SIZES, 1.0), power_peak_budget_w=limit_w)
    found = compare(problem, rows, optimum(problem, rows).row, others=study.others("resnet18"))
    assert found.largest_batch is not None
    saved = 1 - 1 / found.times_faster(found.largest_batch)
    return (
        "fig 1, ResNet18 at 5 W: time saved of a fixed number of samples",
        "31.9 % (64 at 460, not 128 at 307 MHz)",
        (".1%", [saved]),
    )


def _figure_2(study: Study) -> Iterator[Row]:
    for name in ("shapes", "gratings"):
        epochs = study.epochs["cnn", name]
        yield f"fig 2: epochs of batch 32 / batch 8, {name}", "1.5 (15 and 10)", (".2f", [epochs[32] / epochs[8]])
        ratios = []
        for limit_w in study.limits_w:
            problem = study.problem("resnet18", "cnn", name, limit_w)
            best = [optimum(problem, [r for r in study.rows["resnet18"] if r.batch_size == size]) for size in (32, 8)]
            ratios.append(best[0].time_s / best[1].time_s)
        yield f"fig 2: time to accuracy of batch 32 / batch 8, {name}", "[>1, >1, <1]", (".2f", ratios)


def _energies(study: Study, data: Sequence[tuple[str, str]], way: str) -> Figures:
    """Return the largest and the median ratio."""
    ratios = []
    for name, dataset in data:
        for limit_w in study.limits_w:
            found = choices(study, OURS[name], *TARGETS[dataset], limit_w)
            ratios.append((getattr(found, way).energy_j or 0.0) / (found.ours.energy_j or 1.0))
    return ".2f", [max(ratios), statistics.median(ratios)]


def _lost(study: Study, network: str, proxy: str) -> Figures:
    """Return mean and worst by limit."""
    parts: list[float] = []
    for limit_w in study.limits_w:
        names = [dataset for own, dataset in study.epochs if own == proxy]
        pairs = [(dataset, by) for dataset in names for by in names if by != dataset]
        found = [choices(study, (network, proxy), dataset, by, limit_w) for dataset, by in pairs]
        lost = [each.ours.time_s / each.fastest.time_s - 1 for each in found]
        parts += [statistics.fmean(lost), max(lost)]
    return ".1%", parts


def _profiling(study: Study) -> Iterator[Row]:
    """Yield the cost of the staircase at the lowest limit, beside our training and beside theirs on the Nano."""
    for name, share in (("ResNet18", 1.9), ("MobileNetV2", 6.0)):
        network, proxy = OURS[name]
        table, theirs_s = {row.point: row for row in study.rows[network]}, SECONDS["2", name, "SVHN"][2][0]
        problem = study.problem(network, proxy, "gratings", study.limits_w[0])
        steps = run_search(problem, table, table.__getitem__, SearchSettings("staircase")).trace.rows
        spent_s = sum(table[step.row.point].duration_s or 0.0 for step in steps)
        training_s = optimum(problem, table.values()).time_s * SAMPLES
        yield (
            f"section 4.1, {name}: staircase, share of a training",
            f"at most {share} % ({share / 100 * theirs_s:.0f} of {theirs_s} s)",
            (".1%", [spent_s / training_s]),
        )


def nano_rows() -> Iterator[tuple[str, str, str]]:
    """Yield what the printed figures of the Nano say about time against clock: constant + 1 / clock."""
    first = SECONDS["2", "ResNet18", "SVHN"][0]
    slope = (first[0] - first[2]) / (1 / NANO_MHZ[0] - 1 / NANO_MHZ[2])
    middle_s = first[2] + slope * (1 / NANO_MHZ[1] - 1 / NANO_MHZ[2])
    share = 1 - slope / NANO_MHZ[2] / first[2]
    words = f"{middle_s:.0f} s by constant + 1 / clock from the other two ({share:.0%} constant at the top)"
    yield "table 2, ResNet18, baseline 1 at 614 MHz", f"{first[1]} s", words


@dataclass(frozen=True, slots=True)
class Case:
    """One choice by a proxy on a measured GPU.

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


def zeus_epochs(folder: Path) -> dict[tuple[str, str], Epochs]:
    """Return epochs by batch size, by data set and target; targets that most runs miss at every size are left out."""
    runs: dict[tuple[str, str], list[ConvergenceRow]] = defaultdict(list)
    with (folder / "epochs_to_target.csv").open() as file:
        for line in csv.DictReader(file):
            if line["network"] != "bert_base_uncased":
                continue
            epochs = float(line["target_epoch"])
            missed = math.isnan(epochs)
            row = ConvergenceRow(
                line["network"], int(line["batch_size"]), None if missed else epochs, line["dataset"],
                seed=int(line["run"]), target_accuracy=float(line["target_metric"]), optimizer=line["optimizer"],
                status="missed" if missed else "reached",
            )  # fmt: skip
            runs[line["dataset"], line["target_metric"]].append(row)
    found: dict[tuple[str, str], Epochs] = {}
    for task, rows in runs.items():
        try:
            found[task] = epochs_of(Convergence(Header.new("convergence", 1), tuple(rows))).by_batch
        except InputError:
            continue
    return found


def zeus_profile(folder: Path, gpu: str, dataset: str) -> list[ProfileRow]:
    """Return the measured rows of BERT on a data set."""
    with (folder / f"{gpu}_epochs.csv").open() as file:
        lines = [line for line in csv.DictReader(file) if line["workload"] == f"bert_base_uncased@{dataset}"]
    return [
        ProfileRow(
            line["workload"], "train", int(line["batch_size"]),
            float(line["epoch_s"]) * int(line["batch_size"]) / EPOCH_SAMPLES,
            power_limit_w=float(line["power_limit_w"]), power_w=float(line["power_w"]),
        )
        for line in lines
    ]  # fmt: skip


def zeus_cases(folder: Path, objective: Objective) -> Iterator[Case]:
    """Yield a case for each GPU, data set, target, target of the proxy, and budget that can be kept."""
    epochs = zeus_epochs(folder)
    for gpu in GPUS:
        for dataset, proxy_dataset in PROXY_OF.items():
            rows = zeus_profile(folder, gpu, dataset)
            targets = [own for (name, _), own in epochs.items() if name == dataset]
            proxies = [own for (name, _), own in epochs.items() if name == proxy_dataset]
            for target in targets:
                for proxy in proxies:
                    sizes = sorted(target.keys() & proxy.keys())
                    for budget_w in BUDGETS_W:
                        truth, believed = (
                            accuracy_problem(
                                {size: each[size] for size in sizes}, power_budget_w=budget_w, objective=objective
                            )
                            for each in (target, proxy)
                        )
                        try:
                            chosen, best = optimum(believed, rows), optimum(truth, rows)
                        except InfeasibleError:
                            continue
                        beside = compare(truth, rows, chosen.row)
                        lost = _cost(beside.answer, objective) / _cost(best, objective) - 1
                        yield Case(gpu, dataset, budget_w, lost, beside)


def _cost(choice: TrainingChoice, objective: Objective) -> float:
    return choice.time_s if objective == "time" else choice.energy_j or math.nan


def zeus_rows() -> Iterator[tuple[str, str, str]]:
    """Yield the same ratios on measured GPUs: BERT chosen by the epochs of another data set."""
    if not ZEUS.is_dir():
        yield "zeus", "-", "not here: no folder of public measurements"
        return
    objectives: tuple[tuple[Objective, str], ...] = (("time", "1.5 to 2.4 (table 2)"), ("energy", "up to 2 (fig 4)"))
    for objective, theirs in objectives:
        cases = list(zeus_cases(ZEUS, objective))
        lost = statistics.fmean(case.lost for case in cases)
        ratios = [
            _cost(case.comparison.largest_batch, objective) / _cost(case.comparison.answer, objective)
            for case in cases
            if case.comparison.largest_batch is not None
        ]
        ours = f"mean {statistics.fmean(ratios):.2f}, max {max(ratios):.2f}; lost by the proxy: mean {lost:.2%}"
        yield f"BERT on V100 and P100, measured: baseline 1 / joint {objective}", theirs, ours


def load(folder: Path, seeds: int) -> list[Study]:
    """Return the study's tables in a folder, one for the epochs of each seed; those that it lacks are made."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = {
        name: et.profile(
            reference(folder, name), task="train", batch_sizes=list(sizes), device="twin:orin-agx", modes=CLOCKS,
            output=str(folder / f"{name}.parquet"),
        ).rows
        for name, sizes in NETWORKS.items()
    }  # fmt: skip
    epochs: list[dict[tuple[str, str], Epochs]] = [{} for _ in range(seeds)]
    for proxy, datasets in EPOCHS.items():
        for dataset, target in datasets:
            made_here = {"manual": manual_text, "gratings": gratings}.get(dataset)
            name = dataset if made_here is None else str(made_here(folder))
            made = et.profile(
                f"proxy:{proxy}", convergence=True, dataset=name, target_accuracy=target, batch_sizes=list(SIZES),
                seeds=seeds, output=str(folder / f"{proxy}-{dataset}.parquet"),
            )  # fmt: skip
            for place, seed in enumerate(sorted({row.seed for row in made.rows})[:seeds]):
                of_seed = replace(made, rows=tuple(row for row in made.rows if row.seed == seed))
                epochs[place][proxy, dataset] = epochs_of(of_seed).by_batch
    rows = {name: [replace(row, workload=name) for row in each] for name, each in rows.items()}
    return [Study(rows, each, limits(rows)) for each in epochs]


def reference(folder: Path, network: str) -> str:
    """Return the file of a network: one of the zoo for images of 32 x 32, or the study's transformer."""
    path = folder / f"{network}.onnx"
    if network != "transformer" and not path.exists():
        import onnx

        from edgetune.workloads import zoo
        from edgetune.workloads.graph_builder import GraphBuilder

        graph = GraphBuilder(network)
        pixels = graph.input("pixels", ("batch", 3 * 32 * 32), "float32")  # in memory: no file to decode
        image = graph.reshape("image", pixels, (0, 3, 32, 32))
        onnx.save(zoo.with_weights(graph.model(zoo.network(network).build(graph, image), {})), path)
    elif not path.exists():
        import torch

        from edgetune.stages.profiling.convergence.training import NextTokenTransformer

        network_6 = NextTokenTransformer(96, 96, 64, layers=6, heads=6, width=256)
        open_batch = {"tokens": {0: "batch"}, "scores": {0: "batch"}}
        torch.onnx.export(
            network_6, (torch.zeros(2, 64, dtype=torch.int64),), str(path), dynamo=False, input_names=["tokens"],
            output_names=["scores"], dynamic_axes=open_batch, opset_version=17,
        )  # fmt: skip
    return str(path)


def manual_text(folder: Path) -> Path:
    """Return a file with the text of the manual's pages."""
    path = folder / "manual.txt"
    if not path.exists():
        pages = sorted(Path(et.__file__).with_name("manual").glob("*.md"))
        path.write_text("\n".join(page.read_text() for page in pages))
    return path


def gratings(folder: Path) -> Path:
    """Return a file of drawn images ``[samples, 1, 16, 16]``: noisy waves in four directions, fine and coarse.

    Directions are 45 degrees apart and off by up to 15; the phase is random. 4,096 images are to learn from, 1,024 are
    held out.
    """
    path, samples, random = folder / "gratings.npz", 5120, np.random.default_rng(0)
    if path.exists():
        return path
    labels = random.integers(8, size=samples)
    angle = np.radians(45.0 * (labels % 4) + random.uniform(-15, 15, samples))[:, None, None]
    wavelength = np.where(labels < 4, 0.5, 0.7)[:, None, None] * random.uniform(0.9, 1.1, (samples, 1, 1))
    phase = random.uniform(0, 2 * np.pi, (samples, 1, 1))
    x, y = np.meshgrid(*[np.linspace(-1, 1, 16)] * 2)
    images = np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / wavelength + phase)
    images = (images + random.normal(0, 1.7, images.shape))[:, None]
    np.savez(path, x=images[:4096], y=labels[:4096], x_test=images[4096:], y_test=labels[4096:])
    return path


def _three(values: Sequence[float]) -> str:
    return f"[{', '.join(f'{value:.2f}' for value in values)}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the tables, which are made when they are missing")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    studies = load(asked.folder, asked.seeds)
    study = studies[0]
    print("SIMULATED: time and power of ours come from a model, but for the rows of zeus; epochs are measured.")
    watts = ", ".join("none" if each is None else f"{each:.1f} W" for each in study.limits_w)
    print(f"limits of peak power: theirs 4.5 W, 7 W, none; ours {watts}\n")
    print("figure | theirs | ours")
    ours = over_seeds([[*table_rows(each), *figure_rows(each)] for each in studies])
    for row in (*ours, *nano_rows(), *zeus_rows()):
        print(" | ".join(row))


if __name__ == "__main__":
    main()
