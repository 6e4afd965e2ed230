"""The parameters of paging, fitted to what runs under a memory limit took; for ``schedule_paging.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.stages.schedule.machine import Paging


@dataclass(frozen=True, slots=True)
class Observation:
    """How long something took under a limit.

    Args:
        held_bytes: What was held.
        limit_bytes: What could be in memory.
        touched_bytes: What it went through.
        alone_s: What it takes where everything fits, s.
        took_s: What it took, s.
    """

    held_bytes: int
    limit_bytes: int
    touched_bytes: int
    alone_s: float
    took_s: float


_MOST_THRASH = 10.0
_THRASH_STEPS = 90
"""Tried from 1 to 10 by tenths: with 10, a tenth too much held means that nothing is found in memory."""
_ROUNDING = 1e-9
"""Share of what there is to explain below which a difference is an error of rounding."""


def fit_paging(observations: Sequence[Observation]) -> Paging:
    """Return the parameters that explain observations best (least squares of the extra time).

    For each thrash there is a best time per byte in closed form, sum(x y) / sum(x x) with x the bytes that were gone
    and y the extra time; the thrash is the one of a row that leaves the least. While something is still found in
    memory only the product of both parameters shows: unless observations are there in which nothing was, the thrash is
    1, and the time per byte takes all of it.

    Raises:
        ValueError: in none of them was more held than fits, so that they say nothing.
    """
    if not any(each.held_bytes > each.limit_bytes and each.touched_bytes for each in observations):
        raise ValueError("no observation of more being held than fits")
    steps = [1 + (_MOST_THRASH - 1) * step / _THRASH_STEPS for step in range(_THRASH_STEPS + 1)]
    fitted = [_fit_time(observations, thrash) for thrash in steps]
    total = sum((each.took_s - each.alone_s) ** 2 for each in observations)
    enough = min(left for left, _ in fitted) + _ROUNDING * total
    return next(paging for left, paging in fitted if left <= enough)


def _fit_time(observations: Sequence[Observation], thrash: float) -> tuple[float, Paging]:
    guess = Paging(1.0, thrash)
    gone = [guess.extra_s(each.touched_bytes, each.held_bytes, each.limit_bytes) for each in observations]
    extra_s = [each.took_s - each.alone_s for each in observations]
    s_per_byte = sum(x * y for x, y in zip(gone, extra_s, strict=True)) / sum(x * x for x in gone)
    s_per_byte = max(s_per_byte, 0.0)  # a limit makes nothing faster
    left = sum((y - s_per_byte * x) ** 2 for x, y in zip(gone, extra_s, strict=True))
    return left, Paging(s_per_byte, thrash)
