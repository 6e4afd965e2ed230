"""Long work on screen: what was resumed, how far it is, how long it still takes. A bar on terminals only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen
from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.profiling.sweep import Progress

OnProgress = Callable[["Progress"], None]


@contextmanager
def watch(screen: Screen) -> Iterator[OnProgress]:
    """Return what to tell the progress of a sweep to."""
    if screen.quiet or not sys.stderr.isatty():
        yield lambda progress: tell(progress, screen)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, highlight=False, no_color=bool(os.environ.get("NO_COLOR")))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("measuring", total=None, left="")

        def show(progress: Progress) -> None:
            left = "" if progress.eta_s is None else f"{format_duration(progress.eta_s)} left"
            bar.update(task, completed=progress.done, total=progress.total, left=left)
            tell(progress, screen)

        yield show


def tell(progress: Progress, screen: Screen) -> None:
    """Say what was resumed, what failed, and with --verbose every point."""
    if progress.row is None:
        if progress.resumed:
            points = f"{progress.resumed} of {progress.total} points are done"
            screen.say(f"resuming: {points}; --fresh starts over")
    elif progress.row.status != "ok":
        screen.say(f"{progress.row.status}: {progress.row.point}: {progress.row.reason}")
    else:
        screen.detail(f"{progress.done} of {progress.total}: {figures(progress.row)}")


def figures(row: ProfileRow) -> str:
    """Return a measured row as a line for people."""
    time = "no time" if row.minibatch_s is None else format_si(row.minibatch_s, "s")
    power = "" if row.power_w is None else f", {format_si(row.power_w, 'W')}"
    return f"{row.point}: {time}{power}"
