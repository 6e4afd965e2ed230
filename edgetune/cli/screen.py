"""Prints to the terminal: notes on standard error, tables, and answers on standard output."""

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from edgetune.processes.streams import stdout_is_pipe, write
from edgetune.visible import cut_in_middle, one_line, visible, visible_in_json
from edgetune.workflows.reporting import OnAdvance, OnProgress, Reporter, SimulationLabel, Stdout

SIMULATED = "SIMULATED: these figures come from a model, not from a device."


_NARROWEST = 20
"""The least width to lay lines out for, columns; a narrower terminal breaks them by itself."""

_LONGEST_CELL = 400
"""The longest text of a table's cell, characters; a longer one is cut in its middle."""


def print_lines(*lines: object, stream: TextIO | None = None) -> None:
    """Print lines to standard output or to ``stream``; all text for people passes through here.

    An escape replaces every character that a terminal would not show as itself, see ``visible``: a line end in a name
    starts no line. Without an argument, an empty line is printed.
    """
    _write([visible(str(line)) for line in lines] or [""], stream)


def print_folded(*texts: str, stream: TextIO | None = None) -> None:
    """Print texts as ``print_lines`` does, on a terminal folded between words."""
    _write([folded(visible(text), stream or sys.stdout) for text in texts], stream)


def print_document(text: str, stream: TextIO | None = None) -> None:
    """Print a document, source code or a traceback: line ends and tabs as they are, all else visible."""
    lines = text.removesuffix("\n").split("\n")
    _write(["\t".join(map(visible, line.split("\t"))) for line in lines], stream)


def report_moved(asked: Path, written: Path) -> None:
    """Report, even when quiet, that another program wrote an output file meanwhile."""
    text = f"{asked} was written by another program since this command began; this result is in {written}"
    print_lines(f"warning: {one_line(text)}", stream=sys.stderr)


