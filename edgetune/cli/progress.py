"""Progress of long work on the terminal: resumed points, progress and remaining time, with a bar only on terminals."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgetune.cli.console import console
from edgetune.units import format_duration, format_si
from edgetune.visible import cut_in_middle, visible
from edgetune.workflows.reporting import OnAdvance, OnProgress, Reporter, SimulationLabel

if TYPE_CHECKING:
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.stages.profiling.disturbances import Cooling
    from edgetune.stages.profiling.sweep import SweepProgress

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


@contextmanager
def _bar(lines: SweepReporter) -> Iterator[OnProgress]:
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Left(ProgressColumn):
        """Counts down between points, which may be minutes apart."""

        def render(self, task: Task) -> Text:
            now_s = time.monotonic()
            return Text(time_left(task.fields["eta_s"], now_s - task.fields["told_s"], now_s - start_s))

    start_s = time.monotonic()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), Left())
    with Bar(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task("measuring", total=None, eta_s=None, told_s=start_s)

        def show(progress: SweepProgress) -> None:
            if progress.cooling is not None:
                bar.update(task, description=waiting(progress.cooling), completed=progress.done, total=progress.total)
                return
            bar.update(
                task, description="measuring", completed=progress.done, total=progress.total, eta_s=progress.eta_s,
                told_s=time.monotonic(),
            )  # fmt: skip
            lines.report(progress)

        yield show


@contextmanager
def simple_bar(reporter: Reporter, what: str, total: float) -> Iterator[OnAdvance | None]:
    """Yield a function to call with each increment and its description; ``None`` without a terminal."""
    if reporter.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(done: float, now: str) -> None:
            bar.update(task, advance=done, description=cut_in_middle(visible(now), _LONGEST_NAME))

        yield advance


def waiting(cooling: Cooling) -> str:
    """Return the words for the reason of a wait."""
    now = "temperature unknown" if cooling.now_c is None else f"{cooling.now_c:.0f} C"
    return f"cooling: {now}, to {cooling.to_c:g} C"


def time_left(eta_s: float | None, since_s: float, elapsed_s: float) -> str:
    """Describe the time left of a forecast of ``eta_s`` made ``since_s`` ago, without one the elapsed time, s."""
    if eta_s is None:
        return f"{format_duration(round(elapsed_s))} so far"
    if eta_s - since_s < 0.5:
        return "" if eta_s == 0 else "longer than expected"
    return f"about {format_duration(round(eta_s - since_s))} left"


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
        row, began = progress.row, progress.cooling is not None and not self._cooling
        self._cooling = progress.cooling is not None
        if progress.cooling is not None:
            if began:
                self.reporter.detail(waiting(progress.cooling))
        elif row is None:
            if progress.duplicates:
                self.reporter.detail(f"{progress.duplicates} lines of the journal were there twice, and count once")
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
