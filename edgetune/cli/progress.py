"""Progress of long work on the terminal: resumed points, progress and remaining time, with a bar only on terminals.

Makes consoles of rich for progress bars.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO, cast

from edgetune.processes.streams import Surviving, write
from edgetune.stages.profiling.options import COOLING
from edgetune.units import format_duration, format_si
from edgetune.visible import cut_in_middle, visible
from edgetune.workflows.reporting import OnAdvance, OnProgress, Reporter, SimulationLabel

if TYPE_CHECKING:
    from rich.console import Console

    from edgetune.artifacts.profile import ProfileRow
    from edgetune.stages.profiling.sweep import SweepProgress


def console(stream: TextIO) -> Console:
    """Return a console for a progress bar or a page of the manual."""
    from rich.console import Console

    survivor = cast("TextIO", Surviving(stream))
    return Console(file=survivor, highlight=False, markup=False, emoji=False, no_color=bool(os.environ.get("NO_COLOR")))


def print_over(text: str, *, last: bool = False) -> None:
    """Overwrite the previous progress line on a terminal's standard error; the ``last`` call erases it."""
    write(f"\r\x1b[K{'' if last else visible(text)}", sys.stderr)


_LONGEST_NAME = 60
"""The longest description beside a bar, characters."""


@contextmanager
def watch(reporter: Reporter, label: SimulationLabel) -> Iterator[OnProgress]:
    """Return the reporter of a sweep's progress, which prints the label before the first figure."""
    lines = SweepReporter(reporter, label)
    if reporter.quiet or not sys.stderr.isatty():
        yield lines.report
    else:
        with _bar(lines) as on_progress:
            yield on_progress
    lines.release()


_open: list[Any] = []
"""The bars that are shown; the last one shows the state of the present point."""


@contextmanager
def _shown(*columns: Any) -> Iterator[Any]:
    """Show a bar of these columns, with the state of the present point in a line below it.

    It is drawn twice a second: drawing takes some milliseconds of a CPU.
    """
    from rich.progress import Progress
    from rich.text import Text

    class Bar(Progress):
        point = ""

        def get_renderables(self) -> Iterator[Any]:
            yield self.make_tasks_table(self.tasks)
            for line in self.point.splitlines():
                yield Text(visible(line), "dim", no_wrap=True, overflow="ellipsis")

    bar = Bar(*columns, console=console(sys.stderr), transient=True, refresh_per_second=2, redirect_stdout=False)
    with bar:
        _open.append(bar)
        try:
            yield bar
        finally:
            _open.remove(bar)


def show_point(state: str) -> None:
    """Show the state of a point below the last bar, if there is one."""
    if _open:
        _open[-1].point = state


@contextmanager
def _bar(lines: SweepReporter) -> Iterator[OnProgress]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    with _shown(TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=None)

        def show(progress: SweepProgress) -> None:
            if progress.state is None:
                bar.update(task, completed=progress.done, total=progress.total)
            else:
                show_point(progress.state)
            lines.report(progress)

        yield show


@contextmanager
def simple_bar(reporter: Reporter, what: str, total: float | None) -> Iterator[OnAdvance | None]:
    """Yield a function to call with each increment and its description; ``None`` without a terminal."""
    if reporter.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    counts = MofNCompleteColumn() if isinstance(total, int) else TaskProgressColumn()
    more = (BarColumn(), counts, Left()) if total is not None else (TimeElapsedColumn(),)
    with _shown(TextColumn("{task.description}", markup=False), *more) as bar:
        task = bar.add_task(cut_in_middle(visible(what), _LONGEST_NAME), total=total)

        def advance(done: float, now: str) -> None:
            bar.update(task, advance=done, description=cut_in_middle(visible(now), _LONGEST_NAME))

        yield advance


@contextmanager
def passing(reporter: Reporter, what: str, duration_s: float | None) -> Iterator[None]:
    """Show once a second, in a line of a terminal, the time that has passed, of a known one or so far.

    The line costs a few microseconds; a bar's milliseconds would delay what this process times meanwhile.
    """
    if reporter.quiet or not sys.stderr.isatty():
        yield
        return
    over, start_s = threading.Event(), time.monotonic()

    def show() -> None:
        while not over.wait(1.0):
            passed_s = time.monotonic() - start_s
            print_over(f"{what}: {passed(passed_s, duration_s)}")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        print_over("", last=True)


def passed(passed_s: float, duration_s: float | None) -> str:
    """Describe how much of a time has passed."""
    if duration_s is None:
        return f"{format_duration(round(passed_s))} so far"
    if passed_s > duration_s:
        return f"{format_duration(round(duration_s))} have passed; ending"
    return f"{format_duration(round(passed_s))} of {format_duration(round(duration_s))}"


@dataclass(slots=True)
class SweepReporter:
    """Reports resumed and failed points and, with --verbose, every point and every wait for the device to cool.

    Failures before the first success are deferred, because the final error reports them if every point fails.
    """

    reporter: Reporter
    label: SimulationLabel
    _held: list[str] | None = field(default_factory=list)
    _cooling: bool = False

    def report(self, progress: SweepProgress) -> None:
        """Report one step of a sweep."""
        row, state, waited = progress.row, progress.state, self._cooling
        self._cooling = state is not None and state.startswith(COOLING)
        if state is not None:
            if self._cooling and not waited:
                self.reporter.detail(state)
        elif row is None:
            if progress.resumed:
                points = f"{progress.resumed} of {progress.total} points are done"
                self.reporter.info(f"resuming: {points}; --fresh starts over")
                self.release()
        elif row.status == "ok":
            self.release()
            if self.reporter.verbose:
                self.label.announce()
            self.reporter.detail(f"{progress.done} of {progress.total}: {figures(row)}")
        elif self._held is None:
            self.reporter.info(f"{row.status}: {row.point}: {row.reason}")
        else:
            self._held.append(f"{row.status}: {row.point}: {row.reason}")

    def release(self) -> None:
        """Report the deferred failures, and defer no more."""
        for line in self._held or ():
            self.reporter.info(line)
        self._held = None


def figures(row: ProfileRow) -> str:
    """Return a measured row as a line for people."""
    time = "no time" if row.minibatch_s is None else format_si(row.minibatch_s, "s")
    power = "" if row.power_w is None else f", {format_si(row.power_w, 'W')}"
    return f"{row.point}: {time}{power}"
