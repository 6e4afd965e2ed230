"""``edgetune schedule generate``: made-up networks and jobs, to schedule on a clock."""

from __future__ import annotations

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.schedule.options import GenerationOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def generate(opts: GenerationOptions, terminal: Terminal) -> None:
    """Make up networks and jobs to schedule.

    Two files are written: a table of what layers take, and jobs that name it. The same options make the same networks.

    \b
      edgetune schedule generate --networks 5 --shape branches --weights log:1MiB:100MiB
      edgetune schedule run made.yaml --simulate --policy masa,reuse
    """
    from edgetune.cli.screen import answer, table
    from edgetune.units import format_bytes, format_duration
    from edgetune.workflows.schedule.generate import generate as workflow

    made, jobs = workflow(opts, terminal.screen)
    if terminal.json:
        networks = [
            {"network": each.name, "layers": len(each.layers), "weight_bytes": each.weight_bytes,
             "service_s": each.service_s}
            for each in made
        ]  # fmt: skip
        answer({"costs": opts.output, "jobs": opts.jobs, "memory_bytes": jobs.memory_bytes, "networks": networks})
        return
    table(
        ["network", "layers>", "weights>", "alone>"],
        [(each.name, len(each.layers), format_bytes(each.weight_bytes), format_duration(each.service_s))
         for each in made],
    )  # fmt: skip
