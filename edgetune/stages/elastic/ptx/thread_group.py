"""Threads that are at the same instruction, as one array for each thing that is known of them.

The special registers of PTX, of the threads that run at once (NVIDIA, "PTX ISA", chapter 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.kernel import WARP_THREADS
from edgetune.stages.elastic.ptx.formats import Array
from edgetune.stages.elastic.ptx.memory import StoppedError

_MULTIPROCESSORS = 4

CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})
"""They are read anew each time."""


def _bit(of: Any) -> Any:
    return np.uint32(1) << (of.thread % WARP_THREADS).astype(np.uint32)


_ALONG: dict[str, Callable[[int, Any], Any]] = {
    "tid": lambda i, of: of.thread // math.prod(of.launch.block[:i]) % of.launch.block[i],
    "ntid": lambda i, of: of.launch.block[i],
    "ctaid": lambda i, of: of.number // np.prod(of.grid[:i], axis=0, dtype=np.int64) % of.grid[i],
    "nctaid": lambda i, of: of.grid[i],
}
SPECIAL: dict[str, Callable[[Any], Any]] = {
    **{f"{name}.{axis}": partial(compute, i) for name, compute in _ALONG.items() for i, axis in enumerate("xyz")},
    "laneid": lambda of: of.thread % WARP_THREADS,
    "lanemask_eq": _bit, "lanemask_lt": lambda of: _bit(of) - np.uint32(1), "lanemask_ge": lambda of: -_bit(of),
    "lanemask_le": lambda of: _bit(of) * np.uint32(2) - np.uint32(1),
    "lanemask_gt": lambda of: -(_bit(of) * np.uint32(2)),
    "smid": lambda of: of.number % _MULTIPROCESSORS,
    "dynamic_smem_size": lambda of: of.launch.dynamic_shared_bytes,
    "total_smem_size": lambda of: of.memory.limit["shared"],
}  # fmt: skip
"""From blocks (see ``groups``) to a number for each of their threads, or one for all of them."""


class Group:
    """Threads that are at the same instruction.

    Attributes:
        blocks: All blocks that run at once.
        threads: Their numbers there, in the order in which they run.
        registers: Values of those that are read later.
        at: Number of the segment of instructions.
        team: Their team.
    """

    __slots__ = ("_kept", "at", "blocks", "memory", "registers", "size", "team", "threads")

    def __init__(self, blocks: Any, threads: Array, registers: list[Any], at: int, team: int) -> None:
        self.blocks, self.threads, self.registers, self.at, self.team = blocks, threads, registers, at, team
        self.memory, self.size = blocks.memory, len(threads)
        self._kept: dict[str, Array] = {}

    def only(self, chosen: Array) -> Group:
        """Return some of these threads, for one instruction."""
        return Group(self.blocks, self.threads[chosen], [], self.at, self.team)

    def of(self, name: str) -> Array:
        """Return what is known of these threads (see ``Blocks``)."""
        value: Array = self.blocks.known(name)
        if len(value) == 1:
            return value
        if name not in self._kept:
            self._kept[name] = value.take(self.threads)
        return self._kept[name]

    def full(self, value: Array) -> Array:
        """Return an array with an element for each thread."""
        return value if len(value) == self.size else value.repeat(self.size)

    def places(self) -> Array:
        """Return the place in the arrays of this group of the lanes of all warps; -1 where one is not in it."""
        if "places" not in self._kept:
            found = np.full(self.blocks.slots, -1)
            found[self.of("slot")] = np.arange(self.size)
            self._kept["places"] = found
        return self._kept["places"]

    def bits(self, which: Array) -> Array:
        """Return, to each thread, which lanes of its warp are among some threads, as the bits of a number."""
        held = np.zeros(self.blocks.slots, bool)
        held[self.of("slot")] = which
        words = np.packbits(held, bitorder="little").view("<u4").astype(np.uint32)
        return np.asarray(words[self.of("slot") // WARP_THREADS])

    def from_lane(self, value: Array, lane: Array) -> Array:
        """Return the value of another lane of the warp; its own where there is none, which PTX leaves undefined."""
        own, slot = np.arange(self.size), self.of("slot")
        source = self.places()[slot - slot % WARP_THREADS + (lane & (WARP_THREADS - 1))]
        return np.asarray(self.full(value)[np.where((source >= 0) & (lane < WARP_THREADS), source, own)])

    def of_warp(self, value: Array, named: Array) -> tuple[Array, Array]:
        """Return, to each thread, a row of the values of its warp's lanes, and which of these are there and named."""
        places = self.places().reshape(-1, WARP_THREADS)[self.of("slot") // WARP_THREADS]
        asked = np.broadcast_to(named, self.size)[:, None] >> np.arange(WARP_THREADS, dtype=np.uint32) & np.uint32(1)
        return self.full(value)[places], (places >= 0) & (asked == 1)

    def warps(self) -> Array:
        """Return the places of the threads of each warp, by lane.

        Raises:
            StoppedError: a warp is not whole.
        """
        found: Array = self.places().reshape(-1, WARP_THREADS)
        found = found[(found >= 0).any(axis=1)]
        if (found < 0).any():
            raise StoppedError("crash", "lanes are missing at a product of a warp, or have returned before it")
        return np.asarray(found)

    def by_block(self, value: Array) -> Array:
        """Return the sum of a value over the threads of each block, to each of its threads."""
        block = self.of("block")
        sums: Array = np.bincount(block, np.broadcast_to(value, self.size))[block]
        return sums
