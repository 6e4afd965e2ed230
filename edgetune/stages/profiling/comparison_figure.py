"""Figure of a comparison: the ratio of each point with its interval, sorted, beside a line at 1."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgetune.artifacts.mode import SETTINGS
from edgetune.errors import InputError
from edgetune.plotting.captions import legend_beside, note_left_out, plain_text, set_title
from edgetune.plotting.style import BLACK, BLUE, GREY, KNOB_LABELS, VERMILLION, Figure, new_figure, panels_of
from edgetune.stages.profiling.comparison import CANNOT_TELL, Joined, PointComparison

_STYLES: Mapping[str, tuple[str, str]] = {
    "slower": (VERMILLION, "^"),
    CANNOT_TELL: (GREY, "o"),
    "faster": (BLUE, "v"),
}
_NAMED = 60
"""Points up to which each is named; beyond, they are numbered from the fastest."""
_NAME_CHARACTERS = 44
_ROW_IN = 0.17
_BAND = "#dedede"


def comparison_figure(joined: Sequence[Joined], titles: Sequence[str], *, simulated: bool) -> Figure:
    """Return the figure of one or several tables beside one baseline, a panel for each.

    Args:
        joined: The points of each table.
        titles: A title for each panel.
        simulated: Whether any figure comes from a model.

    Raises:
        InputError: there is no common point.
        DeviceError: matplotlib is missing.
    """
    if not any(each.points for each in joined):
        raise InputError("there is no common point to draw", "compare tables that share points")
    most = max(len(each.points) for each in joined)
    height_in = 1.4 + max(most * _ROW_IN, 0.8) if most <= _NAMED else 5.5
    with new_figure((3.0 + 4.2 * len(joined), height_in)) as figure:
        panels = panels_of(figure, 1, len(joined), sharex=True)[0]
        for axes, each, title in zip(panels, joined, titles, strict=True):
            _draw(axes, each)
            set_title(axes, "SIMULATED" if simulated else "", title)
        legend_beside(figure, panels, tuple(_STYLES))
        notes = [f"{len(each.only_before)} points of the baseline and {len(each.only_after)} others are in one table "
                 f"only, {len(each.failed)} failed" for each in joined
                 if each.only_before or each.only_after or each.failed]  # fmt: skip
        note_left_out(figure, list(dict.fromkeys(notes)))
    return figure


def _draw(axes: Any, joined: Joined) -> None:
    points = sorted(joined.points, key=lambda each: each.ratios["time"].ratio)
    named, total = len(points) <= _NAMED, len(joined.points)
    for verdict, (colour, marker) in _STYLES.items():
        places = [place for place, each in enumerate(points) if each.verdict() == verdict]
        ratios = [points[place].ratios["time"] for place in places]
        if not places:
            continue
        reach = [[each.ratio - (each.low or each.ratio) for each in ratios],
                 [(each.high or each.ratio) - each.ratio for each in ratios]]  # fmt: skip
        _, _, bars = axes.errorbar(
            [each.ratio for each in ratios], places, xerr=reach, linestyle="none", marker=marker, color=colour,
            label=verdict, markersize=5 if named else 3, elinewidth=1.1 if named else 0.4, capsize=2 if named else 0,
        )  # fmt: skip
        for bar in bars:
            bar.set_alpha(1.0 if named else 0.35)
    overall = joined.overall(disturbed=True)
    if overall is not None and overall.low is not None and overall.high is not None:
        axes.axvspan(overall.low, overall.high, color=_BAND, linewidth=0, zorder=0.5, label="all points, 95 %")
    axes.axvline(1.0, color=BLACK, linewidth=0.9, zorder=5)
    axes.set_xlabel("time relative to the baseline, 95 % interval")
    axes.set_ylim(-0.8, total - 0.2)
    if named:
        head, names = _names(points)
        axes.set_yticks(range(total), names, fontsize=7.0)
        axes.set_ylabel(head)
    else:
        axes.set_ylabel(f"{total} points, from the fastest ratio to the slowest")


def _names(points: Sequence[PointComparison]) -> tuple[str, list[str]]:
    """Return what tells points from each other: the names of settings, and their values for each point."""
    settings = [{"workload": point.workload, "task": point.task, "batch_size": point.batch_size}
                | {name: point.mode.settings().get(name) for name in SETTINGS}
                for point in (each.point for each in points)]  # fmt: skip
    varying = [name for name in settings[0] if len({each[name] for each in settings}) > 1] or ["batch_size"]
    heads = [KNOB_LABELS.get(name, name) for name in varying]
    return " / ".join(heads), [plain_text(" / ".join(_cell(each[name]) for name in varying), _NAME_CHARACTERS)
                               for each in settings]  # fmt: skip


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
