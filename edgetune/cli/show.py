"""``edgetune show``: any artifact, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from edgetune.cli.options import Json
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.header import Header
    from edgetune.artifacts.io import Artifact, Kind

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_HIDDEN = ("times_s", "power_trace", "started")


@app.command()
def show(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A profile, plan, trace or ops file; - for standard input.")
    ],
    plot: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="Draw a profile or trace instead: .svg, .png or .pdf.")
    ] = None,
    json: Json = False,
) -> None:
    """Print any edgetune file for people: where it comes from, its rows, and what to beware of."""
    import yaml

    from edgetune.artifacts.io import to_bytes
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.plain import plain
    from edgetune.artifacts.plan import Plan
    from edgetune.cli.screen import SIMULATED, answer

    if plot is not None:
        from edgetune.cli.plot import draw

        draw(read_any, file, plot)
        return
    artifact = read_any(file)
    if isinstance(artifact, Plan):
        document = to_bytes(artifact).decode()
        answer(yaml.safe_load(document)) if json else print(document, end="")
        return
    if json:
        answer(plain(artifact))
        return
    if artifact.header.simulated:
        print(SIMULATED)
    show_header(artifact.header)
    if isinstance(artifact, OpsTable):
        from edgetune.cli.ops_report import show_ops

        print()
        show_ops(artifact, "op")
        return
    show_rows([plain(row) for row in artifact.rows])


def read_any(file: str) -> Artifact:
    """Return the artifact in a file, whatever its kind.

    Raises:
        InputError: it cannot be read, or is no artifact.
    """
    from edgetune.artifacts.files import name_of, read_source
    from edgetune.artifacts.io import from_bytes, sniff
    from edgetune.artifacts.parquet_table import parquet_table

    data, name = read_source(file), name_of(file)
    form = sniff(data, name=name)
    if form == "yaml":
        return from_bytes(data, kind="plan", name=name)
    head = {} if form == "csv" else parquet_table(data, name=name)[1] or {}
    kind = str(head.get("kind", "profile"))
    if kind not in ("profile", "trace", "ops"):
        raise InputError(f"{name} is a {kind!r}, which this version cannot show", "a newer edgetune may")
    return from_bytes(data, kind=cast("Kind", kind), name=name)


def show_header(header: Header) -> None:
    """Print where an artifact comes from and what to beware of."""
    print(f"{header.kind} version {header.version}, made {header.created} by {header.tool}")
    for title, facts in (("inputs", header.inputs), ("conditions", header.conditions)):
        for name, value in facts.items():
            print(f"  {title}: {name} = {value}")
    for caution in header.warnings:
        numbers = "".join(f" {name}={value:g}" for name, value in caution.numbers.items())
        print(f"  warning: {caution.code}{numbers}: {caution.advice}")


def show_rows(rows: list[dict[str, Any]]) -> None:
    """Print the rows, without the columns that are empty throughout or hold raw samples."""
    from edgetune.cli.screen import table

    names = [name for name in (rows[0] if rows else ()) if name not in _HIDDEN]
    names = [name for name in names if any(row[name] is not None for row in rows)]
    if not names:
        print("no rows")
        return
    numeric = {name for name in names if all(isinstance(row[name], (int, float, type(None))) for row in rows)}
    columns = [f"{name}>" if name in numeric else name for name in names]
    table(columns, [[_cell(row[name]) for name in names] for row in rows])


def _cell(value: Any) -> str | None:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return None if value is None else str(value)
