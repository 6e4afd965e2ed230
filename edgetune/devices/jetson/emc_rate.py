"""Two ways of holding a memory rate: a lock of the firmware, or equal limits. Neither is believed at once.

The firmware may ignore a rate although the write succeeds, and some boards drift off the rate later. Sources:
drivers/firmware/tegra/bpmp-debugfs.c of Linux; NVIDIA's jetson_clocks for the order of the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from edgetune.devices.control import Snapshot
from edgetune.devices.jetson.limits import ClockLimits, LimitFiles, pinned, read_limits, set_limits, snapshot_limits
from edgetune.devices.jetson.verified_write import BoardFiles, do_all, number_in
from edgetune.errors import DeviceError

_LOOKS, _LOOK_S = 5, 0.2
"""A rate is looked at five times in one second: settling takes 50 to 200 ms, and drift was seen within the second."""
GRAIN_HZ = 1000
"""The firmware lists its rates in kHz."""
_ADVICE = "the firmware does not hold this rate: choose another; it has fewer under a device tree of another module"


@dataclass(frozen=True, slots=True)
class LockedRate:
    """A memory rate held by a lock.

    Args:
        lock: 1 holds the rate.
        rate: Takes a rate, Hz.
        now: Tells the rate.
        helpers: Set to 1, in this order, only where the rate does not hold without.
    """

    lock: str
    rate: str
    now: str
    helpers: tuple[str, ...]

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return (self.rate, self.lock, *self.helpers)

    def snapshot(self, files: BoardFiles) -> Snapshot:
        """Return the lock and what helps it, and the rate only if it is locked: else it moves by itself.

        Raises:
            DeviceError: one cannot be read.
        """
        locked = files.read(self.lock)
        found: Snapshot = {self.rate: files.read(self.now)} if locked == "1" else {}
        helpers = reversed(self.helpers)
        return {**found, **{path: files.read(path) for path in helpers}, self.lock: locked}

    def held_hz(self, files: BoardFiles) -> int | None:
        """Return the rate, Hz, if it is locked."""
        return files.number(self.now) if files.read(self.lock) == "1" else None

    def hold(self, files: BoardFiles, hz: int) -> None:
        """Lock the rate, and see that it holds.

        Raises:
            DeviceError: a file refused, or the rate was ignored or drifted off.
        """
        held = self.held_hz(files)
        if held is not None and abs(held - hz) < GRAIN_HZ:
            return
        files.set(self.lock, "1")
        files.write(self.rate, str(hz))
        trouble = _trouble(files, self.now, hz)
        if trouble and self.helpers:
            for helper in self.helpers:
                files.set(helper, "1")
            files.write(self.rate, str(hz))
            trouble = _trouble(files, self.now, hz)
        if trouble:
            raise DeviceError(f"/{self.rate} was set to {hz} but {trouble}", _ADVICE)

    def restore(self, files: BoardFiles, found: Mapping[str, str]) -> None:
        """Put the rate back if it was locked, then what helped, then the lock.

        Raises:
            DeviceError: a file refused, or the rate was ignored; everything else was put back.
        """
        steps: list[Callable[[], None]] = []
        if found.get(self.lock) == "1" and self.rate in found:
            steps.append(lambda: self.hold(files, number_in(found, self.rate)))
        for path in (*reversed(self.helpers), self.lock):
            if path in found:
                steps.append(partial(files.set, path, found[path]))
        do_all(*steps)


@dataclass(frozen=True, slots=True)
class LimitedRate:
    """A memory rate held by equal limits of a devfreq folder.

    Args:
        limits: Lower and upper limit, Hz.
        now: Tells the rate.
    """

    limits: LimitFiles
    now: str

    @property
    def settable(self) -> tuple[str, ...]:
        """Files that are written."""
        return self.limits.paths

    def snapshot(self, files: BoardFiles) -> Snapshot:
        """Return the limits.

        Raises:
            DeviceError: one cannot be read.
        """
        return snapshot_limits(files, self.limits)

    def held_hz(self, files: BoardFiles) -> int | None:
        """Return the rate, Hz, that the limits hold."""
        return pinned(read_limits(files, self.limits), self.limits, ())

    def hold(self, files: BoardFiles, hz: int) -> None:
        """Set both limits to the rate, and see that it holds.

        Raises:
            DeviceError: a limit was refused, ignored or clamped, or the rate is another.
        """
        if self.held_hz(files) == hz:
            return
        set_limits(files, self.limits, ClockLimits(hz, hz))
        trouble = _trouble(files, self.now, hz)
        if trouble:
            raise DeviceError(f"/{self.limits.high} was set to {hz} but {trouble}", _ADVICE)

    def restore(self, files: BoardFiles, found: Mapping[str, str]) -> None:
        """Put the limits back.

        Raises:
            DeviceError: one was refused, ignored or clamped.
        """
        limits = self.limits.in_snapshot(found)
        if limits is not None:
            set_limits(files, self.limits, limits)


def _trouble(files: BoardFiles, path: str, hz: int) -> str:
    """Return what is wrong with a rate during the second after it was set, empty when it holds."""
    for look in range(_LOOKS):
        files.sleep(_LOOK_S)
        now = files.number(path)
        if abs(now - hz) >= GRAIN_HZ:
            how = "ignored" if look == 0 else f"it drifted off after {look * _LOOK_S:.1f} s"
            return f"/{path} reads {now}: {how}"
    return ""
