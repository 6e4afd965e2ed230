"""``edgetune schedule``: several networks in little memory, and what is known and made for that beforehand."""

from __future__ import annotations

import typer

from edgetune.cli.app import CONTEXT, LazyGroup
from edgetune.cli.screen import print_document

COMMANDS: dict[str, str] = {
    "run": "Run jobs under a memory budget, for real or simulated, by one policy or several in alternation.",
    "prepare": "Split networks into layers once: a graph and a file of weights for each, and a manifest.",
    "profile": "Measure what loading and executing each layer takes, and how much memory.",
    "graph": "Draw which loads, executions and unloads wait for which, and count their orders.",
    "generate": "Make up networks and jobs to schedule.",
    "robustness": "Say how much wrong durations change which policy is best.",
    "kernels": "Fill the gaps of critical work on a GPU with best-effort work, kernel by kernel.",
}
"""Every subcommand and its line of help; ``edgetune.cli.schedule_NAME`` holds a typer app called ``app``."""


class ScheduleGroup(LazyGroup):
    """The subcommands of ``edgetune schedule``."""

    lines = COMMANDS
    prefix = "schedule_"


app = typer.Typer(
    cls=ScheduleGroup, rich_markup_mode=None, add_completion=False, context_settings=CONTEXT,
    invoke_without_command=True,
)  # fmt: skip


@app.callback()
def schedule(ctx: typer.Context) -> None:
    """Run several networks in little memory, layer by layer, for real or simulated.

    Layers are loaded, executed and unloaded as tasks, such that what is held stays within a budget. Networks are
    prepared once, their layers measured, and then run as a file of jobs says.
    """
    if ctx.invoked_subcommand is None:
        print_document(ctx.get_help())
