"""The files of a board: text outside sysfs, settings written and read back, and the two limits of a clock.

Only the settings listed at the start are ever written. A value already in place is not written again, and every
write is read back.

A value can be refused (an error), ignored (the write succeeds and nothing happens: BPMP debugfs does that) or clamped
(another value is kept). Each case raises a ``DeviceError`` that names the file, the value and the present content.

A clock has a lower and an upper limit, in two files. The order of the writes depends on the kernel:

    Linux 4.9    lower > upper is EINVAL at any moment, so the limit that widens the range is written first
    from 5.5 on  never refused: the lower limit is clamped to the upper, but the kernel keeps the request and applies it
                 when the upper rises; so both are always written, and the order of 4.9 leaves no such request

Source: OE4T/linux-tegra-4.9 drivers/devfreq/devfreq.c and cpufreq of that kernel; PM QoS of Linux 5.5.
"""

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
from edgetune.limits import read_file

_MAX_LINKS = 40
"""Links followed before a loop is assumed. Source: MAXSYMLINKS, Linux include/linux/namei.h."""


def follow(root: Path, path: str) -> str:
    """Return the target path of a file, following links as if ``root`` were ``/``.

    ``/etc/nvpmodel.conf`` is a link to the configuration of this module; the name of the target identifies it.

    Args:
        root: Where the file system starts.
        path: Relative to it.

    Raises:
        OSError: the file is missing, or its links form a loop.
    """
    found, ahead, links = PurePosixPath(), [*reversed(PurePosixPath(path).parts)], 0
    while ahead:
        part = ahead.pop()
        if part in ("/", ".."):
            found = PurePosixPath() if part == "/" else found.parent
        elif not os.path.islink(root / found / part):
            found /= part
        elif (links := links + 1) > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        else:
            ahead += reversed(PurePosixPath(os.readlink(root / found / part)).parts)
    os.lstat(root / found)
    return str(found)


def read_bytes(root: Path, path: str) -> bytes:
    """Return the bytes of a file, its links followed below ``root``.

    Raises:
        OSError: the file is missing or may not be read.
    """
    return read_file(root / follow(root, path))


def read_text(root: Path, path: str) -> str | None:
    """Return a file's text without the white space and NULs around it, or ``None`` when it cannot be read."""
    try:
        return read_bytes(root, path).decode(errors="replace").strip("\0 \t\r\n")
    except OSError:
        return None


POLL_S = 0.05
"""Interval between reads of a file that may need time, s: our choice, 20 reads in the second a core may take."""


_VALUE = re.compile(r"-?[0-9]+|on|auto")
"""The only values ever written: integers, and the words of ``power/control``."""


class BoardFiles:
    """The files of one board.

    Args:
        sysfs: The file system they are in.
        settable: The only paths that are ever opened for writing.
        sleep: Waits for seconds; tests replace it.
    """

    def __init__(self, sysfs: Sysfs, settable: Iterable[str], sleep: Callable[[float], None]) -> None:
        self.sysfs = sysfs
        self.settable = frozenset(settable)
        self.sleep = sleep

    def read(self, path: str) -> str:
        """Return a file's text.

        Raises:
            DeviceError: the file cannot be read.
        """
        try:
            return self.sysfs.read(path)
        except (OSError, UnicodeDecodeError) as error:
            reason = why(error) if isinstance(error, OSError) else "it holds no text"
            hint = "a setting that cannot be read cannot be restored: see dmesg, or restart the board"
            if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM):
                hint = "reading it needs root"
            raise DeviceError(f"/{path} cannot be read: {reason}", hint) from None

    def number(self, path: str) -> int:
        """Return the whole number in a file.

        Raises:
            DeviceError: the file cannot be read, or holds no integer.
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
        """Write a value unless the file already holds it, and read it back.

        Args:
            path: The file.
            value: Its new text.
            patience_s: How long the kernel may take, or answer that it is busy, s.

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
            hint = "the settings to restore were found on another board"
            raise DeviceError(f"/{path} is no setting of this board", hint)
        if not _VALUE.fullmatch(value):
            hint = "the settings to restore are damaged: restart the board"
            raise DeviceError(f"/{path} is never set to {value!r}", hint)
        try:
            self.sysfs.write(path, value)
        except OSError as error:
            return error
        return None


