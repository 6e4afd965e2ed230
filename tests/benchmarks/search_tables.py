"""Print how near a search comes to the optimum on tables of real boards and of made-up ones, and which goals it meets.

    python tests/benchmarks/search_tables.py --data FOLDER

Every table is searched for power budgets from the 2 % to the 98 % quantile of its power, with five points for one or
two knobs and ten for more. The tables are:

- the twin's 441 modes for five training networks, made here and kept in the cache;
- of the folder of public measurements FlexiBO (times of a Jetson TX2, power from ``flexibo_power_w``), LoudVA (Jetson
  Xavier NX and Nano), Zeus (batch size x power limit on two GPUs), and a Titan X, an A100 and a V100;
- families of made-up boards whose power or time is unlike what a physical model expects.

Every table of a family has 13 CPU clocks x 11 GPU clocks x 8 memory clocks, and deviates from its formula: smoothly by
4 % of the time and 2.5 % of the power, and by about 0.5 % at each point. Saws have 8 x 13 x 11 and deviate by 10 % and
4 %, a tenth of the variance at each point by itself. Family and seed decide all figures. Seeds below 100 are for
tuning, ``--seeds 100-111`` are for the verdict.

``--points 6,8,10,20`` prints the figures of each number of points, and those of the manual. ``--at-once 4`` asks for
four points before any is measured, as for four boards, with 1.3 times as many points. ``--like`` searches every table
with the other tables of its board as relatives: without any, with one, with all.
``--large`` times a search among the 18,096 modes of an Orin AGX instead.
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from edgetune.artifacts.evaluation import EvaluationRun
from edgetune.artifacts.io import read_profile
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.twin.device import open_twin
from edgetune.processes.worker_pool import worker_pool
from edgetune.stages.search.evaluation.answering import Contender, StrategyAnswers, search_one
from edgetune.stages.search.evaluation.cases import EvaluationCase
from edgetune.stages.search.evaluation.problems import Measured, ProblemSet, best_answers
from edgetune.stages.search.evaluation.results import Merit, merits
from edgetune.stages.search.evaluation.runner import judged_run
from edgetune.stages.search.space import offered_space
from edgetune.stages.search.strategies import roofline
from edgetune.stages.search.strategy import PointResult

TWIN_NETWORKS = ("mobilenet_v3_large", "resnet18", "yolov8n", "bert_base", "lstm")
AT_ONCE_COST = 1.3
"""Number of points of a search that asks for several at once, relative to one at a time."""
SEEDS = 4
"""Tables of each made-up family."""


Array = npt.NDArray[np.float64]
Figures = tuple[Array, Array]
"""Time of each mode, in tenths of a second, and its power, W."""

GRID = {"cpu_mhz": (102, 2035, 13), "gpu_mhz": (114, 1300, 11), "mem_mhz": (204, 1866, 8)}
"""Lowest clock, highest clock, number of clocks."""
USUAL_SDS = (0.04, 0.005), (0.025, 0.006)
"""Standard deviations of log time and of log power from their formulas: smooth ones, and at each point by itself."""
USUAL_SHARES = np.array([0.6, 0.3, 0.3, 0.05])
"""Time at full clocks that needs the GPU, the memory and the CPU, and time that needs no clock."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of every mode as shares of the highest, and their places from 0 to 1, shape (modes, 3)."""

    cpu: Array
    gpu: Array
    mem: Array
    places: Array

    @classmethod
    def of(cls, cpu: Array, gpu: Array, mem: Array) -> Clocks:
        """Return the clocks of these modes, in any unit; a place is halfway between the linear and the logarithmic."""
        shares = [clock / clock.max() for clock in (cpu, gpu, mem)]
        places = [(np.log(x / x.min()) / np.log(1 / x.min()) + (x - x.min()) / (1 - x.min())) / 2 for x in shares]
        return cls(*shares, np.stack(places, axis=1))

    def levels(self, knob: int) -> npt.NDArray[np.intp]:
        """Return the level of each mode on the CPU, GPU or memory clock, counted from 0."""
        return np.unique((self.cpu, self.gpu, self.mem)[knob], return_inverse=True)[1]