def show_warnings() -> None:
    """Print Python's warnings with escapes, because they may quote text from outside."""

    def shown(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        del line  # of source code
        return f"{one_line(f'{filename}:{lineno}: {category.__name__}: {message}')}\n"

    warnings.formatwarning = shown


def _write(lines: Sequence[str], stream: TextIO | None) -> None:
    out = sys.stdout if stream is None else stream
    write("".join(f"{line}\n" for line in lines), out)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Screen(Reporter):
    """Reports on standard error, with a bar on a terminal.

    Args:
        quiet: Report only that figures are simulated.
        verbose: Report details too.
        json: Standard output carries the answer in JSON.
    """

    quiet: bool = False
    verbose: bool = False
    json: bool = False

    @property
    def watched(self) -> bool:
        """Whether standard error is a terminal, which rich stands in for while it shows a bar."""
        return bool(getattr(sys.stderr, "rich_proxied_file", sys.stderr).isatty())

    @property
    def stdout(self) -> Stdout:
        """The use of standard output."""
        if self.json:
            return "answer"
        return "terminal" if sys.stdout.isatty() else "pipe" if stdout_is_pipe() else "text"

    def info(self, text: str) -> None:
        """Print a note, unless quiet."""
        if not self.quiet:
            print_folded(text, stream=sys.stderr)

    def detail(self, text: str) -> None:
        """Print a detail, with --verbose."""
        if self.verbose:
            self.info(text)

    def simulated(self) -> None:
        """Print the label of simulated figures; a quiet run prints it too, because a figure without it misleads."""
        write(f"{paint(SIMULATED, sys.stderr)}\n", sys.stderr)

    def sweep(self, label: SimulationLabel) -> AbstractContextManager[OnProgress]:
        """Return a context that shows the progress of a sweep: notes, and a bar on a terminal."""
        from edgetune.cli.progress import watch

        return watch(self, label)

    def bar(self, what: str, total: float | None) -> AbstractContextManager[OnAdvance | None]:
        """Return a context with a bar on a terminal; elsewhere it gives ``None``."""
        from edgetune.cli.progress import simple_bar

        return simple_bar(self, what, total)

    def point(self, state: str) -> None:
        """Show the state of a point below the open bar."""
        from edgetune.cli.progress import show_point

        show_point(state)

    def timing(self, what: str, duration_s: float | None) -> AbstractContextManager[None]:
        """Return a context with a line on a terminal that shows the time."""
        from edgetune.cli.progress import passing

        return passing(self, what, duration_s)


def terminal_width(otherwise: int = 80) -> int:
    """Return the columns to lay lines out for; ``otherwise`` where there is no terminal."""
    import shutil

    return max(shutil.get_terminal_size((otherwise, 24)).columns, _NARROWEST)


def folded(text: str, stream: TextIO) -> str:
    """Return ``text`` folded between words on a terminal, where it would break anywhere; in a pipe it stays a line."""
    import textwrap

    if not stream.isatty():
        return text
    return textwrap.fill(text, terminal_width(), break_long_words=False, break_on_hyphens=False)


def paint(text: str, stream: TextIO) -> str:
    """Return ``text`` in yellow on a terminal that wants colour."""
    return f"\x1b[33m{text}\x1b[0m" if stream.isatty() and not os.environ.get("NO_COLOR") else text


def answer(data: Any) -> None:
    """Print the answer for machines: one JSON document on standard output."""
    write(f"{_json(data, indent=2)}\n", sys.stdout)


def print_json_line(data: Any) -> None:
    """Print a JSON document as one line on standard output, at once."""
    write(f"{_json(data)}\n", sys.stdout)


def _json(data: Any, *, indent: int | None = None) -> str:
    import json  # here, for every command loads this module

    return visible_in_json(json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, stream: TextIO | None = None) -> None:
    """Print an aligned table; columns whose name ends in ``>`` are aligned to the right.

    On a terminal, long cells fold. In a pipe, every row is one line.
    """
    out = sys.stdout if stream is None else stream
    names = [visible(name) for name in columns]
    cells = [
        ["-" if cell is None else cut_in_middle(visible(str(cell)), _LONGEST_CELL) for cell in row] for row in rows
    ]
    _write(_lines(names, cells, out), out)


def page(markdown: str) -> None:
    """Print a page of the manual: laid out on a terminal, at most 100 columns wide; as it is written in a pipe.

    What is longer than the terminal goes through the pager: that of ``$PAGER``, else less.
    """
    if not sys.stdout.isatty():
        print_document(markdown)
        return
    import shutil

    from rich.markdown import Markdown

    from edgetune.cli.progress import console

    shown = console(sys.stdout)
    with shown.capture() as captured:
        shown.print(Markdown(markdown, hyperlinks=False), width=min(terminal_width(), 100))
    text = captured.get()
    if text.count("\n") < shutil.get_terminal_size().lines:
        write(text, sys.stdout)
        return
    _show_by_pager(text)


_NOT_STARTED = (126, 127)
"""Exit codes of a shell that cannot start a program."""


def _show_by_pager(text: str) -> None:
    """Show a text by ``$PAGER``, else by less; print it where none of them can be started."""
    import shutil
    import signal
    import subprocess

    from edgetune.workflows.reporting import handling

    plain = os.environ.get("TERM", "dumb") == "dumb"
    pager = os.environ.get("PAGER") or ("" if plain else shutil.which("less"))
    code = _NOT_STARTED[0]
    if pager and sys.stdin is not None and sys.stdin.isatty():
        variables = {"LESS": "FRX", **os.environ}  # as git sets it: with colours, and the page stays when less ends
        with handling({signal.SIGINT: lambda *_: None}):  # Ctrl-C is for the pager
            data = text.encode(sys.stdout.encoding, sys.stdout.errors or "strict")
            code = subprocess.run(pager, shell=True, input=data, env=variables, check=False).returncode
    if code in _NOT_STARTED:
        write(text, sys.stdout)


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> Sequence[int | None]:
    """Return the width of each column on a terminal: the widest columns fold, and no word of a header is broken.

    Where not even the longest words of the headers fit, no width is given, and every column folds.
    """
    from rich.cells import cell_len

    names = [name.removesuffix(">") for name in columns]
    found = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    least = [max(map(len, name.split()), default=0) for name in names]
    limits = width - 2 * (len(columns) - 1)
    if sum(least) > limits:
        return [None] * len(columns)
    while sum(found) > limits:
        widest = max((n for n in range(len(found)) if found[n] > least[n]), key=found.__getitem__)
        found[widest] -= 1
    return found


def _lines(columns: Sequence[str], cells: Sequence[Sequence[str]], out: TextIO) -> list[str]:
    """Return the lines of a table, the header first."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    terminal = out.isatty()
    widths = _widths(columns, cells, terminal_width()) if terminal else [None] * len(columns)
    for name, width in zip(columns, widths, strict=True):
        right = name.endswith(">")
        side: Literal["left", "right"] = "right" if right else "left"
        grid.add_column(Text(name.removesuffix(">")), justify=side, overflow="fold", width=width)
    for row in cells:
        grid.add_row(*map(Text, row))
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    console = Console(
        file=out, width=terminal_width() if terminal else 500, color_system=None if plain else "auto",
        force_terminal=terminal, highlight=False, soft_wrap=False, emoji=False, markup=False,
    )  # fmt: skip
    with console.capture() as capture:
        console.print(grid)
    return [line.rstrip() for line in capture.get().splitlines()]
