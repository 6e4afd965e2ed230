"""Options that ``edgetune schedule kernels simulate`` and ``run`` share, each defined once."""

from __future__ import annotations

from typing import Annotated

import typer

Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="LIST",
        help="sequential, multistream, barrier, elastic, or several. Default: that of the file.",
    ),
]
Duration = Annotated[
    str | None, typer.Option(metavar="TIME", help="How long requests come, e.g. 2s. Default: that of the file.")
]
Output = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="The timeline. Default: kernels.parquet.")
]
View = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What to draw: gantt, gantt:POLICY or gantt:POLICY@10ms-30ms."),
]
Kept = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Pieces that shrink kept; for kernels in no such file they are worked out. Repeatable.",
    ),
]
