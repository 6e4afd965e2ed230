"""The files of a board: text outside sysfs, settings written and read back, and the two limits of a clock.

Only the settings listed at the start are written, none that is in place already, and none is believed until read back.

A value can be refused (an error), ignored (the write succeeds and nothing happens: BPMP debugfs does that) or clamped
(another value is kept). Each ends as a ``DeviceError`` that names the file, the value and what the file says now.

A clock has a lower and an upper limit, two files that each kernel wants written in another order:

    Linux 4.9    lower > upper is EINVAL at any moment, so the limit that makes room goes first
    from 5.5 on  never refused: the lower is pulled down to the upper, but the request is remembered and comes back
                 when the upper rises; so both are always written, and the order of 4.9 leaves no such request behind

Source: OE4T/linux-tegra-4.9 drivers/devfreq/devfreq.c and cpufreq of that kernel; PM QoS of Linux 5.5.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError

_MAX_LINKS = 40
"""Links followed before a loop is assumed. Source: MAXSYMLINKS, Linux include/linux/namei.h."""


def follow(root: Path, path: str) -> str:
    """Return where a file really is, following links as if ``root`` were ``/``.

    ``/etc/nvpmodel.conf`` is a link to the configuration of this very module; its name says which.

    Args:
        root: Where the file system starts.
        path: Relative to it.

    Raises:
        OSError: the file is missing, or its links form a loop.
    """
    for _ in range(_MAX_LINKS):
        os.lstat(root / path)
        if not (root / path).is_symlink():
            return path
        target = PurePosixPath("/", path).parent / os.readlink(root / path)
        path = os.path.normpath(target).lstrip("/")
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def read_bytes(root: Path, path: str) -> bytes:
    """Return a file as it is, its links followed below ``root``.

    Raises:
        OSError: it is missing or may not be read.
    """
    return (root / follow(root, path)).read_bytes()


def read_text(root: Path, path: str) -> str | None:
    """Return a file's text without the white space and NULs around it, or ``None`` when it cannot be read."""
    try:
        return read_bytes(root, path).decode(errors="replace").strip("\0 \t\r\n")
    except OSError:
        return None


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
        """Write a value without reading it back.

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


@dataclass(frozen=True, slots=True)
class ClockLimits:
    """What a clock may not go below and above, in the unit of its files; equal limits pin it."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class LimitFiles:
    """Where a clock's limits are.

    Args:
        low: File of the lower limit.
        high: File of the upper one.
        grain: The kernel keeps multiples of this: 1000 Hz for devfreq from Linux 5.5 on, which rounds outwards.
    """

    low: str
    high: str
    grain: int = 1

    @property
    def paths(self) -> tuple[str, str]:
        """Both files, in the order in which a snapshot lists them."""
        return self.low, self.high

    def in_snapshot(self, found: Mapping[str, str]) -> ClockLimits | None:
        """Return the limits that a snapshot holds, ``None`` when it does not hold both.

        Raises:
            DeviceError: it holds no numbers there.
        """
        if self.low not in found or self.high not in found:
            return None
        return ClockLimits(number_in(found, self.low), number_in(found, self.high))


def read_limits(files: BoardFiles, pair: LimitFiles) -> ClockLimits:
    """Return the limits as they are now.

    Raises:
        DeviceError: a file cannot be read.
    """
    return ClockLimits(files.number(pair.low), files.number(pair.high))


def set_limits(files: BoardFiles, pair: LimitFiles, wanted: ClockLimits) -> None:
    """Set both limits unless they are in place, in an order that no kernel refuses, and read them back.

    Raises:
        DeviceError: a limit was refused, ignored or clamped (the other is set all the same, so that as much as possible
            is put back), or the upper one is no limit at all.
    """
    before = read_limits(files, pair)
    if before == wanted:
        return
    if wanted.high <= 0:
        raise DeviceError(f"/{pair.high} is never set to {wanted.high}", "Linux 4.9 would keep it as a clock of 0")
    steps = ((pair.high, wanted.high, before.high), (pair.low, wanted.low, before.low))
    ordered = steps if wanted.high >= before.low else tuple(reversed(steps))
    do_all(*(partial(_set_one, files, path, value, was, pair.grain) for path, value, was in ordered))


def _set_one(files: BoardFiles, path: str, value: int, was: int, grain: int) -> None:
    files.write(path, str(value))
    now = files.number(path)
    if abs(now - value) >= grain:
        raise not_kept(path, str(value), str(was), str(now))


def pinned(limits: ClockLimits, pair: LimitFiles, table: Sequence[int]) -> int | None:
    """Return the clock that limits hold, as the table has it; ``None`` when they leave a range."""
    if limits.high - limits.low > 2 * (pair.grain - 1):
        return None
    return next((entry for entry in table if abs(entry - limits.low) < pair.grain), limits.low)


def snapshot_limits(files: BoardFiles, pair: LimitFiles) -> dict[str, str]:
    """Return both limits as text, to be put back.

    Raises:
        DeviceError: one cannot be read, or is one that cannot be written back.
    """
    limits = read_limits(files, pair)
    if limits.high <= 0:
        raise DeviceError(
            f"/{pair.high} reads {limits.high}, which could not be put back",
            "write a clock of the table to it first, e.g. with sudo nvpmodel -m and the present mode",
        )
    return dict(zip(pair.paths, (str(limits.low), str(limits.high)), strict=True))
