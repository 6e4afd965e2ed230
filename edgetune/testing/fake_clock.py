"""A clock for tests that moves only when it is moved."""

from __future__ import annotations


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return its time, ns."""
        return self._now_ns

    def sleep_s(self, seconds: float) -> None:
        """Move it."""
        self._now_ns += round(seconds * 1e9)

    def advance_ns(self, duration_ns: int) -> None:
        """Move it by integer nanoseconds."""
        self._now_ns += duration_ns
