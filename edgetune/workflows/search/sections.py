"""What ``edgetune search`` writes beside its plan: best points, baselines of time to accuracy, estimate, drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.artifacts.profile import Profile
from edgetune.plotting.page import SectionWriter, is_page
from edgetune.plotting.style import Figure
from edgetune.stages.search.accuracy import BASELINES, compare
from edgetune.stages.search.figures.front import front_figure
from edgetune.units import format_duration, format_si
from edgetune.workflows.report.plan import ranked_table
from edgetune.workflows.report.report import Found, page_of

if TYPE_CHECKING:
    from edgetune.workflows.search.options import SearchOptions
    from edgetune.workflows.search.run import SearchAnswer
    from edgetune.workflows.search.strategy_choice import SearchEstimate


def estimate_section(estimate: SearchEstimate, out: SectionWriter) -> None:
    """Write the most points that a search measures, and the time and energy they may take."""
    cost, expected = "looked up, not measured", estimate.expected
    if expected is not None:
        time, energy = expected.duration_s, expected.energy_j
        takes = "unknown" if time is None else f"about {format_duration(time)}"
        draws = "unknown" if energy is None else f"about {format_si(energy, 'J')}"
        cost = f"time {takes}, energy {draws} ({expected.basis})"
    points = f"at most {estimate.points} of {estimate.offered} points of {estimate.described}"
    out.answer(f"{points}, by {estimate.strategy}; {cost}")


def search_section(found: SearchAnswer, out: SectionWriter) -> None:
    """Write how an answer of time to accuracy compares with baselines, and the best points that were asked for."""
    if found.plan is not None and found.problem.kind == "accuracy":
        _write_baselines(found, out)
    if found.top:
        out.table(*ranked_table(found.top))


def _write_baselines(found: SearchAnswer, out: SectionWriter) -> None:
    """Write the answer beside baselines from the rows of the table, or without one from those that were measured.

    Other networks of the table have to keep the budget as well at the clock of the baselines.
    """
    assert found.plan is not None
    offered, chosen = set(found.candidates.points), found.plan.configuration
    known = [row for row in found.candidates.rows if row.point in offered] or [step.row for step in found.trace.rows]
    row = next(row for row in known if (row.mode, row.batch_size) == (chosen.mode, chosen.batch_size))
    others = [each for each in found.candidates.rows if each.workload != row.workload]
    made = compare(found.problem, known, row, others=others)
    if made.worst_case is None:
        out.note(f"no baseline to compare with: {made.why}")
        return
    each = "network and batch size" if others else "batch size"
    out.note(f"to accuracy, beside the highest mode in which every {each} keeps the budget ({made.worst_case}):")
    for name, words in BASELINES.items():
        choice = getattr(made, name)
        less = made.times_less_energy(choice)
        energy = "" if less is None else f" and {_times(less)} as much energy"
        out.note(f"  {words} ({choice.row.batch_size}) takes {_times(made.times_faster(choice))} as long{energy}")


def _times(ratio: float) -> str:
    return "just" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times"


def drawing_of(found: SearchAnswer, opts: SearchOptions) -> Figure | bytes:
    """Return the front that the search found, before the true one of a table, or the page of plan, trace and table."""
    rows = found.candidates.rows if found.candidates.free else ()
    if not is_page(str(opts.plot)):
        return front_figure(found.trace, plan=found.plan, table_rows=rows)
    shown = [Found(opts.output or "plan", found.plan)] if found.plan is not None else []
    table = Profile(found.trace.header, tuple(rows))
    return page_of([*shown, Found(opts.trace or "trace", found.trace)], beside=[table] if rows else []).data()
