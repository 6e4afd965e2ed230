"""What ``edgetune search`` says: what it would cost, its steps, and the plan."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.problem import Problem
    from edgetune.artifacts.trace import TraceRow
    from edgetune.cli.offer import Offer
    from edgetune.cli.screen import Screen


def give(plan: Plan, output: str | None, screen: Screen, *, json: bool) -> None:
    """Print the plan, or write it to its file and say what it found."""
    from edgetune.artifacts import io
    from edgetune.cli.screen import answer

    document = io.to_bytes(plan).decode()
    if json:
        import yaml

        answer(yaml.safe_load(document))
    elif output in (None, "-"):
        sys.stdout.write(document)
    if output is not None and output != "-":
        io.write(plan, output)
        screen.say(f"wrote {output}")
    screen.say(found(plan))


def found(plan: Plan) -> str:
    """Return what a search found, and from how many points, as a line for people."""
    measured, search = plan.measured, plan.search
    figures = [f"{format_si(measured.minibatch_s or 0.0, 's')} per minibatch"]
    if plan.problem.arrival_rate_per_s is not None and measured.latency_s is not None:
        figures.append(f"answers within {format_si(measured.latency_s, 's')}")
    if measured.power_w is not None:
        figures.append(format_si(measured.power_w, "W"))
    points = f"{search.points_measured} point{'' if search.points_measured == 1 else 's'} measured"
    known = f", {search.known_points} known" if search.known_points else ""
    where = f"{plan.configuration.mode}, batch {plan.configuration.batch_size}"
    return f"{where}: {', '.join(figures)}; {points}{known}"


def told(step: TraceRow) -> str:
    """Return one step as a line for people."""
    from edgetune.artifacts.mode import KNOBS, Mode

    time = "failed" if step.minibatch_s is None else format_si(step.minibatch_s, "s")
    power = "" if step.power_w is None else f", {format_si(step.power_w, 'W')}"
    verdict = {True: "within budget", False: "over budget", None: "cannot tell"}[step.feasible]
    mode = Mode.of({name: value for name in KNOBS if (value := getattr(step, name)) is not None})
    return f"step {step.step}: {mode}, batch {step.batch_size}: {time}{power}, {verdict} ({step.reason})"


def tell_plan(offer: Offer, problem: Problem, strategy: str, max_points: int | None, *, json: bool) -> None:
    """Print how many points would be measured at most, how long that may take and how many joules."""
    from edgetune.cli.screen import Label, answer, folded
    from edgetune.search.strategies import find_strategy

    default = find_strategy(strategy).default_max_points(problem)
    limit = max_points if max_points is not None else default
    most = len(offer.points) if limit is None else min(limit, len(offer.points))
    expected = None if offer.expect is None else offer.expect()
    Label(offer.simulated).say()
    share = most / len(offer.points) if offer.points else 0.0
    duration_s, energy_j = (0.0, 0.0) if expected is None else (expected.duration_s, expected.energy_j)
    time = None if duration_s is None else duration_s * share
    energy = None if energy_j is None else energy_j * share
    if json:
        figures = {"offered": len(offer.points), "points": most, "duration_s": time, "energy_j": energy}
        answer({**figures, "strategy": strategy, "what": offer.described})
        return
    cost = "looked up, not measured"
    if expected is not None:
        takes = "unknown" if time is None else f"about {format_duration(time)}"
        draws = "unknown" if energy is None else f"about {format_si(energy, 'J')}"
        cost = f"time {takes}, energy {draws} ({expected.basis})"
    summary = f"at most {most} of {len(offer.points)} points of {offer.described}, by {strategy}; {cost}"
    print(folded(summary, sys.stdout))
