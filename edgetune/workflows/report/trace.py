"""A search in a report: its steps, and its front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.plotting.page import SectionWriter
from edgetune.workflows.cells import cell, si_cell
from edgetune.workflows.report.settings import column_name, settings_cells, write_common
from edgetune.workflows.report.views import draw_views

if TYPE_CHECKING:
    from edgetune.artifacts.trace import Trace


def trace_section(trace: Trace, out: SectionWriter) -> None:
    """Write the steps of a search, below the values that all of them share, and draw every figure."""
    write_steps(trace, out)
    if trace.rows:
        draw_views(trace, out)


def write_steps(trace: Trace, out: SectionWriter, title: str = "") -> None:
    """Write the steps; under a title they are folded."""
    rows = trace.rows
    if not rows:
        out.note("no rows")
        return
    varying = write_common(rows, out)
    verdict = {True: "", False: "over budget; ", None: "cannot tell; "}
    out.table(
        ("step>", *map(column_name, varying), "minibatch>", "power>", "objective>", "why"),
        [
            (
                row.step,
                *settings_cells(row, varying),
                si_cell(row.minibatch_s, "s"),
                si_cell(row.power_w, "W"),
                cell(row.objective, ".4g"),
                verdict[row.feasible] + (row.reason or ""),
            )
            for row in rows
        ],
        title=title,
        opened=not title,
        keys=range(len(rows)),
    )
