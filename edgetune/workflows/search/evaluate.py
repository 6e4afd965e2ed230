"""From the options of ``edgetune search evaluate`` to its table, file and figure."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from edgetune.choices import choose
from edgetune.cli.evaluation_options import EvaluationOptions
from edgetune.cli.screen import SIMULATED, Screen, answer, print_lines, print_over
from edgetune.errors import InputError
from edgetune.units import format_duration, parse_power_w, parse_rate_per_s, parse_share, parse_time_s
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.stopping import STOPS, reporting_saved

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import Evaluation, EvaluationRun
    from edgetune.artifacts.header import DataWarning
    from edgetune.cli.evaluation_options import TrafficOptions
    from edgetune.search.evaluation.answering import Contender
    from edgetune.search.evaluation.cases import EvaluationCase
    from edgetune.search.evaluation.problems import Family, GridName
    from edgetune.search.evaluation.runner import EvaluationProgress, EvaluationRunner
    from edgetune.workflows.search.evaluation_tables import EvaluationTables


FAMILIES = ("train", "infer", "train+infer", "infer+infer", "dynamic", "accuracy")
_SAMPLE = 5000
_TELL_EVERY_S = 20.0


def run_evaluation(opts: EvaluationOptions, screen: Screen) -> None:
    """Replay, print, and write what was asked for; stopped half-way, with what there is by then."""
    from edgetune.drawing import require_figure
    from edgetune.search.evaluation.answering import parse_contenders
    from edgetune.workflows.search.evaluation_tables import read_tables

    _check(opts)
    contenders = parse_contenders(opts.strategies)
    if opts.plot is not None:
        require_figure(opts.plot)
    target = choose_target(opts.output, "evaluation.parquet", last=True, json=opts.json)
    check_outputs({"-o": target.file, "--plot": opts.plot}, [*opts.tables, *opts.convergence], {"-o": "evaluation"})
    tables = read_tables(opts.tables)
    family = opts.family or _family_of(tables)
    SimulationLabel(tables.simulated and (opts.json or target.path is None), screen).announce()
    for data_warning in tables.data_warnings:
        screen.info(f"{data_warning.code}: {data_warning.advice}")
    if family == "dynamic":
        with reporting_saved(screen, lambda: "nothing is kept: the table is written when all is replayed"):
            runs, conditions = replay_all(opts, tables, contenders, screen)
        _give(opts, target, _evaluation(tables, runs, conditions), screen)
        return
    board, conditions = _board(opts, family, tables, contenders, screen)
    stopped: BaseException | None = None
    try:
        board.run(None if screen.quiet else _progress_reporter(screen))
    except BaseException as error:
        if not board.runs():
            if isinstance(error, STOPS):
                screen.info("stopped; nothing was replayed yet")
            raise
        stopped = error
        screen.info("stopped; this is what was replayed by then, and the same command starts over")
    data_warnings = () if stopped is None else (_stopped(board),)
    _give(opts, target, _evaluation(tables, board.runs(), conditions, data_warnings), screen)
    if stopped is not None:
        raise stopped


def _check(opts: EvaluationOptions) -> None:
    if opts.family is not None:
        choose(opts.family, FAMILIES, what="family")
    if opts.grid is not None:
        choose(opts.grid, ("fulcrum", "auto"), what="grid")
    choose(opts.by, ("strategy", "workload"), what="grouping")
    if opts.sample is not None and opts.everything:
        raise InputError("--sample and --all exclude each other", "leave one of them out")
    if opts.convergence and opts.family != "accuracy":
        raise InputError("--convergence: only for problems of time to accuracy", "--family accuracy, or leave it out")
    if (opts.traffic.arrivals or opts.traffic.scale) and opts.family != "dynamic":
        raise InputError("--arrivals and --scale: only for changing rates", "--family dynamic, or leave them out")


def _family_of(tables: EvaluationTables) -> str:
    tasks = sorted({subject.task for subject in tables.subjects})
    if len(tasks) == 1:
        return tasks[0]
    raise InputError("the tables have both training and inference", f"--family {' or '.join(FAMILIES[:4])}")


def _board(
    opts: EvaluationOptions, family: str, tables: EvaluationTables, contenders: Sequence[Contender], screen: Screen
) -> tuple[EvaluationRunner, dict[str, Any]]:
    """Return what is to be played, and the conditions for the header."""
    import numpy as np

    from edgetune.search.evaluation.answering import require_solvers
    from edgetune.search.evaluation.cases import cases_of, stratified
    from edgetune.search.evaluation.runner import EvaluationConditions, EvaluationRunner, truths
    from edgetune.workflows.search.evaluation_tables import with_epochs

    grid, kind = cast("GridName | None", opts.grid), cast("Family", family)
    subjects, epochs = (
        with_epochs(tables.subjects, opts.convergence, screen) if family == "accuracy" else (tables.subjects, None)
    )
    cases = cases_of(subjects, kind, grid=grid, epochs=epochs)
    require_solvers(cases, list(contenders))
    best = truths(cases)
    solvable = [np.flatnonzero(each.rows >= 0) for each in best]
    once = all(contender.measures_once for contender in contenders)
    whole, count = sum(len(case.problems) for case in cases), sum(map(len, solvable))
    if count == 0:
        raise InputError(f"no {family} problem has a solution in these tables", "--grid auto suits any table")
    sample = opts.sample if opts.sample is not None or once or opts.everything else _SAMPLE
    if sample is None or sample >= count:
        chosen = [np.arange(len(case.problems)) for case in cases]
    else:
        chosen = stratified(cases, solvable, sample, seed=0)
    conditions = EvaluationConditions(
        opts.seeds, parse_share(opts.noise, what="--noise"), parse_share(opts.tie, what="--tie"),
        opts.jobs or len(os.sched_getaffinity(0)),
    )  # fmt: skip
    replayed = count if sample is None else min(count, sample)
    for line in _counts(family, cases, whole, count, replayed):
        screen.info(line)
    told = {
        "family": family,
        "grids": sorted({case.grid for case in cases}),
        "problems": {"all": whole, "solvable": count, "replayed": replayed},
        "strategies": opts.strategies,
        "seeds": opts.seeds,
        "noise": conditions.noise,
        "tie": conditions.tie,
    }
    return EvaluationRunner(cases, best, chosen, contenders, conditions), told


def _counts(family: str, cases: list[EvaluationCase], whole: int, solvable: int, replayed: int) -> list[str]:
    from edgetune.search.evaluation.problems import PUBLISHED, STUDY_NETWORKS, STUDY_PAIRS

    study = [case for case in cases if case.grid == "fulcrum"]
    complete = len(study) == len(STUDY_PAIRS.get(family, STUDY_NETWORKS))
    published = f" (the study: about {PUBLISHED[family]:,})" if complete else ""
    parts = [f"{case.label} {len(case.problems):,}" for case in cases]
    line = f"{family}: {whole:,} problems{published}, {solvable:,} of them solvable; {replayed:,} are replayed"
    listed = [f"problems by workload: {', '.join(parts)}"] if len(cases) > 1 else []
    background = {case.background: case.problems.background_batch_size for case in cases if case.background}
    sizes = ", ".join(f"{name} {size}" for name, size in background.items())
    return [line, *listed, *([f"background batch sizes: {sizes}"] if background else [])]


def _progress_reporter(screen: Screen) -> Callable[[EvaluationProgress], None]:
    """Return what tells how far it is now and then, with an estimate; over the last line on a terminal."""
    terminal = sys.stderr.isatty()
    last_s = time.monotonic()

    def tell(progress: EvaluationProgress) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        ended = progress.done == progress.total
        if terminal and (ended or now_s - last_s > 0.2):
            print_over(_line(progress), last=ended)
        elif not terminal and not ended and now_s - last_s > _TELL_EVERY_S:
            screen.info(_line(progress))
        else:
            return
        last_s = now_s

    return tell


def _line(progress: EvaluationProgress) -> str:
    left = format_duration(float(f"{progress.left_s:.2g}"))
    return f"{progress.done:,} of {progress.total:,} searches, about {left} left"


def _stopped(board: EvaluationRunner) -> DataWarning:
    from edgetune.artifacts.header import DataWarning

    done = sum(len(run.problem) for run in board.runs())
    return DataWarning("stopped-early", "the evaluation was stopped; run it again for the rest", {"rows": float(done)})


def _evaluation(
    tables: EvaluationTables,
    runs: list[EvaluationRun],
    told: dict[str, Any],
    data_warnings: tuple[DataWarning, ...] = (),
) -> Evaluation:
    from edgetune.artifacts.evaluation import KIND, VERSION, Evaluation
    from edgetune.artifacts.header import Header

    device = {"device": ", ".join(tables.devices)} if tables.devices else {}
    conditions = {**device, "simulated": tables.simulated, **told}
    inputs = {"tables": list(tables.inputs)}
    header = Header.new(
        KIND, VERSION, inputs=inputs, conditions=conditions, warnings=(*tables.data_warnings, *data_warnings)
    )
    return Evaluation(header, tuple(runs))


def _give(opts: EvaluationOptions, target: Target, evaluation: Evaluation, screen: Screen) -> None:
    from edgetune.cli.evaluation_report import evaluation_answer, show_evaluation
    from edgetune.cli.plot import draw_kept

    try:
        target.write(evaluation)
        target.report(screen)
    finally:  # a full disk does not cost the table
        if opts.json:
            answer(evaluation_answer(evaluation, opts.by))
        elif target.path is not None:
            if evaluation.header.simulated:
                print_lines(SIMULATED)
            show_evaluation(evaluation, opts.by)
    draw_kept(evaluation, opts.plot, screen, view=None, file=target.file)


MEAN_PER_S = 60.0


def replay_all(
    play: EvaluationOptions, tables: EvaluationTables, contenders: Sequence[Contender], screen: Screen
) -> tuple[list[EvaluationRun], dict[str, Any]]:
    """Replay a trace of requests with every contender; return the runs, and conditions for the header.

    Raises:
        InputError: no inference table, a bad trace, or options that have no use here.
    """
    from edgetune.search.evaluation.answering import require_solvers
    from edgetune.search.evaluation.dynamic import MINIBATCHES, SETTLING_S, WINDOW_S, run_windows, window_cases
    from edgetune.search.evaluation.truth import best_answers

    if play.sample is not None or play.everything or play.grid is not None:
        raise InputError("--sample, --all and --grid: every window is replayed", "leave them out")
    power_w = parse_power_w(play.traffic.power, what="--power-budget")
    latency_s = parse_time_s(play.traffic.latency, what="--latency-budget")
    name, rates = _rates(play.traffic)
    cases = window_cases(tables.subjects, rates, power_w, latency_s)
    require_solvers(cases, list(contenders))
    noise, tie = parse_share(play.noise, what="--noise"), parse_share(play.tie, what="--tie")
    answers = [best_answers(case.measured, case.problems).rows.tolist() for case in cases]
    solvable = sum(rate > 0 and row >= 0 for rows in answers for rate, row in zip(rates, rows, strict=True))
    busy = sum(rate > 0 for rate in rates)
    whole = format_duration(len(rates) * WINDOW_S)
    screen.info(f"{name}: {busy} windows with {min(rates):.3g} to {max(rates):.3g} requests per s, {whole} in all")
    screen.info(f"{power_w:g} W and {1e3 * latency_s:g} ms: {solvable} of {busy * len(cases)} windows are solvable")
    if any(row.duration_s is None for case in cases for row in case.rows.values()):
        screen.info(
            f"where a table does not say how long a measurement took: {MINIBATCHES} minibatches and {SETTLING_S:g} s"
        )
    runs = list(run_windows(cases, rates, contenders, seeds=play.seeds, noise=noise, tie=tie, window_s=WINDOW_S))
    told = {
        "family": "dynamic",
        "arrivals": name,
        "window_s": WINDOW_S,
        "problems": {"all": busy * len(cases), "solvable": solvable, "replayed": busy * len(cases)},
        "strategies": play.strategies,
        "seeds": play.seeds,
        "noise": noise,
        "tie": tie,
    }
    return runs, told


def _rates(traffic: TrafficOptions) -> tuple[str, tuple[float, ...]]:
    """Return the name of the trace and the rate of each window, 1/s."""
    from edgetune.artifacts.arrivals import read_arrivals
    from edgetune.search.evaluation.dynamic import WINDOWS, poisson_rates, repeated, scaled, window_rates

    mean = None if traffic.scale is None else parse_rate_per_s(traffic.scale, what="--scale")
    if mean is not None and mean <= 0:
        raise InputError(f"--scale must be above zero, not {traffic.scale}", "e.g. --scale 60/s")
    if traffic.arrivals is None:
        return f"Poisson, {mean or MEAN_PER_S:g}/s", poisson_rates(mean or MEAN_PER_S)
    arrivals = read_arrivals(traffic.arrivals)
    rates = repeated(arrivals.values, WINDOWS) if arrivals.rates else window_rates(arrivals.values)
    if not any(rates):
        raise InputError(f"{arrivals.name}: no requests arrive at all", "give a trace with some")
    return (arrivals.name, rates) if mean is None else (f"{arrivals.name} at {mean:g}/s", scaled(rates, mean))
