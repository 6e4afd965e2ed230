"""The start of commands, and their errors: not started, and ended in another way than with exit code 0."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetune.errors import InputError
from edgetune.processes.families import still_running
from edgetune.processes.memory import why_killed
from edgetune.processes.replies import signal_name
from edgetune.visible import visible

_LAST_WORDS = 200
_INTERPRETER = re.compile(r"python[\d.]*|sh|bash|env|nice|taskset|sudo|stdbuf")
_ARGUMENT = re.compile(r"-.*|[\d,]+|\w+=.*")


def program_name(words: Sequence[str]) -> str:
    """Return the name of the program, or of the script that an interpreter runs."""
    others = (word for word in words if not _INTERPRETER.fullmatch(Path(word).name) and not _ARGUMENT.fullmatch(word))
    first = next(others, words[0])
    return Path(words[0] if re.search(r"\s", first) else first).name


def check_none_left(words: Sequence[str]) -> None:
    """Check that a command has ended with all that it started.

    Raises:
        InputError: some of its processes run on.
    """
    if left := still_running():
        raise InputError(
            f"{program_name(words)} ended and left {len(left)} of its processes running",
            "run it in the foreground: the time of its start is not that of its work",
        )


def started(words: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """Start a command without input and return its process; ``how`` is for ``Popen``.

    Raises:
        InputError: it cannot be started.
    """
    try:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, **how)
    except OSError as error:
        message = f"cannot run {words[0]!r}: {error.strerror or error}"
        raise InputError(message, start_advice(words[0])) from None


def failed(words: Sequence[str], code: int, output: bytes, kills_before: int | None) -> InputError:
    """Return the error of a command that ended with an exit code, or a signal where it is negative.

    Args:
        words: The command.
        code: As ``Popen.returncode``.
        output: The end of its output.
        kills_before: ``memory.kills()`` before it ran.
    """
    how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    why = why_killed(kills_before) if code == -signal.SIGKILL else None
    message = f"{program_name(words)} {how}{f': {why}' if why else ''}{last_line(output)}"
    return InputError(message, f"run it by itself: {shlex.join(words)[:_LAST_WORDS]}")


def last_line(output: bytes) -> str:
    """Return the last line of an output, as the end of a message; empty without one."""
    lines = [line for line in map(visible, output.decode(errors="replace").expandtabs().splitlines()) if line.strip()]
    return f"; its last output: {lines[-1][:_LAST_WORDS]}" if lines else ""


def start_advice(program: str) -> str:
    """Return advice on a program that cannot be run."""
    if os.path.isdir(program):
        return f"{program} is a folder"
    if os.path.isfile(program):
        return f"make it executable: chmod +x {program}"
    return "check the path, e.g. ./app for a program in this folder"
