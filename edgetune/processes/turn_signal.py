"""What processes hand each other so that one begins when another has ended, without their parent in between.

    a   |--- turn 7 ---|  writes "7" into its place, rings everybody's bell
    b   waits for a's turn 7  ...|--- turn 8 ---|        the parent asked for both long before

The places are memory that all of them share, the bells are pipes, one of each process. A bell only says that there is
something to look at: rung too often, or full, it does no harm. The parent can end a turn in place of a process that has
died; so no process waits for a dead one.
"""

from __future__ import annotations

import mmap
import os
import select
import tempfile
import time
from collections.abc import Sequence

from edgetune.units import NS

_BYTES = 8
_ROOM_BYTES = 1 << 16
_LONGEST_WAIT_S = 3600.0


class TurnSignal:
    """The places and bells of a number of processes, as one of them or their parent holds them.

    Args:
        descriptors: The file of the memory, then two of each bell, to read and to write: of ``descriptors`` of another,
            in a process that was given them.
    """

    def __init__(self, descriptors: Sequence[int]) -> None:
        self.descriptors = tuple(descriptors)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # not for what a workload starts
        self._heard, rung = descriptors[1::2], descriptors[2::2]
        self._others = [[bell for bell in rung if bell != own] for own in rung]
        self._turns = memoryview(mmap.mmap(descriptors[0], _BYTES * len(rung))).cast("q")

    def end(self, place: int, turn: int) -> None:
        """Say that a turn of a process has ended; turns count up."""
        self._turns[place] = max(turn, self._turns[place])
        for bell in self._others[place]:
            try:
                os.write(bell, b"!")
            except BlockingIOError:  # full: it rings already
                continue

    def wait(self, own: int, place: int, turn: int, until_ns: int) -> None:
        """Have a process wait until a turn of another has ended, or until a time of the monotonic clock.

        Args:
            own: The place of the one that waits.
            place, turn: What it waits for.
            until_ns: When it waits no longer.
        """
        bell = self._heard[own]
        while self._turns[place] < turn and (left_s := (until_ns - time.monotonic_ns()) / NS) > 0:
            if select.select([bell], [], [], min(left_s, _LONGEST_WAIT_S))[0]:
                os.read(bell, _ROOM_BYTES)  # before looking again, so that no ring is missed

    def close(self) -> None:
        """Close what ``new_turn_signal`` opened; harmless when repeated."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()


def new_turn_signal(processes: int) -> TurnSignal:
    """Return a turn signal that so many child processes can be given."""
    with tempfile.TemporaryFile() as file:
        file.truncate(_BYTES * processes)
        memory = os.dup(file.fileno())
    bells = [descriptor for _ in range(processes) for descriptor in os.pipe()]
    for descriptor in bells:
        os.set_blocking(descriptor, False)
    return TurnSignal([memory, *bells])
