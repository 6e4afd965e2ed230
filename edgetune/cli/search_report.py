"""What ``edgetune search`` says: what it would cost, its steps, and the plan."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.plan import Plan
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


def tell_plan(offer: Offer, strategy: str, max_points: int | None, *, json: bool) -> None:
    """Print how many points would be measured at most, how long that may take and how many joules."""
    from edgetune.cli.screen import Label, answer
    from edgetune.search.strategies import find_strategy

    default = find_strategy(strategy).default_max_points
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
    cost = "looked up, not measured" if expected is None else (
        f"time about {'unknown' if time is None else format_duration(time)}, "
        f"energy about {'unknown' if energy is None else format_si(energy, 'J')} ({expected.basis})"
    )  # fmt: skip
    print(f"at most {most} of {len(offer.points)} points of {offer.described}, by {strategy}; {cost}")
