"""The descendants of a process, and their end: a command may start others, also such as detach themselves."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_PROC = Path("/proc")
_PARENT = 1  # field of ``stat_fields``
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 2.0
_POLL_S = 0.01


def stat_fields(pid: int, proc: Path = _PROC) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the name of the program, from its state on; empty after its end.

    The name may contain spaces and parentheses, see proc(5).
    """
    try:
        return (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def descendants(pid: int, proc: Path = _PROC) -> list[int]:
    """Return all descendants of a process by reading every process; empty without /proc."""
    children_of: dict[int, list[int]] = {}
    for name in os.listdir(proc) if proc.is_dir() else ():
        if name.isdigit() and (fields := stat_fields(int(name), proc)):
            children_of.setdefault(int(fields[_PARENT]), []).append(int(name))
    found = [pid]
    for parent in found:  # grows while it is walked
        found += children_of.get(parent, [])
    return found[1:]


def family(pid: int, proc: Path = _PROC) -> list[int]:
    """Return a process and its descendants, in little time where the kernel lists the children of a process.

    See proc(5), ``/proc/PID/task/TID/children``: kernels without CONFIG_PROC_CHILDREN lack the file. The list may miss
    a process whose sibling ends at the same moment, so that ``descendants`` is for ending processes.
    """
    if not (proc / f"{pid}/task/{pid}/children").exists():
        return [pid, *descendants(pid, proc)]
    found = [pid]
    for parent in found:  # grows while it is walked
        with contextlib.suppress(OSError):  # the process has ended
            for thread in os.listdir(proc / str(parent) / "task"):
                found += map(int, (proc / f"{parent}/task/{thread}/children").read_text().split())
    return found


def keep_descendants() -> None:
    """Make this process responsible for its descendants, also for those that detach or whose parent ends.

    When the parent of this process dies, it ends them and then itself. Call it from the main thread.
    """
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGTERM, _end_all)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _end_all(*_: object) -> None:
    end_descendants()
    os._exit(1)


def still_running() -> list[int]:
    """Return the descendants of this process that do not end within ``_GRACE_S``; collect those that ended."""
    give_up_s = time.monotonic() + _GRACE_S
    while True:
        _reap()
        left = descendants(os.getpid())
        if not left or time.monotonic() > give_up_s:
            return left
        time.sleep(_POLL_S)


def end_descendants() -> None:
    """End every descendant of this process: SIGTERM, and after ``_GRACE_S`` SIGKILL."""
    give_up_s = time.monotonic() + _GRACE_S
    asked: set[int] = set()
    while True:
        _reap()
        left = descendants(os.getpid())
        if not left:
            return
        late = time.monotonic() > give_up_s
        for pid in left:
            if late or pid not in asked:
                asked.add(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        if time.monotonic() > give_up_s + _GRACE_S:
            return  # a driver may delay the end of a killed process
        time.sleep(_POLL_S)


def _reap() -> None:
    """Collect the exit status of children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
