"""Standard streams that fail: closed when the program began (``>&-``), or of a terminal that is gone.

A closed stream is held open, so that no file takes its number: otherwise the next file to be opened, a journal perhaps,
would be number 1, and receive what some library prints.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import stat
import sys
from typing import TextIO

_STREAMS = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""Standard output is opened for reading: writing to it fails, for an answer that cannot be given is a failure."""


def hold_closed_streams() -> None:
    """Occupy closed standard streams: output refuses what is written, errors are swallowed, input stays ``None``."""
    for descriptor, flags in _STREAMS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 -- for as long as the program lasts
    if sys.stderr is None:  # print(file=None) would go to standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # a letter that the locale's encoding lacks is an escape, no failure
        sys.stdout.reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Send what is still to be written to standard output nowhere, so that ending the program does not fail of it."""
    _point_at_nothing(sys.stdout.fileno())


def leave_lost_terminal() -> bool:
    """Send what is still to be written to a terminal that has hung up nowhere; return whether there is such a one."""
    lost = [descriptor for descriptor in (1, 2) if _hung_up(descriptor)]
    for descriptor in lost:
        _point_at_nothing(descriptor)
    return bool(lost)


def notice_lost_terminal() -> bool:
    """Act on a terminal that has hung up as on the signal SIGHUP, once; return whether there was one.

    Not every process of a terminal is sent that signal.
    """
    lost = leave_lost_terminal()
    if lost:
        signal.raise_signal(signal.SIGHUP)
    return lost


def write(text: str, out: TextIO, *, flush: bool = False) -> None:
    """Write to a stream; with ``flush`` at once.

    A terminal that is gone counts as the signal SIGHUP; from then on what is written to it is swallowed.
    """
    try:
        out.write(text)
        if flush:
            out.flush()
    except OSError as error:
        if error.errno != errno.EIO or not notice_lost_terminal():
            raise


def write_bytes(data: bytes) -> None:
    """Write the bytes of a file to standard output, as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class Surviving:
    """A text stream for a library that draws on it, written to as ``write`` does."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write to the stream."""
        write(text, self._stream)
        return len(text)

    def flush(self) -> None:
        """Send on what is held back, as a write of nothing."""
        write("", self._stream, flush=True)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    ended = any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
    return ended and stat.S_ISCHR(os.fstat(descriptor).st_mode)


def _point_at_nothing(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
