"""Lines in and out of pipes that a signal may interrupt and that the other end may leave, flood or never read."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Mapping
from typing import Any

from edgetune.devices.guardian.protocol import LONGEST_LINE_BYTES
from edgetune.devices.guardian.stop import Stopped, StopSignals
from edgetune.errors import InputError


class LineChannel:
    """Requests from one descriptor, replies to another.

    Args:
        requests: Read from.
        replies: Written to.
        stop: What else ends the waiting.
    """

    def __init__(self, requests: int, replies: int, stop: StopSignals) -> None:
        self._requests = requests
        self._replies = replies
        self._stop = stop
        self._pending = b""
        self._too_long = False

    def read(self) -> bytes | None:
        """Return the next line, or ``None`` at the end of input; a last line that was cut short is not one.

        Raises:
            InputError: a line is too long; it is dropped without having been held.
            Stopped: a signal came.
        """
        while b"\n" not in self._pending:
            if len(self._pending) > LONGEST_LINE_BYTES:
                self._pending, self._too_long = b"", True
            self._wait(self._requests, select.POLLIN)
            try:
                block = os.read(self._requests, LONGEST_LINE_BYTES)
            except OSError:  # a terminal that went away
                return None
            if not block:
                return None
            self._pending += block
        line, _, self._pending = self._pending.partition(b"\n")
        if self._too_long or len(line) > LONGEST_LINE_BYTES:
            self._too_long = False
            raise InputError(f"a request is longer than {LONGEST_LINE_BYTES} bytes", "send one short line at a time")
        return line

    def write(self, reply: Mapping[str, Any]) -> None:
        """Write a reply.

        Raises:
            BrokenPipeError: nobody is there to read it.
            Stopped: a signal came while it was not being read.
        """
        left = json.dumps(reply).encode() + b"\n"
        while left:
            self._wait(self._replies, select.POLLOUT)
            left = left[os.write(self._replies, left[: select.PIPE_BUF]) :]  # a pipe that is ready takes that much

    def _wait(self, descriptor: int, event: int) -> None:
        """Wait until the descriptor is ready, or raise ``Stopped``; looking at both at once misses no signal."""
        poll = select.poll()
        poll.register(descriptor, event)
        poll.register(self._stop.wakeup, select.POLLIN)
        while not self._stop.received:
            ready = {number for number, _ in poll.poll()}
            if self._stop.wakeup in ready:
                os.read(self._stop.wakeup, 1)  # a signal that is not ours; one that is has been noted
            elif descriptor in ready:
                return
        raise Stopped
