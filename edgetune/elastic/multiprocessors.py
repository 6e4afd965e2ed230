"""The multiprocessors of the simulated GPU: which blocks are on which, and how fast they come on.

    SM 0  [ a a a a | b ]      groups: equal blocks of one launch that came to one multiprocessor together
    SM 1  [ a a a a     ]      they come on alike, and end together

Blocks are placed where the most of them have room (the scheduler chooses "based on the SM's local resource
availability": Gilman et al. 2020, Demystifying the Placement Policies of the NVIDIA GPU Thread Block Scheduler, for
Pascal, Volta and Turing); among equals on the lowest number. A thousand equal blocks cost as much as one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetune.elastic.gpu import Gpu
from edgetune.elastic.model import Demand
from edgetune.units import NS

_ROUNDING_NS = 1e-3
"""Work left that is none: far above the error of adding up, far below what anybody sees."""

_LAUNCH, _SM, _COUNT, _START, _THREADS, _REGISTERS, _SHARED = range(7)
_LEFT, _COMPUTE, _MEMORY, _COMPUTING, _DRAWING, _BYTES = range(6)


@dataclass(frozen=True, slots=True)
class Group:
    """Equal blocks that are over.

    Args:
        launch: Number of their launch.
        sm: Where they were.
        blocks: How many.
        start_ns: Since when.
    """

    launch: int
    sm: int
    blocks: int
    start_ns: int


class Multiprocessors:
    """What is resident, and what is free.

    Args:
        gpu: How many there are, and their limits.
    """

    def __init__(self, gpu: Gpu) -> None:
        limits = (gpu.threads_per_sm, gpu.registers_per_sm, gpu.shared_bytes_per_sm, gpu.blocks_per_sm)
        self._free: NDArray[np.int64] = np.repeat(np.array(limits, np.int64)[:, None], gpu.sm_count, axis=1)
        self._bytes_per_ns = gpu.bandwidth_bytes_per_s / NS
        self._whole: NDArray[np.int64] = np.empty((7, 0), np.int64)
        self._parts: NDArray[np.float64] = np.empty((6, 0))
        self._stretch: NDArray[np.float64] = np.empty(0)
        """By how much each group is slower than alone."""

    def __len__(self) -> int:
        return self._whole.shape[1]

    def place(self, launch: int, demand: Demand, blocks: int, logical: int, now_ns: int) -> int:
        """Place as many blocks as have room; return how many.

        Args:
            launch: Number of their launch.
            demand: Of one of them.
            blocks: How many there are.
            logical: How many logical blocks each of them takes.
            now_ns: Since when they run.
        """
        placed = _placed(self._room(demand), blocks)
        where = np.flatnonzero(placed)
        if not len(where):
            return 0
        needs = (demand.threads, demand.registers, demand.shared_bytes)
        self._free -= np.outer(np.array((*needs, 1), np.int64), placed)
        whole = np.empty((7, len(where)), np.int64)
        whole[_LAUNCH], whole[_SM], whole[_COUNT], whole[_START] = launch, where, placed[where], now_ns
        whole[_THREADS:] = np.array(needs, np.int64)[:, None]
        parts = np.empty((6, len(where)))
        parts[:] = np.array(
            (logical * demand.logical_ns, demand.compute, demand.memory, demand.computing, demand.drawing,
             demand.bytes_per_ns)
        )[:, None]  # fmt: skip
        self._whole = np.concatenate((self._whole, whole), axis=1)
        self._parts = np.concatenate((self._parts, parts), axis=1)
        return int(placed.sum())

    def _room(self, demand: Demand) -> NDArray[np.int64]:
        """Return how many of such blocks still fit on each."""
        room: NDArray[np.int64] = np.minimum(self._free[3], self._free[0] // demand.threads)
        if demand.registers:
            room = np.minimum(room, self._free[1] // demand.registers)
        if demand.shared_bytes:
            room = np.minimum(room, self._free[2] // demand.shared_bytes)
        return room

    def share(self) -> None:
        """Work out how fast each group comes on, until anything is placed or over.

        What a multiprocessor can compute and draw is shared in proportion to what blocks would use alone; so is the
        bandwidth of the device among those that draw. A block takes as long as the slower of the two.
        """
        groups, sms = self._whole[_SM], self._free.shape[1]
        count = self._whole[_COUNT].astype(np.float64)
        compute = np.bincount(groups, weights=count * self._parts[_COMPUTE], minlength=sms)
        memory = np.bincount(groups, weights=count * self._parts[_MEMORY], minlength=sms)
        drawing = self._parts[_DRAWING] * np.maximum(memory, 1.0)[groups]
        computing = self._parts[_COMPUTING] * np.maximum(compute, 1.0)[groups]
        stretch: NDArray[np.float64] = np.maximum(np.maximum(computing, drawing), 1.0)
        drawn = float((count * self._parts[_BYTES] / stretch).sum()) / self._bytes_per_ns
        self._stretch = np.maximum(stretch, drawing * drawn) if drawn > 1 else stretch

    def progress(self, passed_ns: int) -> None:
        """Take off what was done in so many ns."""
        if passed_ns and len(self):
            self._parts[_LEFT] -= passed_ns / self._stretch

    def next_ns(self) -> int | None:
        """Return in how many ns the first group is over, as they share now; ``None`` where nothing is resident."""
        if not len(self):
            return None
        return max(math.ceil(float((self._parts[_LEFT] * self._stretch).min()) - _ROUNDING_NS), 0)

    def take_ended(self) -> list[Group]:
        """Return the groups that are over; what they held is free."""
        over: Any = self._parts[_LEFT] <= _ROUNDING_NS
        if not over.any():
            return []
        gone = self._whole[:, over]
        for column, row in ((0, _THREADS), (1, _REGISTERS), (2, _SHARED)):
            np.add.at(self._free[column], gone[_SM], gone[_COUNT] * gone[row])
        np.add.at(self._free[3], gone[_SM], gone[_COUNT])
        self._whole, self._parts = self._whole[:, ~over], self._parts[:, ~over]
        columns = (gone[row].tolist() for row in (_LAUNCH, _SM, _COUNT, _START))
        return list(map(Group, *columns))


def _placed(room: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """Return how many blocks go to each multiprocessor: one after another to the one with the most room left."""
    if int(room.sum()) <= blocks:
        return room
    levels = np.arange(int(room.max()) + 1)
    above = np.maximum(room[:, None] - levels, 0)
    level = int(np.flatnonzero(above.sum(axis=0) >= blocks)[-1])
    placed = above[:, level]
    too_many = int(placed.sum()) - blocks
    if too_many:  # of those that would come down to the level, the last ones stay one above
        last = np.flatnonzero(placed)[-too_many:]
        placed[last] -= 1
    return placed
