"""From the options of ``edgetune search`` to a plan: the problem, the search, and the files that come of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetune.cli.asked_problem import Budgets, epochs_asked, problem_of
from edgetune.cli.kept_files import check_outputs
from edgetune.cli.kept_points import Kept, Known, check_points, keeping, read_known, read_relatives, where_kept
from edgetune.cli.screen import Label
from edgetune.cli.search_report import found, give, tell_baselines, tell_plan, told
from edgetune.cli.stopping import STOPS
from edgetune.cli.strategy_choice import DEFAULT, OF_NAMES, Choice, choose_strategy
from edgetune.errors import DeviceError, EdgetuneError, InfeasibleError, InputError
from edgetune.units import parse_share, parse_time_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgetune.artifacts.header import Caution
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.problem import Problem
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.trace import Trace, TraceRow
    from edgetune.cli.offer import Offer
    from edgetune.cli.screen import Screen
    from edgetune.search.driver import SearchResult
    from edgetune.search.infeasible import NoPowerError, NothingFeasibleError
    from edgetune.search.strategies.strategy import Hints

POWER_NOISE = 0.015
"""Relative standard deviation of a live power reading unless said otherwise: sensors of boards repeat to 1 to 2 %."""


@dataclass(frozen=True, slots=True)
class Want:
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


def carry_out(offer: Offer, budgets: Budgets, want: Want, screen: Screen) -> None:
    """Search among the offered points; print or write the plan, and the other files that were asked for."""
    from edgetune.search.infeasible import NoPowerError, NothingFeasibleError
    from edgetune.search.problem import validate

    epochs = epochs_asked(budgets, offer.kind)
    problem = problem_of(budgets, offer.kind, background=offer.background, epochs=epochs)
    validate(problem)
    if want.max_points != 0:
        require_power(offer, problem)
    time_budget_s = None if want.time_budget is None else parse_time_s(want.time_budget, what="--time-budget")
    offer = _without_missed(offer, {} if epochs is None else epochs.absent, screen)
    known = _check_files(offer, want)
    choice = choose_strategy(want.strategy, offer, problem, time_budget_s=time_budget_s, reusable=want.reusable)
    if choice.name is None and {row.point for row in known.rows} & set(offer.points):
        want, choice = replace(want, max_points=0), Choice(DEFAULT, f"{choice.why}; what was measured earlier answers")
    if want.strategy == "auto" or (want.strategy is None and choice.name == OF_NAMES):
        screen.say(f"{choice.name or 'the maximum mode'}: {choice.why}")
    if want.dry_run:
        tell_plan(offer, problem, choice.name, want.max_points, json=want.json)
        return
    if choice.name is None:
        _give_unmeasured(offer, problem, choice, want, screen)
        return
    label = Label(offer.simulated)
    try:
        result = _search(
            offer, problem, choice.name, want, known=known, screen=screen, label=label, time_budget_s=time_budget_s
        )
    except (NothingFeasibleError, NoPowerError) as error:
        defect = offer.defect() if not known.rows else None
        if defect is None:
            label.say()  # the error tells figures
        raise _without_answer(error, offer, want, screen, defect) from None
    finally:
        _tell_recovered(offer, screen)
    label.say()
    for caution in result.plan.header.warnings:
        if caution.code == "time-over":
            screen.say(f"{caution.code}: {caution.advice}")
    try:
        _write_trace(result.trace, want, screen.say)
        _draw(offer, result.trace, result.plan, want, screen)
        if problem.kind == "accuracy":
            offered = set(offer.points)
            tell_baselines(problem, [row for row in offer.rows if row.point in offered], result, screen)
    finally:  # a disk too full for the trace does not cost the plan
        give(result.plan, want.output, screen, json=want.json)


def _tell_recovered(offer: Offer, screen: Screen) -> None:
    """Say what of an earlier run was put back, whatever becomes of this one."""
    for sentence in offer.recovered():
        screen.say(f"note: {sentence}")


def _without_answer(
    error: NothingFeasibleError | NoPowerError, offer: Offer, want: Want, screen: Screen, defect: EdgetuneError | None
) -> EdgetuneError:
    """Keep the steps of a search that found nothing, and return what to tell of it: that nothing works, if so."""
    from edgetune.search.infeasible import MORE_POINTS

    _write_trace(error.trace, want, screen.detail)
    if error.trace is not None and error.trace.rows:
        _draw(offer, error.trace, None, want, screen)
    if defect is not None:
        return defect
    if offer.free and error.hint.endswith(MORE_POINTS):
        error.hint = error.hint.removesuffix(MORE_POINTS) + ", or look at every point: --strategy exhaustive"
    return error


def _without_missed(offer: Offer, missed: Mapping[int, str], screen: Screen) -> Offer:
    """Return the offer without the batch sizes that were trained at and missed the target accuracy; they are told."""
    left = [point for point in offer.points if point.batch_size not in missed]
    if len(left) == len(offer.points):
        return offer
    if not left:
        message = "every batch size that is offered missed the target accuracy"
        raise InputError(message, "offer others with --batch-sizes, or train longer: edgetune profile --convergence")
    for size, why in missed.items():
        screen.say(f"batch {size} is left out: {why}")
    return replace(offer, points=left)


def _check_files(offer: Offer, want: Want) -> Known:
    """Refuse files that cannot be written, before anything is measured; return what was measured earlier."""
    if want.trace == "-":
        raise InputError("standard output carries the plan, not the trace", "name a file with --trace")
    outputs = {"-o": want.output, "--trace": want.trace, "--points": want.points, "--plot": want.plot}
    check_outputs(outputs, want.read, {"-o": "plan", "--trace": "trace", "--points": "profile"})
    if want.plot is not None:
        from edgetune.drawing import require_figure

        require_figure(want.plot)
    if want.points is not None:
        check_points(want.points)
    return read_known(offer, want.known, want.points)


def _search(
    offer: Offer,
    problem: Problem,
    strategy: str,
    want: Want,
    *,
    known: Known,
    screen: Screen,
    label: Label,
    time_budget_s: float | None,
) -> SearchResult:
    from edgetune.profiling.others import busy_caution
    from edgetune.search.driver import run_search

    quick = offer.free or not sys.stderr.isatty()

    def on_step(step: TraceRow) -> None:
        brief = quick or step.source == "known"  # a table known from earlier may have thousands of steps
        if screen.verbose or not brief:
            label.say()
        (screen.detail if brief else screen.say)(told(step))

    for caution in (*(offer.warnings if offer.free else ()), *known.cautions):
        screen.say(f"{caution.code}: {caution.advice}")
    if not quick:
        screen.say(f"searching {len(offer.points)} points of {offer.described} by {strategy}")
    offer.tell_load(screen)
    kept = None
    try:
        with keeping(offer, want.points, screen) as kept:
            result = run_search(
                problem,
                offer.points,
                kept.measure,
                strategy=strategy,
                max_points=want.max_points,
                seed=want.seed,
                power_noise=_power_noise(offer, want),
                time_budget_s=time_budget_s,
                hints=_hints(offer, want),
                known=known.rows,
                on_step=on_step,
                inputs=offer.inputs,
                conditions=offer.conditions,
                warnings=(*offer.warnings, *known.cautions),
            )
    except STOPS:
        if known.rows or (kept is not None and kept.rows):
            label.say()
        _tell_stopped(offer, problem, want, kept, known.rows, screen=screen)
        raise
    return _marked(result, () if offer.free else busy_caution(kept.rows), screen)


def _tell_stopped(
    offer: Offer, problem: Problem, want: Want, kept: Kept | None, known: Sequence[ProfileRow], *, screen: Screen
) -> None:
    """Tell the best of the points measured and known, and where those are that were measured."""
    from edgetune.search.driver import run_search

    measured = [] if kept is None else kept.rows
    if not measured and not known:
        screen.say("stopped; nothing was measured yet")
        return
    rows = (*known, *measured)
    try:
        plan = run_search(problem, offer.points, offer.measure, strategy=DEFAULT, max_points=0, known=rows).plan
    except (InfeasibleError, InputError, DeviceError):
        best = "nothing that keeps the budgets"
    else:
        search = replace(plan.search, points_measured=len(measured), known_points=len(known))
        best = found(replace(plan, search=search))
    screen.say(f"stopped; best so far: {best}")
    if kept is not None and measured:
        screen.say(where_kept(kept, want.points, free=offer.free))


def _marked(result: SearchResult, busy: tuple[Caution, ...], screen: Screen) -> SearchResult:
    """Return the result with what is to be said of points that others disturbed, and say it."""
    for caution in busy:
        screen.say(f"{caution.code}: {caution.advice}")
    header = replace(result.plan.header, warnings=(*result.plan.header.warnings, *busy))
    return replace(result, plan=replace(result.plan, header=header)) if busy else result


def _power_noise(offer: Offer, want: Want) -> float:
    """Return how much a power reading wavers: as said; tables and models repeat exactly, sensors do not."""
    if want.power_noise is not None:
        return parse_share(want.power_noise, what="--power-noise")
    return 0.0 if offer.free or offer.simulated else POWER_NOISE


def _hints(offer: Offer, want: Want) -> Hints:
    """Return what is known beforehand: how other networks behaved on this device, its roofline, the network's cost."""
    from edgetune.search.strategies.strategy import Hints

    relatives = read_relatives(offer, want.like)
    if want.roofline is None:
        return Hints(relatives=relatives)
    from edgetune.cli.peaks import read_peaks
    from edgetune.roofline.balance import balance

    peaks = read_peaks(want.roofline, offer.conditions.get("device"), force=None)
    top = max(peaks.roofs, key=lambda roof: roof.flops_per_s)
    return Hints(relatives=relatives, operators=offer.operators(), balance_flop_per_byte=balance(top).time)


