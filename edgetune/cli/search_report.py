"""What ``edgetune search`` says: what it would cost, its steps, and the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen, answer, print_document, print_folded
from edgetune.units import format_duration, format_si
from edgetune.workflows.reporting import SimulationLabel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetune.artifacts.plan import Configuration, Plan
    from edgetune.artifacts.problem import Problem
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.trace import TraceRow
    from edgetune.search.driver import SearchResult
    from edgetune.workflows.search.candidates import Candidates


def give(plan: Plan, output: str | None, screen: Screen, *, json: bool) -> None:
    """Print the plan, or write it to its file and say what it found."""
    from edgetune.artifacts import io

    document = io.to_bytes(plan).decode()
    if json:
        import yaml

        answer(yaml.safe_load(document))
    elif output in (None, "-"):
        print_document(document)
    if output is not None and output != "-":
        io.write(plan, output)
        screen.info(f"wrote {output}")
    screen.info(found(plan))


def found(plan: Plan) -> str:
    """Return what a search found, and from how many points, as a line for people."""
    from edgetune.search.problem import runs_back_to_back

    measured, search = plan.measured, plan.search
    figures = [] if measured.minibatch_s is None else [f"{format_si(measured.minibatch_s, 's')} per minibatch"]
    if plan.configuration.batch_size is None and measured.throughput_per_s is not None:
        figures.append(f"{measured.throughput_per_s:.4g} background samples per s")
    if runs_back_to_back(plan.problem) and measured.minibatch_s is not None:
        figures.append("batches back to back")
    elif plan.problem.arrival_rate_per_s is not None and measured.latency_s is not None:
        figures.append(f"answers within {format_si(measured.latency_s, 's')}")
    if measured.power_w is not None:
        figures.append(format_si(measured.power_w, "W"))
    points = f"{search.points_measured} point{'' if search.points_measured == 1 else 's'} measured"
    known = f", {search.known_points} known" if search.known_points else ""
    return f"{_where(plan.configuration)}: {', '.join(figures) or 'not measured'}; {points}{known}"


def _where(chosen: Configuration) -> str:
    """Return the mode and batch sizes for people."""
    if chosen.batch_size is not None:
        return f"{chosen.mode}, batch {chosen.batch_size}"
    text = f"{chosen.mode}, batch {chosen.infer_batch_size}"
    minibatches = chosen.train_minibatches or chosen.background_minibatches
    size = chosen.train_batch_size or chosen.background_batch_size
    return text if minibatches is None else f"{text} and then {minibatches} background minibatches of {size}"


def report_baselines(problem: Problem, rows: Sequence[ProfileRow], result: SearchResult, screen: Screen) -> None:
    """Say how the answer to a problem of time to accuracy compares with the two usual ways of choosing.

    Args:
        problem: Of kind ``accuracy``.
        rows: What the table holds; without any, what the search measured is compared.
        result: The plan and the steps.
        screen: Where to say it.
    """
    from edgetune.search.accuracy import compare

    known = rows or [step.row for step in result.trace.rows]
    chosen = result.plan.configuration
    answer = next(row for row in known if (row.mode, row.batch_size) == (chosen.mode, chosen.batch_size))
    found = compare(problem, known, answer)
    if found.worst_case is None or found.largest_batch is None or found.best_batch is None:
        screen.info(f"no baseline to compare with: {found.why}")
        return
    screen.info(
        f"to accuracy, beside the highest mode in which every batch size keeps the budget ({found.worst_case}):"
    )
    for name, choice in (("its largest batch", found.largest_batch), ("its best batch", found.best_batch)):
        less = found.times_less_energy(choice)
        energy = "" if less is None else f" and {_times(less)} as much energy"
        screen.info(f"  {name} ({choice.row.batch_size}) takes {_times(found.times_faster(choice))} as long{energy}")


def _times(ratio: float) -> str:
    return "just" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times"


def describe_step(step: TraceRow) -> str:
    """Return one step as a line for people."""
    from edgetune.artifacts.mode import SETTINGS, Mode

    time = "failed" if step.minibatch_s is None else format_si(step.minibatch_s, "s")
    power = "" if step.power_w is None else f", {format_si(step.power_w, 'W')}"
    verdict = {True: "within budget", False: "over budget", None: "cannot tell"}[step.feasible]
    mode = Mode.of({name: value for name in SETTINGS if (value := getattr(step, name)) is not None})
    return f"step {step.step}: {mode}, batch {step.batch_size}: {time}{power}, {verdict} ({step.reason})"


def report_plan(
    candidates: Candidates, problem: Problem, strategy: str | None, max_points: int | None, *, json: bool
) -> None:
    """Print how many points would be measured at most, how long that may take and how many joules.

    Without a strategy, for which there is no time, that is none.
    """
    from edgetune.search.strategies import find_strategy

    if strategy is None:
        limit: int | None = 0
    else:
        limit = max_points if max_points is not None else find_strategy(strategy).default_max_points(problem)
    most = len(candidates.points) if limit is None else min(limit, len(candidates.points))
    expected = None if candidates.expect is None else candidates.expect()
    SimulationLabel(candidates.simulated, Screen()).announce()
    share = most / len(candidates.points) if candidates.points else 0.0
    duration_s, energy_j = (0.0, 0.0) if expected is None else (expected.duration_s, expected.energy_j)
    time = None if duration_s is None else duration_s * share
    energy = None if energy_j is None else energy_j * share
    if json:
        figures = {"offered": len(candidates.points), "points": most, "duration_s": time, "energy_j": energy}
        answer({**figures, "strategy": strategy, "what": candidates.described})
        return
    cost = "looked up, not measured"
    if expected is not None:
        takes = "unknown" if time is None else f"about {format_duration(time)}"
        draws = "unknown" if energy is None else f"about {format_si(energy, 'J')}"
        cost = f"time {takes}, energy {draws} ({expected.basis})"
    who = "there is no time for a strategy" if strategy is None else f"by {strategy}"
    summary = f"at most {most} of {len(candidates.points)} points of {candidates.described}, {who}; {cost}"
    print_folded(summary)
