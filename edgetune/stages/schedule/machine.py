"""The resources that tasks share on a machine: cores, storage and memory, and the cost of holding more than fits.

    held:  [======== in memory, up to the limit ========|== excess, on storage ==]
    a task touches some of it, and waits for the part that is not there

The figures of contention come from the header of a table of layer costs, written by ``contention_worker``:
``"machine": {"base_bytes": 46e6, "dispatch_s": 3e-5, "load_beside_load": 2.0, ...}``. A figure that is missing was not
measured, and nothing is assumed of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.errors import InputError


@dataclass(frozen=True, slots=True)
class Paging:
    """A model of the time that paging adds to a task while more is held than fits.

    Of the bytes that a task touches, the share ``thrash * excess / held``, at most all, is not there. A ``thrash`` of 1
    stands for pages that leave at random. The kernel lets the pages leave first that were used longest ago, which are
    those that networks, going through their weights in a circle, need next: then it is more.

    Args:
        s_per_byte: Time to bring a byte back, s, including the time to write another one out where that is needed.
        thrash: Factor by which a needed page is likelier to have left than any other page.
    """

    s_per_byte: float = 15.7e-9
    """64 MB/s to write a byte out and read it back. This and the thrash are what ``fit_paging`` finds for whole
    networks of 217 to 377 MiB that were loaded under 90 to 60 % of the memory that takes (a virtual x86 machine,
    Linux 6.18, a swap file on a disk that reads 4 GB/s; ``tests/benchmarks/schedule_paging.py``). Loads took 0.4
    to 1.3 of what the model says, the least where a tenth was missing; executions right after a load paid less."""
    thrash: float = 1.0

    def extra_s(self, touched_bytes: int, held_bytes: int, limit_bytes: int) -> float:
        """Return the additional time of a task that touches so many bytes, s; 0 while everything fits."""
        return self.s_per_byte * touched_bytes * self.share_gone(held_bytes, limit_bytes)

    def share_gone(self, held_bytes: int, limit_bytes: int) -> float:
        """Return the share of the touched bytes that is not in memory, 0 to 1."""
        return min(1.0, self.thrash * (held_bytes - limit_bytes) / held_bytes) if held_bytes > limit_bytes else 0.0


FITS = Paging(s_per_byte=0.0)
"""Memory without end: nothing leaves."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The resources that tasks share.

    Args:
        cores: Number of executions that run at full speed at once.
        streams: Number of loads that run at full speed at once; more loads share the bandwidth of storage.
        load_cpu: Share of a load's time alone that a core is busy with it, 0 to 1; the rest waits for storage.
        dispatch_s: From the start of a task until it is under way, in which it shares nothing, s.
        queue_s: How far ahead loads queue their reads: a load that begins while another runs waits so long, or until
            that ends, before its own first byte comes, s.
        execute_beside_execute, execute_beside_load: By how much an execution takes longer beside another, or beside a
            load, where each has a core: they share caches, memory and locks. 1 for not at all; each one adds the same.
        load_beside_execute: By how much a load does beside an execution.
        memory_bytes: The physical memory; ``None``: without a limit.
        paging: The cost of holding more than that.
        swap_bytes: Swap beside that memory: the kernel kills a process that holds more of its own than both, pages of
            files left out, which leave instead. ``None``: without a limit.
    """

    cores: int
    streams: float = 1.0
    load_cpu: float = 0.0
    dispatch_s: float = 0.0
    queue_s: float = 0.0
    execute_beside_execute: float = 1.0
    execute_beside_load: float = 1.0
    load_beside_execute: float = 1.0
    memory_bytes: int | None = None
    paging: Paging = FITS
    swap_bytes: int | None = None


FIGURES = (
    "base_bytes", "dispatch_s", "load_cpu", "load_beside_load", "queue_s", "load_beside_execute", "execute_beside_load",
    "execute_beside_execute", "swap_bytes",
)  # fmt: skip
"""Bytes of the process, seconds, the share of a load that computes, and times beside another task as multiples of those
alone."""


def checked_figures(told: object) -> dict[str, float]:
    """Return the figures of a header that are known here.

    Raises:
        InputError: a figure is no finite number of zero or more.
    """
    figures = dict(told) if isinstance(told, Mapping) else {}
    for name in FIGURES:
        value: Any = figures.get(name, 0.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise InputError(
                f"the costs say that {name} of the machine is {value!r}",
                "measure it again with edgetune schedule profile",
            )
    return {name: float(figures[name]) for name in FIGURES if name in figures}


def machine_of(figures: Mapping[str, float], cores: int) -> Machine:
    """Return the resources of a measured machine.

    What two executions lose to each other where there are fewer than two cores is what sharing cores explains; only
    the rest is added to it. The same holds for a load, which computes a part of its time. No task is faster beside
    another: what is measured so is noise.

    Args:
        figures: From ``checked_figures``.
        cores: Of the machine.
    """
    load_cpu = min(figures.get("load_cpu", 0.0), 1.0)
    both, mixed = max(2 / cores, 1.0), max((1 + load_cpu) / cores, 1.0)
    return Machine(
        cores=cores,
        streams=2 / max(figures.get("load_beside_load", 2.0), 1.0),
        load_cpu=load_cpu,
        dispatch_s=figures.get("dispatch_s", 0.0),
        queue_s=figures.get("queue_s", 0.0),
        execute_beside_execute=max(figures.get("execute_beside_execute", 1.0) / both, 1.0),
        execute_beside_load=max(figures.get("execute_beside_load", 1.0) / mixed, 1.0),
        load_beside_execute=max(figures.get("load_beside_execute", 1.0) / mixed, 1.0),
        swap_bytes=round(figures["swap_bytes"]) if "swap_bytes" in figures else None,
    )