@dataclass(frozen=True, slots=True)
class Program:
    """The shares of a program's time at full clocks, and the norm that joins them: 1 adds, a large one overlaps."""

    shares: Array
    norm: float

    @classmethod
    def drawn(cls, random: np.random.Generator) -> Program:
        """Return a program with random shares."""
        return cls(np.exp(random.normal(size=4) * 0.7) * USUAL_SHARES, math.exp(random.normal(math.log(3), 0.3)))

    def parts(self, clocks: Clocks) -> tuple[Array, Array, Array]:
        """Return the time that each of GPU, memory and CPU needs alone."""
        gpu, mem, cpu, _ = self.shares
        return gpu / clocks.gpu, mem / clocks.mem, cpu / clocks.cpu

    def time(self, clocks: Clocks) -> Array:
        """Return the time of each mode."""
        joined = sum(part**self.norm for part in self.parts(clocks)) + self.shares[3] ** self.norm
        return np.asarray(joined ** (1 / self.norm))

    def figures(self, clocks: Clocks) -> Figures:
        """Return time and power: a static part, and of every block clock x voltage squared, idle and busy."""
        time = self.time(clocks)
        gpu, mem, cpu = (np.minimum(1, part / time) for part in self.parts(clocks))
        gpu_w = _switching(clocks.gpu) * (0.5 + 4 * gpu)
        cpu_w = _switching(clocks.cpu) * (0.6 + 2 * cpu)
        return time, 2 + clocks.mem * (0.5 + 1.2 * mem) + gpu_w + cpu_w


