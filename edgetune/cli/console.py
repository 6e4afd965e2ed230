"""Makes consoles of rich for progress bars."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO, cast

from edgetune.processes.streams import Surviving, write
from edgetune.visible import visible

if TYPE_CHECKING:
    from rich.console import Console


def console(stream: TextIO) -> Console:
    """Return a console for a progress bar or a page of the manual."""
    from rich.console import Console

    survivor = cast("TextIO", Surviving(stream))
    return Console(file=survivor, highlight=False, markup=False, emoji=False, no_color=bool(os.environ.get("NO_COLOR")))


def print_over(text: str, *, last: bool = False) -> None:
    """Overwrite the previous progress line on a terminal's standard error; the ``last`` call erases it."""
    write(f"\r\x1b[K{'' if last else visible(text)}", sys.stderr)
