"""The errors of edgetune, each with a message, a hint and an exit code.

Library code raises; only ``edgetune.cli`` prints and exits.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command, documented in ``manual/command-line.md``. 130 and 143 are SIGINT and SIGTERM."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    INFEASIBLE = 3
    DEVICE = 4
    PARTIAL = 5
    NOT_RESTORED = 6
    INTERRUPTED = 130
    TERMINATED = 143


class EdgetuneError(Exception):
    """An error shown as two lines, ``error:`` and ``hint:``, never as a traceback.

    Args:
        message: What happened, one line, naming the file, column, knob or value at fault.
        hint: What to do about it, one line.
    """

    exit_code: ExitCode = ExitCode.UNEXPECTED

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[EdgetuneError], tuple[str, str]]:
        return (type(self), (self.message, self.hint))


class InputError(EdgetuneError):
    """Bad usage or bad input: a file, a value, a model that cannot be used as asked."""

    exit_code = ExitCode.USAGE


class InfeasibleError(EdgetuneError):
    """No measured configuration satisfies the problem's constraints."""

    exit_code = ExitCode.INFEASIBLE


class DeviceError(EdgetuneError):
    """A device, library or permission that the command needs is missing."""

    exit_code = ExitCode.DEVICE


class PartialError(EdgetuneError):
    """A part of the work is completed and saved, the rest is not."""

    exit_code = ExitCode.PARTIAL


class NotRestoredError(EdgetuneError):
    """The device could not be put back as it was found."""

    exit_code = ExitCode.NOT_RESTORED


FILE_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "the disk is full: free some space, or write elsewhere"),
    errno.EROFS: "the file system is read-only: write elsewhere",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "no permission: use another path, or change the permissions"),
    errno.ENOENT: "check the path",
    errno.EBADF: "it is closed: name a file, or redirect it to one",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "links lead in a circle: use another path",
    errno.ENOTDIR: "part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder: name a file in it",
}
"""The remedy for a failure of the file system, by its number."""


@contextmanager
def blaming(where: str) -> Iterator[None]:
    """Prefix input errors with their place: a file, a task, an option."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error.message}", error.hint) from None
