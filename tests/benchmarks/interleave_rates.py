"""Changing rates in simulated time: a trace of two hours on a twin, followed by the planner.

    python tests/benchmarks/interleave_rates.py [--rates FILE] [--hours 2] [--window 300] [--spacing uniform]
                                                [--only N] [--seed 0] [--steps]

For every pair of networks the search plans for the first window, on a grid of 441 modes. From then on the run is told
nothing of the rates: it sees requests. Before each window all points of the grid are looked up: where none answers in
time at its rate, no configuration exists, and violations are forgiven; those in the wake of such a window are counted
apart, until the first request that is answered in time again. Beside it runs one that knows every rate beforehand and
every point, and changes at the very edges of the windows: what is possible.

FILE tells rates, or when requests arrived; those are counted in so many windows as the hours have. Without it the rates
are those of a made-up day: a slow rise and fall, with some steps to the double and to a half.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgetune.artifacts.arrivals import read_arrivals
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.run import RunRow
from edgetune.devices.device import Device
from edgetune.errors import InfeasibleError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.stages.interleave.cycle import CycleGoals
from edgetune.stages.interleave.cycle_choice import CycleChooser, TenantNames
from edgetune.stages.interleave.engines import ENGINES
from edgetune.stages.interleave.loop import InterleaveLoop
from edgetune.stages.interleave.power import Budgets
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.workflows.device_option import open_named
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.interleave.planning import InterleaveJob, choose_tenants
from edgetune.workflows.interleave.points import INFER_SIZES, TRAIN_SIZE, Measuring, TenantMeasurements
from edgetune.workflows.interleave.tenants import TenantSpec
from edgetune.workflows.interleave.turns import InterleaveSetup, Turns
from edgetune.workflows.parse_options import choose_modes, profile_options
from edgetune.workflows.profile.options import PointOptions
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.resolve import resolve

NS = 1_000_000_000
GRID = "grid:441"


@dataclass(frozen=True)
class Pair:
    """Two networks, budgets, and the range that the rates of the trace are scaled to, 1/s."""

    infer: str
    train: str
    latency_budget_s: float
    power_budget_w: float
    rates_per_s: tuple[float, float]


PAIRS = (
    Pair("mobilenet_v2", "resnet18", 0.4, 30.0, (20.0, 180.0)),
    Pair("mobilenet_v2", "mobilenet_v2", 0.3, 40.0, (30.0, 90.0)),
    Pair("resnet18", "mobilenet_v2", 0.5, 25.0, (10.0, 60.0)),
    Pair("resnet50", "resnet18", 1.0, 25.0, (5.0, 60.0)),
    Pair("squeezenet", "resnet18", 0.5, 20.0, (20.0, 300.0)),
)


class Clairvoyant:
    """Changes to the best of all points at the edges of the windows."""

    def __init__(self, names: TenantNames, choices: CycleChooser, rates: Sequence[float], window_s: float) -> None:
        self._names, self._choices, self._rates, self._window_ns = names, choices, rates, round(window_s * NS)
        self._next = 0

    def due_ns(self) -> int | None:
        return self._next * self._window_ns

    def on_arrival(self, tenant: str, at_ns: int) -> None:
        """It knows beforehand."""

    def on_row(self, row: RunRow) -> None:
        """It knows beforehand."""

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        rate = self._rates[self._next % len(self._rates)]
        self._next += 1
        cycle = self._choices.best(rate).cycle
        loop.apply(cycle.infer.mode)
        loop.rebatch(self._names.infer, cycle.infer.batch_size, cycle.infer.minibatch_s)
        loop.pause_training(paused=cycle.train is None)
        if cycle.train is not None and self._names.train is not None:
            loop.re_estimate(self._names.train, cycle.train.minibatch_s)


class Foreseen(Turns):
    """Turns that are looked after by someone who knows the rates."""

    clairvoyant: Clairvoyant

    def _watchers(self, backend: object, stack: object = None) -> list[Clairvoyant]:  # type: ignore[override]
        return [self.clairvoyant]


@contextmanager
def held(device: Device, pair: Pair) -> Iterator[tuple[list[TenantMeasurements], Measuring]]:
    """Hold both networks ready to be measured."""
    infer = TenantSpec("answers", "infer", f"zoo:{pair.infer}", latency_budget_s=pair.latency_budget_s)
    train = TenantSpec("trains", "train", f"zoo:{pair.train}", batch_size=TRAIN_SIZE)
    known = [TenantMeasurements(asked, resolve(asked.reference)) for asked in (infer, train)]
    with closing(Measuring(device, known, lambda _: profile_options(PointOptions()))) as measure:
        yield known, measure


def points(known: Sequence[TenantMeasurements], modes: Sequence[Mode]) -> list[Point]:
    infer, train = (each.workload.name for each in known)
    found = [Point(infer, "infer", size, mode) for mode in modes for size in INFER_SIZES]
    return found + [Point(train, "train", TRAIN_SIZE, mode) for mode in modes]


def names_of(known: Sequence[TenantMeasurements]) -> TenantNames:
    infer, train = known
    return TenantNames(infer.asked.name, infer.workload.name, train.asked.name, train.workload.name, TRAIN_SIZE)


def planned_for(
    pair: Pair, known: Sequence[TenantMeasurements], modes: Sequence[Mode], measure: Measuring, spec: ArrivalSpec
) -> InterleaveJob:
    """Return what the search plans for the first window, with all batch sizes measured in its mode."""
    problem = Problem(
        "train+infer", latency_budget_s=pair.latency_budget_s, arrival_rate_per_s=spec.rates_per_s[0],
        power_budget_w=pair.power_budget_w, margin=0.05, background=known[1].workload.name,
        background_batch_size=TRAIN_SIZE,
    )  # fmt: skip
    mode = run_search(problem, points(known, modes), measure, SearchSettings("roofline")).plan.configuration.mode
    complete = []
    for each in known:
        rows = [measure(point) for point in points(known, [mode]) if point.task == each.asked.task]
        complete.append(TenantMeasurements(each.asked, each.workload, tuple(rows)))
    budgets = Budgets(((0.0, pair.power_budget_w),))
    planned = choose_tenants(complete, {"answers": spec}, [mode], budgets=budgets, best_effort=False, adapt=True)
    return replace(planned, tried=tuple(modes))


@dataclass
class Late:
    """Requests that were late, by the kind of window that they came in."""

    infeasible: int = 0
    wake: int = 0
    feasible: int = 0


def late_of(rows: Sequence[RunRow], feasible: Sequence[bool], window_s: float) -> Late:
    """Count requests that were late; see the head of this file for the wake of a window."""
    found, in_wake = Late(), False
    requests = sorted((row for row in rows if row.event == "request"), key=lambda row: row.arrived_s or 0.0)
    for row in requests:
        possible = feasible[min(int((row.arrived_s or 0.0) / window_s), len(feasible) - 1)]
        in_wake = not possible or (in_wake and not row.met)
        if row.met:
            continue
        if not possible:
            found.infeasible += 1
        elif in_wake:
            found.wake += 1
        else:
            found.feasible += 1
    return found


def trained_per_s(rows: Sequence[RunRow], duration_s: float) -> float:
    return sum(row.samples or 0 for row in rows if row.event == "train") / duration_s


def over_budget_s(rows: Sequence[RunRow], power_budget_w: float) -> int:
    """Return how many readings, one a second, were over the budget."""
    return sum(row.power_w is not None and row.power_w > power_budget_w for row in rows if row.event == "power")


def told(pair: Pair, rates: Sequence[float], window_s: float, spacing: str, seed: int, *, steps: bool) -> str:
    """Run a pair twice and return its line of the table."""
    device = open_named("twin:orin-agx", None, seed=seed)
    low, high = pair.rates_per_s
    least, most = min(rates), max(rates)
    scaled = tuple(low + (rate - least) * (high - low) / (most - least) for rate in rates)
    spec, duration_s = ArrivalSpec("trace", scaled, window_s, spacing), window_s * len(rates)
    modes = list(choose_modes(device, GRID).modes)
    with held(device, pair) as (known, measure):
        try:
            planned = planned_for(pair, known, modes, measure, spec)
        except InfeasibleError as error:
            return f"{pair.infer} {pair.train}: {error.message}"
        wanted = CycleGoals(pair.latency_budget_s, None, pair.power_budget_w)
        table: list[ProfileRow] = [measure(point) for point in points(known, modes)]
        everything = CycleChooser(names_of(known), table, wanted)
        grades = [everything.best(rate).grade for rate in scaled]
        feasible = [grade != "least" for grade in grades]
        opts = InterleaveOptions(duration=duration_s, seed=seed, adapt=True)
        setup = InterleaveSetup(opts, Reporter(), device, [ENGINES.find("simulated")], measure)
        rows = Turns(setup, planned).run().rows
        foreseen = Foreseen(setup, planned)
        foreseen.clairvoyant = Clairvoyant(names_of(known), everything, scaled, window_s)
        ideal = foreseen.run().rows
    plans = [row for row in rows if row.event == "plan"]
    if steps:
        print_steps(rows, list(zip(scaled, grades, strict=True)), window_s)
    tries = [row for row in plans if row.started_s is not None]
    exploring_s = math.fsum(row.finished_s - (row.started_s or 0.0) for row in tries)
    late, least_late = late_of(rows, feasible, window_s), late_of(ideal, feasible, window_s)
    requests = sum(row.event == "request" for row in rows)
    return (
        f"{pair.infer:13} {pair.train:13} {len(rates):7} {feasible.count(False):4} {len(plans) - len(tries):6} "
        f"{len(tries):6} {exploring_s / duration_s:9.2%} {requests:9} {late.infeasible:10} {late.wake:7} "
        f"{late.feasible:8} {least_late.feasible:8} {trained_per_s(rows, duration_s):9.1f} "
        f"{trained_per_s(ideal, duration_s):8.1f} {over_budget_s(rows, pair.power_budget_w):6}"
    )


def print_steps(rows: Sequence[RunRow], windows: Sequence[tuple[float, str]], window_s: float) -> None:
    """Print every window, change of plan and first late request of a second."""
    lines = [(place * window_s, f"-- {rate:.1f}/s {grade}") for place, (rate, grade) in enumerate(windows)]
    late: dict[int, list[RunRow]] = {}
    for row in rows:
        if row.event == "plan":
            mode = Mode(row.cpu_cores, row.cpu_mhz, row.gpu_mhz, row.mem_mhz)
            lines.append((row.finished_s, f"batch {row.batch_size} [{mode}] {row.reason}"))
        elif row.event == "request" and not row.met:
            late.setdefault(int(row.arrived_s or 0.0), []).append(row)
    for found in late.values():
        worst_s = max(row.finished_s - (row.deadline_s or 0.0) for row in found)
        lines.append((found[0].arrived_s or 0.0, f"** {len(found)} late by up to {worst_s * 1e3:.1f} ms"))
    for time_s, words in sorted(lines):
        print(f"  {time_s:8.2f} s  {words}")


def made_up(windows: int) -> list[float]:
    """Return the rates of a made-up day: between 0 and 1, with steps."""
    slow = [0.5 - 0.4 * math.cos(2 * math.pi * place / windows) for place in range(windows)]
    return [rate * (2.0 if place % 7 == 3 else 0.5 if place % 5 == 4 else 1.0) for place, rate in enumerate(slow)]


def rates_of(file: str | None, windows: int) -> list[float]:
    if file is None:
        return made_up(windows)
    arrivals = read_arrivals(file)
    if arrivals.rates:
        return list(itertools.islice(itertools.cycle(arrivals.values), windows))
    counts, edges = np.histogram(arrivals.values, bins=windows, range=(0.0, arrivals.values[-1]))
    return (counts / np.diff(edges)).tolist()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=str)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--window", type=float, default=300.0)
    parser.add_argument("--spacing", choices=("uniform", "poisson"), default="uniform")
    parser.add_argument("--only", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", action="store_true", help="print every change of plan")
    asked = parser.parse_args()
    rates = rates_of(asked.rates, round(asked.hours * 3600 / asked.window))
    source = Path(asked.rates).name if asked.rates else "made up"
    print(f"{source}: {len(rates)} windows of {asked.window:g} s, {asked.spacing} within; twin:orin-agx, {GRID}")
    print("answers       trains        windows none  plans  tried exploring  requests  late: none  in wake  feasible"
          " foreseen samples/s foreseen over s")  # fmt: skip
    for pair in PAIRS if asked.only is None else [PAIRS[asked.only]]:
        print(told(pair, rates, asked.window, asked.spacing, asked.seed, steps=asked.steps), flush=True)


if __name__ == "__main__":
    main()
