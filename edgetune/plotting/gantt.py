"""Gantt charts: bars on lanes over time.

    worker 0  [//load//][ execute ][ execute  ]
    worker 1       [//load//////]  [//load//]

Bars that would be narrower than a line are drawn as one with their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from edgetune.plotting.rows import name_rows
from edgetune.plotting.style import time_unit
from edgetune.plotting.time_zoom import zoom_time

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
    words: Callable[[Bar[Kind]], str] | None = None,
) -> None:  # fmt: skip
    """Draw bars.

    Args:
        axes: The axes to draw on.
        bars: The bars.
        factor: From seconds to the unit of the time axis.
        place: Returns the place upwards of a lane.
        style: Returns colours, line width and hatch of a bar; the same fields for every bar.
        height: Of a bar; lanes are 1 apart.
        words: Returns the description of a bar without a row.
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
        elif words is not None:
            name_rows(patch, [words(bar)])


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
