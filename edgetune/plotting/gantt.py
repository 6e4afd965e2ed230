"""Gantt charts: bars on lanes over time.

    worker 0  [//load//][ execute ][ execute  ]
    worker 1       [//load//////]  [//load//]

Bars that would be narrower than a line are drawn as one with their neighbours.

Selects the rows of one turn of a run for a figure, and notes which rows the figure leaves out.

Axes of time that a page can zoom into.

Ties the marks of a figure to the rows of its artifact, or to descriptions, that a page shows beside a mark.

A mark of its own, such as a bar or a curve, has the identifier ``point.N`` or ``PANEL.point.N``, N the place of the row
in the artifact from 0. Marks drawn together are a group ``rows.K``; its elements are in the order of what
``rows_of`` returns.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.plotting.style import Figure, time_unit
from edgetune.units import format_si


def zoom_time(axes: Any) -> None:
    """Let a page zoom into the horizontal axis of ``axes`` and of those that share it, a linear one of time."""
    for each in axes.get_shared_x_axes().get_siblings(axes):
        each.edgetune_zooms = True


def zooms(axes: Any) -> bool:
    """Return whether a page can zoom into the time of ``axes``."""
    return getattr(axes, "edgetune_zooms", False)


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


_NARROWEST = 1 / 1200
"""Of the width of the figure: about a pixel of a screen."""

_PAGE_IN = 6.0
"""Height of all lanes at most, inches."""

Kind = TypeVar("Kind", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a run that a figure shows, s."""

    begin_s: float
    end_s: float

    @property
    def least_s(self) -> float:
        """The longest invisible time, s."""
        return _NARROWEST * (self.end_s - self.begin_s)

    @property
    def unit(self) -> tuple[float, str]:
        """The factor from seconds to the unit of the time axis, and the unit."""
        return time_unit(self.end_s - self.begin_s)


@dataclass(frozen=True)
class Bar(Generic[Kind]):
    """A continuous occupation of a lane.

    Args:
        lane: Which lane: any key.
        kind: What it is: bars of the same kind look alike and may be drawn as one.
        start_s, end_s: When, s.
        row: Its row in the artifact, of bars drawn as one that of the first; ``None`` where it has none.
    """

    lane: Any
    kind: Kind
    start_s: float
    end_s: float
    row: int | None = None

    @property
    def length_s(self) -> float:
        """Duration, s."""
        return self.end_s - self.start_s


def merged(bars: Iterable[Bar[Kind]], span: Span, *, join_wide: bool = False) -> list[Bar[Kind]]:
    """Return the bars of a part of a run, merged where they would be too narrow to tell apart.

    Args:
        bars: In any order.
        span: The part.
        join_wide: Whether wide neighbours of the same kind without a visible pause become one bar, too.
    """
    found: list[Bar[Kind]] = []
    last: dict[Hashable, int] = {}
    """By lane, the place of its last bar."""
    for bar in sorted(bars, key=lambda bar: bar.start_s):
        if bar.end_s <= span.begin_s or bar.start_s >= span.end_s:
            continue
        place = last.get(bar.lane)
        before = None if place is None else found[place]
        if (
            place is not None and before is not None and before.kind == bar.kind
            and bar.start_s - before.end_s < span.least_s
            and (join_wide or min(before.length_s, bar.length_s) < span.least_s)
        ):  # fmt: skip
            found[place] = replace(before, end_s=max(before.end_s, bar.end_s))
        else:
            last[bar.lane] = len(found)
            found.append(bar)
    return found


def thinned(bars: Sequence[Bar[Kind]], span: Span) -> list[Bar[Kind]]:
    """Return the bars; those that lie together within the width of a line become one of their prevalent kind."""
    wide = [bar for bar in bars if bar.length_s >= span.least_s]
    lines: dict[Hashable, list[Bar[Kind]]] = {}
    for bar in bars:
        if bar.length_s < span.least_s:
            lines.setdefault((bar.lane, int((bar.start_s - span.begin_s) / span.least_s)), []).append(bar)
    for together in lines.values():
        times_s: dict[Kind, float] = {}
        for bar in together:
            times_s[bar.kind] = times_s.get(bar.kind, 0.0) + bar.length_s
        prevalent = max(times_s, key=times_s.__getitem__)
        wide.append(replace(together[0], kind=prevalent, end_s=together[-1].end_s))
    return sorted(wide, key=lambda bar: bar.start_s)


