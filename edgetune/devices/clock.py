"""The system's monotonic clock."""

from __future__ import annotations

import time


class MonotonicClock:
    """CLOCK_MONOTONIC: the same clock in every process, never set back, so parent and child may compare readings."""

    def now_ns(self) -> int:
        """Return monotonic time, ns."""
        return time.monotonic_ns()

    def sleep_s(self, seconds: float) -> None:
        """Wait ``seconds``."""
        time.sleep(seconds)
