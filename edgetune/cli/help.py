"""``edgetune help``: the pages of the manual, in the terminal and without a network."""

from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def show_help(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Default: list the topics.")] = None,
) -> None:
    """Print a page of the manual, or list the pages.

    A page longer than the terminal is shown by $PAGER, by default less. edgetune COMMAND --help lists the options of a
    command.
    """
    from edgetune import manual
    from edgetune.choices import choose
    from edgetune.cli.app import COMMANDS
    from edgetune.cli.screen import page, print_lines, table
    from edgetune.errors import InputError

    if topic is None:
        table(("topic", "what the page says"), list(manual.TOPICS.items()))
        print_lines("", "edgetune help TOPIC prints a page. Begin with: edgetune help first-steps")
    elif topic in COMMANDS and topic not in manual.TOPICS:
        raise InputError(f"{topic} is a command, not a topic", f"edgetune {topic} --help lists its options")
    else:
        page(manual.page(choose(topic, manual.TOPICS, what="topic")))
