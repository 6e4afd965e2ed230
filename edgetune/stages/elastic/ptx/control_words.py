"""The control words of persistent forms while blocks run: quotas that change, and how blocks use the words."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgetune.stages.elastic.kernel import DONE_OFFSET_BYTES, QUOTA_OFFSET_BYTES
from edgetune.stages.elastic.ptx.formats import Array
from edgetune.stages.elastic.ptx.memory import StoppedError, Unit


class ControlWords:
    """The control words of persistent forms: which are changed here, and how blocks use them (see ``abi``)."""

    def __init__(self, blocks: Any, units: Sequence[Unit]) -> None:
        self._blocks = blocks
        self._taking = [(launch.taking, math.prod(launch.grid), blocks.memory.words(launch.taking.control, copy))
                        for copy, launch, _ in units if launch.taking is not None]  # fmt: skip
        self._at = np.array([blocks.memory.place(launch.taking.control, copy) for copy, launch, _ in units
                             if launch.taking is not None])  # fmt: skip
        self._seen = np.zeros(len(blocks.block), np.int64)

    def between_turns(self, random: np.random.Generator) -> None:
        """Change quotas where that is asked for."""
        for taking, physical, words in self._taking:
            if taking.quota_changes and not random.integers(4):
                words[QUOTA_OFFSET_BYTES // 4] = random.integers(taking.rank + physical + 2)

    def _at_word(self, threads: Any, places: Array, offset_bytes: int) -> Array:
        """Return the places of the threads that access a control word."""
        at = self._at[self._blocks.unit if len(self._at) == 1 else self._blocks.unit[threads.threads]]
        return np.flatnonzero(threads.full(places == at + offset_bytes))

    def loaded(self, threads: Any, places: Array, value: Array) -> None:
        """Keep the quota that blocks have seen."""
        there = self._at_word(threads, places, QUOTA_OFFSET_BYTES)
        self._seen[self._blocks.block[threads.threads[there]]] = threads.full(value)[there]

    def stored(self, threads: Any, places: Array) -> None:
        """Check a write.

        Raises:
            StoppedError: it changes a counter, which only atomic operations may.
        """
        if any(self._at_word(threads, places, offset).size for offset in (0, DONE_OFFSET_BYTES)):
            raise StoppedError("crash", "it changed a counter of logical blocks other than by an atomic operation")

    def changed(self, threads: Any, places: Array) -> None:
        """Check an atomic operation.

        Raises:
            StoppedError: a block takes a logical block that the quota which it saw since the last one forbids.
        """
        own = threads.threads[self._at_word(threads, places, 0)]
        unit = self._blocks.unit if len(self._at) == 1 else self._blocks.unit[own]
        rank = np.array([taking.rank for taking, *_ in self._taking])[unit] + self._blocks.number[own]
        quota = self._seen[self._blocks.block[own]]
        if (rank >= quota).any():
            at = int(np.argmax(rank >= quota))
            message = f"the block of rank {rank[at]} takes a logical block, and the quota that it saw is {quota[at]}"
            raise StoppedError("crash", message)
        self._seen[self._blocks.block[own]] = 0
