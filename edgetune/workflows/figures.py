"""The table of figures by kind of artifact and view; installed packages add rows.

A row is a function of an artifact. If the function takes ``engine`` or ``policy``, ``--view`` may name one; if it takes
``from_s`` and ``to_s``, ``--view`` may name a time range: ``gantt:masa@2s-5s``.
"""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from edgetune.artifacts.artifact import Artifact
from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.plotting.page import is_page, require_drawing
from edgetune.plotting.style import Figure
from edgetune.plugins import Registry
from edgetune.units import parse_time_s

FIGURES: Registry[Callable[..., Any]] = Registry(
    "figure",
    {
        "trace.steps": "edgetune.stages.search.figures.front:trace_figure",
        "trace.front": "edgetune.stages.search.figures.front:front_figure",
        "roofline.roofs": "edgetune.stages.roofline.figures.roofs:roofline_figure",
        "run.latency": "edgetune.stages.interleave.figures.latency:latency_figure",
        "run.timeline": "edgetune.stages.interleave.figures.timeline:timeline_figure",
        "timeline.gantt": "edgetune.stages.schedule.figures.gantt:gantt_figure",
        "kernel_timeline.gantt": "edgetune.stages.elastic.figures.gantt:gantt_figure",
        "profile.points": "edgetune.stages.profiling.figures:profile_figure",
        "profile.soak": "edgetune.stages.profiling.figures:soak_figure",
    },
    group="edgetune.figures",
)
"""The first view of a kind is what is drawn without ``--view``."""


def draw_view(view: str, artifact: Artifact, **part: Any) -> Figure:
    """Return a figure of an artifact.

    Args:
        view: A name in ``FIGURES``.
        artifact: Of its kind.
        part: The part of the artifact to show: ``engine`` or ``policy``, ``from_s`` and ``to_s``; none shows all.

    Raises:
        InputError: There is nothing to draw, or the artifact has no such part.
        DeviceError: matplotlib is missing.
    """
    figure: Figure = FIGURES[view](artifact, **part)
    return figure


def views_of(kind: str) -> list[str]:
    """Return the names of the figures of a kind of artifact, the default first."""
    return [name.partition(".")[2] for name in FIGURES if name.startswith(f"{kind}.")]


def choose_view(kind: str, words: str | None = None) -> "partial[Figure]":
    """Return the function of an artifact that draws the figure that ``--view`` names.

    Args:
        kind: Of the artifact.
        words: E.g. ``gantt:masa@2s-5s``; ``None`` takes the default.

    Raises:
        InputError: The kind has no figure, or not this one, or the words name no such part.
    """
    views = views_of(kind)
    if not views:
        raise InputError(f"a file of kind {kind} has no figure", "leave out --plot")
    if words is None:
        return partial(draw_view, f"{kind}.{views[0]}")
    chosen, at, times = words.partition("@")
    word, _, name = chosen.partition(":")
    if word not in views:
        raise InputError(f"a file of kind {kind} has no figure {word!r}", nearest(word, views))
    taken = signature(FIGURES[f"{kind}.{word}"]).parameters
    named = next((each for each in ("engine", "policy") if each in taken), None)
    if (name and named is None) or (at and "from_s" not in taken):
        raise InputError(f"--view: the figure {word} shows everything, and has no part {words[len(word) :]!r}",
                         f"write --view {word}")  # fmt: skip
    part: dict[str, Any] = {named: name} if named is not None and name else {}
    if at:
        part |= _times(times)
    return partial(draw_view, f"{kind}.{word}", **part)


def check_plot(plot: str | None, view: str | None, kind: str) -> "partial[Figure] | None":
    """Check before a run that the requested figure or page can be drawn; return the figure, if it is one.

    Args:
        plot: The value of ``--plot``.
        view: The value of ``--view``.
        kind: Of the artifact to draw.

    Raises:
        InputError: An unknown format or view, or a view without a figure.
        DeviceError: matplotlib is missing.
    """
    if plot is None:
        if view is not None:
            raise InputError("--view chooses a figure, and --plot is not given", "add --plot FIGURE.svg")
        return None
    require_drawing(plot)
    if not is_page(plot):
        return choose_view(kind, view)
    if view is not None:
        raise InputError("a page shows everything, and --view chooses between figures", "leave it out")
    return None


def _times(words: str) -> dict[str, float | None]:
    """Return the limits of a time range such as ``2s-5s`` or ``2s-``, s."""
    begin, dash, end = words.partition("-")
    first = begin.strip() in ("", "0", "0s", "0ms", "0us", "0µs")
    from_s = 0.0 if first else parse_time_s(begin, what="--view: where it begins")
    to_s = parse_time_s(end, what="--view: where it ends") if dash and end else None
    if not dash or (to_s is not None and to_s <= from_s):
        raise InputError(f"--view: {words!r} is no part of the time", "e.g. gantt@2s-5s, or gantt:POLICY@0s-1m")
    return {"from_s": from_s, "to_s": to_s}
