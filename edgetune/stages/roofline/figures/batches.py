"""Intensity against batch size: from which batch on a network is bound by arithmetic rather than by memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetune.errors import InputError
from edgetune.plotting.captions import folded, lay_out, legend_beside, plain_text, set_title
from edgetune.plotting.labels import FONT_PT
from edgetune.plotting.style import BLACK, COLOURS, GREY, MARKERS, Figure, new_figure, spread_out
from edgetune.stages.roofline.figures.figure_data import KINDS, FigureData, balance_points, brief_names, figure_data_of
from edgetune.stages.roofline.figures.points import PlacedNetwork, PointSeries, span

_PAD, _BESIDE = 1.8, 1.5
"""Factors of room above and below the points, and beside them."""
_LINE_PT = 9.0
"""Distance at which two lines of small print do not touch."""


def batch_figure(networks: Sequence[PlacedNetwork], *, device: str = "", simulated: bool = False) -> Figure:
    """Return the figure of intensity against batch size, with the balance points of the roofs as lines across.

    Above the line of time a network is bound by arithmetic, beneath it by memory; in energy it is past half of the
    peak efficiency above the other line. The intensity of a network does not depend on clocks: of one precision it is
    drawn once.

    Args:
        networks: At several batch sizes.
        device: For the title.
        simulated: Whether the roofs come from a model rather than a device.

    Raises:
        InputError: no network computes and moves anything.
        DeviceError: matplotlib is missing.
    """
    data = figure_data_of((), networks, None, device, simulated=simulated)
    if not data.series:
        raise InputError(
            "no network has an intensity to draw", "`edgetune roofline ops MODEL` lists what its operators cost"
        )
    with new_figure((8.2, 4.6)) as figure:
        axes = figure.subplots()
        drawn = enumerate(_of_precisions(data).items())
        points = [point for number, (name, named) in drawn for point in _draw_series(axes, number, name, *named)]
        lines = _draw_balance(axes, data)
        _set_scales(axes, points, [height for height, _ in lines])
        _write_heights(axes, lines)
        legend_beside(figure, [axes])
        set_title(axes, *map(plain_text, data.title))
        lay_out(figure)
    return figure


def _of_precisions(data: FigureData) -> dict[str, tuple[int, PointSeries]]:
    """Return one series for each network and precision, by name, with the number of its first point."""
    several = len({each.roof.precision for each in data.series}) > 1
    found: dict[str, tuple[int, PointSeries]] = {}
    for start, each in zip(data.starts, data.series, strict=True):
        found.setdefault(f"{each.workload}, {each.roof.precision}" if several else each.workload, (start, each))
    return found


def _draw_series(axes: Any, number: int, name: str, start: int, series: PointSeries) -> list[tuple[float, float]]:
    """Draw one network and return its points."""
    points = [(float(point.batch_size), point.flop_per_byte) for point in series.points]
    style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "zorder": 3}
    axes.plot(*zip(*points, strict=True), linewidth=1.2, markersize=6.0, label=folded(name), **style)
    for index, point in enumerate(points):
        axes.plot(*point, linestyle="none", markersize=6.0, gid=f"batches.n{start + index}", **style)
    return points


def _draw_balance(axes: Any, data: FigureData) -> list[tuple[float, str]]:
    """Draw balance points as horizontal lines; return their heights and labels."""
    names = brief_names(data.shown)
    lines = []
    for roof in data.shown:
        of = f", {names[roof]}" if len(data.shown) > 1 else ""
        for point in balance_points(roof):
            if point.kind == "dynamic":
                continue
            line = {"color": BLACK, "linewidth": 1.0} if point.kind == "time" else {"color": GREY, "linestyle": "--"}
            axes.axhline(point.flop_per_byte, zorder=2, label=KINDS[point.kind], **line)
            lines.append((point.flop_per_byte, f"{point.flop_per_byte:.3g}{plain_text(of)}"))
    return lines


def _write_heights(axes: Any, lines: Sequence[tuple[float, str]]) -> None:
    """Write the labels of horizontal lines at their right ends, outside the frame; close ones are moved apart."""
    to_pt = 72.0 / axes.figure.dpi
    free_pt = 0.0
    for height, words in sorted(lines):
        at_pt = to_pt * float(axes.transData.transform((1.0, height))[1])
        above_pt = max(0.0, free_pt - at_pt)
        free_pt = at_pt + above_pt + _LINE_PT
        axes.annotate(
            words, (1.0, height), xycoords=("axes fraction", "data"), xytext=(4.0, above_pt),
            textcoords="offset points", va="center", fontsize=FONT_PT, annotation_clip=False,
        )  # fmt: skip


def _set_scales(axes: Any, points: Sequence[tuple[float, float]], heights: Sequence[float]) -> None:
    from matplotlib.ticker import NullLocator

    batches = sorted({batch for batch, _ in points})
    axes.set_xscale("log", base=2)
    low, high = span([*heights, *(height for _, height in points)], _PAD)
    spread_out(axes.yaxis, [low, high], above=1.0)
    axes.set_xlim(batches[0] / _BESIDE, batches[-1] * _BESIDE)
    axes.set_ylim(low, high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(batches, [f"{batch:g}" for batch in batches])
    axes.set_xlabel("batch size (samples, log)")
    axes.set_ylabel("intensity (FLOP/byte, log)")
