"""The clock of a device: the system's monotonic clock, or a virtual one on a twin."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The clock that times minibatches and stamps power samples; virtual on a twin."""

    def now_ns(self) -> int:
        """Return monotonic time, integer nanoseconds."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Wait ``seconds``; a virtual clock advances at once."""
        ...


class MonotonicClock:
    """CLOCK_MONOTONIC: one clock for all processes, never set back, so parent and child can compare times."""

    def now_ns(self) -> int:
        """Return monotonic time, ns."""
        return time.monotonic_ns()

    def sleep_s(self, seconds: float) -> None:
        """Wait ``seconds``."""
        time.sleep(seconds)
