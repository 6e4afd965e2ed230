"""Searches for the best power mode and batch size: from the options of ``edgetune search`` to a plan and its files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import DeviceError, EdgetuneError, InfeasibleError, InputError
from edgetune.plotting.page import require_drawing
from edgetune.stages.profiling.disturbances import contention_warning
from edgetune.stages.search.answer import MORE_POINTS, NoPowerError, NothingFeasibleError, RankedPoint, rank_points
from edgetune.stages.search.driver import SearchResult, SearchSettings, run_search
from edgetune.stages.search.history import SearchHistory
from edgetune.stages.search.problem import needs_power, validate
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.stages.search.strategy import Hints
from edgetune.units import parse_share, parse_time_s
from edgetune.workflows.output import check_outputs, wrote
from edgetune.workflows.reporting import STOPS, Reporter, SimulationLabel
from edgetune.workflows.search.candidates import (
    Candidates,
    KnownPoints,
    SavedPoints,
    check_points,
    read_known,
    saved_where,
    saving_points,
)
from edgetune.workflows.search.open_candidates import open_candidates
from edgetune.workflows.search.options import SearchOptions
from edgetune.workflows.search.problem_options import (
    completed,
    describe_gain,
    describe_plan,
    describe_step,
    epochs_asked,
    problem_of,
    uncertain_answer,
    without_percentile,
)
from edgetune.workflows.search.relatives import read_relatives
from edgetune.workflows.search.strategy_choice import DEFAULT, SearchEstimate, choose_strategy

POWER_NOISE = 0.015
"""Relative standard deviation of a live power reading unless given: sensors of boards repeat to 1 to 2 %."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The result of a search.

    Args:
        problem: The solved problem.
        plan: The answer; ``None`` if no measured point is feasible.
        trace: Every step.
        candidates: The candidates.
        points_used: How many points of a table were looked at, in words; ``None`` if points were measured.
        top: The answer and the points nearest to it, as many as ``--top`` asks for.
    """

    problem: Problem
    plan: Plan | None
    trace: Trace
    candidates: Candidates
    points_used: str | None = None
    top: tuple[RankedPoint, ...] = ()


OnAnswer = Callable[[SearchAnswer], None]


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A search that is ready to start.

    Args:
        opts: The options, completed by the file of the problem.
        candidates: The candidates.
        problem: The problem to solve.
        known: Rows measured earlier.
        strategy: The strategy.
        time_budget_s: Time limit, s; ``None`` for none.
    """

    opts: SearchOptions
    candidates: Candidates
    problem: Problem
    known: KnownPoints
    strategy: str
    time_budget_s: float | None


def search(opts: SearchOptions, reporter: Reporter, on_answer: OnAnswer = lambda _: None) -> SearchAnswer:
    """Search, and write the requested files.

    Args:
        opts: The options.
        reporter: Receives notes.
        on_answer: Called with the result before the device is restored, so that a failed restoration does not lose
            the answer; also called without a plan if the search found none.

    Raises:
        InputError: an option is invalid.
        NothingFeasibleError, NoPowerError: no measured point is an answer.
    """
    with _opened(opts, reporter) as task:
        answer = _searched(task, reporter, on_answer)
        try:
            _write_trace(answer.trace, opts, reporter.info)
        finally:  # a disk too full for the trace does not cost the plan
            _hand_over(answer, opts, reporter, on_answer)
        return answer


def plan_search(opts: SearchOptions, reporter: Reporter) -> SearchEstimate:
    """Return the estimate of a search, without running any code of a model; known points are not measured."""
    with _opened(opts, reporter, run_code=False) as task:
        candidates, known = task.candidates, task.known.rows
        settings = SearchSettings(task.strategy, task.opts.max_points, kind=STRATEGIES.find(task.strategy), known=known)
        offered, there = len(candidates.points), len({row.point for row in known} & set(candidates.points))
        points = min(settings.limit(task.problem, offered, there), offered - there)
        expected = None if candidates.expect is None else candidates.expect().times(points / offered)
        described, simulated = candidates.described, candidates.simulated
        return SearchEstimate(task.strategy, offered, points, described, simulated, expected)


