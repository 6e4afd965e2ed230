"""Markers by what became of a point: shape and colour tell it, and those known before the search are hollow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgetune.drawing import BLUE, GREY, PURPLE, VERMILLION
from edgetune.search.figures.point import PointStatus

STANDINGS: Mapping[PointStatus, tuple[str, str, str]] = {
    "within": ("within budget", BLUE, "o"),
    "over": ("over the power budget", VERMILLION, "s"),
    "late": ("misses latency, rate or room", PURPLE, "D"),
    "unknown": ("cannot be judged", GREY, "h"),
    "failed": ("failed", GREY, "X"),
}
"""Label, colour and marker by what became of a point; all markers have room for a number inside."""

_LEGEND_PT2 = 34.0
_DIAMOND = 0.7
"""What a diamond's area takes to look as large as the other markers."""


def draw_markers(axes: Any, points: Iterable[tuple[PointStatus, bool, tuple[float, float]]], area_pt2: float) -> None:
    """Draw points given as what became of them, whether they were known before, and their place."""
    groups: dict[tuple[PointStatus, bool], list[tuple[float, float]]] = {}
    for status, known, place in points:
        groups.setdefault((status, known), []).append(place)
    for status, (label, colour, marker) in STANDINGS.items():
        for known in (False, True):
            if (status, known) not in groups:
                continue
            face = {"facecolors": "none", "edgecolors": colour} if known else {"color": colour, "linewidths": 0}
            area = area_pt2 * (_DIAMOND if marker == "D" else 1.0)
            axes.scatter(*zip(*groups[status, known], strict=True), s=area, marker=marker, zorder=3, **face)
            axes.scatter(
                [], [], s=_LEGEND_PT2, marker=marker, label=f"{label}, known before" if known else label, **face
            )
