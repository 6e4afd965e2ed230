"""Signals that ask the guardian to end: heard at once while it waits, after the present write while it sets a mode.

Every other signal that would kill or stop it by default does nothing: it ends at the end of its input.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
"""Ignored when they are sent; the kernel still ends a process that has really failed so, which a handler would hang."""
_HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG}
_UNHEARD = signal.valid_signals() - {*_SIGNALS, *_HARMLESS, signal.SIGKILL, signal.SIGSTOP}
"""Those of the terminal (Ctrl-\\, Ctrl-Z), timers, limits and real-time ones. Source: signal(7), default actions."""


class Stopped(BaseException):
    """A signal asked the guardian to end; raised inside ``interruptible`` only, and only once."""


class StopSignals:
    """Takes the place of Python's handlers while open; signals that were ignored (``nohup``) stay so.

    The first signal is noted, and wakes a ``poll`` that watches ``wakeup``; a later one changes nothing, so that
    putting the board back is never interrupted. To be opened in the main thread.
    """

    def __init__(self) -> None:
        self.received = False
        self._interruptible = False
        self._handlers: dict[int, Any] = {}
        self.wakeup, self._waker = -1, -1

    def __enter__(self) -> StopSignals:
        self.wakeup, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._old_waker = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (*_SIGNALS, *_UNHEARD):
            if signal.getsignal(number) in (None, signal.SIG_IGN):
                continue  # a handler that is not Python's could not be put back
            heard = self._note if number in _SIGNALS else signal.SIG_IGN if number in _FAULTS else _nothing
            self._handlers[number] = signal.signal(number, heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_waker)
        os.close(self.wakeup)
        os.close(self._waker)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - what a handler is given
        first, self.received = not self.received, True
        if first and self._interruptible:
            raise Stopped

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal raise ``Stopped`` inside the block.

        Raises:
            Stopped: also at once, when one came before.
        """
        self._interruptible = True
        try:
            if self.received:
                raise Stopped
            yield
        finally:
            self._interruptible = False


def _nothing(number: int, frame: FrameType | None) -> None:
    """Let a signal pass; unlike one that is ignored, it is not ignored in programs that are run from here too."""
