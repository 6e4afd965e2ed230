"""Compares strategies with the optimum of measured tables: from the options of ``search evaluate`` to its table.

The tables of an evaluation of strategies: read, and joined by device.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from edgetune.artifacts.arrivals import read_arrivals
from edgetune.artifacts.evaluation import KIND, VERSION, Evaluation, EvaluationRun
from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.io import from_bytes
from edgetune.artifacts.profile import RAW_COLUMNS, ProfileRow, Task
from edgetune.choices import choose
from edgetune.devices.recorded import RecordedTable
from edgetune.errors import InputError
from edgetune.stages.search.evaluation.answering import Contender, parse_contenders, require_solvers
from edgetune.stages.search.evaluation.cases import EvaluationCase, ProfiledWorkload, cases_of, stratified
from edgetune.stages.search.evaluation.dynamic import (
    MINIBATCHES,
    SETTLING_S,
    WINDOW_S,
    WINDOWS,
    bursty_rates,
    poisson_rates,
    repeated,
    run_windows,
    scaled,
    window_cases,
    window_rates,
)
from edgetune.stages.search.evaluation.problems import (
    PUBLISHED,
    STUDY_NETWORKS,
    STUDY_PAIRS,
    Family,
    GridName,
    Rows,
    best_answers,
)
from edgetune.stages.search.evaluation.runner import EvaluationConditions, EvaluationRunner
from edgetune.units import format_duration, parse_power_w, parse_rate_per_s, parse_share, parse_time_s
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.reporting import STOPS, Reporter, SimulationLabel, reporting_saved
from edgetune.workflows.search.options import FAMILIES, EvaluationOptions


@dataclass(frozen=True, slots=True)
class EvaluationTables:
    """The tables of an evaluation.

    Args:
        subjects: Every network and task on every device.
        inputs: Name and hash of each file, for the header.
        devices: Their names.
        simulated: Whether any figure comes from a model.
        data_warnings: Warnings, e.g. on points measured twice.
    """

    subjects: tuple[ProfiledWorkload, ...]
    inputs: tuple[dict[str, str], ...]
    devices: tuple[str, ...]
    simulated: bool
    data_warnings: tuple[DataWarning, ...]


def read_tables(sources: Sequence[str]) -> EvaluationTables:
    """Read profiles; profiles of one device form one table.

    Raises:
        InputError: a file is unreadable or not a profile.
    """

    rows: dict[str | None, list[ProfileRow]] = {}
    names: dict[tuple[str | None, str, Task], list[str]] = {}
    inputs: list[dict[str, str]] = []
    data_warnings: list[DataWarning] = []
    simulated = False
    for source in sources:
        data, name = read_source(source), name_of(source)
        profile = from_bytes(data, kind="profile", name=name)
        inputs.append({"name": name, "sha256": hashlib.sha256(data).hexdigest()})
        simulated = simulated or profile.header.simulated
        for row in profile.rows:
            device = row.device or (None if (of := profile.header.conditions.get("device")) is None else str(of))
            rows.setdefault(device, []).append(row)
            files = names.setdefault((device, row.workload, row.task), [])
            if name not in files:
                files.append(name)
    subjects: dict[tuple[str | None, str, Task], list[ProfileRow]] = {}
    no_samples: dict[str, Any] = dict.fromkeys(RAW_COLUMNS)
    for device, found in rows.items():
        table = RecordedTable.of(found, name=device or "the table")
        data_warnings += table.data_warnings
        for row in table.rows:
            slim = replace(row, **no_samples)  # worker processes get a copy, and need no raw readings
            subjects.setdefault((device, row.workload, row.task), []).append(slim)
    made = [ProfiledWorkload(" + ".join(names[key]), *key, tuple(found)) for key, found in subjects.items()]
    devices = tuple(sorted(device for device in rows if device is not None))
    return EvaluationTables(tuple(made), tuple(inputs), devices, simulated, tuple(data_warnings))


MEAN_PER_S = 60.0
"""Rate of dynamic problems where no requests are given."""
_SAMPLE = 5000

OnEvaluation = Callable[[Evaluation, Target], None]


@dataclass(frozen=True, slots=True)
class _Request:
    """A requested evaluation with its tables."""

    opts: EvaluationOptions
    family: str
    tables: EvaluationTables
    contenders: list[Contender]
    conditions: EvaluationConditions

    def evaluation(
        self, runs: list[EvaluationRun], said: dict[str, Any], counts: dict[str, int], *warnings: DataWarning
    ) -> Evaluation:
        """Return the artifact of runs, with the figures of the family and the number of problems."""
        tables, opts = self.tables, self.opts
        conditions = {
            **({"device": ", ".join(tables.devices)} if tables.devices else {}),
            "simulated": tables.simulated,
            "family": self.family,
            **said,
            "problems": counts,
            "strategies": opts.strategies,
            "seeds": opts.seeds,
            "noise": self.conditions.noise,
        }
        found = (*tables.data_warnings, *warnings)
        inputs = {"tables": list(tables.inputs)}
        return Evaluation(Header.new(KIND, VERSION, inputs=inputs, conditions=conditions, warnings=found), tuple(runs))


def evaluate(opts: EvaluationOptions, reporter: Reporter, on_evaluation: OnEvaluation = lambda *_: None) -> Evaluation:
    """Replay the problems and write the table; if interrupted, write the completed runs and raise.

    Args:
        opts: The options.
        reporter: Receives notes.
        on_evaluation: Called with the written table, also after an interruption.

    Raises:
        InputError: an option or a table is invalid.
    """
    _check(opts)
    target = choose_target(opts.output, "evaluation.parquet", last=True, stdout=reporter.stdout)
    check_outputs({"-o": target.file}, opts.tables, {"-o": "evaluation"})
    tables = read_tables(opts.tables)
    family = opts.family or _family_of(tables)
    contenders = parse_contenders(opts.strategies)
    answers = reporter.stdout == "answer" or target.path is None
    SimulationLabel(tables.simulated and answers, reporter).announce()
    for data_warning in tables.data_warnings:
        reporter.warn(data_warning)
    conditions = EvaluationConditions(
        opts.seeds, parse_share(opts.noise, what="--noise"), opts.jobs or len(os.sched_getaffinity(0))
    )
    request = _Request(opts, family, tables, contenders, conditions)
    if family == "dynamic":
        with reporting_saved(reporter, lambda: "nothing is kept: the table is written when all is replayed"):
            evaluation = _replayed_windows(request, reporter)
        _write(evaluation, target, reporter, on_evaluation)
        return evaluation
    runner, said, counts = _runner(request, reporter)
    stopped: BaseException | None = None
    try:
        with reporter.bar("replaying", runner.searches) as advance:
            runner.run(advance)
    except BaseException as error:
        if not runner.runs():
            if isinstance(error, STOPS):
                reporter.info("stopped; nothing was replayed yet")
            raise
        stopped = error
        reporter.info("stopped; this is what was replayed by then, and the same command starts over")
    evaluation = request.evaluation(runner.runs(), said, counts, *(() if stopped is None else (_stopped(runner),)))
    _write(evaluation, target, reporter, on_evaluation)
    if stopped is not None:
        raise stopped
    return evaluation


def _check(opts: EvaluationOptions) -> None:
    if opts.family is not None:
        choose(opts.family, FAMILIES, what="family")
    if opts.grid is not None:
        choose(opts.grid, ("fulcrum", "auto"), what="grid")
    choose(opts.by, ("strategy", "workload"), what="grouping")
    if opts.sample is not None and opts.everything:
        raise InputError("--sample and --all exclude each other", "leave one of them out")
    if (opts.arrivals or opts.scale) and opts.family != "dynamic":
        raise InputError("--arrivals and --scale: only for changing rates", "--family dynamic, or leave them out")


def _family_of(tables: EvaluationTables) -> str:
    tasks = sorted({subject.task for subject in tables.subjects})
    if len(tasks) == 1:
        return tasks[0]
    raise InputError("the tables have both training and inference", f"--family {' or '.join(FAMILIES[:4])}")


def _write(evaluation: Evaluation, target: Target, reporter: Reporter, on_evaluation: OnEvaluation) -> None:
    try:
        target.write(evaluation)
        target.report(reporter)
    finally:  # a full disk does not cost the answer
        on_evaluation(evaluation, target)


def _runner(request: _Request, reporter: Reporter) -> tuple[EvaluationRunner, dict[str, Any], dict[str, int]]:
    """Return the function that replays the problems, their grids, and their number."""
    opts, family, tables = request.opts, request.family, request.tables
    cases = cases_of(tables.subjects, cast("Family", family), grid=cast("GridName | None", opts.grid))
    require_solvers(cases, request.contenders)
    best = [best_answers(case.measured, case.problems) for case in cases]
    solvable = [np.flatnonzero(each.rows >= 0) for each in best]
    once = all(contender.measures_once for contender in request.contenders)
    whole, count = sum(len(case.problems) for case in cases), sum(map(len, solvable))
    if count == 0:
        raise InputError(f"no {family} problem has a solution in these tables", "--grid auto suits any table")
    sample = opts.sample if opts.sample is not None or once or opts.everything else _SAMPLE
    if sample is None or sample >= count:
        chosen: list[Rows] = [np.arange(len(case.problems)) for case in cases]
    else:
        chosen = stratified(cases, solvable, sample, seed=0)
    counts = {"all": whole, "solvable": count, "replayed": count if sample is None else min(count, sample)}
    for line in _describe_counts(family, cases, counts):
        reporter.info(line)
    grids = {"grids": sorted({case.grid for case in cases})}
    return EvaluationRunner(cases, best, chosen, request.contenders, request.conditions), grids, counts


def _describe_counts(family: str, cases: list[EvaluationCase], counts: dict[str, int]) -> list[str]:
    study = [case for case in cases if case.grid == "fulcrum"]
    complete = len(study) == len(STUDY_PAIRS.get(family, STUDY_NETWORKS["train"]))
    published = f" (the study: about {PUBLISHED[family]:,})" if complete else ""
    parts = [f"{case.label} {len(case.problems):,}" for case in cases]
    line = f"{family}: {counts['all']:,} problems{published}, {counts['solvable']:,} of them solvable; "
    listed = [f"problems by workload: {', '.join(parts)}"] if len(cases) > 1 else []
    background = {case.background: case.problems.base.background_batch_size for case in cases if case.background}
    sizes = ", ".join(f"{name} {size}" for name, size in background.items())
    listed += [f"background batch sizes: {sizes}"] if background else []
    return [f"{line}{counts['replayed']:,} are replayed", *listed]


def _stopped(runner: EvaluationRunner) -> DataWarning:
    done = sum(len(run.problem) for run in runner.runs())
    return DataWarning("stopped-early", "the evaluation was stopped; run it again for the rest", {"rows": float(done)})


def _replayed_windows(request: _Request, reporter: Reporter) -> Evaluation:
    """Replay a trace of requests in windows of five minutes with every contender.

    Raises:
        InputError: there is no inference table, the trace is invalid, or an option does not apply here.
    """
    opts, conditions, contenders = request.opts, request.conditions, request.contenders
    if opts.sample is not None or opts.everything or opts.grid is not None:
        raise InputError("--sample, --all and --grid: every window is replayed", "leave them out")
    power_w = parse_power_w(opts.power_budget, what="--power-budget")
    latency_s = parse_time_s(opts.latency_budget, what="--latency-budget")
    name, rates = _rates(opts)
    cases = window_cases(request.tables.subjects, rates, power_w, latency_s)
    require_solvers(cases, contenders)
    answers = [best_answers(case.measured, case.problems).rows.tolist() for case in cases]
    solvable = sum(rate > 0 and row >= 0 for rows in answers for rate, row in zip(rates, rows, strict=True))
    busy = sum(rate > 0 for rate in rates)
    whole = format_duration(len(rates) * WINDOW_S)
    reporter.info(f"{name}: {busy} windows with {min(rates):.3g} to {max(rates):.3g} requests per s, {whole} in all")
    reporter.info(f"{power_w:g} W and {1e3 * latency_s:g} ms: {solvable} of {busy * len(cases)} windows are solvable")
    if any(row.duration_s is None for case in cases for row in case.rows.values()):
        reporter.info(
            f"where a table does not say how long a measurement took: {MINIBATCHES} minibatches and {SETTLING_S:g} s"
        )
    with reporter.bar("replaying windows", None):
        runs = list(run_windows(cases, rates, contenders, conditions))
    counts = {"all": busy * len(cases), "solvable": solvable, "replayed": busy * len(cases)}
    return request.evaluation(runs, {"arrivals": name, "window_s": WINDOW_S}, counts)


def _rates(opts: EvaluationOptions) -> tuple[str, tuple[float, ...]]:
    """Return the name of the trace of requests, and the rate of each window, 1/s."""
    mean = None if opts.scale is None else parse_rate_per_s(opts.scale, what="--scale")
    if mean is not None and mean <= 0:
        raise InputError(f"--scale must be above zero, not {opts.scale}", "e.g. --scale 60/s")
    drawn = {"poisson": poisson_rates, "bursty": bursty_rates}.get(opts.arrivals or "poisson")
    if drawn is not None:
        name = (opts.arrivals or "poisson").capitalize()
        return f"{name}, {mean or MEAN_PER_S:g}/s", drawn(mean or MEAN_PER_S)
    assert opts.arrivals is not None
    arrivals = read_arrivals(opts.arrivals)
    rates = repeated(arrivals.values, WINDOWS) if arrivals.rates else window_rates(arrivals.values)
    if not any(rates):
        raise InputError(f"{arrivals.name}: no requests arrive at all", "give a trace with some")
    return (arrivals.name, rates) if mean is None else (f"{arrivals.name} at {mean:g}/s", scaled(rates, mean))
