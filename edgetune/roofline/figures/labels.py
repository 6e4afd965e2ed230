"""Words beside points, each where it hides neither a marker, nor a line, nor other words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetune.roofline.figures.label_layout import Box, LabelLayout, along, within
from edgetune.visible import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT_PT = 7.5
_MARGIN_IN = 0.2
"""Paper left above and below a legend."""


@dataclass(frozen=True, slots=True)
class Label:
    """Words for a point in the units of the axes; without words, a point that must stay visible.

    Args:
        x, y: The point.
        radius_pt: Half the width of its marker.
        text: What to write; may be empty.
        bold: Whether it counts more than others.
    """

    x: float
    y: float
    radius_pt: float
    text: str = ""
    bold: bool = False


def plain_text(words: str, longest: int = 0) -> str:
    """Return words visible, on one line; a long name loses its front.

    Layers are told apart by the ends of their names: ``/encoder/layer.3/output/dense/MatMul``.
    """
    line = visible(" ".join(words.split()))
    if longest and len(line) > longest:
        line = f"…{line[1 - longest :]}"
    return line


def folded(phrases: str, width: int = 30) -> str:
    """Return phrases as lines of a legend, broken between phrases rather than between a number and its unit."""
    import textwrap

    kept = ", ".join(phrase.replace(" ", "\N{NO-BREAK SPACE}") for phrase in plain_text(phrases).split(", "))
    return textwrap.fill(kept, width).replace("\N{NO-BREAK SPACE}", " ")


def lay_out(figure: Figure) -> None:
    """Give all parts of a figure their places, and make it taller where the legend beside it is."""
    figure.draw_without_rendering()
    tall_in = max((legend.get_window_extent().height / figure.dpi for legend in figure.legends), default=0.0)
    if tall_in + _MARGIN_IN > figure.get_figheight():
        figure.set_figheight(tall_in + _MARGIN_IN)
        figure.draw_without_rendering()


def write_labels(
    figure: Figure, axes: Any, labels: Sequence[Label], lines: Sequence[Sequence[tuple[float, float]]]
) -> None:
    """Write each label beside its point; earlier ones choose first, and one without room is left out.

    The figure must be laid out, for places are sought on paper.

    Args:
        figure, axes: Where.
        labels: Points with or without words.
        lines: Curves in the units of the axes that words should not cross.
    """
    to_pt = 72.0 / figure.dpi
    frame = axes.get_window_extent()
    inside: Box = (frame.x0 * to_pt, frame.y0 * to_pt, frame.x1 * to_pt, frame.y1 * to_pt)
    centres = [_on_paper(axes, (label.x, label.y), to_pt) for label in labels]
    markers = [(x - label.radius_pt, y - label.radius_pt, x + label.radius_pt, y + label.radius_pt)
               for label, (x, y) in zip(labels, centres, strict=True)]  # fmt: skip
    crossed = [piece for line in lines for piece in along([_on_paper(axes, at, to_pt) for at in line], inside)]
    layout = LabelLayout(inside, crossed, [], markers)
    for label, centre in zip(labels, centres, strict=True):
        if not label.text or not within((*centre, *centre), inside):
            continue
        wide, high = _size(axes, label)
        found = layout.place(centre, (to_pt * wide / 2, to_pt * high / 2), label.radius_pt)
        if found is not None:
            _write(axes, label, found[0], leads=found[1])


def _on_paper(axes: Any, point: tuple[float, float], to_pt: float) -> tuple[float, float]:
    x, y = axes.transData.transform(point)
    return to_pt * float(x), to_pt * float(y)


def _size(axes: Any, label: Label) -> tuple[float, float]:
    """Return width and height of the words, in pixels."""
    text = axes.text(label.x, label.y, label.text, fontsize=FONT_PT, weight=_weight(label))
    extent = text.get_window_extent()
    text.remove()
    return float(extent.width), float(extent.height)


def _write(axes: Any, label: Label, offset: tuple[float, float], *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": "#555555", "linewidth": 0.5, "shrinkA": 0.5, "shrinkB": label.radius_pt}
    text = axes.annotate(
        label.text, (label.x, label.y), xytext=offset, textcoords="offset points", ha="center", va="center",
        fontsize=FONT_PT, weight=_weight(label), color="#222222", zorder=6, arrowprops=line if leads else None,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
    text.set_in_layout(False)


def _weight(label: Label) -> str:
    return "bold" if label.bold else "normal"
