"""``edgetune show``: any artifact, for people."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer

from edgetune.cli.command import AnswerTerminal, command
from edgetune.cli.screen import SIMULATED, Screen, answer, print_document, print_lines
from edgetune.errors import InputError
from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class


@dataclass(frozen=True, slots=True)
class _Report:
    """The summary of a kind of artifact: a module of ``cli``, its functions that print and answer, their options."""

    module: str
    show: str
    answer: str | None = None
    options: tuple[str, ...] = ()

    def load(self, function: str) -> Callable[..., object]:
        """Return one of the functions."""
        found: Callable[..., object] = getattr(import_module(f"edgetune.cli.{self.module}"), function)
        return found


_REPORTS = {
    "evaluation": _Report("evaluation_report", "show_evaluation", "evaluation_answer", ("workload",)),
    "run": _Report("interleave_report", "show_run", "report_answer"),
    "timeline": _Report("schedule_report", "show_timeline", "report_answer"),
    "kernel_timeline": _Report("kernel_report", "show_kernel_timeline", "report_answer"),
    "convergence": _Report("convergence_report", "show_runs"),
    "ops": _Report("ops_report", "show_ops", None, ("op",)),
}

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
    rows: Annotated[int, Option("Largest number of rows to print; 0 prints all.", (), "Output", "N", least=0)] = 500
    output: Annotated[
        str | None,
        Option(
            "Write the contents to FILE (.csv, .json, .parquet or .yaml) instead.", ("-o", "--output"), "Files", "FILE"
        ),
    ] = None
    plot: Annotated[
        str | None,
        Option("Draw a figure instead: .svg, .png, .pdf; a roofline or a run also .html.", (), "Files", "FIGURE"),
    ] = None
    view: Annotated[
        str | None,
        Option(
            "Figure to draw. Trace: steps, front, trajectory. Run: latency, timeline, cycle, timeline:ENGINE. "
            "Timeline: gantt, gantt:POLICY@2s-5s, responses. Roofline: clocks.",
            (), "Files", "VIEW",
        ),
    ] = None  # fmt: skip
    force: options.Force = False


@command(app)
def show(opts: ShowOptions, terminal: AnswerTerminal) -> None:
    """Print any edgetune file in readable form: its origin, its rows and its warnings.

    \b
      edgetune show run.parquet --plot run.svg --view timeline
      edgetune show run.parquet -o run.csv

    A table is written as .parquet, .csv or .json, a document as .yaml or .json. CSV has the rows alone, with lists as
    JSON text in their cells; the others keep everything.
    """
    import yaml

    from edgetune.artifacts.io import read_any
    from edgetune.artifacts.jobs import Jobs
    from edgetune.artifacts.kernel_tasks import KernelTasks
    from edgetune.artifacts.plan import Plan
    from edgetune.cli.artifact_report import show_header
    from edgetune.workflows.parse_options import parse_columns

    file, plot = opts.file, opts.plot
    said = parse_columns(opts.column)
    if opts.output is not None:
        _export(file, opts.output, said)
        if plot is None:
            return
    if plot is not None:
        from edgetune.cli.plot import draw

        draw(lambda name: read_any(name, said), file, plot, opts.view)
        return
    if opts.view is not None:
        raise InputError("--view chooses a figure, and --plot is not given", "add --plot FIGURE.svg")
    artifact = read_any(file, said)
    if isinstance(artifact, Plan | Jobs | KernelTasks):
        document = artifact.to_bytes().decode()
        answer(yaml.safe_load(document)) if terminal.json else print_document(document)
        return
    if terminal.json:
        answer(_for_machines(artifact))
        return
    if artifact.header.simulated:
        print_lines(SIMULATED)
    show_header(artifact.header)
    if not _show_summary(artifact):
        _show_rows(artifact, opts.rows)


def _export(file: str, output: str, columns: Mapping[str, str]) -> None:
    """Write the artifact in ``file`` to another, in the format of its ending; ``columns`` as in ``read_any``.

    Raises:
        InputError: it has no such format, or the file cannot be written or would be lost.
    """
    from edgetune.artifacts.io import read_any, write
    from edgetune.workflows.output import check_outputs, wrote

    if output == "-":
        raise InputError("the ending of the file name gives the format, and - has no ending", "e.g. -o out.csv")
    artifact = read_any(file, columns)
    check_outputs({"-o": output}, [file], {"-o": artifact.header.kind})
    write(artifact, output)
    Screen().info(wrote(output))


def _show_summary(artifact: Any) -> bool:
    """Print the summary of an artifact; return whether its kind has one."""
    report = _REPORTS.get(artifact.header.kind)
    if report is not None:
        report.load(report.show)(artifact.rows if artifact.header.kind == "convergence" else artifact, *report.options)
    return report is not None


def _show_rows(artifact: Any, most: int) -> None:
    """Print the first rows of an artifact without a summary; 0 prints all."""
    from edgetune.cli.artifact_report import show_profile_rows, show_roofs, show_trace_rows
    from edgetune.cli.elastic_table_report import show_pieces
    from edgetune.cli.layer_costs_report import show_layers

    kind = artifact.header.kind
    rows = artifact.roofs if kind == "roofline" else artifact.rows
    shown = rows[: most or len(rows)]
    if kind == "roofline":
        show_roofs(artifact, len(shown))
    elif kind == "profile":
        show_profile_rows(shown, whole=rows)
    else:
        others: dict[str, Callable[..., None]] = {
            "trace": show_trace_rows, "layer_costs": show_layers, "elastic_table": show_pieces
        }  # fmt: skip
        others[kind](shown)
    if len(shown) < len(rows):
        print_lines(f"... and {len(rows) - len(shown)} more rows (--rows 0 prints all)")


def _for_machines(artifact: Any) -> object:
    """Return the whole artifact; of an evaluation, a run or a timeline, which may have a million rows, the figures."""
    from edgetune.artifacts.plain import plain

    report = _REPORTS.get(artifact.header.kind)
    if report is None or report.answer is None:
        return plain(artifact)
    return report.load(report.answer)(artifact, *report.options)
