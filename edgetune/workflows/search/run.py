"""From the options of ``edgetune search`` to a plan: the problem, the search, and the files that come of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetune.cli.search_report import describe_step, found, give, report_baselines, report_plan
from edgetune.errors import DeviceError, EdgetuneError, InfeasibleError, InputError
from edgetune.units import format_duration, parse_share, parse_time_s
from edgetune.workflows.output import check_outputs
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.search.problem_options import ProblemOptions, epochs_asked, problem_of
from edgetune.workflows.search.saved_points import (
    KnownPoints,
    SavedPoints,
    check_points,
    read_known,
    read_relatives,
    saved_where,
    saving_points,
)
from edgetune.workflows.stopping import STOPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgetune.artifacts.header import DataWarning
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.problem import Problem
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.trace import Trace, TraceRow
    from edgetune.cli.screen import Screen
    from edgetune.search.answer import NoPowerError, NothingFeasibleError
    from edgetune.search.driver import SearchResult
    from edgetune.search.strategy import Hints
    from edgetune.workflows.search.candidates import Candidates


POWER_NOISE = 0.015
"""Relative standard deviation of a live power reading unless said otherwise: sensors of boards repeat to 1 to 2 %."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search and where the results go, as written on the command line; ``read`` is every file that is read."""

    strategy: str | None = None
    max_points: int | None = None
    time_budget: str | None = None
    power_noise: str | None = None
    reusable: bool = False
    seed: int = 0
    known: str | None = None
    like: tuple[str, ...] = ()
    roofline: str | None = None
    output: str | None = None
    trace: str | None = None
    points: str | None = None
    plot: str | None = None
    json: bool = False
    dry_run: bool = False
    read: tuple[str | None, ...] = ()


def run_search_command(candidates: Candidates, budgets: ProblemOptions, opts: SearchOptions, screen: Screen) -> None:
    """Search among the offered points; print or write the plan, and the other files that were asked for."""
    from edgetune.search.answer import NoPowerError, NothingFeasibleError
    from edgetune.search.problem import validate

    epochs = epochs_asked(budgets, candidates.kind)
    problem = problem_of(budgets, candidates.kind, background=candidates.background, epochs=epochs)
    validate(problem)
    if opts.max_points != 0:
        require_power(candidates, problem)
    time_budget_s = None if opts.time_budget is None else parse_time_s(opts.time_budget, what="--time-budget")
    candidates = _without_missed(candidates, {} if epochs is None else epochs.absent, screen)
    known = _check_files(candidates, opts)
    choice = choose_strategy(opts.strategy, candidates, problem, time_budget_s=time_budget_s, reusable=opts.reusable)
    if choice.name is None and {row.point for row in known.rows} & set(candidates.points):
        opts, choice = (
            replace(opts, max_points=0),
            StrategyChoice(DEFAULT, f"{choice.why}; what was measured earlier answers"),
        )
    if opts.strategy == "auto" or (opts.strategy is None and choice.name == OF_NAMES):
        screen.info(f"{choice.name or 'the maximum mode'}: {choice.why}")
    if opts.dry_run:
        report_plan(candidates, problem, choice.name, opts.max_points, json=opts.json)
        return
    if choice.name is None:
        _give_unmeasured(candidates, problem, choice, opts, screen)
        return
    label = SimulationLabel(candidates.simulated, screen)
    try:
        result = _search(
            candidates, problem, choice.name, opts, known=known, screen=screen, label=label, time_budget_s=time_budget_s
        )
    except (NothingFeasibleError, NoPowerError) as error:
        defect = candidates.defect() if not known.rows else None
        if defect is None:
            label.announce()  # the error tells figures
        raise _without_answer(error, candidates, opts, screen, defect) from None
    finally:
        _report_recovered(candidates, screen)
    label.announce()
    for data_warning in result.plan.header.warnings:
        if data_warning.code == "time-over":
            screen.info(f"{data_warning.code}: {data_warning.advice}")
    try:
        _write_trace(result.trace, opts, screen.info)
        _draw(candidates, result.trace, result.plan, opts, screen)
        if problem.kind == "accuracy":
            offered = set(candidates.points)
            report_baselines(problem, [row for row in candidates.rows if row.point in offered], result, screen)
    finally:  # a disk too full for the trace does not cost the plan
        give(result.plan, opts.output, screen, json=opts.json)


