"""Which figure of a timeline a person asks for with ``--plot`` and ``--view``."""

from __future__ import annotations

from typing import cast

from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.plotting.figure_file import require_figure
from edgetune.schedule.figures import VIEWS
from edgetune.schedule.figures import View as TimelineView
from edgetune.units import parse_time_s


def kernel_view(words: str) -> tuple[str | None, float | None, float | None]:
    """Return the part of a timeline of kernels that words name: its policy, begin and end, s.

    Raises:
        InputError: there is no such figure, or the words name no part of the time.
    """
    view, policy, from_s, to_s = timeline_view(words)
    if view != "gantt":
        raise InputError(f"a timeline of kernels has no figure {view!r}", "write --view gantt, or gantt:POLICY")
    return policy, from_s, to_s


def timeline_view(words: str) -> tuple[TimelineView, str | None, float | None, float | None]:
    """Return the figure of a timeline that words name: the figure, its policy, begin and end, s.

    Raises:
        InputError: there is no such figure, or the words name no part of the time.
    """
    chosen, at, part = words.partition("@")
    word, colon, policy = chosen.partition(":")
    view = cast("TimelineView", choose(word, VIEWS, what="view"))
    if view == "responses" and (colon or at):
        raise InputError("the figure of responses has every policy and all of the time", "write --view responses")
    if not at:
        return view, policy or None, None, None
    begin, dash, end = part.partition("-")
    first = begin.strip() in ("", "0", "0s", "0ms", "0us", "0µs")
    from_s = 0.0 if first else parse_time_s(begin, what="--view: where it begins")
    to_s = parse_time_s(end, what="--view: where it ends") if dash and end else None
    if not dash or (to_s is not None and to_s <= from_s):
        raise InputError(f"--view: {part!r} is no part of the time", "e.g. gantt@2s-5s, or gantt:masa@0s-1m")
    return view, policy or None, from_s, to_s


def check_figure(plot: str | None, view: str | None) -> None:
    """Refuse a figure that cannot be drawn.

    Raises:
        InputError: the format or view is unknown, or a view is given without a figure.
        DeviceError: matplotlib is missing.
    """
    if plot is None:
        if view is not None:
            raise InputError("--view says which figure to draw, and none was asked for", "add --plot FIGURE.svg")
        return
    require_figure(plot)
    timeline_view(view or "gantt")
