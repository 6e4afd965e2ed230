"""Signal handling of long work: the first signal stops it in order, the second one at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from edgetune.errors import ExitCode
from edgetune.processes.streams import leave_lost_terminal
from edgetune.workflows.reporting import Reporter


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
