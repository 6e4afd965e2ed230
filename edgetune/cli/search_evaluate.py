"""``edgetune search evaluate``: how strategies fare on tables in which every point has been measured."""

from __future__ import annotations

from typing import Annotated

import typer

from edgetune.cli import options


def evaluate(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE", help="Fully measured profiles.", show_default=False)],
    *,
    json: options.Json = False,
) -> None:
    """Replay a family of problems against tables and hold each strategy's answers against the best there is."""
    del tables, json