def _report_recovered(candidates: Candidates, screen: Screen) -> None:
    """Say what of an earlier run was put back, whatever becomes of this one."""
    for sentence in candidates.recovered():
        screen.info(f"note: {sentence}")


def _without_answer(
    error: NothingFeasibleError | NoPowerError,
    candidates: Candidates,
    opts: SearchOptions,
    screen: Screen,
    defect: EdgetuneError | None,
) -> EdgetuneError:
    """Keep the steps of a search that found nothing, and return what to tell of it: that nothing works, if so."""
    from edgetune.search.answer import MORE_POINTS

    _write_trace(error.trace, opts, screen.detail)
    if error.trace is not None and error.trace.rows:
        _draw(candidates, error.trace, None, opts, screen)
    if defect is not None:
        return defect
    if candidates.free and error.hint.endswith(MORE_POINTS):
        error.hint = error.hint.removesuffix(MORE_POINTS) + ", or look at every point: --strategy exhaustive"
    return error


def _without_missed(candidates: Candidates, missed: Mapping[int, str], screen: Screen) -> Candidates:
    """Return the offer without the batch sizes that were trained at and missed the target accuracy; they are told."""
    left = [point for point in candidates.points if point.batch_size not in missed]
    if len(left) == len(candidates.points):
        return candidates
    if not left:
        message = "every batch size that is offered missed the target accuracy"
        raise InputError(message, "offer others with --batch-sizes, or train longer: edgetune profile --convergence")
    for size, why in missed.items():
        screen.info(f"batch {size} is left out: {why}")
    return replace(candidates, points=left)


def _check_files(candidates: Candidates, opts: SearchOptions) -> KnownPoints:
    """Refuse files that cannot be written, before anything is measured; return what was measured earlier."""
    if opts.trace == "-":
        raise InputError("standard output carries the plan, not the trace", "name a file with --trace")
    outputs = {"-o": opts.output, "--trace": opts.trace, "--points": opts.points, "--plot": opts.plot}
    check_outputs(outputs, opts.read, {"-o": "plan", "--trace": "trace", "--points": "profile"})
    if opts.plot is not None:
        from edgetune.plotting.figure_file import require_figure

        require_figure(opts.plot)
    if opts.points is not None:
        check_points(opts.points)
    return read_known(candidates, opts.known, opts.points)


def _search(
    candidates: Candidates,
    problem: Problem,
    strategy: str,
    opts: SearchOptions,
    *,
    known: KnownPoints,
    screen: Screen,
    label: SimulationLabel,
    time_budget_s: float | None,
) -> SearchResult:
    from edgetune.profiling.cpu_contention import contention_warning
    from edgetune.search.driver import run_search

    quick = candidates.free or not sys.stderr.isatty()

    def on_step(step: TraceRow) -> None:
        brief = quick or step.source == "known"  # a table known from earlier may have thousands of steps
        if screen.verbose or not brief:
            label.announce()
        (screen.detail if brief else screen.info)(describe_step(step))

    for data_warning in (*(candidates.warnings if candidates.free else ()), *known.data_warnings):
        screen.info(f"{data_warning.code}: {data_warning.advice}")
    if not quick:
        screen.info(f"searching {len(candidates.points)} points of {candidates.described} by {strategy}")
    candidates.warn_of_load(screen)
    kept = None
    try:
        with saving_points(candidates, opts.points, screen) as kept:
            result = run_search(
                problem,
                candidates.points,
                kept.measure,
                strategy=strategy,
                max_points=opts.max_points,
                seed=opts.seed,
                power_noise=_power_noise(candidates, opts),
                time_budget_s=time_budget_s,
                hints=_hints(candidates, opts),
                known=known.rows,
                on_step=on_step,
                inputs=candidates.inputs,
                conditions=candidates.conditions,
                warnings=(*candidates.warnings, *known.data_warnings),
            )
    except STOPS:
        if known.rows or (kept is not None and kept.rows):
            label.announce()
        _report_stopped(candidates, problem, opts, kept, known.rows, screen=screen)
        raise
    return _marked(result, () if candidates.free else contention_warning(kept.rows), screen)