def draw_bars(
    axes: Any, bars: Sequence[Bar[Kind]], factor: float, *, place: Callable[[Any], float],
    style: Callable[[Bar[Kind]], Mapping[str, Any]], height: float = 0.8,
) -> None:  # fmt: skip
    """Draw bars.

    Args:
        axes: The axes to draw on.
        bars: The bars.
        factor: From seconds to the unit of the time axis.
        place: Returns the place upwards of a lane.
        style: Returns colours, line width and hatch of a bar; the same fields for every bar.
        height: Of a bar; lanes are 1 apart.
    """
    if not bars:
        return
    styles = [style(bar) for bar in bars]
    drawn = axes.barh(
        [place(bar.lane) for bar in bars], [factor * bar.length_s for bar in bars],
        left=[factor * bar.start_s for bar in bars], height=height, zorder=3,
        **{name: [each[name] for each in styles] for name in styles[0]},
    )  # fmt: skip
    for patch, bar in zip(drawn.patches, bars, strict=True):
        if bar.row is not None:
            patch.set_gid(f"point.{bar.row}")


def lane_inches(lanes: int) -> float:
    """Return the height of a lane, inches: many lanes share the height of a page."""
    return min(0.34, _PAGE_IN / lanes)


def name_lanes(axes: Any, names: Sequence[str], *, beside: float = 0.6, every: int = 1) -> None:
    """Name lanes, the first at the top, at 0, and the others 1 apart below it.

    Args:
        axes: The axes to label.
        names: Of all lanes.
        beside: Room above the first and below the last lane.
        every: Distance between named lanes: 4 names every fourth.
    """
    axes.set_yticks([-lane for lane in range(0, len(names), every)], list(names[::every]))
    axes.set_ylim(beside - len(names), beside)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")


def name_time(axes: Any, span: Span, note: str = "") -> None:
    """Label the time axis, with a note behind the name, and limit it to a part of a run."""
    factor, unit = span.unit
    axes.set_xlim(factor * span.begin_s, factor * span.end_s)
    axes.set_xlabel(f"time since the run began ({unit}){note}")
    zoom_time(axes)


Row = TypeVar("Row")
"""A row of a run or of a timeline, which names the engine or the policy that ran: its ``turn``, times and tenant."""


def names_of(rows: Sequence[Any], field: str) -> list[str]:
    """Return the distinct values of a field, in the order of the rows."""
    return list(dict.fromkeys(getattr(row, field) for row in rows))


def first_turn(rows: Sequence[Row], field: str, asked: str | None, *, of: str) -> list[Row]:
    """Return the rows of the first turn of an engine or a policy.

    Args:
        rows: Of all turns.
        field: ``engine`` or ``policy``.
        asked: Its name; ``None`` takes that of the first row.
        of: The artifact of the rows, ``run`` or ``timeline``, for messages.

    Raises:
        InputError: There are no rows, or none of the name asked for; the hint names the nearest.
    """
    names = names_of(rows, field)
    if not names:
        raise InputError(f"the {of} has no rows to draw", "it may have been stopped before its first event")
    if asked is not None and asked not in names:
        hint = nearest(asked, names, listed=f"it has {', '.join(names)}")
        raise InputError(f"the {of} has no {field} {asked!r}", hint)
    chosen: list[Any] = [row for row in rows if getattr(row, field) == (asked or names[0])]
    first = min(row.turn for row in chosen)
    return [row for row in chosen if row.turn == first]


def turn_notes(rows: Sequence[Any], drawn: Sequence[Any], field: str, remedy: str) -> list[str]:
    """Return the notes of the engines or policies and the turns that a figure of one turn leaves out.

    Args:
        rows: Of all turns.
        drawn: The rows of the turn.
        field: ``engine`` or ``policy``.
        remedy: How to draw another one, e.g. ``--view gantt:POLICY draws one``.
    """
    chosen = getattr(drawn[0], field)
    others = [name for name in names_of(rows, field) if name != chosen]
    notes = [f"{field} {chosen} is drawn; not drawn: {', '.join(others)} ({remedy})"] if others else []
    turns = len({row.turn for row in rows if getattr(row, field) == chosen})
    return [*notes, f"the first of {turns} turns is drawn"] if turns > 1 else notes


def longest_note(requests: Sequence[Any], whose: str) -> list[str]:
    """Return the note of the longest request, for a figure that shows a part of the time.

    Args:
        requests: All requests of the turn that arrived.
        whose: The field that names the tenant, job or task.
    """
    if not requests:
        return []
    longest = max(requests, key=lambda row: row.finished_s - (row.arrived_s or 0.0))
    from_s, to_s, name = longest.arrived_s or 0.0, longest.finished_s, getattr(longest, whose)
    took, began, ended = (format_si(time_s, "s") for time_s in (to_s - from_s, from_s, to_s))
    if to_s - from_s < 0.05 * to_s:  # three digits would not tell them apart
        began, ended = (f"{time_s:.6g} s" for time_s in (from_s, to_s))
    return [f"the longest request{f' of {name}' if name else ''} took {took}, from {began} to {ended}"]
