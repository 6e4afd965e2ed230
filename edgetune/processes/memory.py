"""What processes hold of the machine's memory, by the kernel's own counts, and whether it killed one for want of it.

All are read from ``/proc`` (proc(5)); on a system without it they are ``None`` or empty.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_PROC = Path("/proc")
_RESET_PEAK = "5"
"""Written to ``clear_refs``, sets the peak of resident memory (VmHWM) to what is resident now."""
_MAJOR_FAULTS = 9  # field of /proc/PID/stat after the name of the program in parentheses, from 0
_NO_LIMIT_BYTES = 1 << 60  # control groups of version 1 write the highest page number instead of none


def peak_bytes(pid: int | str = "self") -> int | None:
    """Return the most that a process had resident at once since its start or ``reset_peaks``, bytes."""
    return _field(_PROC / str(pid) / "status", "VmHWM")


def resident_bytes() -> int:
    """Return what this process has resident now, bytes."""
    return int((_PROC / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def shared_out_bytes(pid: int) -> int | None:
    """Return what a process has resident now, bytes; a page that N processes share counts 1/N (Pss)."""
    return _field(_PROC / str(pid) / "smaps_rollup", "Pss")


def held_bytes(pids: Sequence[int]) -> int | None:
    """Return the peak of a process, or what several have resident now without counting shared pages twice, bytes."""
    shares = [shared_out_bytes(pid) or 0 for pid in pids] if len(pids) > 1 else []
    return max(sum(shares), *(peak_bytes(pid) or 0 for pid in pids)) or None if pids else None


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


def major_faults(pids: Iterable[int]) -> int:
    """Return how often processes have waited for a page from storage so far."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):  # it has ended
            total += int(
                (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[_MAJOR_FAULTS]
            )
    return total


def kills() -> int | None:
    """Return how many processes the kernel has killed for want of memory, in all control groups, since it booted."""
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


def why_killed(kills_before: int | None) -> str | None:
    """Return that memory ran out, with the limit of the control group, if the kernel killed something since."""
    now = kills()
    if kills_before is None or now is None or now <= kills_before:
        return None
    limit = min(limits(), default=None)
    return "memory ran out" + (f" (its control group may use {limit / (1 << 20):,.0f} MiB)" if limit else "")


def limits() -> list[int]:
    """Return the limits of the control groups around this process, bytes; see cgroups(7)."""
    found = []
    for line in _text(_PROC / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root, name = ("", "memory.max") if controllers == "" else ("memory", "memory.limit_in_bytes")
        group = Path("/sys/fs/cgroup") / root / path.strip("/")
        for folder in (group, *group.parents):
            with contextlib.suppress(ValueError):  # "max", or no such file
                found.append(int(_text(folder / name)))
    return [limit for limit in found if limit < _NO_LIMIT_BYTES]


def _field(path: Path, name: str) -> int | None:
    """Return a line such as ``VmHWM:  1234 kB`` in bytes."""
    for line in _text(path).splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return None


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