def _give_unmeasured(offer: Offer, problem: Problem, choice: Choice, want: Want, screen: Screen) -> None:
    """Answer with the board's maximum mode, and say that nothing was measured of it."""
    from edgetune.search.answer import unmeasured_plan

    plan = unmeasured_plan(
        problem, offer.points, seed=want.seed, why=choice.why, inputs=offer.inputs, conditions=offer.conditions
    )
    Label(offer.simulated).say()
    screen.say(f"NOT MEASURED: whether this keeps the budgets is not known ({choice.why})")
    give(plan, want.output, screen, json=want.json)


def require_power(offer: Offer, problem: Problem) -> None:
    """Refuse to measure what cannot be judged.

    Raises:
        DeviceError: power matters to the problem and the device cannot measure it; the reason is the sensor's.
    """
    from edgetune.search.problem import needs_power

    if offer.no_power is not None and needs_power(problem):
        what = "a power budget" if problem.power_budget_w is not None else "energy"
        raise DeviceError(
            f"{what} cannot be checked, for power cannot be measured here: {offer.no_power}",
            "search for throughput without --power-budget, or on a device that has power (see edgetune device)",
        )


def _write_trace(trace: Trace | None, want: Want, tell: Callable[[str], None]) -> None:
    from edgetune.artifacts import io
    from edgetune.cli.output import wrote

    if want.trace is None or trace is None:
        return
    io.write(trace, want.trace)
    tell(wrote(want.trace))


def _draw(offer: Offer, trace: Trace, plan: Plan | None, want: Want, screen: Screen) -> None:
    """Draw the front that the search found, before the true one of a table; ``plan`` where there is an answer."""
    from edgetune.cli.plot import draw_finished
    from edgetune.search.figures import search_figure

    rows = offer.rows if offer.free else ()
    again = None if want.trace is None else f"edgetune show {want.trace} --plot {want.plot} --view front"
    draw_finished(
        lambda: search_figure(trace, "front", plan=plan, table_rows=rows, offered=offer.points),
        want.plot,
        screen,
        again,
    )
