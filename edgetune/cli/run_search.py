"""From the options of ``edgetune search`` to a plan: budgets as people write them, the search, and its two files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from edgetune.cli.choices import choose
from edgetune.cli.output import Target
from edgetune.errors import InputError
from edgetune.units import format_duration, format_si, parse_power_w, parse_rate_per_s, parse_share, parse_time_s

if TYPE_CHECKING:
    from edgetune.artifacts.plan import Plan
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
    strategy = want.strategy or default_strategy(offer, problem)
    find_strategy(strategy)
    for name in (want.output, want.trace):
        if name is not None and name != "-":
            Target(Path(name)).check()
    screen.label_simulated(offer.simulated)
    if want.dry_run:
        tell_plan(offer, strategy, want)
        return
    quick = offer.free or not sys.stderr.isatty()
    known = () if want.known is None else io.read_profile(want.known).rows
    try:
        result = run_search(
            problem,
            offer.points,
            offer.measure,
            strategy=strategy,
            max_points=want.max_points,
            seed=want.seed,
            known=known,
            on_step=lambda step: (screen.detail if quick else screen.say)(told(step)),
            inputs=offer.inputs,
            conditions=offer.conditions,
            warnings=offer.warnings,
        )
    except (NothingFeasibleError, NoPowerError) as error:
        _write_trace(error.trace, want, screen)
        raise
    _write_trace(result.trace, want, screen)
    give(result.plan, want, screen)


def default_strategy(offer: Offer, problem: Problem) -> str:
    """Return the strategy to use when none is named: the frugal one, unless looking at everything is free."""
    suits_gmd = problem.kind == "train" and problem.objective in (None, "throughput")
    return "exhaustive" if offer.free and not suits_gmd else "gmd"


def give(plan: Plan, want: Want, screen: Screen) -> None:
    """Print the plan, or write it to its file and say what it found."""
    from edgetune.artifacts import io
    from edgetune.cli.screen import answer

    document = io.to_bytes(plan).decode()
    if want.json:
        import yaml

        answer(yaml.safe_load(document))
    elif want.output in (None, "-"):
        sys.stdout.write(document)
    if want.output is not None and want.output != "-":
        io.write(plan, want.output)
        screen.say(f"wrote {want.output}")
    power = "" if plan.measured.power_w is None else f", {format_si(plan.measured.power_w, 'W')}"
    time = format_si(plan.measured.minibatch_s or 0.0, "s")
    batch = plan.configuration.batch_size
    points = f"{plan.search.points_measured} points measured"
    screen.say(f"{plan.configuration.mode}, batch {batch}: {time} per minibatch{power}; {points}")


def told(step: TraceRow) -> str:
    """Return one step as a line for people."""
    time = "failed" if step.minibatch_s is None else format_si(step.minibatch_s, "s")
    power = "" if step.power_w is None else f" {format_si(step.power_w, 'W')}"
    verdict = {True: "within budget", False: "over budget", None: "cannot tell"}[step.feasible]
    return f"step {step.step}: batch {step.batch_size}, {time}{power}, {verdict} ({step.reason})"


def tell_plan(offer: Offer, strategy: str, want: Want) -> None:
    """Print how many points would be measured at most, how long that may take and how many joules."""
    from edgetune.cli.screen import answer
    from edgetune.search.strategies import find_strategy

    default = find_strategy(strategy).default_max_points
    limit = want.max_points if want.max_points is not None else default
    most = len(offer.points) if limit is None else min(limit, len(offer.points))
    expected = None if offer.expect is None else offer.expect()
    share = most / len(offer.points) if offer.points else 0.0
    duration_s, energy_j = (0.0, 0.0) if expected is None else (expected.duration_s, expected.energy_j)
    time = None if duration_s is None else duration_s * share
    energy = None if energy_j is None else energy_j * share
    if want.json:
        figures = {"offered": len(offer.points), "points": most, "duration_s": time, "energy_j": energy}
        answer({**figures, "strategy": strategy, "what": offer.described})
        return
    cost = "looked up, not measured" if expected is None else (
        f"time about {'unknown' if time is None else format_duration(time)}, "
        f"energy about {'unknown' if energy is None else format_si(energy, 'J')} ({expected.basis})"
    )  # fmt: skip
    print(f"at most {most} of {len(offer.points)} points of {offer.described}, by {strategy}; {cost}")


def _write_trace(trace: Trace | None, want: Want, screen: Screen) -> None:
    from edgetune.artifacts import io

    if want.trace is None or trace is None:
        return
    if want.trace == "-":
        raise InputError("standard output carries the plan, not the trace", "name a file with --trace")
    io.write(trace, want.trace)
    screen.detail(f"wrote {want.trace}")