def falls(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """Power falls by 18 to 40 % from the lowest to the highest value of one knob, and grows with the others.

    It stands for boards on which one faster block lets the others sleep, or whose regulators waste less when loaded.
    """
    knob = random.integers(3)
    name = ("cpu", "gpu", "mem")[knob]
    _, power_w = program.figures(replace(clocks, **{name: np.full_like(clocks.cpu, 0.5)}))
    return program.time(clocks), power_w * np.exp(-random.uniform(0.2, 0.5) * clocks.places[:, knob])


def steps(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """Power jumps at three values of one knob; with an odd seed, a jump may go down.

    It stands for rails with few voltages, and for firmware that switches blocks on.
    """
    time, power_w = program.figures(clocks)
    clock = (clocks.cpu, clocks.gpu, clocks.mem)[random.integers(3)]
    places = np.sort(random.uniform(0.15, 0.9, 3))
    jumps_w = random.uniform(0.05, 0.3, 3) * power_w.mean()
    if seed % 2:
        jumps_w = jumps_w * random.choice([1, 1, -0.4], 3)
    jumped_w = sum(jump_w * (clock > place) for jump_w, place in zip(jumps_w, places, strict=True))
    return time, np.maximum(0.7 * power_w + jumped_w, 0.8)


def cpu_bound(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """The CPU takes all the time, and the GPU clock changes nothing but the power that the idle GPU draws.

    It stands for data loading, and for small networks whose launches take longer than their kernels.
    """
    power_w = 2.2 + 0.3 * clocks.mem + 0.25 * clocks.gpu + 0.6 * _switching(clocks.cpu)
    return Program(np.array([0, 0.05, 1.0, 0.1]), program.norm).time(clocks), power_w


def dead_memory(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """The memory clock does not change the time: a program that stays in the caches, or a knob that does nothing."""
    shares = program.shares.copy()
    shares[1] = 0
    return Program(shares, program.norm).figures(clocks)


def one_core(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """One CPU core takes all the time, and a higher CPU clock draws more or less power, in jumps of a random walk.

    It stands for a measured board on which two steps more of the CPU clock drew 0.3 to 0.4 W less of 3 W, so that the
    optimum of a low budget has a high CPU clock.
    """
    levels = clocks.levels(0)
    jumps_w = np.cumsum(random.normal(-0.03, 0.12, levels.max() + 1))[levels]
    power_w = 2.6 + 0.5 * clocks.mem + 0.9 * clocks.gpu**1.5 + 0.35 * clocks.cpu + jumps_w
    return Program(np.array([0.02, 0.05, 1.0, 0.05]), 2.0).time(clocks), np.maximum(power_w, 1.5)


def saw(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """Power falls by 10 to 20 % from one level of one knob to the next, and grows with every clock elsewhere.

    It stands for measured boards on which one more core, or the next operating point, leaves a slower voltage.
    """
    knob = random.integers(3)
    time, power_w = program.figures(clocks)
    return time, _fallen(power_w, clocks.levels(knob), random)


def saw_bound(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """The same along the knob that takes most of the time, and along which power grows little elsewhere."""
    knob = random.integers(3)
    shares = 0.3 * USUAL_SHARES * np.exp(0.5 * random.normal(size=4))
    shares[(2, 0, 1)[knob]] = 1.0
    cpu_w, gpu_w, mem_w = np.where(np.arange(3) == knob, 0.6, [0.5, 0.9, 0.5]) * np.exp(0.3 * random.normal(size=3))
    power_w = 2.4 + cpu_w * clocks.cpu + gpu_w * clocks.gpu**1.5 + mem_w * clocks.mem
    return Program(shares, program.norm).time(clocks), _fallen(power_w, clocks.levels(knob), random)


def cliff(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """Below the lowest one or two levels of one knob, everything takes two to four times as long.

    It stands for a lowest operating point that was not made for work.
    """
    time, power_w = program.figures(clocks)
    slow = clocks.levels(random.integers(3)) < random.integers(1, 3)
    return time * np.where(slow, random.uniform(2, 4), 1.0), power_w


def _fallen(power_w: Array, levels: npt.NDArray[np.intp], random: np.random.Generator) -> Array:
    """Return power whose median falls by 10 to 20 % from the level before a random one; at least one rise precedes."""
    first, fall = random.integers(2, levels.max() + 1), random.uniform(0.1, 0.2)
    before_w, after_w = (float(np.median(power_w[levels == level])) for level in (first - 1, first))
    return np.where(levels >= first, power_w * (1 - fall) * before_w / after_w, power_w)


FAMILIES: dict[str, Callable[[Clocks, Program, np.random.Generator, int], Figures]] = {
    "falls": falls,
    "steps": steps,
    "cpu-bound": cpu_bound,
    "dead-memory": dead_memory,
    "one-core": one_core,
    "saw": saw,
    "saw-bound": saw_bound,
    "cliff": cliff,
}
ROUGH = ("saw", "saw-bound")
"""Families that deviate from their formulas by far more than the others, and on a grid of other counts."""
ROUGH_GRID = {"cpu_mhz": (345, 2035, 8), "gpu_mhz": (114, 1300, 13), "mem_mhz": (204, 1866, 11)}


def family_table(family: str, seed: int) -> list[ProfileRow]:
    """Return a table of a family."""
    random = np.random.default_rng([seed, sum(map(ord, family))])
    rough = family in ROUGH
    knobs = {name: np.linspace(*spread).round() for name, spread in (ROUGH_GRID if rough else GRID).items()}
    modes = _modes(knobs)
    clocks = Clocks.of(*modes.values())
    time, power_w = FAMILIES[family](clocks, Program.drawn(random), random, seed)
    (time_sd, own_time_sd), (power_sd, own_power_sd) = ((0.095, 0.032), (0.038, 0.013)) if rough else USUAL_SDS
    time = time * np.exp(_smooth(clocks, random, time_sd) + random.normal(size=len(time)) * own_time_sd)
    power_w = power_w * np.exp(_smooth(clocks, random, power_sd) + random.normal(size=len(time)) * own_power_sd)
    return _rows(modes, 0.1 * time, power_w)


def large_table() -> list[ProfileRow]:
    """Return a table of the 18,096 modes of the twin of an Orin AGX, with the figures of one program."""
    modes = _modes({name: np.array(values) for name, values in open_twin("twin:orin-agx").modes.space.knobs.items()})
    clocks = Clocks.of(modes["cpu_mhz"] * np.sqrt(modes["cpu_cores"]), modes["gpu_mhz"], modes["mem_mhz"])
    time, power_w = Program(USUAL_SHARES, 3.0).figures(clocks)
    return _rows(modes, 0.1 * time, 5 * power_w)


def _switching(clock: Array) -> Array:
    """Return clock x voltage squared; the voltage rises linearly from 0.6 to 1."""
    return clock * (0.6 + 0.4 * clock) ** 2


def _smooth(clocks: Clocks, random: np.random.Generator, sd: float) -> Array:
    """Return a random smooth function of the places: a Gaussian process of length 0.4, as 64 cosines."""
    waves, phases = random.normal(size=(64, 3)) / 0.4, random.uniform(0, 2 * np.pi, 64)
    return np.asarray(sd * np.sqrt(2 / 64) * np.cos(clocks.places @ waves.T + phases).sum(axis=1))


def _modes(knobs: dict[str, Array]) -> dict[str, Array]:
    """Return the value of each knob in every mode of the full grid."""
    grids = np.meshgrid(*knobs.values(), indexing="ij")
    return {name: grid.ravel().astype(float) for name, grid in zip(knobs, grids, strict=True)}


def _rows(modes: dict[str, Array], times_s: Array, powers_w: Array) -> list[ProfileRow]:
    values = [
        dict(zip(modes, mode, strict=True)) for mode in zip(*(each.tolist() for each in modes.values()), strict=True)
    ]
    return [
        ProfileRow("net", "train", 16, float(time_s), power_w=float(power_w), **knobs)
        for time_s, power_w, knobs in zip(times_s, powers_w, values, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Table:
    """A fully measured table.

    Args:
        name: Its name; the first word is the family.
        board: The board that it shares with its relatives; empty for a table without any.
        rows: Its points.
    """

    name: str
    board: str
    rows: tuple[ProfileRow, ...]

    @property
    def family(self) -> str:
        """The first word of the name."""
        return self.name.split()[0]


def all_tables(data: Path, cache: Path, only: str, seeds: Iterable[int]) -> list[Table]:
    """Return the tables whose name contains ``only``; those of the twin are made where the cache lacks them."""
    made = [*public_tables(data), *twin_tables(cache, only)]
    made += [
        Table(f"{family} {seed}", "", tuple(family_table(family, seed)))
        for family, seed in product(FAMILIES, seeds)
        if only in f"{family} {seed}"
    ]
    named = [replace(table, rows=tuple(replace(row, workload=table.name) for row in table.rows)) for table in made]
    return [table for table in named if only in table.name]


def twin_tables(folder: Path, only: str) -> Iterator[Table]:
    """Yield the tables of the twin."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (name for name in TWIN_NETWORKS if only in f"twin {name}"):
        path = folder / f"train-{name}.parquet"
        if not path.exists():
            command = [sys.executable, "-c", "from edgetune.cli.main import main; main()", "profile", f"zoo:{name}"]
            command += ["--task", "train", "--batch-sizes", "16", "--device", "twin:orin-agx"]
            subprocess.run([*command, "--modes", "grid:441", "-o", str(path)], check=True, capture_output=True)
        yield Table(f"twin {name}", "twin", _training(path))


def public_tables(data: Path) -> Iterator[Table]:
    """Yield the measurements of others."""
    for path in sorted((data / "flexibo").glob("*.csv")):
        rows = tuple(replace(row, power_w=flexibo_power_w(row)) for row in _training(path))
        yield Table(f"flexibo {path.stem[4:]}", "flexibo", rows)
    for path in sorted((data / "loudva").glob("*.csv")):
        yield Table(f"loudva {path.stem}", "", _training(path))
    for path in sorted((data / "zeus").glob("*_epochs.csv")):
        yield from zeus_tables(path)
    for path in sorted((data / "titanx_a100_v100").glob("*.csv")):
        yield Table(f"gpu {path.stem}", path.stem.split("_")[0], _training(path))


def _training(path: Path) -> tuple[ProfileRow, ...]:
    """Return the rows of a table as those of training: a search for the shortest time within a power budget."""
    return tuple(replace(row, task="train") for row in read_profile(str(path)).rows)


def flexibo_power_w(row: ProfileRow) -> float:
    """Return a made-up power, W, for a time-only table: 2 W static, clocks cubed (half linear), CPU cores counted."""
    g, m = (row.gpu_mhz or 0) / 1300.5, (row.mem_mhz or 0) / 1866.0
    f, c = (row.cpu_mhz or 0) / 2035.2, (row.cpu_cores or 0) / 4
    return 2.0 + 5.0 * (0.5 * g + 0.5 * g**3) + 1.5 * m + 4.0 * c * (0.4 * f + 0.6 * f**3)


def zeus_tables(path: Path) -> Iterator[Table]:
    """Yield a table per network and optimiser; a minibatch has its share of an epoch of 100,000 samples."""
    groups: dict[str, list[ProfileRow]] = defaultdict(list)
    with path.open() as file:
        for line in csv.DictReader(file):
            batch, limit_w = int(line["batch_size"]), float(line["power_limit_w"])
            row = ProfileRow(line["workload"], "train", batch, float(line["epoch_s"]) * batch / 1e5)
            row = replace(row, power_limit_w=limit_w, power_w=float(line["power_w"]))
            groups[f"{line['workload']} {line['optimizer']}"].append(row)
    for name, rows in groups.items():
        yield Table(f"zeus {path.stem[:4]} {name}", f"zeus {path.stem[:4]}", tuple(rows))


def case_of(table: Table, budgets: int, relatives: Sequence[Table] = ()) -> EvaluationCase:
    """Return the case of a table, with so many power budgets and these tables as relatives."""
    rows = {row.point: row for row in table.rows if row.status == "ok"}
    space = offered_space(Problem("train"), rows)
    measured = Measured.of(space, rows)
    drawn_w = measured.power_w[np.isfinite(measured.power_w)]
    budgets_w = np.unique(np.quantile(drawn_w, np.linspace(0.02, 0.98, budgets)).round(4))
    nothing = np.full(len(budgets_w), np.nan)
    known = tuple(row for relative in relatives for row in relative.rows)
    problems = ProblemSet(Problem("train"), budgets_w, nothing, nothing)
    return EvaluationCase(
        "train", table.name, table.board, table.name, None, "auto", problems, space, rows, measured, known
    )


@dataclass(frozen=True, slots=True)
class Job:
    """The searches of one table, and the numbers of points to judge them by; ``kind`` names its relatives."""

    table: Table
    kind: str
    relatives: tuple[Table, ...]
    strategy: str
    points: tuple[int, ...]
    budgets: int
    at_once: int = 1

    def run(self) -> list[Searches]:
        """Search for every budget; a search of fewer points is the beginning of the longest one."""
        case = case_of(self.table, self.budgets, self.relatives)
        best, numbers = best_answers(case.measured, case.problems), np.arange(len(case.problems))
        sample_s = case.measured.minibatch_s / case.measured.batch_size
        settings = Contender(self.strategy, max(self.points), self.at_once).settings(0, 0.0, case.relatives)
        asked, own_s, held = [], [], []
        for number in numbers:
            _held.clear()
            _, points, spent_s = search_one(case, int(number), case.rows.__getitem__, settings)
            asked.append([case.space.rows[case.space.levels[point]] for point in points])
            own_s.append(spent_s)
            held.append(list(_held))  # of every point but the first
        found = []
        for count in self.points:
            answers = replace(StrategyAnswers.none("", len(numbers)), strategy_s=np.array(own_s))
            for number, rows in enumerate(asked):
                first = np.array(rows[:count], dtype=np.intp)
                within = first[case.measured.power_w[first] <= case.problems.power_budget_w[number]]
                answers.rows[number] = within[sample_s[within].argmin()] if len(within) else -1
                answers.points[number] = len(rows)
            run = judged_run(case, best, numbers, answers, (self.strategy, count, 0))
            kind = self.kind or (str(count) if len(self.points) > 1 else "")
            kept = [each for few in held for each in few[: count - 1]]
            found.append(Searches(self.table.family, self.table.name, kind, [run], kept))
        return found


@dataclass(slots=True)
class Searches:
    """The searches of one table or of several, and their figures.

    Args:
        family, name, kind: Of the tables.
        runs: The runs.
        held: For each prediction, whether the 80 % intervals of time and power held what was measured.
    """

    family: str
    name: str
    kind: str
    runs: list[EvaluationRun] = field(default_factory=list)
    held: list[tuple[bool, bool]] = field(default_factory=list)

    @property
    def merit(self) -> Merit:
        """The figures of the runs together."""
        return merits(self.runs, lambda run: "")[0]

    @property
    def far(self) -> int:
        """The number of budgets that cost more than 15 %."""
        return int(sum((run.excess > 0.15).sum() for run in self.runs))

    @property
    def suggestion_s(self) -> float:
        """Computation per suggestion, s."""
        return float(
            sum(run.strategy_s.sum() for run in self.runs) / max(sum(run.points.sum() for run in self.runs), 1)
        )

    @property
    def held_shares(self) -> tuple[float, float]:
        """Shares of the 80 % intervals of time and of power that held; NaN for a strategy that has none."""
        time, power = np.mean(self.held, axis=0) if self.held else (math.nan, math.nan)
        return float(time), float(power)

    @property
    def unsolved(self) -> int:
        """The number of solvable budgets without an answer."""
        return self.merit.solvable - self.merit.solved

    def line(self) -> str:
        """Return a line of the table."""
        merit = self.merit
        figures = "".join(f"{100 * value:8.2f}" for value in (merit.mean, merit.p90, merit.worst))
        intervals = "/".join("-" if math.isnan(share) else f"{100 * share:.0f}" for share in self.held_shares)
        return (
            f"{_cut(self.name):36}{self.kind:5}{f'{merit.solved}/{merit.solvable}':>10}{merit.violations:5}{figures}"
            f"{self.far:6}{intervals:>8}{1e3 * self.suggestion_s:6.1f}"
        )


HEAD = f"{'table':36}{'like':5}{'solved':>10}{'over':>5}"
HEAD += f"{'mean %':>8}{'p90 %':>8}{'worst %':>8}{'>15 %':>6}{'in 80 %':>8}{'ms':>6}"


def _cut(name: str) -> str:
    return name if len(name) <= 35 else f"{name[:34]}~"


def joined(searches: Iterable[Searches]) -> list[Searches]:
    """Return the searches of each family and of all together, for each kind of relatives."""
    found: dict[tuple[str, str], Searches] = {}
    for each in searches:
        for name in (f"= {each.family}", "= all"):
            whole = found.setdefault((name, each.kind), Searches(each.family, name, each.kind))
            whole.runs += each.runs
            whole.held += each.held
    return sorted(found.values(), key=lambda each: each.name == "= all")


_held: list[tuple[bool, bool]] = []
"""Whether the 80 % intervals held, in this process."""
LEAST_SD = 0.01
"""Standard deviation added to a prediction: an interval need not tell differences of a per cent apart."""


def keep_predictions() -> None:
    """Let the searches of one workload in this process record whether each measured point was within its interval.

    The public interface has means only, so this reads the beliefs of ``roofline``. Several points at once are told what
    was predicted of them too, so that nothing can be recorded.
    """
    searcher = roofline._RooflinePoints
    tell = searcher.tell

    def recording(self: roofline._RooflinePoints, point: Point, result: PointResult) -> None:
        if self._measured and result.minibatch_s and result.power_w:
            row = np.array([self._space.rows[self._space.levels[point]]])
            of_time, of_power, belief = self._beliefs.parts(row)
            figures = (
                (of_time, result.minibatch_s, belief.log_time, belief.time_sd),
                (of_power, result.power_w, belief.log_power, belief.power_sd),
            )
            time, power = (
                float(weights @ ndtr((math.log(value) - mean.ravel()) / np.hypot(sd.ravel(), LEAST_SD)))
                for weights, value, mean, sd in figures
            )
            _held.append((0.1 <= time <= 0.9, 0.1 <= power <= 0.9))
        tell(self, point, result)

    searcher.tell = recording  # type: ignore[method-assign]


def jobs_of(tables: Sequence[Table], options: argparse.Namespace) -> Iterator[Job]:
    """Yield the searches of every table; with ``--like``, without, with one and with all relatives."""
    for table in tables:
        others = [other for other in tables if other.board and other.board == table.board and other != table]
        if options.like and not others:
            continue
        after = [other for other in others if tables.index(other) > tables.index(table)]
        kinds = {"none": (), "one": ((after or others)[0],), "all": tuple(others)} if options.like else {"": ()}
        knobs = len(offered_space(Problem("train"), [row.point for row in table.rows]).axes)
        counts = options.points or [4 if options.like else 5 if knobs <= 2 else 10]
        cost = AT_ONCE_COST if options.at_once > 1 else 1
        points = tuple(math.ceil(count * cost) for count in counts)
        for kind, relatives in kinds.items():
            yield Job(table, kind, relatives, options.strategy, points, options.budgets, options.at_once)


def done(jobs: Sequence[Job], processes: int) -> Iterator[Searches]:
    """Yield the searches of every job, in their order; with 0 processes in this one, else with one thread in each."""
    begin = keep_predictions if all(job.at_once == 1 for job in jobs) else _held.clear
    if not processes:
        begin()
        yield from chain.from_iterable(map(Job.run, jobs))
        return
    with worker_pool(processes, begin) as pool:
        yield from chain.from_iterable(pool.map(Job.run, jobs))


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that is at most a limit in every table and family."""

    said: str
    figure: Callable[[Searches], float]
    limit: float

    def line(self, searches: Sequence[Searches]) -> str:
        """Return whether the goal is met, and where it is missed most."""
        missed = [each for each in searches if not self.figure(each) <= self.limit]
        if not missed:
            return f"met      {self.said}"
        most = max(missed, key=lambda each: (math.isnan(self.figure(each)), self.figure(each)))
        where = f"{most.name.removeprefix('= ')} {most.kind}".strip()
        return f"NOT MET  {self.said}: {len(missed)} of {len(searches)} above, {where} {self.figure(most):.2f}"


def _percent(name: str) -> Callable[[Searches], float]:
    """Return a function that gives a figure in per cent; 0 where nothing was solved, which another goal counts."""
    return lambda each: 0.0 if each.merit.solved == 0 else 100 * getattr(each.merit, name)


GOALS = (
    Goal("every solvable budget is solved", lambda each: each.unsolved, 0),
    Goal("no answer is over budget", lambda each: each.merit.violations, 0),
    Goal("mean at most 1 %", _percent("mean"), 1.0),
    Goal("p90 at most 3 %", _percent("p90"), 3.0),
    Goal("worst budget at most 15 %", _percent("worst"), 15.0),
)
WITH_RELATIVES = (
    *GOALS[:2],
    Goal("mean at most 2 %", _percent("mean"), 2.0),
    Goal("p90 at most 6 %", _percent("p90"), 6.0),
)
INTERVALS = (
    Goal("80 % intervals of time are off by at most 5 %", lambda each: 100 * abs(each.held_shares[0] - 0.8), 5.0),
    Goal("80 % intervals of power are off by at most 5 %", lambda each: 100 * abs(each.held_shares[1] - 0.8), 5.0),
)
LARGE = (Goal("18,096 modes: at most 50 ms a suggestion", lambda each: 1e3 * each.suggestion_s, 50.0),)


def goal_lines(tables: Sequence[Searches], wholes: Sequence[Searches]) -> Iterator[str]:
    """Yield a line per goal: over every table and family; intervals over all tables together."""
    rows = [*tables, *wholes]
    without = {each.name: each for each in rows if each.kind in ("", "none", "10")}
    related = [each for each in rows if each.kind in ("one", "all")]
    yield from (goal.line(related or list(without.values())) for goal in (WITH_RELATIVES if related else GOALS))
    if related:
        cost = Goal("mean at most 0.3 % worse than without", partial(_loss, without), 0.3)
        yield cost.line(related)
    yield from (goal.line([each for each in wholes if each.name == "= all"]) for goal in INTERVALS)


def family_lines(wholes: Sequence[Searches]) -> Iterator[str]:
    """Yield a line of the manual per family: mean, p90 and worst excess in per cent, at each number of points."""
    for family in dict.fromkeys(each.family for each in wholes if each.name != "= all"):
        merits_of = [each.merit for each in wholes if each.name == f"= {family}"]
        cells = ["/".join(f"{100 * value:.1f}" for value in (it.mean, it.p90, it.worst)) for it in merits_of]
        yield "".join(f"{cell:16}" for cell in [family, *cells]).rstrip()


def _loss(without: dict[str, Searches], each: Searches) -> float:
    return 100 * (each.merit.mean - without[each.name].merit.mean)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "../shared/data", metavar="FOLDER")
    parser.add_argument("--cache", type=Path, default=Path("build/search-tables"), help="where twin tables are kept")
    parser.add_argument("--strategy", default="roofline")
    parser.add_argument(
        "--points",
        type=lambda text: [int(word) for word in text.split(",")],
        help="points per search, or several such numbers; default: 5 or 10 by the knobs, 4 with --like",
    )
    parser.add_argument(
        "--seeds",
        type=lambda text: range(int(text.split("-")[0]), int(text.split("-")[-1]) + 1),
        default=range(SEEDS),
        help="tables of each made-up family, e.g. 100-111",
    )
    parser.add_argument(
        "--at-once",
        type=int,
        default=1,
        metavar="N",
        help="points asked for before one is measured, with 1.3 times as many points",
    )
    parser.add_argument("--budgets", type=int, default=25, metavar="N", help="power budgets per table")
    parser.add_argument("--only", default="", help="tables whose name contains this")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes, of one thread each; 0 for this one"
    )
    parser.add_argument("--like", action="store_true", help="with the other tables of the board as relatives")
    parser.add_argument("--large", action="store_true", help="time a search among 18,096 modes")
    return parser


def main() -> None:
    options = parser().parse_args()
    print(HEAD)
    if options.large:
        table = Table("orin 18,096", "", tuple(large_table()))
        (found,) = done([Job(table, "", (), options.strategy, ((options.points or [10])[0],), 3)], 1)
        print(found.line(), *(goal.line([found]) for goal in LARGE), sep="\n")
        return
    jobs = list(jobs_of(all_tables(options.data, options.cache, options.only, options.seeds), options))
    tables = []
    for each in done(jobs, options.jobs):
        print(each.line(), flush=True)
        tables.append(each)
    wholes = joined(tables)
    print(*(each.line() for each in wholes), "", *goal_lines(tables, wholes), sep="\n")
    if options.points and len(options.points) > 1:
        print("", *family_lines(wholes), sep="\n")


if __name__ == "__main__":
    main()
