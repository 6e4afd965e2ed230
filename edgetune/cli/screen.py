"""What people see: notes on standard error, tables, and answers on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

SIMULATED = "SIMULATED: these figures come from a model, not from a device."


@dataclass(frozen=True, slots=True)
class Screen:
    """How much to say on standard error."""

    quiet: bool = False
    verbose: bool = False

    def say(self, text: str) -> None:
        """Tell something worth knowing, unless quiet."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

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


def paint(text: str, stream: TextIO) -> str:
    """Return ``text`` in yellow on a terminal that wants colour."""
    return f"\x1b[33m{text}\x1b[0m" if stream.isatty() and not os.environ.get("NO_COLOR") else text


def answer(data: Any) -> None:
    """Print the answer for machines: one JSON document on standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, stream: TextIO | None = None) -> None:
    """Print an aligned table; columns whose name ends in ``>`` are aligned to the right.

    On a terminal long cells fold; in a pipe every row is one line.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = sys.stdout if stream is None else stream
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        right = name.endswith(">")
        grid.add_column(Text(name.removesuffix(">")), justify="right" if right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text("-" if cell is None else str(cell)) for cell in row))
    terminal = out.isatty()
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    console = Console(
        file=out, width=None if terminal else 500, color_system=None if plain else "auto", force_terminal=terminal,
        highlight=False, soft_wrap=False, emoji=False, markup=False,
    )  # fmt: skip
    with console.capture() as capture:
        console.print(grid)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()), file=out)
