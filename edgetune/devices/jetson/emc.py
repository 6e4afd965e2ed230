"""The memory clock (EMC) as a knob: held at a rate, with a cap that is raised where it is below, and put back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from edgetune.devices.control import Snapshot
from edgetune.devices.jetson.emc_files import EmcFiles
from edgetune.devices.jetson.emc_rate import GRAIN_HZ, LockedRate
from edgetune.devices.jetson.verified_write import BoardFiles, do_all, number_in
from edgetune.errors import DeviceError


class EmcClock:
    """The memory clock and its cap.

    Args:
        files: The board's files.
        where: The memory's among them.
    """

    def __init__(self, files: BoardFiles, where: EmcFiles) -> None:
        self._files = files
        self._where = where

    @property
    def capped_hz(self) -> float:
        """The highest rate that the cap allows now, Hz."""
        cap = self._where.cap
        return float("inf") if cap is None else cap.ceiling(self._files.number(cap.path))

    def snapshot(self) -> Snapshot:
        """Return what holds the rate, and the cap.

        Raises:
            DeviceError: a file cannot be read.
        """
        found = self._where.rate.snapshot(self._files)
        if self._where.cap is not None:
            found[self._where.cap.path] = self._files.read(self._where.cap.path)
        return found

    def meant(self, found: Mapping[str, str]) -> Snapshot:
        """Return a snapshot without the rate, where it says that no lock held it: then it moves by itself.

        A snapshot that was joined from two may hold a rate that only the later one found locked.
        """
        rate = self._where.rate
        if not isinstance(rate, LockedRate) or found.get(rate.lock) == "1":
            return dict(found)
        return {path: value for path, value in found.items() if path != rate.rate}

    def apply(self, hz: int | None, found: Mapping[str, str]) -> None:
        """Hold the memory at a rate, its cap as found or raised to the rate; or put back what was found.

        Args:
            hz: Rate, Hz; ``None`` for as found.
            found: Snapshot.

        Raises:
            DeviceError: a file refused, or the rate was ignored or drifted off; the lock is then as found.
        """
        if hz is None:
            self.restore_found(found)
            return
        self._raise_cap(hz)
        try:
            self._where.rate.hold(self._files, hz)
        except DeviceError:
            with suppress(DeviceError):  # the first error tells more
                self._where.rate.restore(self._files, found)
            raise
        self._cap_as_found(found, at_least_hz=hz)

    def restore_found(self, found: Mapping[str, str]) -> None:
        """Put back what held the rate, then the cap; a locked rate that the present cap is below needs it raised first.

        Raises:
            DeviceError: a file refused, or a value was ignored or clamped; everything else was put back.
        """
        rate = self._where.rate
        steps: list[Callable[[], None]] = []
        if isinstance(rate, LockedRate) and rate.rate in found:
            path = rate.rate
            steps.append(lambda: self._raise_cap(number_in(found, path)))
        steps += [lambda: rate.restore(self._files, found), lambda: self._cap_as_found(found)]
        do_all(*steps)

    def _raise_cap(self, hz: int) -> None:
        cap = self._where.cap
        if cap is not None and self.capped_hz < hz:
            cap.set(self._files, hz)

    def _cap_as_found(self, found: Mapping[str, str], at_least_hz: int = 0) -> None:
        cap = self._where.cap
        if cap is None or cap.path not in found:
            return
        value = number_in(found, cap.path)
        cap.set(self._files, at_least_hz if cap.ceiling(value) < at_least_hz else value)

    def now(self, path: str, value: str) -> str:
        """Return what a file of the board says now: of a locked rate, ``value`` itself when it is that within 1 kHz.

        Raises:
            DeviceError: it cannot be read.
        """
        rate = self._where.rate
        if not isinstance(rate, LockedRate) or path != rate.rate:
            return self._files.read(path)
        now = self._files.number(rate.now)
        return value if value.isdecimal() and abs(now - int(value)) < GRAIN_HZ else str(now)

    def read_hz(self) -> int | None:
        """Return the rate at which the memory is held, as the table has it, Hz; ``None`` when it moves.

        Raises:
            DeviceError: it cannot be read.
        """
        held = self._where.rate.held_hz(self._files)
        near = (hz for hz in self._where.table_hz if held is not None and abs(hz - held) < GRAIN_HZ)
        return next(near, held)
