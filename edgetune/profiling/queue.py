"""The order in which the points of a sweep are measured, and when to stop trying."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from edgetune.artifacts.profile import Point

GIVE_UP_AFTER = 3
"""Points of one batch size that may fail, before any of it has worked, until the batch size is taken to be at fault."""


def loading_order(points: Sequence[Point]) -> list[Point]:
    """Return points so that those of one batch size and number of cores, which one loading serves, are together."""
    sizes = {size: rank for rank, size in enumerate(dict.fromkeys(point.batch_size for point in points))}
    cores = {count: rank for rank, count in enumerate(dict.fromkeys(point.mode.cpu_cores for point in points))}
    return sorted(points, key=lambda point: (sizes[point.batch_size], cores[point.mode.cpu_cores]))


class Queue:
    """Points still to be measured; a batch size at which nothing works, as when memory is short, steps back.

    Args:
        points: In any order.
        worked: Batch sizes that have been measured before.
    """

    def __init__(self, points: Sequence[Point], worked: Iterable[int] = ()) -> None:
        self._pending = loading_order(points)
        self._worked = set(worked)
        self._failures: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._pending)

    def take(self) -> Point:
        """Remove and return the next point."""
        return self._pending.pop(0)

    def note(self, point: Point, *, failed: bool) -> None:
        """Say what came of a point."""
        size = point.batch_size
        if not failed:
            self._worked.add(size)
            return
        self._failures[size] += 1
        if self._failures[size] == GIVE_UP_AFTER and size not in self._worked:
            self._pending.sort(key=lambda other: other.batch_size == size)  # stable: the others keep their order

    @property
    def hopeless(self) -> bool:
        """Whether nothing has worked and every batch size that is left has failed often enough."""
        return (
            not self._worked
            and bool(self._pending)
            and all(self._failures[point.batch_size] >= GIVE_UP_AFTER for point in self._pending)
        )
