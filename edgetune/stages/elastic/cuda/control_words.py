"""The control words of persistent forms on a GPU: the counter of logical blocks, and the quota of physical ones.

    stream of the task   [counter = 0, of a new call][wait for the quota][kernel    ] [more blocks: the kernel again]
    stream of the words        [quota = 64]                      [quota = 3]    [quota = 64]        [read the counter]

The words are in device memory, as every block reads the quota before each logical block. The host changes them by a
stream of their own of the highest priority, which waits for no kernel.
"""

from __future__ import annotations

from typing import Any

from edgetune.stages.elastic.abi import CONTROL_BYTES, NO_QUOTA, QUOTA_OFFSET_BYTES
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.cuda.context import Context

_WORD_BYTES = 4


class ControlWords:
    """Two words for the persistent calls of a network, of which one is launched at a time.

    Args:
        context: The GPU.

    Raises:
        DeviceError: memory is short.
    """

    def __init__(self, context: Context) -> None:
        self._driver = context.driver
        self.address = context.allocate(CONTROL_BYTES)
        """Of the words; the parameter of persistent forms."""
        _, highest = context.priorities()
        self._stream, self._set = context.stream(highest), context.event()
        self.set_quota(NO_QUOTA)

    def set_quota(self, quota: int) -> None:
        """Let physical blocks with ranks below ``quota`` go on, and the others leave; returns at once."""
        self._driver.call("cuMemsetD32Async", self.address + QUOTA_OFFSET_BYTES, quota, 1, self._stream)

    def before(self, launch: Launch, stream: Any) -> None:
        """Make a stream ready for a launch: the quota is as it was set last, the counter of a new call is zero."""
        if launch.first == 0 and launch.rank == 0:
            self._driver.call("cuMemsetD32Async", self.address, 0, 1, stream)
        self._driver.call("cuEventRecord", self._set, self._stream)
        self._driver.call("cuStreamWaitEvent", stream, self._set, 0)

    def reached(self, blocks: int) -> int:
        """Return how many of a call's logical blocks were taken, while none of its launches runs.

        A copy to memory that is not pinned has completed when it returns (CUDA Driver API, API synchronization
        behavior).

        Args:
            blocks: Of the call; the counter goes beyond by one for each physical block that found none left.
        """
        word = bytearray(_WORD_BYTES)
        self._driver.call("cuMemcpyDtoHAsync", word, self.address, _WORD_BYTES, self._stream)
        return min(int.from_bytes(word, "little"), blocks)
