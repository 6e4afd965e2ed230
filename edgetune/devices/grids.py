"""Grids of power modes: evenly spaced levels of every knob, about as many modes as asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from edgetune.artifacts.mode import Mode


def evenly_spaced(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Return ``count`` of ``values``, evenly by index and both ends included; all of them when there are fewer.

    One value is the last: the highest of an ascending table.
    """
    if count >= len(values):
        return tuple(values)
    if count == 1:
        return (values[-1],)
    return tuple(values[round(i * (len(values) - 1) / (count - 1))] for i in range(count))


def modes_of(levels: Mapping[str, Sequence[float]]) -> list[Mode]:
    """Return every combination of the levels, the last knob varying fastest."""
    return [Mode.of(dict(zip(levels, values, strict=True))) for values in product(*levels.values())]


def grid_levels(knobs: Mapping[str, Sequence[float]], count: int) -> dict[str, tuple[float, ...]]:
    """Return levels per knob whose combinations number ``count`` or as little below it as can be.

    First every knob gets its fair share: with ``b`` the largest number of levels that every knob could have at once, no
    knob gets fewer than ``b / 2``, and both its ends where ``b`` allows two. Among those choices the largest product
    wins, then the most even one, then the one with more levels for the earlier knobs.
    """
    sizes = [len(values) for values in knobs.values()]
    fair = _fair_share(sizes, count)
    least = [min(size, fair, max(2, fair // 2)) for size in sizes]
    best = max(_choices(sizes, least, count), key=lambda choice: (math.prod(choice), sorted(choice), choice))
    return {knob: evenly_spaced(values, levels) for (knob, values), levels in zip(knobs.items(), best, strict=True)}


def _fair_share(sizes: Sequence[int], count: int) -> int:
    fair = 1
    while fair < max(sizes, default=1) and math.prod(min(size, fair + 1) for size in sizes) <= count:
        fair += 1
    return fair


def _choices(sizes: Sequence[int], least: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of levels per knob whose product stays within ``count``; the last knob takes what is left."""
    if not sizes:
        yield ()
    elif len(sizes) == 1:
        if count >= least[0]:
            yield (min(sizes[0], count),)
    else:
        rest_least = math.prod(least[1:])
        for levels in range(least[0], min(sizes[0], count // rest_least) + 1):
            yield from ((levels, *rest) for rest in _choices(sizes[1:], least[1:], count // levels))
