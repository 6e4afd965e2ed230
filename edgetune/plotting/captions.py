"""Words on figures: titles, names, legends, and notes of what a figure leaves out."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from edgetune.plotting.style import BLACK, Figure
from edgetune.visible import cut_in_middle, visible

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