@contextmanager
def _opened(opts: SearchOptions, reporter: Reporter, *, run_code: bool = True) -> Iterator[SearchTask]:
    """Open the candidates, check files and problem, read known rows, and choose the strategy."""
    opts, file = completed(opts)
    with open_candidates(opts, run_code=run_code, on_state=reporter.points, note=reporter.info) as opened:
        epochs = epochs_asked(opts, opened.kind, {point.batch_size for point in opened.points})
        problem = problem_of(opts, opened.kind, file, background=opened.background, epochs=epochs)
        validate(problem)
        if opts.max_points != 0:
            require_power(opened, problem)
        time_budget_s = None if opts.time_budget is None else parse_time_s(opts.time_budget, what="--time-budget")
        candidates = _without_missed(opened, {} if epochs is None else epochs.absent, reporter)
        known = _check_files(candidates, opts)
        strategy, why = choose_strategy(opts, candidates, problem)
        if why:
            reporter.info(f"{strategy}: {why}")
        yield SearchTask(opts, candidates, problem, known, strategy, time_budget_s)


def _searched(task: SearchTask, reporter: Reporter, on_answer: OnAnswer) -> SearchAnswer:
    candidates = task.candidates
    runtime = None if candidates.free else candidates.conditions.get("runtime")
    label = SimulationLabel(candidates.simulated, reporter, runtime)
    try:
        result = _run(task, reporter, label)
    except (NothingFeasibleError, NoPowerError) as error:
        defect = candidates.defect() if not task.known.rows else None
        if defect is None:
            label.announce()  # the error has figures
        raise _without_answer(error, task, reporter, on_answer, defect) from None
    finally:
        for sentence in candidates.recovered():  # what of an earlier run was put back, whatever becomes of this one
            reporter.info(f"note: {sentence}")
    label.announce()
    for data_warning in result.plan.header.warnings:
        if data_warning.code in ("time-over", "not-judged"):
            reporter.warn(data_warning)
    result = _marked(result, (*without_percentile(result.history), *uncertain_answer(result.history)), reporter)
    used = _points_used(result.history, len(task.opts.sources)) if candidates.free else None
    top = rank_points(result.history, task.opts.top) if task.opts.top else ()
    return SearchAnswer(task.problem, result.plan, result.trace, candidates, used, top)


def _points_used(history: SearchHistory, tables: int) -> str:
    """Return how many points of the tables a search looked at."""
    used, offered = len(history.outcomes), len(history.space.halves)
    of_all = f"all {offered} points of the table{'s' if tables > 1 else ''}"
    return of_all if used == offered > 1 else f"{used} of {offered} points used"


def _hand_over(answer: SearchAnswer, opts: SearchOptions, reporter: Reporter, on_answer: OnAnswer) -> None:
    """Pass the answer to the caller, write the plan to its file, and report the result."""
    assert answer.plan is not None
    try:
        on_answer(answer)
    finally:
        if opts.output is not None and opts.output != "-":
            io.write(answer.plan, opts.output)
            reporter.info(f"wrote {opts.output}")
        reporter.info(describe_plan(answer.plan, answer.points_used))
        if answer.plan.search.expected_gain is not None:
            reporter.info(describe_gain(answer.plan.search.expected_gain))


def _without_answer(
    error: NothingFeasibleError | NoPowerError,
    task: SearchTask,
    reporter: Reporter,
    on_answer: OnAnswer,
    defect: EdgetuneError | None,
) -> EdgetuneError:
    """Save the steps of a search without a result; return the error to raise, which is ``defect`` if there is one."""
    _write_trace(error.trace, task.opts, reporter.detail)
    if error.trace is not None and error.trace.rows:
        on_answer(SearchAnswer(task.problem, None, error.trace, task.candidates))
    if defect is not None:
        return defect
    if task.candidates.free and error.hint.endswith(MORE_POINTS):
        error.hint = error.hint.removesuffix(MORE_POINTS) + ", or look at every point: --strategy exhaustive"
    return error


def _without_missed(candidates: Candidates, missed: Mapping[int, str], reporter: Reporter) -> Candidates:
    """Return the candidates without batch sizes that missed the target accuracy in training, and report these."""
    left = [point for point in candidates.points if point.batch_size not in missed]
    if len(left) == len(candidates.points):
        return candidates
    if not left:
        message = "every batch size that is offered missed the target accuracy"
        raise InputError(message, "offer others with --batch-sizes, or train longer: edgetune profile --convergence")
    for size, why in missed.items():
        reporter.info(f"batch {size} is left out: {why}")
    return replace(candidates, points=left)


def _check_files(candidates: Candidates, opts: SearchOptions) -> KnownPoints:
    """Check before a measurement that output files can be written; return the rows measured earlier."""
    if opts.trace == "-":
        raise InputError("standard output carries the plan, not the trace", "name a file with --trace")
    outputs = {"-o": opts.output, "--trace": opts.trace, "--points": opts.points, "--plot": opts.plot}
    read = (*opts.sources, opts.problem, opts.convergence, *opts.like)
    check_outputs(outputs, read, {"-o": "plan", "--trace": "trace", "--points": "profile"})
    if opts.plot is not None:
        require_drawing(opts.plot)
    if opts.points is not None:
        check_points(opts.points)
    return read_known(candidates, opts.known, opts.points)


