"""Throttling while a point is measured: events that spoil it, and slight ones whose rate is told beside it."""

from __future__ import annotations

from edgetune.devices.device import Absent, Device, SlightThrottleCounter


class ThrottleWatch:
    """Compares a device's throttle counters with what they were when the watch began."""

    def __init__(self, device: Device) -> None:
        self._throttle = device.throttle
        self._clock = device.clock
        self._begun_ns = self._clock.now_ns()
        self._slight = self._slight_counts()
        self._before = None if isinstance(self._throttle, Absent) else self._throttle.read()

    def throttled(self) -> bool | None:
        """Whether the device has throttled since; ``None`` where it does not tell."""
        if isinstance(self._throttle, Absent) or self._before is None:
            return None
        return self._throttle.read() > self._before

    def slight(self) -> str | None:
        """Return the rates of slight events since, to one digit as they come in batches; ``None`` without any."""
        elapsed_s = (self._clock.now_ns() - self._begun_ns) / 1e9
        now = self._slight_counts()
        more = {name: now.get(name, before) - before for name, before in self._slight.items()}
        rates = {name: count / elapsed_s for name, count in more.items() if count > 0 and elapsed_s > 0}
        told = ", ".join(f"{name} {float(f'{rate:.0e}'):g}/s" for name, rate in rates.items())
        return f"slight throttling while measured: {told}" if told else None

    def _slight_counts(self) -> dict[str, int]:
        return dict(self._throttle.slight_counts()) if isinstance(self._throttle, SlightThrottleCounter) else {}
