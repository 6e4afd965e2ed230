"""Lines of replies from the pipe of a child process, and the name of the signal that ended one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator

_BLOCK_BYTES = 1 << 16
_LONGEST_POLL_S = 3600.0  # poll(2) limits the number of milliseconds


class ReplyLines:
    """The lines that arrive on a descriptor.

    Args:
        descriptor: The read end of a pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = b""

    def next(self, deadline_s: float) -> bytes:
        """Wait for the next line and return it without its end.

        Args:
            deadline_s: Deadline on ``time.monotonic``.

        Raises:
            EOFError: the process has closed its end.
            TimeoutError: the deadline passed.
        """
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while b"\n" not in self._pending:
            left_s = max(deadline_s - time.monotonic(), 0.0)
            if poll.poll(min(left_s, _LONGEST_POLL_S) * 1000):  # at least once: this process may have been stopped
                self._read()
            elif left_s <= 0:
                raise TimeoutError
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def arrived(self) -> Iterator[bytes]:
        """Yield the lines that have arrived, without waiting on a non-blocking descriptor.

        Raises:
            EOFError: the process has closed its end.
        """
        if b"\n" not in self._pending:
            with contextlib.suppress(BlockingIOError):
                self._read()
        while b"\n" in self._pending:
            line, _, self._pending = self._pending.partition(b"\n")
            yield line

    def _read(self) -> None:
        block = os.read(self._descriptor, _BLOCK_BYTES)
        if not block:
            raise EOFError
        self._pending += block


def signal_name(number: int) -> str:
    """Return the name of a signal, also of one that Python does not know."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
