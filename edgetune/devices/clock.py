"""The clock of a device: the system's own, or a virtual one on a twin."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The clock that times minibatches and stamps power samples; virtual on a twin."""

    def now_ns(self) -> int:
        """Return monotonic time, integer nanoseconds."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Let ``seconds`` pass (on a virtual clock: at once)."""
        ...


class MonotonicClock:
    """CLOCK_MONOTONIC: the same clock in every process, never set back, so parent and child may compare readings."""

    def now_ns(self) -> int:
        """Return monotonic time, ns."""
        return time.monotonic_ns()

    def sleep_s(self, seconds: float) -> None:
        """Wait ``seconds``."""
        time.sleep(seconds)
