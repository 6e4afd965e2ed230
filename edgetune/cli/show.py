"""``edgetune show``: any artifact, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli import options
from edgetune.cli.screen import SIMULATED, Screen, answer, print_document, print_lines
from edgetune.errors import InputError
from edgetune.workflows.output import begin_outputs

if TYPE_CHECKING:
    from edgetune.artifacts.artifact import Artifact

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def show(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A profile, plan, trace, run, timeline, ops, roofline, ... file; - for stdin."
        ),
    ],
    *,
    plot: Annotated[
        str | None,
        typer.Option(metavar="FIGURE", help="Draw it instead: .svg, .png, .pdf; a roofline or a run also .html."),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="VIEW",
            help="Of a trace: steps, front, trajectory; of a run: latency, timeline, cycle, or timeline:ENGINE; of a "
            "timeline: gantt, gantt:POLICY@2s-5s, responses; of a roofline: clocks.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it instead, as .csv, .json, .parquet or .yaml."),
    ] = None,
    column: options.Column = None,
    rows: Annotated[int, typer.Option(min=0, metavar="N", help="Most rows to print; 0 prints all.")] = 500,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Print any edgetune file for people: where it comes from, its rows, and what to beware of.

    \b
      edgetune show run.parquet --plot run.svg --view timeline
      edgetune show run.parquet -o run.csv

    A table is written as .parquet, .csv or .json, a document as .yaml or .json. CSV has the rows alone, with lists as
    JSON text in their cells; the others keep everything.
    """
    import yaml

    from edgetune.artifacts.io import read_any, to_bytes
    from edgetune.artifacts.jobs import Jobs
    from edgetune.artifacts.kernel_tasks import KernelTasks
    from edgetune.artifacts.plan import Plan
    from edgetune.cli.artifact_report import show_header
    from edgetune.workflows.parse_options import parse_columns

    begin_outputs(force=force)
    said = parse_columns(column or ())
    if output is not None:
        _export(file, output, said)
        if plot is None:
            return
    if plot is not None:
        from edgetune.cli.plot import draw

        draw(lambda name: read_any(name, said), file, plot, view)
        return
    if view is not None:
        raise InputError("--view says which figure to draw, and none was asked for", "add --plot FIGURE.svg")
    artifact = read_any(file, said)
    if isinstance(artifact, Plan | Jobs | KernelTasks):
        document = to_bytes(artifact).decode()
        answer(yaml.safe_load(document)) if json else print_document(document)
        return
    if json:
        answer(_for_machines(artifact))
        return
    if artifact.header.simulated:
        print_lines(SIMULATED)
    show_header(artifact.header)
    if not _show_summary(artifact):
        _show_rows(artifact, rows)


def _export(file: str, output: str, columns: Mapping[str, str]) -> None:
    """Write the artifact in ``file`` to another, in the format of its ending; ``columns`` as in ``read_any``.

    Raises:
        InputError: it has no such format, or the file cannot be written or would be lost.
    """
    from edgetune.artifacts.io import read_any, write
    from edgetune.workflows.output import check_outputs, wrote

    if output == "-":
        raise InputError("the ending of a file's name says the format, and - has none", "e.g. -o out.csv")
    artifact = read_any(file, columns)
    check_outputs({"-o": output}, [file], {"-o": artifact.header.kind})
    write(artifact, output)
    Screen().info(wrote(output))


def _show_summary(artifact: Artifact) -> bool:
    """Print what an artifact comes to, where that is what people read; return whether it is."""
    from edgetune.artifacts.convergence import Convergence
    from edgetune.artifacts.evaluation import Evaluation
    from edgetune.artifacts.kernel_timeline import KernelTimeline
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.run import Run
    from edgetune.artifacts.timeline import Timeline

    if isinstance(artifact, Evaluation):
        from edgetune.cli.evaluation_report import show_evaluation

        show_evaluation(artifact, "workload")
    elif isinstance(artifact, Run):
        from edgetune.cli.interleave_report import show_run

        show_run(artifact)
    elif isinstance(artifact, Timeline):
        from edgetune.cli.schedule_report import show_timeline

        show_timeline(artifact)
    elif isinstance(artifact, KernelTimeline):
        from edgetune.cli.kernel_report import show_kernel_timeline

        show_kernel_timeline(artifact)
    elif isinstance(artifact, Convergence):
        from edgetune.cli.convergence_report import show_runs

        show_runs(artifact.rows)
    elif isinstance(artifact, OpsTable):
        from edgetune.cli.ops_report import show_ops

        show_ops(artifact, "op")
    else:
        return False
    return True


def _show_rows(artifact: Artifact, most: int) -> None:
    """Print the first rows of a profile, a trace, layer costs, kept pieces or a roofline; 0 prints all."""
    from edgetune.artifacts.elastic_table import ElasticTable
    from edgetune.artifacts.layer_costs import LayerCosts
    from edgetune.artifacts.profile import Profile
    from edgetune.artifacts.roofline import Roofline
    from edgetune.artifacts.trace import Trace
    from edgetune.cli.artifact_report import show_profile_rows, show_roofs, show_trace_rows

    count = 0
    if isinstance(artifact, Roofline):
        count = len(artifact.roofs)
        show_roofs(artifact, most or count)
    elif isinstance(artifact, Profile):
        count = len(artifact.rows)
        show_profile_rows(artifact.rows[: most or count], whole=artifact.rows)
    elif isinstance(artifact, Trace):
        count = len(artifact.rows)
        show_trace_rows(artifact.rows[: most or count])
    elif isinstance(artifact, LayerCosts):
        from edgetune.cli.layer_costs_report import show_layers

        count = len(artifact.rows)
        show_layers(artifact.rows[: most or count])
    elif isinstance(artifact, ElasticTable):
        from edgetune.cli.elastic_table_report import show_pieces

        count = len(artifact.rows)
        show_pieces(artifact.rows[: most or count])
    if most and count > most:
        print_lines(f"... and {count - most} more rows (--rows 0 prints all)")


def _for_machines(artifact: Artifact) -> object:
    """Return everything in it; of an evaluation, a run or a timeline, which may have a million rows, its figures."""
    from edgetune.artifacts.evaluation import Evaluation
    from edgetune.artifacts.kernel_timeline import KernelTimeline
    from edgetune.artifacts.plain import plain
    from edgetune.artifacts.run import Run
    from edgetune.artifacts.timeline import Timeline

    if isinstance(artifact, Evaluation):
        from edgetune.cli.evaluation_report import evaluation_answer

        return evaluation_answer(artifact, "workload")
    if isinstance(artifact, Run):
        from edgetune.cli.interleave_report import report_answer

        return report_answer(artifact)
    if isinstance(artifact, Timeline):
        from edgetune.cli.schedule_report import report_answer as timeline_answer

        return timeline_answer(artifact)
    if isinstance(artifact, KernelTimeline):
        from edgetune.cli.kernel_report import report_answer as kernel_answer

        return kernel_answer(artifact)
    return plain(artifact)
