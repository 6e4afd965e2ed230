"""A clock's lower and upper limit, two files of which each kernel asks another order.

    Linux 4.9    lower > upper is EINVAL at any moment, so the limit that makes room goes first
    from 5.5 on  never refused: the lower is pulled down to the upper, but the request is remembered and comes back
                 when the upper rises; so both are always written, and the order of 4.9 leaves no such request behind

Source: OE4T/linux-tegra-4.9 drivers/devfreq/devfreq.c and cpufreq of that kernel; PM QoS of Linux 5.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from edgetune.devices.jetson.verified_write import BoardFiles, do_all, not_kept, number_in
from edgetune.errors import DeviceError


@dataclass(frozen=True, slots=True)
class ClockLimits:
    """What a clock may not go below and above, in the unit of its files; equal limits pin it."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


@dataclass(frozen=True, slots=True)
class LimitFiles:
    """Where a clock's limits are.

    Args:
        low: File of the lower limit.
        high: File of the upper one.
        grain: The kernel keeps multiples of this: 1000 Hz for devfreq from Linux 5.5 on, which rounds outwards.
    """

    low: str
    high: str
    grain: int = 1

    @property
    def paths(self) -> tuple[str, str]:
        """Both files, in the order in which a snapshot lists them."""
        return self.low, self.high

    def in_snapshot(self, found: Mapping[str, str]) -> ClockLimits | None:
        """Return the limits that a snapshot holds, ``None`` when it does not hold both.

        Raises:
            DeviceError: it holds no numbers there.
        """
        if self.low not in found or self.high not in found:
            return None
        return ClockLimits(number_in(found, self.low), number_in(found, self.high))


def read_limits(files: BoardFiles, pair: LimitFiles) -> ClockLimits:
    """Return the limits as they are now.

    Raises:
        DeviceError: a file cannot be read.
    """
    return ClockLimits(files.number(pair.low), files.number(pair.high))


def set_limits(files: BoardFiles, pair: LimitFiles, wanted: ClockLimits) -> None:
    """Set both limits unless they are in place, in an order that no kernel refuses, and read them back.

    Raises:
        DeviceError: a limit was refused, ignored or clamped (the other is set all the same, so that as much as possible
            is put back), or the upper one is no limit at all.
    """
    before = read_limits(files, pair)
    if before == wanted:
        return
    if wanted.high <= 0:
        raise DeviceError(f"/{pair.high} is never set to {wanted.high}", "Linux 4.9 would keep it as a clock of 0")
    steps = ((pair.high, wanted.high, before.high), (pair.low, wanted.low, before.low))
    ordered = steps if wanted.high >= before.low else tuple(reversed(steps))
    do_all(*(partial(_set_one, files, path, value, was, pair.grain) for path, value, was in ordered))


def _set_one(files: BoardFiles, path: str, value: int, was: int, grain: int) -> None:
    files.write(path, str(value))
    now = files.number(path)
    if abs(now - value) >= grain:
        raise not_kept(path, str(value), str(was), str(now))


def pinned(limits: ClockLimits, pair: LimitFiles, table: Sequence[int]) -> int | None:
    """Return the clock that limits hold, as the table has it; ``None`` when they leave a range."""
    if limits.high - limits.low > 2 * (pair.grain - 1):
        return None
    return next((entry for entry in table if abs(entry - limits.low) < pair.grain), limits.low)


def snapshot_limits(files: BoardFiles, pair: LimitFiles) -> dict[str, str]:
    """Return both limits as text, to be put back.

    Raises:
        DeviceError: one cannot be read, or is one that cannot be written back.
    """
    limits = read_limits(files, pair)
    if limits.high <= 0:
        raise DeviceError(
            f"/{pair.high} reads {limits.high}, which could not be put back",
            "write a clock of the table to it first, e.g. with sudo nvpmodel -m and the present mode",
        )
    return dict(zip(pair.paths, (str(limits.low), str(limits.high)), strict=True))
