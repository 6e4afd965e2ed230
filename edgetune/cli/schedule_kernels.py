"""``edgetune schedule kernels``: best-effort work in the gaps that critical work leaves on a GPU, kernel by kernel."""

from __future__ import annotations

import typer

from edgetune.cli.app import CONTEXT, LazyGroup
from edgetune.cli.screen import print_document

COMMANDS: dict[str, str] = {
    "transform": "Make the kernels of a CUDA C file elastic, or say why not.",
    "shrink": "Keep the pieces of a kernel that are worth launching beside a critical kernel.",
    "simulate": "Share a GPU among tasks kernel by kernel, on a model of it: by one policy or several.",
    "run": "Share a GPU among tasks kernel by kernel, on a real one: by one policy or several.",
    "bench": "Measure what policies make of critical and best-effort networks that share a GPU.",
    "calibrate": "Measure what launches cost on a GPU.",
}
"""Every subcommand and its line of help; ``edgetune.cli.schedule_kernels_NAME`` holds a typer app called ``app``."""


class KernelsGroup(LazyGroup):
    """The subcommands of ``edgetune schedule kernels``."""

    lines = COMMANDS
    prefix = "schedule_kernels_"


app = typer.Typer(
    cls=KernelsGroup, rich_markup_mode=None, add_completion=False, context_settings=CONTEXT,
    invoke_without_command=True,
)  # fmt: skip


@app.callback()
def kernels(ctx: typer.Context) -> None:
    """Fill the gaps of critical work on a GPU with best-effort work, kernel by kernel.

    Kernels of best-effort networks are made elastic: they can be launched in pieces that fit into what a resident
    critical kernel leaves free, and get out of its way within one piece.
    """
    if ctx.invoked_subcommand is None:
        print_document(ctx.get_help())
