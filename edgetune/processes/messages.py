"""Commands and replies between a process and its child, one line of JSON each, and the runner that answers them.

``python -m edgetune.processes.messages MODULE:NAME COMMANDS REPLIES PARENT`` is the one process for whatever is loaded,
run some times, timed and unloaded: ``NAME`` is a function of commands, or a class of which an instance takes them.

Between minibatches this code runs on cold caches, so it avoids Python function calls: ``encoded`` and ``decoded`` take
17 microseconds together, ``json.dumps`` and ``json.loads`` 32 (CPython 3.11, a matrix product before each).

    {"command": "..."}          -> {"ok": true, and the results of the command}
    anything that fails         -> {"ok": false, "type": "InputError", "message": ..., "hint": ...}

The pipes are separate from the standard streams, because the user's code may print and read: standard output and error
go to the parent's log, standard input is empty. The child dies with its parent, also when SIGKILL ends the parent, and
leads its own process group, so that Ctrl-C in the terminal reaches only the parent.

Lines of replies from the pipe of a child process, and the name of the signal that ended one.
"""

import contextlib
import ctypes
import faulthandler
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, BinaryIO

from edgetune.errors import EdgetuneError
from edgetune.limits import set_limits

_ENCODE = json.JSONEncoder(check_circular=False).encode
_DECODE = json.JSONDecoder().raw_decode


def encoded(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line, newline included."""
    return _ENCODE(message).encode() + b"\n"


def decoded(line: bytes) -> Any:
    """Parse a line written by ``encoded``.

    Raises:
        ValueError: the line is not JSON.
    """
    text = line.decode()
    value, end = _DECODE(text)
    if text[end:].strip():
        raise ValueError("more than one value in a line")
    return value


_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>

Handle = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Executes one command and returns the contents of the reply."""


def serve(arguments: list[str], handle: Handle) -> None:
    """Answer commands until their pipe ends.

    Args:
        arguments: Command-line arguments of the child.
        handle: Executes one command.
    """
    with pipes(arguments) as (commands, replies):
        for line in commands:
            replies.write(encoded(answer(handle, decoded(line))))
            replies.flush()


@contextlib.contextmanager
def pipes(arguments: list[str]) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open the pipes of commands and replies, for a child that replies in another order."""
    commands_fd, replies_fd, parent_pid = (int(text) for text in arguments[:3])
    set_limits(arguments[3:])
    die_with(parent_pid)
    faulthandler.enable()
    for descriptor in (commands_fd, replies_fd):
        os.set_inheritable(descriptor, False)  # processes started by the workload must not hold the pipes open
    with open(commands_fd, "rb") as commands, open(replies_fd, "wb") as replies:
        yield commands, replies


def answer(handle: Handle, command: Mapping[str, Any]) -> dict[str, Any]:
    """Execute one command and return its reply, also for a failure."""
    try:
        return {"ok": True, **handle(command)}
    except EdgetuneError as error:
        return _failure(type(error).__name__, error.message, error.hint)
    except MemoryError:
        return _failure("InputError", "the workload ran out of memory", "use a smaller batch size")
    except Exception as error:
        text = " ".join(str(error).split())[:300] or "no message"
        return _failure("InputError", f"the workload raised {type(error).__name__}: {text}", "see --verbose")


def _failure(kind: str, message: str, hint: str) -> dict[str, Any]:
    return {"ok": False, "type": kind, "message": message, "hint": hint}


def die_with(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent dies; leave at once if that has already happened."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


if __name__ == "__main__":
    module, _, name = sys.argv.pop(1).partition(":")
    found = getattr(import_module(module), name)
    serve(sys.argv[1:], found() if isinstance(found, type) else found)


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
