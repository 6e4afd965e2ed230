"""``edgetune merge``: several tables of the same network, device and conditions as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgetune.cli import options
from edgetune.errors import InputError
from edgetune.workflows.output import begin_outputs, forced

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Profile

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def merge(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Profiles, the oldest first; - for one.", show_default=False)
    ],
    *,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="One of the tables may be it. Default: a pipe.")
    ] = None,
    column: options.Column = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make one table of several of the same network, device and conditions.

    \b
      edgetune merge monday.parquet tuesday.parquet -o both.parquet

    All rows are kept; where tables have the same point, readers take the newest measurement. Tables that differ in
    device, network, options or software are refused, and the first difference is named.
    """
    from edgetune.artifacts.plain import plain
    from edgetune.cli.screen import Screen, answer
    from edgetune.workflows.output import choose_target
    from edgetune.workflows.parse_options import parse_columns
    from edgetune.workflows.reporting import SimulationLabel
    from edgetune.workflows.search.candidates import read_table

    begin_outputs(force=force)
    screen, said = Screen(quiet), parse_columns(column or ())
    profiles, origins = zip(*(read_table(table, said) for table in tables), strict=True)
    for other, name in zip(profiles[1:], tables[1:], strict=True):
        _refuse_difference(profiles[0], other, tables[0], name)
    whole = _whole(profiles, origins)
    target = choose_target(output, "merged.parquet", json=json)
    _check(output, tables)
    target.check("profile")
    SimulationLabel(whole.header.simulated, screen).announce()
    target.write(whole)
    rows = [len(profile.rows) for profile in profiles]
    if json:
        answer({"file": target.file, "rows": len(whole.rows), **plain(whole.header)})
    screen.info(f"{' + '.join(map(str, rows))} rows are {len(whole.rows)}")
    target.report(screen)


def _refuse_difference(first: Profile, other: Profile, name: str, other_name: str) -> None:
    """Refuse a table that does not fit the first one.

    Raises:
        InputError: they differ in device, network, options or software.
    """
    from edgetune.artifacts.merging import first_difference, rows_difference

    differs = first_difference(first.header, other.header) or rows_difference(first.rows, other.rows)
    if differs is not None:
        message = f"{name} and {other_name} do not fit together: {differs.what} {differs.ours} and {differs.theirs}"
        raise InputError(message, "keep them apart: edgetune search takes several tables of one device")


def _whole(profiles: Sequence[Profile], origins: Sequence[dict[str, str]]) -> Profile:
    """Return the tables as one; it can grow by ``edgetune profile`` where all of them answer the same request."""
    from edgetune.artifacts.merging import merged

    requests = [profile.header.inputs.get("request", {}) for profile in profiles]
    inputs: dict[str, Any] = {"tables": list(origins)}
    if len({request.get("sha256") for request in requests}) == 1 and requests[0].get("sha256"):
        partial = [point for request in requests for point in request.get("partial", ())]
        inputs["request"] = {"sha256": requests[0]["sha256"], **({"partial": partial} if partial else {})}
    return merged(profiles, inputs=inputs)


def _check(output: str | None, tables: Sequence[str]) -> None:
    """Refuse an output that holds something else; one of the tables may be it, whose rows all are in the new one."""
    from edgetune.workflows.output import check_outputs

    same = output is not None and Path(output).resolve() in {Path(table).resolve() for table in tables if table != "-"}
    if not same:
        check_outputs({"-o": output}, tables, {"-o": "profile"})
        if output is not None and not forced() and Path(output).is_file() and Path(output).stat().st_size:
            hint = "name another file, give it as a table too, or replace it with --force"
            raise InputError(f"-o: {output} exists, and would be lost", hint)