def _run(task: SearchTask, reporter: Reporter, label: SimulationLabel) -> SearchResult:
    opts, candidates, known = task.opts, task.candidates, task.known
    quick = candidates.free or not reporter.watched

    def on_step(step: TraceRow) -> None:
        if advance is not None and step.source != "known":
            advance(1, "searching")
        if (quick or step.source == "known") and not reporter.verbose:
            return  # a table may have thousands of steps
        label.announce()
        reporter.info(describe_step(step))

    relatives = read_relatives(candidates, task.problem, opts)
    data_warnings = (*known.data_warnings, *relatives.data_warnings)
    for data_warning in (*(candidates.warnings if candidates.free else ()), *data_warnings):
        reporter.warn(data_warning)
    if opts.like:
        reporter.info(relatives.described)
    if not quick:
        reporter.info(f"searching {len(candidates.points)} points of {candidates.described} by {task.strategy}")
    candidates.warn_of_load(reporter)
    kept = None
    try:
        with (
            reporter.bar("searching", opts.max_points) if not quick else nullcontext() as advance,
            saving_points(candidates, opts.points, reporter) as kept,
        ):
            result = run_search(
                task.problem,
                candidates.points,
                kept.measure,
                SearchSettings(
                    strategy=task.strategy,
                    max_points=opts.max_points,
                    seed=opts.seed,
                    power_noise=_power_noise(candidates, opts),
                    time_budget_s=task.time_budget_s,
                    hints=Hints(relatives=relatives.rows),
                    known=(*known.rows, *candidates.known),
                    at_once=candidates.at_once,
                    on_asked=candidates.on_asked,
                    on_step=on_step,
                    inputs=candidates.inputs,
                    conditions=candidates.conditions,
                    warnings=(*candidates.warnings, *data_warnings),
                ),
            )
    except STOPS:
        if known.rows or (kept is not None and kept.rows):
            label.announce()
        _report_stopped(task, kept, reporter)
        raise
    return _marked(result, () if candidates.free else contention_warning(kept.rows), reporter)


def _report_stopped(task: SearchTask, kept: SavedPoints | None, reporter: Reporter) -> None:
    """Report the best point measured or known, and the file of the measured points."""
    candidates, known = task.candidates, task.known.rows
    measured = [] if kept is None else kept.rows
    if not measured and not known:
        reporter.info("stopped; nothing was measured yet")
        return
    try:
        plan = run_search(
            task.problem,
            candidates.points,
            candidates.measure,
            SearchSettings(DEFAULT, max_points=0, known=(*known, *measured)),
        ).plan
    except (InfeasibleError, InputError, DeviceError):
        best = "nothing that keeps the budgets"
    else:
        counts = replace(plan.search, points_measured=len(measured), known_points=len(known))
        best = describe_plan(replace(plan, search=counts))
    reporter.info(f"stopped; best so far: {best}")
    if kept is not None and measured:
        reporter.info(saved_where(kept, task.opts.points, free=candidates.free))


def _marked(result: SearchResult, found: tuple[DataWarning, ...], reporter: Reporter) -> SearchResult:
    """Return the result with warnings that were found after the search, and report them."""
    for data_warning in found:
        reporter.warn(data_warning)
    header = replace(result.plan.header, warnings=(*result.plan.header.warnings, *found))
    return replace(result, plan=replace(result.plan, header=header)) if found else result


def _power_noise(candidates: Candidates, opts: SearchOptions) -> float:
    """Return the relative deviation of power readings: the given one, else zero for tables and models."""
    if opts.power_noise is not None:
        return parse_share(opts.power_noise, what="--power-noise")
    return 0.0 if candidates.free or candidates.simulated else POWER_NOISE


def require_power(candidates: Candidates, problem: Problem) -> None:
    """Check that power can be measured if the problem depends on it.

    Raises:
        DeviceError: the problem depends on power and the device cannot measure it; the reason is the sensor's.
    """
    if candidates.no_power is not None and needs_power(problem):
        what = "energy" if problem.power_budget_w is None and problem.power_peak_budget_w is None else "a power budget"
        raise DeviceError(
            f"{what} cannot be checked, for power cannot be measured here: {candidates.no_power}",
            "search for throughput without --power-budget, or on a device that has power (see edgetune device)",
        )


def _write_trace(trace: Trace | None, opts: SearchOptions, report: Callable[[str], None]) -> None:
    if opts.trace is not None and trace is not None:
        io.write(trace, opts.trace)
        report(wrote(opts.trace))