def _report_stopped(
    candidates: Candidates,
    problem: Problem,
    opts: SearchOptions,
    kept: SavedPoints | None,
    known: Sequence[ProfileRow],
    *,
    screen: Screen,
) -> None:
    """Tell the best of the points measured and known, and where those are that were measured."""
    from edgetune.search.driver import run_search

    measured = [] if kept is None else kept.rows
    if not measured and not known:
        screen.info("stopped; nothing was measured yet")
        return
    rows = (*known, *measured)
    try:
        plan = run_search(
            problem, candidates.points, candidates.measure, strategy=DEFAULT, max_points=0, known=rows
        ).plan
    except (InfeasibleError, InputError, DeviceError):
        best = "nothing that keeps the budgets"
    else:
        search = replace(plan.search, points_measured=len(measured), known_points=len(known))
        best = found(replace(plan, search=search))
    screen.info(f"stopped; best so far: {best}")
    if kept is not None and measured:
        screen.info(saved_where(kept, opts.points, free=candidates.free))


def _marked(result: SearchResult, busy: tuple[DataWarning, ...], screen: Screen) -> SearchResult:
    """Return the result with what is to be said of points that others disturbed, and say it."""
    for data_warning in busy:
        screen.info(f"{data_warning.code}: {data_warning.advice}")
    header = replace(result.plan.header, warnings=(*result.plan.header.warnings, *busy))
    return replace(result, plan=replace(result.plan, header=header)) if busy else result


def _power_noise(candidates: Candidates, opts: SearchOptions) -> float:
    """Return how much a power reading wavers: as said; tables and models repeat exactly, sensors do not."""
    if opts.power_noise is not None:
        return parse_share(opts.power_noise, what="--power-noise")
    return 0.0 if candidates.free or candidates.simulated else POWER_NOISE


def _hints(candidates: Candidates, opts: SearchOptions) -> Hints:
    """Return what is known beforehand: how other networks behaved on this device, its roofline, the network's cost."""
    from edgetune.search.strategy import Hints

    relatives = read_relatives(candidates, opts.like)
    if opts.roofline is None:
        return Hints(relatives=relatives)
    from edgetune.roofline.balance import balance
    from edgetune.workflows.peaks import read_peaks

    peaks = read_peaks(opts.roofline, candidates.conditions.get("device"), force=None)
    top = max(peaks.roofs, key=lambda roof: roof.flops_per_s)
    return Hints(relatives=relatives, operators=candidates.operators(), balance_flop_per_byte=balance(top).time)


def _give_unmeasured(
    candidates: Candidates, problem: Problem, choice: StrategyChoice, opts: SearchOptions, screen: Screen
) -> None:
    """Answer with the board's maximum mode, and say that nothing was measured of it."""
    from edgetune.search.answer import unmeasured_plan

    plan = unmeasured_plan(
        problem,
        candidates.points,
        seed=opts.seed,
        why=choice.why,
        inputs=candidates.inputs,
        conditions=candidates.conditions,
    )
    SimulationLabel(candidates.simulated, screen).announce()
    screen.info(f"NOT MEASURED: whether this keeps the budgets is not known ({choice.why})")
    give(plan, opts.output, screen, json=opts.json)


