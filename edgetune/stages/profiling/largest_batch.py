"""The largest batch size that fits in memory: doubling, then closing in, without trying what is expected not to fit.

memory |                          limit - - - - - - - - - - - - -
       |                        x . too much by the line through the last two: not tried
       |             o    o  o    closing in
       |       o
       |  o o                     1, 2, 4, ... doubling
       +--------------------------------------------------> batch size
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import InputError
from edgetune.units import format_bytes, format_si

MOST = 1 << 16
"""Largest batch size that is tried."""
LONGEST_S = 10.0
"""No larger batch size is tried once a minibatch takes longer."""
_CLOSE = 32
"""The search ends once what is left to gain is below 1/32."""


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest batch size that fits.

    Args:
        batch_size: It.
        used_bytes: What it used, bytes.
        why: Why none above it.
    """

    batch_size: int
    used_bytes: int
    why: str


def used_bytes(row: ProfileRow, available_bytes: int | None) -> int | None:
    """Return the memory that a point used, bytes: its processes' own, or the machine's if that is more.

    Args:
        row: The point.
        available_bytes: What the machine had before it; ``None`` unless a GPU shares the machine's memory.
    """
    left = row.memory_available_min_bytes
    by_machine = None if available_bytes is None or left is None else available_bytes - left
    found = [used for used in (row.memory_peak_bytes, by_machine) if used is not None]
    return max(found) if row.status == "ok" and found else None


def largest_batch(
    attempt: Callable[[int], tuple[ProfileRow, int | None]], limit_bytes: int, on_attempt: Callable[[str], None]
) -> Largest:
    """Return the largest batch size whose memory stays within a limit, to 1/32.

    Args:
        attempt: Measures a batch size; returns its row, and the memory it used in bytes if it ran.
        limit_bytes: The most that it may use.
        on_attempt: Told a sentence on each attempt.

    Raises:
        InputError: batch size 1 fails or does not fit, or its memory is unknown.
    """
    fits: list[tuple[int, int]] = []
    size, above, why = 1, MOST + 1, f"larger than {MOST} is not tried"
    while True:
        row, used = attempt(size)
        if used is None or used > limit_bytes:
            above = size
            why = f"{size} needs {format_bytes(used)}" if used is not None else f"{size}: {row.reason or row.status}"
            on_attempt(f"batch size {why}")
        else:
            fits.append((size, used))
            on_attempt(f"batch size {size}: {format_bytes(used)} of {format_bytes(limit_bytes)}")
            if row.minibatch_s is not None and row.minibatch_s > LONGEST_S:
                return Largest(size, used, f"a minibatch of {size} takes {format_si(row.minibatch_s, 's')} already")
        if not fits:
            raise InputError(f"batch size 1 does not fit in {format_bytes(limit_bytes)}: {why}", "give it more memory")
        last, last_used = fits[-1]
        size, room = 2 * last, _room(fits, limit_bytes)
        if room < min(size, above - 1):
            size, why = room, f"{room + 1} would need more than {format_bytes(limit_bytes)}"
        elif size >= above:
            size = (last + above) // 2
        if size <= last + last // _CLOSE:
            return Largest(last, last_used, why)


def _room(fits: Sequence[tuple[int, int]], limit_bytes: int) -> int:
    """Return the batch size that reaches the limit, by the line through the last two."""
    if len(fits) == 1:
        return MOST
    (before, before_used), (last, last_used) = fits[-2:]
    each_bytes = max((last_used - before_used) / (last - before), 1.0)
    return min(last + int((limit_bytes - last_used) / each_bytes), MOST)
