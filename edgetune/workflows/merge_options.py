"""The options of ``edgetune merge``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """The options of ``edgetune merge``."""

    tables: Annotated[
        Sequence[str],
        Option("Profiles, the oldest first; - for one.", metavar="TABLE...", argument=True, repeatable=True),
    ] = field(kw_only=False)
    output: Annotated[
        str | None, Option("One of the tables may be it. Default: a pipe.", ("-o", "--output"), "Files", "FILE")
    ] = None
    column: options.Column = ()
    force: options.Force = False
