"""The options of ``edgetune report``."""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class


@options_class
class ReportOptions:
    """The options of ``edgetune report``."""

    files: Annotated[
        Sequence[str],
        Option("Files of edgetune, or folders of them; - for stdin.", metavar="FILE", argument=True, repeatable=True),
    ] = field(kw_only=False)
    output: Annotated[str, Option("The page: a name that ends in .html.", ("-o", "--output"), "Files", "FILE")] = (
        "report.html"
    )
    column: options.Column = ()
    force: options.Force = False
