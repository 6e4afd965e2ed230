"""What people see: notes on standard error, tables, and answers on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TextIO

SIMULATED = "SIMULATED: these figures come from a model, not from a device."


@dataclass(frozen=True, slots=True)
class Screen:
    """How much to say on standard error."""

    quiet: bool = False
    verbose: bool = False

    def say(self, text: str) -> None:
        """Tell something worth knowing, unless quiet."""
        if not self.quiet:
            print(folded(text, sys.stderr), file=sys.stderr, flush=True)

    def detail(self, text: str) -> None:
        """Tell something that only the curious want to know."""
        if self.verbose:
            self.say(text)


@dataclass(slots=True)
class Label:
    """Says once, before the first figure, that figures are simulated: an error that comes before any speaks alone.

    A quiet run is told too, because a figure without it would mislead.
    """

    simulated: bool

    def say(self) -> None:
        """Say it, if it is so and has not been said."""
        if self.simulated:
            self.simulated = False
            print(paint(SIMULATED, sys.stderr), file=sys.stderr, flush=True)


def folded(text: str, stream: TextIO) -> str:
    """Return ``text`` folded between words on a terminal, where it would break anywhere; in a pipe it stays a line."""
    import shutil
    import textwrap

    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def paint(text: str, stream: TextIO) -> str:
    """Return ``text`` in yellow on a terminal that wants colour."""
    return f"\x1b[33m{text}\x1b[0m" if stream.isatty() and not os.environ.get("NO_COLOR") else text


def answer(data: Any) -> None:
    """Print the answer for machines: one JSON document on standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, stream: TextIO | None = None) -> None:
    """Print an aligned table; columns whose name ends in ``>`` are aligned to the right.

    On a terminal long cells fold, and the last column goes below its row where it would be folded into a ribbon. In a
    pipe every row is one line.
    """
    import shutil

    out = sys.stdout if stream is None else stream
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    hung = _hang(columns, cells, shutil.get_terminal_size().columns) if out.isatty() else None
    if hung is None:
        print("\n".join(_lines(columns, cells, out)), file=out)
        return
    lines = iter(_lines(columns[:-1], [row[:-1] for row in hung], out))
    print(next(lines), file=out)
    for row in hung:
        print("\n".join(next(lines) for _ in row[0].splitlines()), file=out)
        if row[-1]:
            print(row[-1], file=out)


_FOLDS = 3
"""Lines that a cell may be folded into and still be read across."""


def _hang(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[list[str]] | None:
    """Return the cells with those of the first and last column folded, the last to go below; ``None`` if needless."""
    import textwrap

    names = [name.removesuffix(">") for name in columns]
    widest = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    room = width - sum(widest[:-1]) - 2 * (len(columns) - 1)
    first = widest[0] + min(room, 0)
    if columns[-1].endswith(">") or room * _FOLDS >= widest[-1] or first < widest[0] / _FOLDS:
        return None
    return [
        [
            "\n".join(textwrap.wrap(row[0], first)) or " ",
            *row[1:-1],
            textwrap.fill(row[-1], width - 1, initial_indent=" " * 6, subsequent_indent=" " * 6),
        ]
        for row in cells
    ]


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> Sequence[int | None]:
    """Return the width of each column on a terminal: the widest columns fold, and no word of a header is broken.

    Where not even the longest words of the headers fit, no width is given, and every column folds.
    """
    names = [name.removesuffix(">") for name in columns]
    found = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    least = [max(map(len, name.split()), default=0) for name in names]
    room = width - 2 * (len(columns) - 1)
    if sum(least) > room:
        return [None] * len(columns)
    while sum(found) > room:
        widest = max((n for n in range(len(found)) if found[n] > least[n]), key=found.__getitem__)
        found[widest] -= 1
    return found


def _lines(columns: Sequence[str], cells: Sequence[Sequence[str]], out: TextIO) -> list[str]:
    """Return the lines of a table, the header first."""
    import shutil

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    terminal = out.isatty()
    widths = _widths(columns, cells, shutil.get_terminal_size().columns) if terminal else [None] * len(columns)
    for name, width in zip(columns, widths, strict=True):
        right = name.endswith(">")
        side: Literal["left", "right"] = "right" if right else "left"
        grid.add_column(Text(name.removesuffix(">")), justify=side, overflow="fold", width=width)
    for row in cells:
        grid.add_row(*map(Text, row))
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    console = Console(
        file=out, width=None if terminal else 500, color_system=None if plain else "auto", force_terminal=terminal,
        highlight=False, soft_wrap=False, emoji=False, markup=False,
    )  # fmt: skip
    with console.capture() as capture:
        console.print(grid)
    return [line.rstrip() for line in capture.get().splitlines()]
