"""flock(2) locks on open files, and the process that holds one according to the kernel."""

import errno
import fcntl
import os
import pwd
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgetune.processes.streams import write
from edgetune.visible import one_line

_PROC = Path("/proc")
_LONGEST_COMMAND = 60


def try_lock(descriptor: int, *, shared: bool = False, unsupported: bool = True) -> bool:
    """Try to lock an open file and return whether it is locked; closing the last descriptor releases the lock.

    Args:
        descriptor: Of the file or folder.
        shared: Whether others may hold a shared lock, too.
        unsupported: The answer where the file system has no locks, e.g. NFS without lockd. The default goes on without
            a lock, and says so once.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if unsupported and error.errno != errno.EBADF:  # NFS locks for itself only what is open for writing
            _report_unsupported(Path(os.readlink(f"/proc/self/fd/{descriptor}")), error.strerror)
        return unsupported
    return True


_reported: set[str | None] = set()


def _report_unsupported(path: Path, reason: str | None) -> None:
    if _reported:
        return
    _reported.add(reason)
    text = f"{path if path.is_dir() else path.parent} has no file locks ({reason}): run one edgetune at a time there"
    write(f"warning: {one_line(text)}\n", sys.stderr)


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock.

    Args:
        pid: Process id.
        uid: Real user id.
        user: Name of that user.
        command: Its command line, printable and shortened.
        started_s: Start time, seconds since 1970.
        seen: Whether the process was verified to have the file open and locked. Otherwise the id may belong to a later
            process: the kernel names the parent of a lock inherited by a child, even after the parent's end.
        stopped: Whether it is stopped (SIGSTOP, Ctrl-Z), and so hears no signal but SIGKILL and SIGCONT.
    """

    pid: int
    uid: int
    user: str
    command: str
    started_s: float
    seen: bool
    stopped: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it is verified to be a process of this user."""
        return self.seen and self.uid == os.getuid()

    @property
    def description(self) -> str:
        """Description of the process, e.g. ``process 4711 (python train.py), since 12:00:00``; another user by name."""
        whose = "" if self.uid == os.getuid() else f" of {self.user}"
        since = time.strftime("%H:%M:%S", time.localtime(self.started_s))
        return f"process {self.pid}{whose} ({self.command}), since {since}"

    @property
    def ending(self) -> str | None:
        """The command that ends the process; ``None`` if it is unverified or another user's."""
        if not (self.is_ours or (self.seen and os.geteuid() == 0)):
            return None
        return f"kill -9 {self.pid}" if self.stopped else f"kill {self.pid}"


def holder_of(descriptor: int) -> Holder | None:
    """Return the process that holds a lock on an open file; ``None`` where the kernel names no visible process."""
    import psutil  # imported only for a held lock

    for pid in _named(descriptor):
        with suppress(psutil.Error, OSError, ValueError):
            process = psutil.Process(pid)
            uid = process.uids().real
            program, *words = process.cmdline() or [process.name()]
            command = one_line(shlex.join([Path(program).name, *words]), _LONGEST_COMMAND)
            stopped = process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
            seen = _has_locked(pid, descriptor)
            user = f"user {uid}"
            with suppress(KeyError):
                user = pwd.getpwuid(uid).pw_name
            return Holder(pid, uid, user, command, process.create_time(), seen, stopped)
    return None


def _named(descriptor: int) -> Iterator[int]:
    """Yield the ids of processes that lock the file, see proc_locks(5); other PID namespaces are invisible."""
    wanted = _file_id(descriptor)
    with suppress(OSError):
        for line in (_PROC / "locks").read_text().splitlines():
            words = line.split()
            if len(words) >= 6 and (words[1], words[5]) == ("FLOCK", wanted) and words[4] not in ("-1", "0"):
                yield int(words[4])


def _has_locked(pid: int, descriptor: int) -> bool:
    """Whether a process has the file open and locked, if readable, see proc_pid_fdinfo(5).

    The open files themselves are not accessed, because a file system of another user may never answer.
    """
    folder, wanted = _PROC / str(pid) / "fdinfo", _file_id(descriptor)
    try:
        return any(_names_lock(folder / name, wanted) for name in os.listdir(folder))
    except OSError:
        return False


def _names_lock(path: Path, wanted: str) -> bool:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:  # the descriptor has been closed meanwhile
        return False
    return any(words[0] == "lock:" and "FLOCK" in words and wanted in words for words in lines if words)


def _file_id(descriptor: int) -> str:
    """Return the device and inode of an open file in the format of the kernel's lock lists."""
    file = os.fstat(descriptor)
    return f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
