"""Places labels beside points, each without overlap with markers, lines and other labels.

Words on figures: titles, names, legends, and notes of what a figure leaves out.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from edgetune.plotting.style import BLACK, Figure
from edgetune.visible import cut_in_middle, visible

FONT_PT = 7.5
_RINGS_PT = (0.0, 6.0, 13.0, 22.0, 34.0, 48.0, 66.0, 90.0)
"""Distances of a label from its place beside the point, in the order tried; from the second on a line leads to it."""
_DIRECTIONS = ((1.0, -0.6), (1.0, 0.6), (-1.0, 0.6), (-1.0, -0.6), (0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0),
               (0.6, 1.0), (-0.6, 1.0), (0.6, -1.0), (-0.6, -1.0))  # fmt: skip
_LINE_PT = 3.0
"""Distance between the points by which a line is kept free."""
_TOUCH_PT = 4.0
"""A label nearer than this to a marker seems to belong to it; its distance from its own marker is 1.5."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


@dataclass(slots=True)
class LabelLayout:
    """The occupied boxes: curves and markers, which a label must not hide, and labels, which no line may cross.

    A label touches another marker than its own, or its line crosses one, only if there is no other room, because it
    would then seem to belong to that marker.
    """

    inside: Box
    taken: list[Box]
    words: list[Box]
    markers: list[Box]

    def place(
        self, at: tuple[float, float], half: tuple[float, float], radius_pt: float,
        directions: Sequence[tuple[float, float]] = _DIRECTIONS,
    ) -> tuple[tuple[float, float], bool] | None:  # fmt: skip
        """Take the nearest free box of this half width and height, of equally near ones in the first direction.

        Returns:
            Its centre relative to the point, in points, and whether a line leads there; ``None`` without room.
        """
        own = (at[0] - radius_pt, at[1] - radius_pt, at[0] + radius_pt, at[1] + radius_pt)
        zone = _grown(own, _RINGS_PT[-1] + 2 * max(half) + _TOUCH_PT)
        words, markers = _near(self.words, zone), _near(self.markers, zone)
        taken = [*_near(self.taken, zone), *markers, *words]
        others = [_grown(marker) for marker in markers if not _overlap(marker, own)]
        boxes = [(ring, *direction) for ring in _RINGS_PT for direction in directions]
        for untouched in (others, []):
            for ring, right, above in boxes:
                across, up = (
                    way * (radius_pt + size + 1.5 + ring) for way, size in zip((right, above), half, strict=True)
                )
                x, y = at[0] + across, at[1] + up
                box = _grown((x, y, x, y), half[0] + 1.0, half[1] + 1.0)
                if not _within(box, self.inside) or _any_overlap([box], taken) or _any_overlap([box], untouched):
                    continue
                lead = _along([at, (x, y)], self.inside) if ring else []
                if not _any_overlap(lead, words) and not _any_overlap(lead, untouched):
                    self.taken += [piece for piece in lead if not _overlap(piece, box)]
                    self.words.append(box)
                    return (across, up), ring > 0
        return None


def _grown(box: Box, wide_pt: float = _TOUCH_PT, high_pt: float | None = None) -> Box:
    high_pt = wide_pt if high_pt is None else high_pt
    return box[0] - wide_pt, box[1] - high_pt, box[2] + wide_pt, box[3] + high_pt


def _near(boxes: Sequence[Box], zone: Box) -> list[Box]:
    return [box for box in boxes if _overlap(box, zone)]


def _any_overlap(boxes: Sequence[Box], others: Sequence[Box]) -> bool:
    return any(_overlap(box, other) for box in boxes for other in others)


def _along(line: Sequence[tuple[float, float]], inside: Box) -> list[Box]:
    """Return small boxes along a line."""
    boxes = []
    for (x0, y0), (x1, y1) in pairwise(line):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / _LINE_PT))
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
            if _within((x, y, x, y), inside):
                boxes.append((x - 0.5, y - 0.5, x + 0.5, y + 0.5))
    return boxes


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _within(box: Box, frame: Box) -> bool:
    """Return whether a box lies wholly in another."""
    return frame[0] <= box[0] and frame[1] <= box[1] and box[2] <= frame[2] and box[3] <= frame[3]


@dataclass(frozen=True, slots=True)
class Label:
    """A text for a point in the units of the axes; without a text, a point that must stay visible.

    Args:
        x, y: The point.
        radius_pt: Half the width of its marker.
        text: What to write; may be empty.
        weight: Of the text, ``bold`` where it counts more than others.
    """

    x: float
    y: float
    radius_pt: float
    text: str = ""
    weight: str = "normal"


def write_labels(
    axes: Any, labels: Sequence[Label], lines: Sequence[Sequence[tuple[float, float]]] = (), *,
    toward: tuple[float, float] | None = None,
) -> list[Label]:  # fmt: skip
    """Write each label beside its point; earlier ones choose first. Return those that found no room.

    The figure must be laid out and the limits of the axes must be final.

    Args:
        axes: The axes to write on.
        labels: Points with or without texts.
        lines: Curves in the units of the axes that texts should not cross.
        toward: Where there is most room: the direction to try first; ``None`` tries below at the right.
    """
    to_pt = 72.0 / axes.figure.dpi
    frame = axes.get_window_extent()
    inside: Box = (frame.x0 * to_pt, frame.y0 * to_pt, frame.x1 * to_pt, frame.y1 * to_pt)
    centres = [_on_paper(axes, (label.x, label.y), to_pt) for label in labels]
    markers = [(x - label.radius_pt, y - label.radius_pt, x + label.radius_pt, y + label.radius_pt)
               for label, (x, y) in zip(labels, centres, strict=True)]  # fmt: skip
    crossed = [piece for line in lines for piece in _along([_on_paper(axes, at, to_pt) for at in line], inside)]
    layout = LabelLayout(inside, crossed, [], markers)
    right, above = toward or (0.0, 0.0)
    directions = sorted(_DIRECTIONS, key=lambda way: -(right * way[0] + above * way[1]))
    lost = []
    for label, centre in zip(labels, centres, strict=True):
        if not label.text or not _within((*centre, *centre), inside):
            continue
        found = layout.place(centre, _half_size_pt(axes, label, to_pt), label.radius_pt, directions)
        if found is None:
            lost.append(label)
        else:
            _write(axes, label, found[0], leads=found[1])
    return lost


