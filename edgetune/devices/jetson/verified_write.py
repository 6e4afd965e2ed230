"""Writing a board's files: none but those listed at the start, none that is in place, none believed until read back.

A value can be refused (an error), ignored (the write succeeds and nothing happens: BPMP debugfs does that) or clamped
(another value is kept). Each ends as a ``DeviceError`` that names the file, the value and what the file says now.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Iterable, Mapping

from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

POLL_S = 0.05
"""Between two looks at a file that may need time; ours: 20 looks in the second that a core may take to switch."""


_VALUE = re.compile(r"-?[0-9]+|on|auto")
"""All that is ever written: numbers, and the words of ``power/control``."""


class BoardFiles:
    """The files of one board.

    Args:
        sysfs: Where they are.
        settable: The only paths that are ever opened for writing.
        sleep: Lets seconds pass; tests let them pass at once.
    """

    def __init__(self, sysfs: Sysfs, settable: Iterable[str], sleep: Callable[[float], None]) -> None:
        self.sysfs = sysfs
        self.settable = frozenset(settable)
        self.sleep = sleep

    def read(self, path: str) -> str:
        """Return a file's text.

        Raises:
            DeviceError: it cannot be read.
        """
        try:
            return self.sysfs.read(path)
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(path, error) from None

    def number(self, path: str) -> int:
        """Return the whole number in a file.

        Raises:
            DeviceError: it cannot be read, or holds none.
        """
        text = self.read(path)
        try:
            return int(text)
        except ValueError:
            raise DeviceError(f"/{path} holds {text!r}, not a number", "this kernel's format is not known") from None

    def write(self, path: str, value: str) -> None:
        """Write a value, whatever becomes of it.

        Raises:
            DeviceError: the file is not among those that may be set, or the kernel refused the value.
        """
        error = self._attempt(path, value)
        if error is not None:
            raise write_error(path, value, error)

    def set(self, path: str, value: str, patience_s: float = 0.0) -> None:
        """Write a value unless it is in place, and read it back.

        Args:
            path: The file.
            value: Its new text.
            patience_s: How long the kernel may take, or say that it is busy.

        Raises:
            DeviceError: the file is not among those that may be set, or the value was refused, ignored or changed.
        """
        before = back = self.read(path)
        if before == value:
            return
        error = self._attempt(path, value)
        for _ in range(1 + math.ceil(patience_s / POLL_S)):
            back = self.read(path)
            if back == value:
                return
            if error is not None and error.errno != errno.EBUSY:
                break
            if patience_s:
                self.sleep(POLL_S)
            if error is not None and patience_s:
                error = self._attempt(path, value)
        raise not_kept(path, value, before, back) if error is None else write_error(path, value, error)

    def _attempt(self, path: str, value: str) -> OSError | None:
        if path not in self.settable:
            raise DeviceError(f"/{path} is no setting of this board", "what is to be put back was found on another one")
        if not _VALUE.fullmatch(value):
            raise DeviceError(
                f"/{path} is never set to {value!r}", "what is to be put back is damaged: restart the board"
            )
        try:
            self.sysfs.write(path, value)
        except OSError as error:
            return error
        return None


def number_in(found: Mapping[str, str], path: str) -> int:
    """Return the number that a snapshot holds for a file.

    Raises:
        DeviceError: it is none.
    """
    try:
        return int(found[path])
    except ValueError:
        raise DeviceError(
            f"/{path} is never set to {found[path]!r}", "what was noted is damaged: restart the board"
        ) from None


def do_all(*actions: Callable[[], None]) -> None:
    """Do everything, whatever fails, so that as much as possible is put back.

    Raises:
        DeviceError: the first thing that failed, when all is done.
    """
    first: DeviceError | None = None
    for action in actions:
        try:
            action()
        except DeviceError as error:
            first = first or error
    if first is not None:
        raise first


def write_error(path: str, value: str, error: OSError) -> DeviceError:
    """Return the error of a write that the kernel refused."""
    remedies = {
        errno.EACCES: "setting clocks needs root",
        errno.EPERM: "setting clocks needs root, and a kernel that is not locked down",
        errno.EROFS: "run it on the board itself, not in a container",
        errno.EBUSY: "another program holds it: try again, or stop nvpmodel, jetson_clocks and power daemons",
        errno.ENOENT: "the driver went away: see dmesg",
    }
    hint = remedies.get(error.errno or 0, "choose another value that the device lists; dmesg may say more")
    return DeviceError(f"/{path} refused {value}: {why(error)}", hint)


def not_kept(path: str, value: str, before: str, back: str) -> DeviceError:
    """Return the error of a value that was written without complaint and is not there."""
    if back == before:
        hint = "the driver or the firmware does not take it now: another program may hold it, or it is not supported"
        return DeviceError(f"/{path} was set to {value} but still reads {back}: ignored", hint)
    hint = "the active power mode, heat or the firmware allows no other: see nvpmodel -q, or choose another value"
    return DeviceError(f"/{path} was set to {value} but reads back {back}: clamped", hint)


def _unreadable(path: str, error: OSError | UnicodeDecodeError) -> DeviceError:
    reason = why(error) if isinstance(error, OSError) else "it holds no text"
    denied = isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM)
    hint = "what cannot be read cannot be put back: see dmesg, or restart the board"
    if denied:
        hint = "reading it needs root"
    return DeviceError(f"/{path} cannot be read: {reason}", hint)
