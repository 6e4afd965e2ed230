"""Locks of flock(2) on open files, and the process that holds one, as the kernel names it."""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgetune.processes.privilege import acting_as, as_root, holds_root
from edgetune.visible import one_line

_PROC = Path("/proc")
_LONGEST_COMMAND = 60


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file and return whether that is done; the kernel releases the lock with the last descriptor.

    Raises:
        OSError: its file system has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock.

    Args:
        pid: Its number.
        uid: Its real user.
        user: Name of that user.
        command: Its command line, printable and shortened.
        started_s: When it began, seconds since 1970.
        seen: Whether it was seen to have the file open and locked. Without that the number may be of a later process:
            of a lock that was handed on to a child, the kernel names the parent, also after its end.
    """

    pid: int
    uid: int
    user: str
    command: str
    started_s: float
    seen: bool

    @property
    def is_ours(self) -> bool:
        """Whether it is a process of this user for certain."""
        return self.seen and self.uid == os.getuid()

    @property
    def told(self) -> str:
        """The process in words, e.g. ``process 4711 (python train.py), since 12:00:00``; another user by name."""
        whose = "" if self.uid == os.getuid() else f" of {self.user}"
        since = time.strftime("%H:%M:%S", time.localtime(self.started_s))
        return f"process {self.pid}{whose} ({self.command}), since {since}"

    @property
    def ending(self) -> str | None:
        """The command that ends it, where this user may and it is certain; else ``None``."""
        if self.is_ours:
            return f"kill {self.pid}"
        if not (self.seen and holds_root()):
            return None
        caller = acting_as()
        return f"kill {self.pid}" if caller is None else f"{caller.through} kill {self.pid}"


def holder_of(descriptor: int) -> Holder | None:
    """Return the process that holds a lock on an open file; ``None`` where the kernel names none that is here."""
    import psutil  # here, for only a lock that is held asks for it

    for pid in _named(descriptor):
        with suppress(psutil.Error, OSError, ValueError):
            process = psutil.Process(pid)
            uid = process.uids().real
            command = _printable(process.cmdline() or [process.name()])
            return Holder(pid, uid, _user_name(uid), command, process.create_time(), _has_locked(pid, descriptor))
    return None


def _named(descriptor: int) -> Iterator[int]:
    """Yield the processes that hold a lock on the file, see proc_locks(5); one of another PID namespace has none."""
    wanted = _file_id(descriptor)
    with suppress(OSError):
        for line in (_PROC / "locks").read_text().splitlines():
            words = line.split()
            if len(words) >= 6 and (words[1], words[5]) == ("FLOCK", wanted) and words[4] not in ("-1", "0"):
                yield int(words[4])


def _has_locked(pid: int, descriptor: int) -> bool:
    """Whether a process has the file open and locked, as far as this one may look, see proc_pid_fdinfo(5).

    The files that it has open are not touched: a file system of another user might never answer.
    """
    folder, wanted = _PROC / str(pid) / "fdinfo", _file_id(descriptor)

    def look() -> bool:
        return any(_names_lock(folder / name, wanted) for name in os.listdir(folder))

    try:
        return as_root(look)
    except OSError:
        return False


def _names_lock(path: Path, wanted: str) -> bool:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:  # it has been closed meanwhile
        return False
    return any(words[0] == "lock:" and "FLOCK" in words and wanted in words for words in lines if words)


def _file_id(descriptor: int) -> str:
    """Return an open file as the kernel writes it in lists of locks: device and inode."""
    file = os.fstat(descriptor)
    return f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _printable(words: list[str]) -> str:
    """Return a command line in one short line that steers no terminal."""
    return one_line(shlex.join([Path(words[0]).name, *words[1:]]), _LONGEST_COMMAND)
