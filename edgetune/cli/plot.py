"""``edgetune show FILE --plot FIGURE``: an artifact drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgetune.cli.screen import Screen, print_lines
from edgetune.errors import InputError
from edgetune.plotting.page import is_page
from edgetune.workflows.timeline_view import kernel_view, timeline_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgetune.artifacts.artifact import Artifact
    from edgetune.artifacts.kernel_timeline import KernelTimeline
    from edgetune.artifacts.roofline import Roofline
    from edgetune.artifacts.run import Run
    from edgetune.artifacts.timeline import Timeline
    from edgetune.cli.screen import Screen
    from edgetune.search.figures import View


def draw(read: Callable[[str], Artifact], file: str, target: str, view: str | None = None) -> None:
    """Draw the artifact that ``read`` finds in ``file`` and write the figure to ``target``.

    Raises:
        InputError: it has no figure or not this view, or the figure cannot be written.
        DeviceError: matplotlib is missing.
    """
    from edgetune.plotting.figure_file import format_of
    from edgetune.workflows.output import Target

    if not is_page(target):
        format_of(target)
    Target(Path(target)).check("figure", "--plot")
    artifact = read(file)
    write_drawing(lambda: drawing_of(artifact, target, view, file), target, Screen())


def write_drawing(draw: Callable[[], Figure | bytes], target: str, screen: Screen) -> None:
    """Write a figure or a page to ``target``, and say so, and what the figure leaves out.

    Raises:
        InputError: the drawing takes more time or memory than the limits allow, or the file cannot be written.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.plotting.captions import left_out_of
    from edgetune.plotting.figure_file import bounded, figure_bytes, format_of

    with bounded():
        drawing = draw()
        data = drawing if isinstance(drawing, bytes) else figure_bytes(drawing, format_of(target))
    screen.info(f"wrote {write_atomically(data, target)}")
    for note in [] if isinstance(drawing, bytes) else left_out_of(drawing):
        screen.info(f"{target}: {note}")


def draw_finished(draw: Callable[[], Figure | bytes], target: str | None, screen: Screen, again: str | None) -> None:
    """Draw what a command has done and kept, where a figure was asked for; a failure is told and changes no exit code.

    Args:
        draw: Returns the figure or the page.
        target: The file; ``None`` where no figure was asked for.
        screen: For what is said.
        again: A command that draws it once more from what is kept; ``None`` where nothing is.
    """
    from edgetune.cli.main import describe
    from edgetune.visible import one_line

    if target is None:
        return
    try:
        write_drawing(draw, target, screen)
    except Exception as error:
        message, hint, _ = describe(error)
        remedy = f"; then: {again}" if again else ""
        print_lines(f"warning: {one_line(f'{target} was not drawn: {message} ({hint}){remedy}')}", stream=sys.stderr)


def drawing_of(artifact: Artifact, target: str, view: str | None, name: str = "it") -> Figure | bytes:
    """Return the page of an artifact where the name of the file asks for one, else the figure of this view.

    Raises:
        InputError: its kind has none, or not this view.
    """
    return page_of(artifact, name, view) if is_page(target) else figure_of(artifact, name, view)


def draw_kept(artifact: Artifact, target: str | None, screen: Screen, *, view: str | None, file: str | None) -> None:
    """Draw the artifact that a command has written to ``file``; see ``draw_finished``."""
    again = None if file is None else f"edgetune show {file} --plot {target}{f' --view {view}' if view else ''}"
    draw_finished(lambda: drawing_of(artifact, str(target), view), target, screen, again)


def page_of(artifact: Artifact, name: str, view: str | None = None) -> bytes:
    """Return the page of an artifact.

    Raises:
        InputError: its kind has none; ``name`` is what the message calls it.
    """
    from edgetune.artifacts.roofline import Roofline
    from edgetune.artifacts.run import Run

    if not isinstance(artifact, Roofline | Run):
        raise InputError(
            f"{name} is a file of kind {artifact.header.kind}, and only a roofline or a run is drawn as a page",
            "name a .svg, .png or .pdf file",
        )
    if view is not None:
        raise InputError("a page shows everything, and --view chooses between figures", "leave it out")
    if isinstance(artifact, Run):
        from edgetune.cli.interleave_report import report_tables
        from edgetune.interleave.figures.page import run_page

        return run_page(artifact, *report_tables(artifact))
    from edgetune.roofline.balance import sentences, statements
    from edgetune.roofline.figures import roofline_page

    precisions = dict.fromkeys(roof.precision for roof in artifact.roofs)
    found = (statements([roof for roof in artifact.roofs if roof.precision == each]) for each in precisions)
    notes = [f"{each.precision}: {sentence}" for each in found if each is not None for sentence in sentences(each)]
    return roofline_page(artifact.roofs, device=artifact.device, simulated=artifact.header.simulated, notes=notes)


