"""Ties the marks of a figure to the rows of its artifact, or to descriptions, that a page shows beside a mark.

A mark of its own, such as a bar or a curve, has the identifier ``point.N`` or ``PANEL.point.N``, N the place of the row
in the artifact from 0. Marks drawn together are a group ``rows.K``; its elements are in the order of what
``rows_of`` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetune.plotting.style import Figure


def name_rows(marks: Any, rows: Sequence[int | str]) -> None:
    """Tie marks drawn together to rows or descriptions, one for each mark in their order.

    Args:
        marks: A collection, a line of markers, or a single shape.
        rows: Places of rows in the artifact, from 0; descriptions, line by line, of marks without a row.
    """
    figure = marks.get_figure()
    figure.edgetune_rows = rows_of(figure) | {f"rows.{len(rows_of(figure))}": tuple(rows)}
    marks.set_gid(next(reversed(figure.edgetune_rows)))


def rows_of(figure: Figure) -> dict[str, tuple[int | str, ...]]:
    """Return the rows or descriptions of each group of marks of a figure, by its identifier."""
    return getattr(figure, "edgetune_rows", {})
