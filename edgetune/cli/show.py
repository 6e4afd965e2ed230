"""``edgetune show``: any artifact, for people."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from edgetune.cli.command import Terminal, command
from edgetune.cli.screen import SIMULATED, Screen, answer, print_document, print_lines
from edgetune.errors import InputError
from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@options_class
class ShowOptions:
    """The options of ``edgetune show``."""

    file: Annotated[
        str,
        Option(
            "A profile, plan, trace, run, timeline, ops, roofline, ... file; - for stdin.",
            metavar="FILE",
            argument=True,
        ),
    ]
    column: options.Column = ()
    rows: Annotated[
        int, Option("Largest number of rows to print; 0, as --verbose, prints all.", (), "Output", "N", least=0)
    ] = 500
    output: Annotated[
        str | None,
        Option(
            "Write the contents to FILE (.csv, .json, .parquet or .yaml) instead.", ("-o", "--output"), "Files", "FILE"
        ),
    ] = None
    plot: Annotated[
        str | None, Option("Draw a figure instead: .svg, .png, .pdf; or a page, .html.", (), "Files", "FIGURE")
    ] = None
    view: Annotated[
        str | None,
        Option(
            "Figure to draw. Trace: steps, front. Run: latency, timeline, timeline:ENGINE. "
            "Timeline: gantt, gantt:POLICY@2s-5s.",
            (), "Files", "VIEW",
        ),
    ] = None  # fmt: skip
    force: options.Force = False


@command(app)
def show(opts: ShowOptions, terminal: Terminal) -> None:
    """Print any edgetune file in readable form: its origin, its rows and its warnings.

    \b
      edgetune show run.parquet --plot run.svg --view timeline
      edgetune show run.parquet -o run.csv

    A table is written as .parquet, .csv or .json, a document as .yaml or .json. CSV has the rows alone, with lists as
    JSON text in their cells; the others keep everything.
    """
    import yaml

    from edgetune.artifacts.jobs import Jobs
    from edgetune.artifacts.kernel_tasks import KernelTasks
    from edgetune.artifacts.plan import Plan
    from edgetune.cli.sections import TextSection, show_header
    from edgetune.workflows.parse_options import parse_columns
    from edgetune.workflows.report.sections import answer_of, write_sections

    file, plot = opts.file, opts.plot
    said = parse_columns(opts.column)
    if opts.output is not None:
        _export(file, opts.output, said, terminal.screen)
        if plot is None:
            return
    if plot is not None:
        from edgetune.cli.plot import draw

        draw(lambda name: _read(name, said), file, plot, opts.view)
        return
    if opts.view is not None:
        raise InputError("--view chooses a figure, and --plot is not given", "add --plot FIGURE.svg")
    artifact = _read(file, said)
    if isinstance(artifact, Plan | Jobs | KernelTasks):
        document = artifact.to_bytes().decode()
        answer(yaml.safe_load(document)) if terminal.json else print_document(document)
        return
    if terminal.json:
        answer(answer_of(artifact))
        return
    if artifact.header.simulated:
        print_lines(SIMULATED)
    show_header(artifact.header)
    write_sections(artifact, TextSection(most=0 if terminal.verbose else opts.rows))


def _export(file: str, output: str, columns: Mapping[str, str], screen: Screen) -> None:
    """Write the artifact in ``file`` to another, in the format of its ending; ``columns`` as in ``read_any``.

    Raises:
        InputError: it has no such format, or the file cannot be written or would be lost.
    """
    from edgetune.artifacts.io import write
    from edgetune.workflows.output import check_outputs, wrote

    if output == "-":
        raise InputError("the ending of the file name gives the format, and - has no ending", "e.g. -o out.csv")
    artifact = _read(file, columns)
    check_outputs({"-o": output}, [file], {"-o": artifact.header.kind})
    write(artifact, output)
    screen.info(wrote(output))


def _read(file: str, columns: Mapping[str, str]) -> Any:
    """Return the artifact in a file, or what a stopped sweep has measured of it."""
    from edgetune.artifacts.io import read_any
    from edgetune.stages.profiling.sweep_journal import stopped_sweep

    return stopped_sweep(file) or read_any(file, columns)