def number_in(found: Mapping[str, str], path: str) -> int:
    """Return the number that a snapshot holds for a file.

    Raises:
        DeviceError: the value is not an integer.
    """
    try:
        return int(found[path])
    except ValueError:
        hint = "the recorded settings are damaged: restart the board"
        raise DeviceError(f"/{path} is never set to {found[path]!r}", hint) from None


def do_all(*actions: Callable[[], None]) -> None:
    """Run every action even if some fail, so that as much as possible is restored.

    Raises:
        DeviceError: an action failed; the first error, raised after all actions have run.
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
        errno.EBUSY: "another program holds it: try again, or stop power daemons, nvpmodel and jetson_clocks",
        errno.ENOENT: "the driver went away: see dmesg",
    }
    hint = remedies.get(error.errno or 0, "choose another value that the device lists; dmesg may say more")
    return DeviceError(f"/{path} refused {value}: {why(error)}", hint)


def not_kept(path: str, value: str, before: str, back: str) -> DeviceError:
    """Return the error of a write that succeeded but did not take effect."""
    if back == before:
        hint = "the driver or the firmware does not take it now: another program may hold it, or it is not supported"
        return DeviceError(f"/{path} was set to {value} but still reads {back}: ignored", hint)
    hint = "heat, the firmware or (see nvpmodel -q) a Jetson's power mode allows no other: choose another value"
    return DeviceError(f"/{path} was set to {value} but reads back {back}: clamped", hint)


@dataclass(frozen=True, slots=True)
class ClockLimits:
    """Lower and upper limit of a clock, in the unit of its files; equal limits pin the clock."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class LimitFiles:
    """The two files of a clock's limits.

    Args:
        low: File of the lower limit.
        high: File of the upper one.
        grain: The kernel rounds limits outwards to multiples of this: 1000 Hz for devfreq from Linux 5.5 on.
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
            DeviceError: a value there is not an integer.
        """
        if self.low not in found or self.high not in found:
            return None
        return ClockLimits(number_in(found, self.low), number_in(found, self.high))

    def read(self, files: BoardFiles) -> ClockLimits:
        """Return the present limits.

        Raises:
            DeviceError: a file cannot be read.
        """
        return ClockLimits(files.number(self.low), files.number(self.high))

    def set(self, files: BoardFiles, wanted: ClockLimits) -> None:
        """Set both limits unless already set, in an order that every kernel accepts, and read them back.

        Raises:
            DeviceError: a limit was refused, ignored or clamped (the other is still set, so that as much as possible is
                restored), or the upper limit is not positive.
        """
        before = self.read(files)
        if before == wanted:
            return
        if wanted.high <= 0:
            raise DeviceError(f"/{self.high} is never set to {wanted.high}", "Linux 4.9 would keep it as a clock of 0")
        steps = ((self.high, wanted.high, before.high), (self.low, wanted.low, before.low))
        ordered = steps if wanted.high >= before.low else tuple(reversed(steps))
        do_all(*(partial(self._set_one, files, *step) for step in ordered))

    def _set_one(self, files: BoardFiles, path: str, value: int, was: int) -> None:
        files.write(path, str(value))
        now = files.number(path)
        if abs(now - value) >= self.grain:
            raise not_kept(path, str(value), str(was), str(now))

    def pinned(self, files: BoardFiles, table: Sequence[int] = ()) -> int | None:
        """Return the clock, one of the table if near one, that the limits pin; ``None`` when they leave a range.

        Raises:
            DeviceError: a file cannot be read.
        """
        limits = self.read(files)
        if limits.high - limits.low > 2 * (self.grain - 1):
            return None
        return next((entry for entry in table if abs(entry - limits.low) < self.grain), limits.low)

    def snapshot(self, files: BoardFiles) -> dict[str, str]:
        """Return both limits as text, for a later restore.

        Raises:
            DeviceError: a limit cannot be read, or has a value that could not be written back.
        """
        limits = self.read(files)
        if limits.high <= 0:
            hint = "write a clock of the table to it first, e.g. with sudo nvpmodel -m and the present mode"
            raise DeviceError(f"/{self.high} reads {limits.high}, which could not be put back", hint)
        return {self.low: str(limits.low), self.high: str(limits.high)}


def limit_files(policy: str) -> LimitFiles:
    """Return the files of the limits, kHz, of a cpufreq policy by its folder."""
    return LimitFiles(f"{policy}/scaling_min_freq", f"{policy}/scaling_max_freq")
