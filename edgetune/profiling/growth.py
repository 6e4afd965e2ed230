"""A finished sweep that grows: which of the points asked for its table lacks, and the table with the new ones in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from edgetune.artifacts.merging import merged
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.profiling.identity import points_sha256

_Plain = tuple[int, tuple[tuple[str, Any], ...]]


def partial_points(rows: Iterable[tuple[Point, ProfileRow]]) -> list[list[Any]]:
    """Return batch size and settings of the points that state fewer settings than were read back.

    A row names what was read back, so that it does not tell that such a point, as found say, was asked for.
    """
    found = {_plain(point): None for point, row in rows if row.mode.settings() != point.mode.settings()}
    return [[size, dict(settings)] for size, settings in found]


def missing_points(table: Profile, points: Sequence[Point]) -> list[Point]:
    """Return the points that a table was not asked for."""
    request = table.header.inputs.get("request", {})
    if request.get("points_sha256") == points_sha256(points):
        return []
    there = {row.point for row in table.rows}
    partial = {(size, tuple(sorted(settings.items()))) for size, settings in request.get("partial", ())}
    return [point for point in dict.fromkeys(points) if point not in there and _plain(point) not in partial]


def grown(before: Profile, added: Profile) -> Profile:
    """Return a table with what was measured since; its rows stay."""
    request = dict(added.header.inputs.get("request", {}))
    partial = [*before.header.inputs.get("request", {}).get("partial", ()), *request.get("partial", ())]
    inputs = {**added.header.inputs, "request": {**request, **({"partial": partial} if partial else {})}}
    earlier = before.header.inputs.get("grown_from", [_part(before)])
    return merged([before, added], inputs={**inputs, "grown_from": [*earlier, _part(added)]})


def _plain(point: Point) -> _Plain:
    return point.batch_size, tuple(sorted(point.mode.settings().items()))


def _part(table: Profile) -> dict[str, Any]:
    return {"created": table.header.created, "rows": len(table.rows)}
