"""The control words of persistent forms on a GPU: counters of logical blocks, and the quota of physical ones.

    stream of the task   [next = done = 0][kernel, 64 blocks   ][wait until done is 196]           [next kernel ...
    stream of the words                       [quota = 3]          [quota = 64]
    more blocks                                                    [kernel, 61 blocks    ]

The words are in device memory, as every block reads the quota before each logical block. The host changes the quota by
a stream of its own of the highest priority, which waits for no kernel. What is launched behind a persistent kernel
waits for the GPU's own count of its blocks, not for the host: by then all are done, whoever has done them. Blocks that
are brought too early or too late find nothing left in the counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetune.stages.elastic.abi import CONTROL_BYTES, DONE_OFFSET_BYTES, NO_QUOTA, QUOTA_OFFSET_BYTES
from edgetune.stages.elastic.cuda.context import Context

_STRIDE_BYTES = 16
_AT_LEAST = 0
"""``CU_STREAM_WAIT_VALUE_GEQ``."""


class ControlWords:
    """Control words of each call of a network, and one quota for all.

    Args:
        context: The GPU.
        blocks: Logical blocks of each call.

    Raises:
        DeviceError: memory is short, or streams of this GPU cannot wait for a word (stream memory operations).
    """

    def __init__(self, context: Context, blocks: Sequence[int]) -> None:
        assert CONTROL_BYTES <= _STRIDE_BYTES
        self._driver, self._blocks = context.driver, blocks
        self._base = context.allocate(_STRIDE_BYTES * len(blocks))
        _, highest = context.priorities()
        self._stream = context.stream(highest)
        for call, count in enumerate(blocks):  # nothing is left before the first request
            self.begin(call, count, self._stream)
            self.await_done(call, self._stream)
        self.set_quota(NO_QUOTA)
        context.synchronise(self._stream)

    def address(self, call: int) -> int:
        """Return the address of a call's words: the parameter of its persistent form."""
        return self._base + call * _STRIDE_BYTES

    def set_quota(self, quota: int) -> None:
        """Let physical blocks with ranks below ``quota`` go on, and the others leave; returns at once."""
        first = self._base + QUOTA_OFFSET_BYTES
        self._driver.call("cuMemsetD2D32Async", first, _STRIDE_BYTES, quota, 1, len(self._blocks), self._stream)

    def begin(self, call: int, first: int, stream: Any) -> None:
        """Let blocks take the logical blocks of a call, from ``first`` on, once a stream has come so far."""
        self._driver.call("cuMemsetD32Async", self.address(call), first, 2, stream)

    def await_done(self, call: int, stream: Any) -> None:
        """Let a stream wait until all logical blocks of a call are done."""
        address = self.address(call) + DONE_OFFSET_BYTES
        self._driver.call("cuStreamWaitValue32", stream, address, self._blocks[call], _AT_LEAST)
