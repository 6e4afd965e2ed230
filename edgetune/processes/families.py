"""The descendants of a process, and their end: a command may start others, also such as detach themselves.

What processes hold of the machine's memory, by the kernel's own counts, and whether it killed one for want of it.

All are read from ``/proc`` (proc(5)); on a system without it they are ``None`` or empty.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgetune.processes.cgroup import memory_limits

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


_RESET_PEAK = "5"
"""Written to ``clear_refs``, sets the peak of resident memory (VmHWM) to what is resident now."""
_MAJOR_FAULTS = 9  # field of ``stat_fields``


def peak_bytes(pid: int | str = "self") -> int | None:
    """Return the most that a process had resident at once since its start or ``reset_peaks``, bytes."""
    return counter_bytes(_PROC / str(pid) / "status", "VmHWM")


def resident_bytes() -> int:
    """Return what this process has resident now, bytes."""
    return int((_PROC / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def anonymous_bytes() -> int | None:
    """Return the part of this process's resident memory that is its own, no page of a file, bytes."""
    return counter_bytes(_PROC / "self/smaps_rollup", "Anonymous")


def shared_out_bytes(pid: int) -> int | None:
    """Return what a process has resident now, bytes; a page that N processes share counts 1/N (Pss)."""
    return counter_bytes(_PROC / str(pid) / "smaps_rollup", "Pss")


def held_bytes(pids: Sequence[int]) -> int | None:
    """Return the peak of a process, or what several have resident now without counting shared pages twice, bytes."""
    shares = [shared_out_bytes(pid) or 0 for pid in pids] if len(pids) > 1 else []
    return max(sum(shares), *(peak_bytes(pid) or 0 for pid in pids)) or None if pids else None


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Hold the garbage collector off while something is timed; if it was on, it is on again afterwards."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def reset_peaks() -> bool:
    """Set this process's peaks, of PyTorch's memory on a GPU too, to what it holds now; return whether it worked."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()
    try:
        (_PROC / "self/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def give_back() -> None:
    """Return what is free in Python's and the C library's heaps to the system."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # of glibc
        ctypes.CDLL(None).malloc_trim(0)


def gpu_peak_bytes() -> int | None:
    """Return the most that PyTorch held on its GPU, bytes; ``None`` where it uses none."""
    torch = sys.modules.get("torch")
    return torch.cuda.max_memory_allocated() if torch is not None and torch.cuda.is_initialized() else None


def ended_peak_bytes(usage: resource.struct_rusage) -> int | None:
    """Return the peak of a child that has ended, bytes, of the ``wait4`` of its end: of its largest process.

    A child begins as a copy of this process and inherits its peak, so that a smaller one is unknown.
    """
    peak = usage.ru_maxrss << 10
    own = peak_bytes()
    return peak if own is None or peak > own else None


def major_faults(pid: int) -> int:
    """Return how often a process has waited for a page from storage so far; 0 after its end."""
    fields = stat_fields(pid)
    return int(fields[_MAJOR_FAULTS]) if fields else 0


def swap_bytes(pid: int) -> int | None:
    """Return what a process has in swap of its own anonymous memory, bytes; ``None`` after its end."""
    return counter_bytes(_PROC / str(pid) / "status", "VmSwap")


def kills() -> int | None:
    """Return how many processes the kernel has killed for want of memory, in all control groups, since it booted."""
    return counter(_PROC / "vmstat", "oom_kill")


def why_killed(kills_before: int | None) -> str | None:
    """Return that memory ran out, with the limit of the control group, if the kernel killed something since."""
    now = kills()
    if kills_before is None or now is None or now <= kills_before:
        return None
    limit = min(memory_limits(_PROC.parent).values(), default=None)
    return "memory ran out" + (f" (its control group may use {limit / (1 << 20):,.0f} MiB)" if limit else "")


def counter(path: Path, name: str) -> int | None:
    """Return the number behind a name in a file such as ``/proc/meminfo``: ``MemTotal:  1234 kB`` or ``pswpin 12``."""
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[0].rstrip(":") == name and words[1].isdigit():
            return int(words[1])
    return None


def counter_bytes(path: Path, name: str) -> int | None:
    """Return the size behind a name, which the kernel writes in kB, in bytes."""
    found = counter(path, name)
    return None if found is None else found << 10


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
