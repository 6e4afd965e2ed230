"""Prints the sections of a report: tables and notes, without figures and commands.

Prints the provenance and the warnings of an artifact.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from edgetune.cli.screen import print_folded, print_lines, table, terminal_width
from edgetune.visible import visible

if TYPE_CHECKING:
    from edgetune.artifacts.header import Header
    from edgetune.plotting.style import Figure


class TextSection:
    """A ``SectionWriter`` that prints.

    Args:
        stream: Where to; ``None`` for standard output.
        most: Most rows of a table that are printed; 0 prints all.
        more: The command that prints all.
    """

    def __init__(self, stream: TextIO | None = None, *, most: int = 0, more: str = "--rows 0 prints all") -> None:
        self._out = stream or sys.stdout
        self._most, self._more = most, more

    def heading(self, text: str) -> None:
        """Print a heading."""
        print_lines(text, stream=self._out)

    def answer(self, text: str) -> None:
        """Print a sentence."""
        print_folded(text, stream=self._out)

    def note(self, text: str) -> None:
        """Print a paragraph."""
        print_folded(text, stream=self._out)

    def space(self) -> None:
        """Print an empty line."""
        print_lines(stream=self._out)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], *,
        title: str = "", opened: bool = True, keys: Sequence[object] | None = None,
    ) -> None:  # fmt: skip
        """Print an unfolded table; one with notes that is too wide for the terminal becomes a sentence per row."""
        del title, keys
        if not opened:
            return
        shown = rows[: self._most or len(rows)]
        if columns[-1] == "note" and self._out.isatty() and _width(columns, shown) > terminal_width():
            for row in shown:
                print_folded(_sentence(columns, row), stream=self._out)
        else:
            table(columns, shown, stream=self._out)
        if len(shown) < len(rows):
            print_lines(f"... and {len(rows) - len(shown)} more rows ({self._more})", stream=self._out)

    def figure(self, draw: Callable[[], Figure], name: str) -> None:
        """Print nothing."""

    def command(self, text: str) -> None:
        """Print nothing."""


def _width(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """Return the width of a table without its last column."""
    names = [name.removesuffix(">") for name in columns]
    widest = [max(len(str(cell)) for cell in column) for column in zip(names, *rows, strict=True)]
    return sum(widest[:-1]) + 2 * (len(columns) - 1)


def _sentence(columns: Sequence[str], row: Sequence[object]) -> str:
    names = [name.removesuffix(">") for name in columns]
    known = [(name, str(cell)) for name, cell in zip(names, row, strict=True) if cell not in (None, "")]
    of = [cell for name, cell in known if name in ("engine", "workload", "policy", "job", "network", "task")]
    figures = [cell if name == "note" else f"{name} {cell}" for name, cell in known[len(of) :]]
    return f"{' '.join(of)}: {', '.join(figures)}"


_WIDEST = 100
"""The widest line of prose, columns."""


def show_header(header: Header) -> None:
    """Print the provenance and warnings of an artifact as YAML."""
    from edgetune.artifacts.yaml_document import dump_value, plain

    print_lines(f"{header.kind} version {header.version}, {header.made}")
    if header.command:
        print_lines(f"command: {header.command}")
    width = min(terminal_width(_WIDEST), _WIDEST)
    for title, facts in (("inputs", plain(header.inputs)), ("conditions", plain(header.conditions))):
        if facts:
            print_lines(f"{title}:")
        for name, value in facts.items():
            first, *more = textwrap.wrap(
                f"{visible(str(name))}: {dump_value(value)}", width - 6, break_long_words=False, break_on_hyphens=False
            )
            print_lines(*[f"  {first}", *(f"      {line}" for line in more)])
    for data_warning in header.warnings:
        numbers = "".join(f" {name}={value:g}" for name, value in data_warning.numbers.items())
        print_lines(f"warning: {data_warning.code}{numbers}: {data_warning.advice}")
    print_lines()
