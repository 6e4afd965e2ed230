"""The descendants of a process, and their end: a command may start others, also such as detach themselves."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 2.0
_POLL_S = 0.01


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process; empty without /proc."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has just ended
            parents[int(stat.parent.name)] = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
    family = [pid]
    for parent in family:  # grows while it is walked
        family += [other for other, its_parent in parents.items() if its_parent == parent]
    return family[1:]


def children(pid: int) -> list[int]:
    """Return the children of a process; empty on a kernel that does not list them.

    See proc(5), ``/proc/PID/task/TID/children``.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def family(pid: int) -> list[int]:
    """Return a process and its descendants, faster than ``descendants``; see ``children``."""
    pids = [pid]
    for each in pids:  # grows while it is walked
        pids += children(each)
    return pids


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
