"""Arguments of a launch as ``cuLaunchKernel`` reads them: an array of addresses, and at each the bytes of an argument.

pointers  [ . ][ . ][ . ][ . ]           packed once
            |    |    |    +--> {grid, block, first, count}     only these two numbers change from shard to shard
            |    |    +-------> 7
            |    +------------> address of a buffer
            +-----------------> address of a buffer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgetune.elastic import abi
from edgetune.elastic.work import Logical

_ALIGNED_BYTES = 16
"""No parameter needs more (CUDA C++ Programming Guide, built-in vector types)."""
_WORD_BYTES = 4
RECORDS_BYTES = 8


class Packed:
    """Arguments of one form of one call.

    Args:
        values: The bytes of its own arguments.
        logical: Of an elastic form, which takes its part of it; ``None`` of the original.
        recorded: Whether it takes the address of block records behind everything else.
    """

    def __init__(self, values: Sequence[bytes], logical: Logical | None, *, recorded: bool = False) -> None:
        whole = list(values)
        if logical is not None:
            whole.append(abi.packed(logical.grid, logical.block, 0, 0))
        if recorded:
            whole.append(bytes(RECORDS_BYTES))
        self.sizes_bytes = tuple(len(value) for value in whole)
        offsets = _offsets(self.sizes_bytes)
        self._bytes = np.zeros(offsets[-1], np.uint8)
        for offset, value in zip(offsets, whole, strict=False):  # the last offset is the end
            self._bytes[offset : offset + len(value)] = np.frombuffer(value, np.uint8)
        self._pointers = np.array([self._bytes.ctypes.data + offset for offset in offsets[:-1]], np.uint64)
        self.address = int(self._pointers.ctypes.data)
        """What ``cuLaunchKernel`` is given."""
        self._part = None if logical is None else self._words(offsets[len(values)], abi.SIZE_BYTES)
        self._records = self._bytes[offsets[-2] : offsets[-1]].view(np.uint64)[:1] if recorded else None

    def set_part(self, first: int, count: int) -> None:
        """Choose the logical blocks; the original takes them all."""
        if self._part is not None:
            self._part[abi.FIRST_OFFSET_BYTES // _WORD_BYTES] = first
            self._part[abi.COUNT_OFFSET_BYTES // _WORD_BYTES] = count

    def set_records(self, address: int) -> None:
        """Choose where its blocks are recorded; 0: nowhere."""
        if self._records is not None:
            self._records[0] = address

    def _words(self, offset: int, size_bytes: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        return self._bytes[offset : offset + size_bytes].view(np.uint32)


def _offsets(sizes_bytes: Sequence[int]) -> list[int]:
    """Return where values of these sizes begin, and behind them the end, all aligned."""
    offsets = [0]
    for size_bytes in sizes_bytes:
        offsets.append(offsets[-1] + -(-size_bytes // _ALIGNED_BYTES) * _ALIGNED_BYTES)
    return offsets
