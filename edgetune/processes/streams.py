"""Handle standard streams that fail: closed at the start (``>&-``), or of a terminal that is gone.

A closed stream's number is kept occupied. Otherwise the next opened file, e.g. a journal, would get number 1 and
receive the output of libraries.
"""

import codecs
import errno
import io
import os
import select
import signal
import stat
import sys
from typing import TextIO

_STREAMS = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""Standard output is opened for reading, so that writing fails: an answer that cannot be written is an error."""


def hold_closed_streams() -> None:
    """Occupy closed standard streams: writes to output fail, errors are discarded, input stays ``None``."""
    for descriptor, flags in _STREAMS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # gets the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 -- for as long as the program lasts
    if sys.stderr is None:  # print(file=None) would go to standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # escape characters that the encoding lacks
        codecs.register_error(_ERRORS, _plainly)
        sys.stdout.reconfigure(errors=_ERRORS)


_ERRORS = "edgetune.plainly"
_LIKE = {"\u2022": "-", "\u2500": "-", "\u2501": "=", "\u2550": "=", "\u2502": "|", "\u2588": "#"}
"""Bullets, rules and bars of a laid out page, and what takes as much room where the encoding lacks them."""


def _plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what is written for a character that the encoding lacks: one like it, else its escape."""
    if isinstance(error, UnicodeEncodeError) and (like := _LIKE.get(error.object[error.start])):
        return like, error.start + 1
    return codecs.backslashreplace_errors(error)  # of bytes, too, which a test reads from a stream with these errors


def stdout_is_pipe() -> bool:
    """Return whether standard output is a pipe; a log, ``/dev/null`` or a socket is none."""
    return stat.S_ISFIFO(os.fstat(1).st_mode)


def abandon_stdout() -> None:
    """Discard buffered standard output, so that the end of the program does not fail."""
    _point_at_nothing(sys.stdout.fileno())


def settle_stdout() -> None:
    """Write what standard output has buffered, or discard it where that fails: Python exits with 120 otherwise."""
    try:
        sys.stdout.flush()
    except OSError:
        abandon_stdout()


def leave_lost_terminal() -> bool:
    """Discard output buffered for a terminal that has hung up; return whether there is one."""
    lost = [descriptor for descriptor in (1, 2) if _hung_up(descriptor)]
    for descriptor in lost:
        _point_at_nothing(descriptor)
    return bool(lost)


def notice_lost_terminal() -> bool:
    """Treat a terminal that has hung up like SIGHUP, once; return whether there was one.

    Not every process of a terminal receives that signal.
    """
    lost = leave_lost_terminal()
    if lost:
        signal.raise_signal(signal.SIGHUP)
    return lost


def write(text: str, out: TextIO) -> None:
    """Write to a stream at once: a person or a pipe waits for it.

    A terminal that is gone counts as SIGHUP; later output to it is discarded.
    """
    try:
        out.write(text)
        out.flush()
    except OSError as error:
        if error.errno != errno.EIO or not notice_lost_terminal():
            raise


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output unchanged."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class Surviving:
    """A text stream for libraries, with the error handling of ``write``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write to the stream."""
        write(text, self._stream)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        write("", self._stream)

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
