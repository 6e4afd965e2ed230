"""A virtual clock for tests."""

from __future__ import annotations


class FakeClock:
    """A clock that only ``sleep_s`` and ``advance_ns`` advance."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return the time, ns."""
        return self._now_ns

    def sleep_s(self, seconds: float) -> None:
        """Advance the clock by seconds."""
        self._now_ns += round(seconds * 1e9)

    def advance_ns(self, duration_ns: int) -> None:
        """Advance the clock by integer nanoseconds."""
        self._now_ns += duration_ns
