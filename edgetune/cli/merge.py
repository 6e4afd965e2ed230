"""``edgetune merge``: several tables of the same network, device and conditions as one."""

import typer

from edgetune.cli.command import Terminal, command
from edgetune.workflows.profile.options import MergeOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def merge(opts: MergeOptions, terminal: Terminal) -> None:
    """Merge tables of the same network, device and conditions into one.

    \b
      edgetune merge monday.parquet tuesday.parquet -o both.parquet

    All rows are kept; where tables have the same point, readers take the newest measurement. Tables that differ in
    device, network, options or software are refused, and the first difference is named.
    """
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.screen import answer
    from edgetune.workflows.profile.tables import merge as workflow

    whole, target, counts = workflow(opts, terminal.screen)
    if terminal.json:
        answer({"file": target.file, "rows": len(whole.rows), **plain(whole.header)})
    repeated = sum(counts) - len(whole.rows)
    terminal.screen.info(
        f"{len(whole.rows)} rows"
        + (f" of {' + '.join(map(str, counts))}" if len(counts) > 1 else "")
        + (f": {repeated} were there twice" if repeated else "")
    )
    target.report(terminal.screen)
