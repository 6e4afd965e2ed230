"""The interface by which a workflow reports notes, progress and the label of simulated figures.

Signal handling of long work: the first signal stops it in order, the second one at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Literal

from edgetune.errors import ExitCode
from edgetune.processes.streams import leave_lost_terminal

if TYPE_CHECKING:
    from edgetune.artifacts.header import DataWarning
    from edgetune.stages.profiling.options import OnState
    from edgetune.stages.profiling.sweep import SweepProgress

OnProgress = Callable[["SweepProgress"], None]
OnAdvance = Callable[[float, str], None]
"""Takes the progress since the last call, in the unit of the total, and the name of the present work."""

Stdout = Literal["pipe", "terminal", "text", "answer", "none"]
"""What standard output takes: an artifact's bytes, for another command; text on a terminal, or in a file, a device or
a socket (a log); an answer in JSON; or nothing of a workflow."""


class Reporter:
    """Receives the reports of a workflow and discards them; ``edgetune.cli.screen.Screen`` prints them."""

    __slots__ = ()

    @property
    def quiet(self) -> bool:
        """Whether notes are discarded, so that a workflow need not prepare them."""
        return True

    @property
    def verbose(self) -> bool:
        """Whether details are printed too."""
        return False

    @property
    def watched(self) -> bool:
        """Whether notes appear on a terminal."""
        return False

    @property
    def stdout(self) -> Stdout:
        """The use of standard output."""
        return "none"

    def info(self, text: str) -> None:
        """Report a note, one sentence without a full stop."""

    def warn(self, found: DataWarning) -> None:
        """Report a warning that a file keeps."""
        self.info(f"warning: {found.code}: {found.advice}")

    def detail(self, text: str) -> None:
        """Report a detail, which only verbose output shows."""

    def simulated(self) -> None:
        """Report that the following figures come from a model; also when quiet."""

    def sweep(self, label: SimulationLabel) -> AbstractContextManager[OnProgress]:
        """Return a context that shows the progress of a sweep; it announces ``label`` before the first figure."""
        del label
        return _discarded()

    def bar(self, what: str, total: float | None) -> AbstractContextManager[OnAdvance | None]:
        """Return a context that shows the completed part of ``total``; it yields ``None`` without a terminal.

        Without a total it shows the time so far. Below, it shows the point that is measured, see ``points``.
        """
        del what, total
        return _unwatched()

    def point(self, state: str) -> None:
        """Show the state of the point that is measured, while a bar is shown."""

    @property
    def points(self) -> OnState | None:
        """``point`` if somebody looks, for ``Profiler``: without, sampling need not report anything."""
        return self.point if self.watched and not self.quiet else None

    def timing(self, what: str, duration_s: float | None) -> AbstractContextManager[None]:
        """Return a context that shows the time that passes, at next to no cost for what is timed meanwhile.

        Without a duration it shows the time so far.
        """
        del what, duration_s
        return nullcontext()


@contextmanager
def _discarded() -> Iterator[OnProgress]:
    yield lambda _: None


@contextmanager
def _unwatched() -> Iterator[OnAdvance | None]:
    yield None


RUNTIMES = {"eager-pytorch": "eager PyTorch"}
"""Runtimes of models as people write them."""


@dataclass(slots=True)
class SimulationLabel:
    """Announces once, before the first figure, that figures are simulated; an earlier error needs no label.

    Args:
        is_simulated: Whether a model produces the figures.
        reporter: Receives the announcement.
        runtime: What launches operators in the model, as in its conditions; ``None`` where this does not matter.
    """

    is_simulated: bool
    reporter: Reporter
    runtime: str | None = None

    def announce(self) -> None:
        """Announce the label, unless it was announced before or nothing is simulated."""
        if self.is_simulated:
            self.is_simulated = False
            self.reporter.simulated()
            if self.runtime is not None:
                runtime = RUNTIMES.get(self.runtime, self.runtime)
                self.reporter.info(f"note: the model is of {runtime}: other runtimes launch and fuse otherwise")


class Stopped(BaseException):
    """A termination signal, raised at the interrupted statement so that ``finally`` blocks restore the board."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.exit_code = 128 + signal_number


STOPS = (KeyboardInterrupt, Stopped)
"""What is raised where a signal interrupts the program."""


@contextmanager
def reporting_saved(reporter: Reporter, kept: Callable[[], str], stopped: str = "stopped") -> Iterator[None]:
    """If a signal interrupts the context, report in one line the saved results and the command to continue.

    Args:
        reporter: Receives the line.
        kept: Returns the line, without a full stop.
        stopped: What has happened, before it.
    """
    try:
        yield
    except STOPS:
        reporter.info(f"{stopped}; {kept()}")
        raise


def end_with_terminal() -> None:
    """End the program when its terminal is gone, also where SIGHUP is ignored, as in a job in the background.

    For programs that are of no use without their terminal; one whose output goes to a file goes on.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        leave_lost_terminal()
        raise Stopped(number)

    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and sys.stdout.isatty():
        signal.signal(signal.SIGHUP, stop)


def stop_code(end: BaseException) -> int:
    """Return the exit code of an interrupted program."""
    return end.exit_code if isinstance(end, Stopped) else ExitCode.INTERRUPTED


@dataclass(slots=True)
class Stopping:
    """The state of a request to stop.

    Args:
        number: Number of the received signal; ``None`` before one.
        act: Called at the signal; the work in progress sets it to a function that makes it stop soon.
    """

    number: int | None = None
    act: Callable[[], None] = lambda: None


@contextmanager
def handling(handlers: Mapping[int, Callable[[int, FrameType | None], object]]) -> Iterator[None]:
    """Handle signals by these functions while the context lasts."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def noting_signals(reporter: Reporter, what: str) -> Iterator[Stopping]:
    """Note the first signal; the second one has its usual effect.

    Args:
        reporter: Receives a note that the signal was received.
        what: The last work before the stop, e.g. ``the minibatch that runs``.
    """
    stopping = Stopping()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def note(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        if stopping.number is not None:
            if callable(handler):
                handler(number, frame)
            raise SystemExit(128 + number)  # what there is to clean up is, unlike by the signal itself
        stopping.number = number
        if number == signal.SIGHUP:
            leave_lost_terminal()
        reporter.info(f"stopping after {what}; once more to stop at once")
        stopping.act()

    if threading.current_thread() is not threading.main_thread():  # Python handles signals in the main thread alone
        yield stopping
        return
    with handling({number: note for number, handler in before.items() if handler is not signal.SIG_IGN}):
        yield stopping
