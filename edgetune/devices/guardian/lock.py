"""One edgetune at a time on a device: a lock that the kernel lets go of, however its holder ends.

Two locks, because two kinds of process exclude each other. Whoever measures holds ``run/lock/edgetune-DEVICE.lock``,
which every user can take. A guardian holds a file beside its journal, which only its own user can reach; a new guardian
waits there while the one of a run that was killed is still putting the board back.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from edgetune.devices.guardian.protocol import shortened
from edgetune.errors import DeviceError

_FOLDERS = ("run/lock", "tmp")
"""Where every user may make a file, the first that is there; both are emptied by a restart."""
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
_LONGEST_NOTE = 4096
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as it wrote itself."""

    pid: int
    since: str
    command: str


@contextmanager
def hold(device: str, root: Path = Path("/")) -> Iterator[None]:
    """Have a device to oneself for as long as the context is open.

    Args:
        device: As the user names it, e.g. ``jetson``.
        root: Where the file system starts.

    Raises:
        DeviceError: another edgetune has it, or the lock cannot be used.
    """
    descriptor = _open_shared(device, root)
    try:
        if not _taken(descriptor):
            raise _in_use(_holder(descriptor))
        yield
    finally:
        os.close(descriptor)


@contextmanager
def hold_journal(path: Path, patience_s: float, stopped: Callable[[], bool]) -> Iterator[bool]:
    """Be the only guardian of a device for as long as the context is open.

    Args:
        path: The lock's file, in a private folder.
        patience_s: How long to wait for another guardian to put the board back.
        stopped: Whether to wait no longer.

    Yields:
        Whether it is held; not when ``stopped`` came first.

    Raises:
        DeviceError: the other one has not finished in time, or the lock cannot be used.
    """
    try:
        descriptor = os.open(path, _FLAGS | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        give_up_s = time.monotonic() + patience_s
        while not (taken := _taken(descriptor)) and not stopped():
            if time.monotonic() > give_up_s:
                raise _busy_guardian(_holder(descriptor))
            time.sleep(_POLL_S)
        yield taken
    finally:
        os.close(descriptor)


def _open_shared(device: str, root: Path) -> int:
    """Open the lock file that all users share, making it if need be.

    In a folder where everybody may make files the kernel refuses to open another user's file with O_CREAT, also to root
    (fs.protected_regular), so that an existing one is opened without. It must not be a link that leads elsewhere.
    """
    folder = next((root / name for name in _FOLDERS if (root / name).is_dir()), root / _FOLDERS[0])
    path = folder / f"edgetune-{device.replace(':', '-')}.lock"
    try:
        descriptor = _open_or_make(path)
    except OSError as error:
        raise _unusable(path, error) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise DeviceError(f"the lock {path} is not a file of its own", "see what it is, and remove it")
    return descriptor


def _unusable(path: Path, error: OSError) -> DeviceError:
    return DeviceError(f"the lock {path} cannot be used: {error.strerror or error}", "see whose file it is")


def _open_or_make(path: Path) -> int:
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, _FLAGS)
        with suppress(FileExistsError):  # somebody else has made it in between
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)  # whatever the umask: root and users share it
            return descriptor


def _taken(descriptor: int) -> bool:
    """Try to take the lock, and write into it who has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    note = json.dumps({"pid": os.getpid(), "started_s": time.time(), "command": command[:200]})
    with suppress(OSError):  # on a full disk it is held all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, note.encode(), 0)
    return True


def _holder(descriptor: int) -> Holder | None:
    """Return who holds the lock; ``None`` when the file does not tell, for any user can write there."""
    try:
        note = json.loads(os.pread(descriptor, _LONGEST_NOTE, 0))
        since = time.strftime("%H:%M:%S", time.localtime(note["started_s"]))
        holder = Holder(int(note["pid"]), since, shortened(str(note["command"])))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return holder if holder.pid > 1 else None  # it is shown in a line that begins with `kill`


def _in_use(holder: Holder | None) -> DeviceError:
    if holder is None:
        return DeviceError("the board is in use by another edgetune", "wait for it to end")
    return DeviceError(
        f"the board is in use by another edgetune: process {holder.pid} ({holder.command}), since {holder.since}",
        f"wait for it, or end it: kill {holder.pid}",
    )


def _busy_guardian(holder: Holder | None) -> DeviceError:
    who = "another guardian" if holder is None else f"another guardian, process {holder.pid},"
    return DeviceError(
        f"{who} still has the board", "wait for it; one that hangs in a driver ends with a restart of the board"
    )
