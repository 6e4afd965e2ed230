"""Runs a command in the foreground and waits for its end despite signals."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from edgetune.errors import InputError
from edgetune.workflows.stopping import handling

_GRACE_S = 10.0
"""How long a command may take to end when it is asked to, e.g. to save its work: as `docker stop` gives it."""


def run_command(command: Sequence[str]) -> int:
    """Run a command in the foreground until it ends, and return its exit code by the convention of shells.

    A Ctrl-C in the terminal reaches the command, which decides its effect. Any other signal that ends this process
    ends the command first, because the mode lasts as long as the command runs.
    """
    with _deaf_to_ctrl_c():
        try:
            with _held_back() as held:
                process = subprocess.Popen(command)
        except OSError as error:
            raise InputError(f"cannot run {command[0]}: {error.strerror or error}", "check its name and PATH") from None
        with process:
            try:
                for number in held:
                    signal.raise_signal(number)
                code = process.wait()
            except BaseException:
                _end(process)
                raise
    return code if code >= 0 else 128 - code


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C in this process; a process started meanwhile receives it, unless this process already ignored it.

    As an exception, a Ctrl-C just after the end of the process would lose the exit code.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    with handling({} if ignored else {signal.SIGINT: lambda *_: None}):
        yield


@contextmanager
def _held_back() -> Iterator[list[int]]:
    """Defer termination signals while a process starts: an exception there would leave it running without a handle."""
    noted: list[int] = []
    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if callable(signal.getsignal(number))]
    with handling({number: lambda got, _: noted.append(got) for number in heard}):
        yield noted


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