def _on_paper(axes: Any, point: tuple[float, float], to_pt: float) -> tuple[float, float]:
    x, y = axes.transData.transform(point)
    return to_pt * float(x), to_pt * float(y)


def _half_size_pt(axes: Any, label: Label, to_pt: float) -> tuple[float, float]:
    text = axes.text(label.x, label.y, label.text, fontsize=FONT_PT, weight=label.weight)
    extent = text.get_window_extent()
    text.remove()
    return to_pt * float(extent.width) / 2, to_pt * float(extent.height) / 2


def _write(axes: Any, label: Label, offset: tuple[float, float], *, leads: bool) -> None:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": "#555555", "linewidth": 0.5, "shrinkA": 0.5, "shrinkB": label.radius_pt}
    text = axes.annotate(
        label.text, (label.x, label.y), xytext=offset, textcoords="offset points", ha="center", va="center",
        fontsize=FONT_PT, weight=label.weight, color="#222222", zorder=6, arrowprops=line if leads else None,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )  # fmt: skip
    text.set_in_layout(False)


_TITLE_CHARACTERS = 60
_LONGEST_TITLE = 10 * _TITLE_CHARACTERS
_NAME_LINES = 6
"""Lines that a name takes at most; the middle of a longer one is left out."""
_NOTE_PT = 7.0
_NOTE_CHARACTERS_PER_INCH = 17


class _Header(Protocol):
    """The header of an artifact."""

    @property
    def simulated(self) -> bool: ...
    @property
    def conditions(self) -> Mapping[str, Any]: ...


def title_of(header: _Header, what: str) -> str:
    """Return the title of a figure: whether it is simulated, what is shown, and where it was measured."""
    device = header.conditions.get("device")
    return ", ".join(
        filter(None, (f"SIMULATED: {what}" if header.simulated else what, f"on {device}" if device else ""))
    )


_LONGEST_NOTE = 600


def name_in_lines(name: str, characters: int) -> str:
    """Return a name as a figure shows it: visible, in lines of bounded length."""
    return textwrap.fill(cut_in_middle(visible(name), _NAME_LINES * characters), characters)


def note_left_out(figure: Figure, notes: Sequence[str]) -> None:
    """Write a note below a figure on its omissions; see ``left_out_of``.

    Args:
        figure: Its size is final; its layout is constrained.
        notes: One sentence per omission; empty writes no note.
    """
    if not notes and not left_out_of(figure):
        return
    characters = int(figure.get_size_inches()[0] * _NOTE_CHARACTERS_PER_INCH)
    shown = (cut_in_middle(visible(note), _LONGEST_NOTE) for note in notes)
    lines = "\n".join(textwrap.fill(note, characters) for note in shown)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=_NOTE_PT, color=BLACK)
    figure.set_label("\n".join(map(visible, notes)))


def left_out_of(figure: Figure) -> list[str]:
    """Return the sentences below a figure on its omissions."""
    return str(figure.get_label()).splitlines()


def set_title(axes: Any, *lines: str) -> None:
    """Write the title over ``axes``, from its left edge; a long name takes further lines."""
    axes.set_title(
        "\n".join(
            textwrap.fill(cut_in_middle(visible(line), _LONGEST_TITLE), _TITLE_CHARACTERS) for line in lines if line
        ),
        loc="left",
    )


def legend_beside(figure: Figure, axes: Any, first: Sequence[str] = ()) -> None:
    """Put one legend for all ``axes`` at the right of the figure, outside the axes, with each label once.

    Labels are in the order drawn, those in ``first`` before. Markers are shown opaque, however faint in the figure.
    """
    entries: dict[str, Any] = {}
    for each in axes:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    labels = [*(label for label in first if label in entries), *(label for label in entries if label not in first)]
    if not labels:
        return
    legend = figure.legend([entries[label] for label in labels], labels, loc="outside right center")
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)


def plain_text(words: str, longest: int = 0) -> str:
    """Return words visible, on one line; a long name loses its front.

    Layers differ in the ends of their names: ``/encoder/layer.3/output/dense/MatMul``.
    """
    line = visible(" ".join(words.split()))
    if longest and len(line) > longest:
        line = f"…{line[1 - longest :]}"
    return line


def folded(phrases: str, width: int = 30) -> str:
    """Return phrases as lines of a legend, broken between phrases rather than between a number and its unit."""
    kept = ", ".join(phrase.replace(" ", "\N{NO-BREAK SPACE}") for phrase in plain_text(phrases).split(", "))
    return textwrap.fill(kept, width).replace("\N{NO-BREAK SPACE}", " ")


_MARGIN_IN = 0.2
"""Room above and below a legend."""


def lay_out(figure: Figure) -> None:
    """Lay out all parts of a figure, and make it taller if the legend beside it is."""
    figure.draw_without_rendering()
    tall_in = max((legend.get_window_extent().height / figure.dpi for legend in figure.legends), default=0.0)
    if tall_in + _MARGIN_IN > figure.get_figheight():
        figure.set_figheight(tall_in + _MARGIN_IN)
        figure.draw_without_rendering()
