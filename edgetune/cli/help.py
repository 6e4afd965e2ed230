"""``edgetune help``: the pages of the manual, in the terminal and without a network."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def show_help(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Default: list the topics.")] = None,
) -> None:
    """Print a page of the manual, or list the pages.

    edgetune COMMAND --help lists the options of a command.
    """
    from edgetune import manual
    from edgetune.choices import choose
    from edgetune.cli.screen import page, table

    if topic is None:
        table(("topic", "what it tells"), list(manual.TOPICS.items()))
    else:
        page(manual.page(choose(topic, manual.TOPICS, what="topic")))