def figure_of(artifact: Artifact, name: str, view: str | None = None) -> Figure:
    """Return the figure of an artifact, of a trace, a run or a roofline the one of this view.

    Raises:
        InputError: its kind has none, or not this view; ``name`` is what the message calls it.
    """
    from edgetune.artifacts.kernel_timeline import KernelTimeline
    from edgetune.artifacts.roofline import Roofline
    from edgetune.artifacts.run import Run
    from edgetune.artifacts.timeline import Timeline
    from edgetune.artifacts.trace import Trace

    if isinstance(artifact, Trace):
        from edgetune.search.figures import search_figure

        return search_figure(artifact, view_of(view or "steps"))
    if isinstance(artifact, Roofline):
        return _roofline_figure(artifact, view or "roofs")
    if isinstance(artifact, Run):
        return _run_figure(artifact, view or "latency")
    if isinstance(artifact, Timeline):
        return _timeline_figure(artifact, view or "gantt")
    if isinstance(artifact, KernelTimeline):
        return _kernel_figure(artifact, view or "gantt")
    if view is not None:
        raise InputError(
            f"{name} is a file of kind {artifact.header.kind}; --view is for a trace, a run, a timeline or a roofline",
            "leave it out",
        )
    figure = _only_figure(artifact)
    if figure is None:
        raise InputError(f"{name} is a file of kind {artifact.header.kind}, which has no figure", "leave out --plot")
    return figure


def _only_figure(artifact: Artifact) -> Figure | None:
    """Return the figure of an artifact that has one only; ``None`` where its kind has none."""
    from edgetune.artifacts.elastic_table import ElasticTable
    from edgetune.artifacts.evaluation import Evaluation
    from edgetune.artifacts.profile import Profile

    if isinstance(artifact, Profile):
        from edgetune.profiling.figures import profile_figure

        return profile_figure(artifact)
    if isinstance(artifact, Evaluation):
        from edgetune.search.evaluation.results import evaluation_figure

        return evaluation_figure(artifact)
    if isinstance(artifact, ElasticTable):
        from edgetune.elastic.figures.pruned import pruned_figure

        return pruned_figure(artifact)
    return None


def _run_figure(artifact: Run, view: str) -> Figure:
    """Return the figure of a run; ``timeline:native`` is the timeline of one of its engines."""
    from edgetune.choices import choose
    from edgetune.interleave.figures import VIEWS, run_figure
    from edgetune.interleave.figures import View as RunView

    word, _, engine = view.partition(":")
    chosen = cast("RunView", choose(word, VIEWS, what="view"))
    if engine and chosen == "latency":
        raise InputError("the figure of latencies has every engine", f"leave out :{engine}")
    return run_figure(artifact, chosen, engine=engine or None)


def _timeline_figure(artifact: Timeline, words: str) -> Figure:
    """Return the figure of a timeline; ``gantt:masa@2s-5s`` is the chart of a policy from 2 to 5 s."""
    from edgetune.schedule.figures import timeline_figure

    view, policy, from_s, to_s = timeline_view(words)
    return timeline_figure(artifact, view, policy=policy, from_s=from_s, to_s=to_s)


def _kernel_figure(artifact: KernelTimeline, words: str) -> Figure:
    """Return the chart of multiprocessors; ``gantt:elastic@10ms-30ms`` is that of a policy from 10 to 30 ms."""
    from edgetune.elastic.figures.gantt import gantt_figure

    policy, from_s, to_s = kernel_view(words)
    return gantt_figure(artifact, policy=policy, from_s=from_s, to_s=to_s)


def _roofline_figure(artifact: Roofline, view: str) -> Figure:
    """Return the rooflines of a device, or what they are made of against its clocks."""
    from edgetune.choices import choose
    from edgetune.roofline.figures import clock_figure, roof_figure

    device, simulated = artifact.device, artifact.header.simulated
    if choose(view, ("roofs", "clocks"), what="view") == "clocks":
        return clock_figure(artifact.roofs, device=device, simulated=simulated)
    return roof_figure(artifact.roofs, device=device, simulated=simulated)


def view_of(word: str) -> View:
    """Return the figure of a search that a word names.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    from edgetune.choices import choose
    from edgetune.search.figures import VIEWS

    return cast("View", choose(word, VIEWS, what="view"))
