"""Draws artifacts: for ``edgetune show FILE --plot FIGURE``, and after a command has written one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.screen import Screen, answer, print_lines
from edgetune.cli.sections import TextSection
from edgetune.errors import ExitCode, InputError
from edgetune.plotting.page import is_page
from edgetune.plotting.style import Figure

if TYPE_CHECKING:
    from edgetune.artifacts.artifact import Artifact
    from edgetune.cli.command import Terminal
    from edgetune.workflows.interleave.options import InterleaveOptions
    from edgetune.workflows.kernels.options import ShareOptions
    from edgetune.workflows.output import FinishedRun
    from edgetune.workflows.schedule.options import ScheduleOptions


def draw(read: Callable[[str], Artifact], file: str, target: str, view: str | None = None) -> None:
    """Draw the artifact that ``read`` finds in ``file`` and write the figure to ``target``.

    Raises:
        InputError: the artifact has no figure or no such view, or the figure cannot be written.
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
    """Write a figure or a page to ``target``; report the file, and what the figure leaves out.

    Raises:
        InputError: the drawing takes more time or memory than the limits allow, or the file cannot be written.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.plotting.figure_file import bounded, figure_bytes, format_of
    from edgetune.plotting.labels import left_out_of

    with bounded():
        drawing = draw()
        data = drawing if isinstance(drawing, bytes) else figure_bytes(drawing, format_of(target))
    screen.info(f"wrote {write_atomically(data, target)}")
    for note in [] if isinstance(drawing, bytes) else left_out_of(drawing):
        screen.info(f"{target}: {note}")


def draw_finished(draw: Callable[[], Figure | bytes], target: str | None, screen: Screen, again: str | None) -> None:
    """Draw the result of a command where a figure is requested; a failure is a warning and changes no exit code.

    Args:
        draw: Returns the figure or the page.
        target: The file; ``None`` where no figure was asked for.
        screen: Takes the notes.
        again: A command that draws the figure from the saved result; ``None`` where nothing is saved.
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


def drawing_of(artifact: Artifact, target: str, view: str | None, name: str) -> Figure | bytes:
    """Return the page of an artifact where the name of the file asks for one, else the figure of this view.

    Raises:
        InputError: its kind has none, or not this view.
    """
    from edgetune.workflows.figures import choose_view
    from edgetune.workflows.report.report import Found, page_of

    if not is_page(target):
        return choose_view(artifact.header.kind, view)(artifact)
    if view is not None:
        raise InputError("a page shows everything, and --view chooses between figures", "leave it out")
    return page_of([Found(name, artifact)]).data()


def draw_kept(artifact: Artifact, target: str | None, screen: Screen, *, view: str | None, file: str | None) -> None:
    """Draw the artifact that a command has written to ``file``; see ``draw_finished``."""
    again = None if file is None else f"edgetune show {file} --plot {target}{f' --view {view}' if view else ''}"
    name = file or artifact.header.kind
    draw_finished(lambda: drawing_of(artifact, str(target), view, name), target, screen, again)


def report_finished(
    finished: FinishedRun[Any], opts: InterleaveOptions | ScheduleOptions | ShareOptions, terminal: Terminal
) -> None:
    """Print or answer the figures of a run, draw it, and end with the run's exit code.

    Raises:
        BaseException: the failure that ended the run.
        typer.Exit: a signal stopped the run, or a tenant or policy ended early.
    """
    from edgetune.workflows.report.sections import answer_of, write_sections

    made, target = finished.artifact, finished.target
    if terminal.json:
        answer(answer_of(made))
    elif target.path is not None or not terminal.quiet:  # --quiet leaves standard error empty, not the answer
        write_sections(made, TextSection(sys.stderr if target.path is None else None))
    draw_kept(made, opts.plot, terminal.screen, view=opts.view, file=target.file)
    finished.checked()
    if finished.stopped_by is not None:
        raise typer.Exit(128 + finished.stopped_by)
    if finished.lost:
        raise typer.Exit(ExitCode.PARTIAL)
