"""From the options of ``edgetune search`` to a plan: budgets as people write them, the search, and its two files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from edgetune.cli.choices import choose
from edgetune.cli.kept_points import check_points, keeping
from edgetune.cli.output import Target
from edgetune.cli.screen import Label
from edgetune.cli.search_report import give, tell_plan, told
from edgetune.errors import DeviceError, InputError
from edgetune.units import parse_power_w, parse_rate_per_s, parse_share, parse_time_s

if TYPE_CHECKING:
    from edgetune.artifacts.problem import Problem
    from edgetune.artifacts.profile import Task
    from edgetune.artifacts.trace import Trace, TraceRow
    from edgetune.cli.offer import Offer
    from edgetune.cli.screen import Screen


@dataclass(frozen=True, slots=True)
class Budgets:
    """What was asked of the answer, as written on the command line."""

    power: str | None
    latency: str | None
    rate: str | None
    objective: str | None
    margin: str


@dataclass(frozen=True, slots=True)
class Want:
    """How to search and where the results go, as written on the command line."""

    strategy: str | None
    max_points: int | None
    seed: int
    kind: str | None
    known: str | None
    output: str | None
    trace: str | None
    points: str | None
    json: bool
    dry_run: bool


def problem_of(budgets: Budgets, kind: Task) -> Problem:
    """Return the problem in base units.

    Raises:
        InputError: a quantity without its unit, not a number, not above zero, or an unknown objective.
    """
    from edgetune.artifacts.problem import Objective, Problem

    objective = budgets.objective
    if objective is not None:
        choose(objective, get_args(Objective), what="objective")
    return Problem(
        kind=kind,
        power_budget_w=None if budgets.power is None else parse_power_w(budgets.power, what="--power-budget"),
        latency_budget_s=None if budgets.latency is None else parse_time_s(budgets.latency, what="--latency-budget"),
        arrival_rate_per_s=None if budgets.rate is None else parse_rate_per_s(budgets.rate, what="--arrival-rate"),
        objective=cast("Objective | None", objective),
        margin=parse_share(budgets.margin, what="--margin"),
    )


def carry_out(offer: Offer, budgets: Budgets, want: Want, screen: Screen) -> None:
    """Search among the offered points; print or write the plan, and the trace where asked."""
    from edgetune.artifacts import io
    from edgetune.search.driver import run_search
    from edgetune.search.infeasible import NoPowerError, NothingFeasibleError
    from edgetune.search.problem import validate
    from edgetune.search.strategies import find_strategy

    problem = problem_of(budgets, offer.task)
    validate(problem)
    if want.max_points != 0:
        require_power(offer, problem)
    strategy = want.strategy or default_strategy(offer, problem)
    find_strategy(strategy)
    if want.trace == "-":
        raise InputError("standard output carries the plan, not the trace", "name a file with --trace")
    for name in (want.output, want.trace):
        if name is not None and name != "-":
            Target(Path(name)).check()
    if want.points is not None:
        check_points(want.points, want.known)
    if want.dry_run:
        tell_plan(offer, problem, strategy, want.max_points, json=want.json)
        return
    label, quick = Label(offer.simulated), offer.free or not sys.stderr.isatty()

    def on_step(step: TraceRow) -> None:
        brief = quick or step.source == "known"  # a table known from earlier may have thousands of steps
        if screen.verbose or not brief:
            label.say()
        (screen.detail if brief else screen.say)(told(step))

    known = None if want.known is None else io.read_profile(want.known)
    try:
        with keeping(offer, want.points, want.known, known, screen) as measure:
            result = run_search(
                problem,
                offer.points,
                measure,
                strategy=strategy,
                max_points=want.max_points,
                seed=want.seed,
                known=() if known is None else known.rows,
                on_step=on_step,
                inputs=offer.inputs,
                conditions=offer.conditions,
                warnings=offer.warnings,
            )
    except (NothingFeasibleError, NoPowerError) as error:
        _write_trace(error.trace, want, screen)
        defect = offer.defect() if known is None else None
        if defect is not None:  # not that nothing is good enough: nothing works
            raise defect from None
        label.say()  # the error tells figures
        raise
    label.say()
    try:
        _write_trace(result.trace, want, screen)
    finally:  # a disk too full for the trace does not cost the plan
        give(result.plan, want.output, screen, json=want.json)


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


def default_strategy(offer: Offer, problem: Problem) -> str:
    """Return the strategy to use when none is named: ``gmd`` for the problem it is made for, else what can be afforded.

    Everything is looked at where that is free, or where ``random`` would measure as many points.
    """
    from edgetune.search.strategies import find_strategy

    if problem.kind == "train" and problem.objective in (None, "throughput"):
        return "gmd"
    few = find_strategy("random").default_max_points(problem) or 0
    return "exhaustive" if offer.free or len(offer.points) <= few else "random"


def _write_trace(trace: Trace | None, want: Want, screen: Screen) -> None:
    from edgetune.artifacts import io

    if want.trace is None or trace is None:
        return
    io.write(trace, want.trace)
    screen.detail(f"wrote {want.trace}")
