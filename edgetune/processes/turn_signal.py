"""Signals between processes, so that one begins when another has ended, without their parent in between.

    a   |--- turn 7 ---|  writes "7" into its place, rings all bells
    b   waits for a's turn 7  ...|--- turn 8 ---|        the parent has requested both in advance

The places are shared memory; the bells are pipes, one per process. A bell only wakes its process to read the places, so
extra rings or a full pipe are harmless. The parent can end a turn for a process that has died, so that no process waits
for a dead one.

A pipe that ends a ``select`` when a signal arrives; ``select`` itself resumes after one (PEP 475).
"""

import contextlib
import mmap
import os
import select
import signal
import tempfile
import time
from collections.abc import Sequence

from edgetune.units import NS

_BYTES = 8
_ROOM_BYTES = 1 << 16
_LONGEST_WAIT_S = 3600.0


class TurnSignal:
    """The places and bells of several processes, opened in one of them or in their parent.

    Args:
        descriptors: The file of the memory, then the read and write end of each bell; a child gets them from the
            parent's ``descriptors``.
    """

    def __init__(self, descriptors: Sequence[int]) -> None:
        self.descriptors = tuple(descriptors)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # not inherited by programs of a workload
        self._heard, rung = descriptors[1::2], descriptors[2::2]
        self._others = [[bell for bell in rung if bell != own] for own in rung]
        self._turns = memoryview(mmap.mmap(descriptors[0], _BYTES * len(rung))).cast("q")

    def end(self, place: int, turn: int) -> None:
        """Record the end of a turn of a process and ring all bells; turn numbers increase."""
        self._turns[place] = max(turn, self._turns[place])
        for bell in self._others[place]:
            try:
                os.write(bell, b"!")
            except BlockingIOError:  # full: the bell rings already
                continue

    def wait(self, own: int, place: int, turn: int, until_ns: int) -> None:
        """Wait until a turn of another process has ended, or until a time of the monotonic clock.

        Args:
            own: Place of the waiting process.
            place, turn: Place and turn of the other process.
            until_ns: End of the wait, ns.
        """
        bell = self._heard[own]
        while self._turns[place] < turn and (left_s := (until_ns - time.monotonic_ns()) / NS) > 0:
            if select.select([bell], [], [], min(left_s, _LONGEST_WAIT_S))[0]:
                os.read(bell, _ROOM_BYTES)  # before reading the place again, so that no ring is missed

    def close(self) -> None:
        """Close the descriptors of ``new_turn_signal``; idempotent."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()


def new_turn_signal(processes: int) -> TurnSignal:
    """Return a new turn signal for ``processes`` child processes."""
    with tempfile.TemporaryFile() as file:
        file.truncate(_BYTES * processes)
        memory = os.dup(file.fileno())
    bells = [descriptor for _ in range(processes) for descriptor in os.pipe()]
    for descriptor in bells:
        os.set_blocking(descriptor, False)
    return TurnSignal([memory, *bells])


class SignalPipe:
    """A pipe that becomes readable after a signal if created in the main thread, otherwise never."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before: int | None = None
        with contextlib.suppress(ValueError):  # only the main thread may set it
            self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor to ``select`` on."""
        return self._read

    def clear(self) -> None:
        """Discard the signals so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, 1 << 10)

    def close(self) -> None:
        """Restore the previous wake-up descriptor; idempotent."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ValueError, OSError):  # another thread; or the previous descriptor is closed
            installed = signal.set_wakeup_fd(-1)
            signal.set_wakeup_fd(self._before if installed == self._write and self._before is not None else installed)
        os.close(self._read)
        os.close(self._write)
