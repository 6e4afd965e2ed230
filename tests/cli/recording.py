"""The picture of the README: its console blocks as a terminal shows them, an SVG.

The outputs are real: ``committed.py`` runs the commands, writes what they print and draws it.
"""

import html
import io
import re
import textwrap
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

WIDTH = 120
"""Columns of the terminal; longer lines of output are folded between words, as edgetune folds them."""

_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's picture of a terminal without its fonts, which a reader would have to download."""


def shown(commands: list[tuple[str, str]]) -> list[Text]:
    """Return the lines on the terminal: each command behind a prompt, with its output below and an empty line."""
    lines = []
    for command, output in commands:
        lines.append(Text.assemble(("$ ", "bold green"), (command.rstrip("\n"), "bold")))
        for line in output.splitlines():
            style = "yellow" if line.startswith("SIMULATED") else "dim" if line.startswith("...") else ""
            lines += [Text(part, style) for part in (textwrap.wrap(line, WIDTH) if len(line) > WIDTH else [line])]
        lines.append(Text())
    return lines[:-1]


def drawn(commands: list[tuple[str, str]]) -> str:
    """Return the picture of commands and their outputs."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text("\n").join(shown(commands)))
    return console.export_svg(title="edgetune", code_format=_FORMAT, unique_id="story")


def words(picture: str) -> list[str]:
    """Return the words that a picture shows."""
    cells = re.findall(r"<text [^>]*story-line-\d+[^>]*>(.*?)</text>", picture)
    return "".join(html.unescape(cell).replace("\xa0", " ") for cell in cells).split()


def write(commands: list[tuple[str, str]], picture: Path) -> None:
    """Write the picture of commands and their outputs."""
    picture.write_text(drawn(commands), encoding="utf-8")
