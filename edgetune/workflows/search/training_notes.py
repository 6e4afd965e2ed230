"""Describes an answer of time to accuracy: beside baselines, and beside the cost of measuring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.search.accuracy import BASELINES, Comparison, compare
from edgetune.units import format_duration

if TYPE_CHECKING:
    from edgetune.workflows.search.run import SearchAnswer


def describe_training(found: SearchAnswer) -> list[str]:
    """Return how the answer of a problem of time to accuracy compares, as lines.

    The baselines come from the rows of the table, or without one from the rows that the search measured. Other
    networks of the table have to keep the budget as well at the clock of the baselines.
    """
    assert found.plan is not None
    assert found.trace is not None
    offered, chosen = set(found.candidates.points), found.plan.configuration
    known = [row for row in found.candidates.rows if row.point in offered] or [step.row for step in found.trace.rows]
    row = next(row for row in known if (row.mode, row.batch_size) == (chosen.mode, chosen.batch_size))
    others = [each for each in found.candidates.rows if each.workload != row.workload]
    comparison = compare(found.problem, known, row, others=others)
    each = "network and batch size" if others else "batch size"
    return [*_baselines(comparison, each), *_cost(found, comparison, known)]


def _baselines(found: Comparison, each: str) -> list[str]:
    if found.worst_case is None:
        return [f"no baseline to compare with: {found.why}"]
    lines = [f"to accuracy, beside the highest mode in which every {each} keeps the budget ({found.worst_case}):"]
    for name, words in BASELINES.items():
        choice = getattr(found, name)
        less = found.times_less_energy(choice)
        energy = "" if less is None else f" and {_times(less)} as much energy"
        lines.append(f"  {words} ({choice.row.batch_size}) takes {_times(found.times_faster(choice))} as long{energy}")
    return lines


def _times(ratio: float) -> str:
    return "just" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times"


def _cost(found: SearchAnswer, comparison: Comparison, rows: Sequence[ProfileRow]) -> list[str]:
    """Return the duration of a training, and of the measurements as a share of it; nothing where it is unknown."""
    if found.samples is None:
        return []
    training_s = comparison.answer.time_s * found.samples
    line = f"a training on {found.samples} samples takes about {format_duration(training_s)}"
    spent_s = measuring_s(found, rows)
    if spent_s is None:
        return [line]
    return [f"{line}; measuring took {format_duration(spent_s)}, {spent_s / training_s:.1%} of it"]


def measuring_s(found: SearchAnswer, rows: Sequence[ProfileRow]) -> float | None:
    """Return the duration of the measurements of a search, s; ``None`` for a table that does not say it."""
    assert found.trace is not None
    steps = [step for step in found.trace.rows if step.source == "measured"]
    if not found.candidates.free:
        return sum(step.measurement_s or 0.0 for step in steps)
    durations = {row.point: row.duration_s for row in rows}
    spent = [durations.get(step.row.point) for step in steps]
    return None if None in spent else sum(each for each in spent if each is not None)