def require_power(candidates: Candidates, problem: Problem) -> None:
    """Refuse to measure what cannot be judged.

    Raises:
        DeviceError: power matters to the problem and the device cannot measure it; the reason is the sensor's.
    """
    from edgetune.search.problem import needs_power

    if candidates.no_power is not None and needs_power(problem):
        what = "a power budget" if problem.power_budget_w is not None else "energy"
        raise DeviceError(
            f"{what} cannot be checked, for power cannot be measured here: {candidates.no_power}",
            "search for throughput without --power-budget, or on a device that has power (see edgetune device)",
        )


def _write_trace(trace: Trace | None, opts: SearchOptions, tell: Callable[[str], None]) -> None:
    from edgetune.artifacts import io
    from edgetune.workflows.output import wrote

    if opts.trace is None or trace is None:
        return
    io.write(trace, opts.trace)
    tell(wrote(opts.trace))


def _draw(candidates: Candidates, trace: Trace, plan: Plan | None, opts: SearchOptions, screen: Screen) -> None:
    """Draw the front that the search found, before the true one of a table; ``plan`` where there is an answer."""
    from edgetune.cli.plot import draw_finished
    from edgetune.search.figures import search_figure

    rows = candidates.rows if candidates.free else ()
    again = None if opts.trace is None else f"edgetune show {opts.trace} --plot {opts.plot} --view front"
    draw_finished(
        lambda: search_figure(trace, "front", plan=plan, table_rows=rows, offered=candidates.points),
        opts.plot,
        screen,
        again,
    )


DEFAULT = "roofline"
OF_NAMES = "exhaustive"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """A strategy and why it was taken; ``name`` is ``None`` where there is no time to measure anything."""

    name: str | None
    why: str


def choose_strategy(
    name: str | None, candidates: Candidates, problem: Problem, *, time_budget_s: float | None, reusable: bool
) -> StrategyChoice:
    """Return the strategy to search with.

    Args:
        name: As written; ``auto`` looks at the time there is, ``None`` takes the default.
        candidates: What there is to measure, and how long a point takes.
        problem: What is searched for; a strategy that does not solve it says so itself.
        time_budget_s: How long the search may take, s; ``None`` for as long as it takes.
        reusable: Whether the measured points are to answer other budgets too.

    Raises:
        InputError: an unknown strategy, or ``reusable`` with another strategy than ``pareto``.
    """
    from edgetune.search.strategies import find_strategy

    if name in (None, AUTO) and _has_names_only(candidates, problem):
        return StrategyChoice(OF_NAMES, "the modes have names, which have no order, so that every point is looked at")
    if name != AUTO:
        if reusable and name not in (None, "pareto"):
            raise InputError(f"--reusable: {name} searches for one budget only", "--strategy pareto, or leave it out")
        chosen = name or ("pareto" if reusable else DEFAULT)
        find_strategy(chosen)
        return StrategyChoice(chosen, "as asked" if name else "the default")
    if time_budget_s is not None:
        point_s = _point_s(candidates)
        if time_budget_s < point_s:
            why = f"{format_duration(time_budget_s)} is no time to measure: a point takes {format_duration(point_s)}"
            return StrategyChoice(None, why)
    if reusable:
        return StrategyChoice("pareto", "its points will answer other budgets too")
    most = find_strategy(DEFAULT).default_max_points(problem)
    return StrategyChoice(DEFAULT, f"there is time for its {most} points or what fits of them")


def _has_names_only(candidates: Candidates, problem: Problem) -> bool:
    """Return whether the modes offered are told apart by their names alone."""
    from edgetune.search.space import offered_space

    named = any(point.mode.power_mode is not None for point in candidates.points)
    return named and offered_space(problem, candidates.points).named is not None


def _point_s(candidates: Candidates) -> float:
    """Return how long measuring a point is expected to take, s; a look-up takes none."""
    if candidates.expect is None or candidates.free:
        return 0.0
    return (candidates.expect().duration_s or 0.0) / max(len(candidates.points), 1)
