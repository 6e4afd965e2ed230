"""``python -I -m edgetune.devices.guardian.relay SOCKET``: make a guardian behind a socket look like a child.

    edgetune <--pipes--> relay <--socket--> guardian, which systemd started as root for this connection

Requests come from standard input, replies go to standard output. The guardian's last line over the socket has its exit
code and its errors, which become those of this process. When the input ends, or the client is killed, the
connection is closed for writing: the guardian's input ends, and it puts the board back.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
from contextlib import suppress

from edgetune.devices.guardian.program import complain
from edgetune.devices.guardian.protocol import ENDED
from edgetune.errors import ExitCode
from edgetune.visible import one_line

_BLOCK = 1 << 16


def relay(path: str, requests: int = 0, replies: int = 1) -> int:
    """Forward requests and replies until the guardian ends, and return its exit code.

    Args:
        path: The socket.
        requests: Descriptor of the requests.
        replies: Descriptor of the replies.
    """
    with socket.socket(socket.AF_UNIX) as guardian:
        try:
            guardian.connect(path)
        except OSError as error:
            hint = "see `systemctl status` of its socket unit; without the socket, edgetune asks sudo"
            return complain(f"{path} does not answer: {error.strerror or error}", hint, ExitCode.DEVICE)
        last = _hand_on(guardian, requests, replies)
    try:
        end = json.loads(last)
        said, code = [str(line) for line in end["said"]], int(end[ENDED])
    except (ValueError, TypeError, KeyError):
        hint = "run `edgetune device restore`, which puts back what it may have left"
        return complain(f"the guardian behind {path} ended without an answer", hint, ExitCode.UNEXPECTED)
    with suppress(OSError):
        for line in said:
            print(one_line(line), file=sys.stderr, flush=True)  # noqa: T201
    return code


def _hand_on(guardian: socket.socket, requests: int, replies: int) -> bytes:
    """Forward data in both directions until the guardian closes; return its last line, which is not forwarded."""
    pending, open_ends = b"", selectors.DefaultSelector()
    open_ends.register(guardian, selectors.EVENT_READ)
    open_ends.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in open_ends.select():
            block = _read(key.fd)
            if key.fd == requests:
                with suppress(OSError):  # the guardian has ended; its last line is still to be read
                    guardian.sendall(block) if block else guardian.shutdown(socket.SHUT_WR)
                if not block:
                    open_ends.unregister(requests)
                continue
            if not block:
                return pending.strip()
            pending += block
            *lines, pending = pending.splitlines(keepends=True) or [b""]
            if not pending.startswith(f'{{"{ENDED}"'.encode()) and pending.endswith(b"\n"):
                lines, pending = [*lines, pending], b""
            with suppress(OSError):  # the reader of replies has gone; still wait for the guardian
                _write(replies, b"".join(lines))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _BLOCK)
    except OSError:
        return b""


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    sys.exit(relay(sys.argv[1]))
