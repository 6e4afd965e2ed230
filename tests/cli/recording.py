"""The recording in the README: its console blocks as a terminal shows them, an SVG that types commands once.

The outputs are real: ``committed.py`` runs the commands, writes what they print and draws it. Where nothing moves, e.g.
in print or for readers who ask for less motion, it shows the end.
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


_LETTER_S, _RUN_S, _LINE_S, _READ_S = 0.02, 0.6, 0.05, 1.2
"""Time for a letter that is typed, from a command to its output, from line to line, and until the next command."""
_MOTION = """
    @keyframes story-show { from { opacity: 0 } to { opacity: 1 } }
    @keyframes story-type { from { clip-path: inset(0 100% 0 0) } to { clip-path: inset(0) } }
    @media (prefers-reduced-motion: reduce) { text { animation: none !important } }
"""


def drawn(commands: list[tuple[str, str]]) -> str:
    """Return the recording of commands and their outputs."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False, _environ={})
    lines = shown(commands)
    console.print(Text("\n").join(lines))
    picture = console.export_svg(title="edgetune", code_format=_FORMAT, unique_id="story")
    motions = _motions(lines)
    picture = re.sub(
        r'(<text )([^>]*#story-line-(\d+)[^>]*>)(?!\s)',
        lambda found: f'{found[1]}style="animation: {motions[int(found[3])]}" {found[2]}', picture,
    )  # fmt: skip
    return picture.replace("</style>", f"{_MOTION}</style>", 1)


def _motions(lines: list[Text]) -> list[str]:
    """Return the animation of each line on the terminal."""
    found, at_s = [], 0.0
    for line in lines:
        typed = line.plain.startswith("$ ")
        if typed and found:
            at_s += _READ_S
        for part in line.plain.split("\n"):
            took_s = _LETTER_S * len(part) if typed else _LINE_S
            steps = f"story-type {took_s:.2f}s steps({max(len(part), 1)})" if typed else "story-show 0.01s"
            found.append(f"{steps} {at_s:.2f}s backwards")
            at_s += took_s
        at_s += _RUN_S if typed else 0.0
    return found


def words(picture: str) -> list[str]:
    """Return the words that a picture shows."""
    cells = re.findall(r"<text [^>]*story-line-\d+[^>]*>(.*?)</text>", picture)
    return "".join(html.unescape(cell).replace("\xa0", " ") for cell in cells).split()


def write(commands: list[tuple[str, str]], picture: Path) -> None:
    """Write the picture of commands and their outputs."""
    picture.write_text(drawn(commands), encoding="utf-8")
