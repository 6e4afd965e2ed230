"""The order in which the points of a sweep are measured, and when to stop trying."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from edgetune.artifacts.profile import Point

GIVE_UP_AFTER = 3
"""Points of one batch size that may fail, before any of it has worked, until the batch size is taken to be at fault."""


def loading_order(points: Sequence[Point]) -> list[Point]:
    """Return points so that those of one batch size and number of cores, which one loading serves, are together."""
    sizes = {size: rank for rank, size in enumerate(dict.fromkeys(point.batch_size for point in points))}
    cores = {count: rank for rank, count in enumerate(dict.fromkeys(point.mode.cpu_cores for point in points))}
    return sorted(points, key=lambda point: (sizes[point.batch_size], cores[point.mode.cpu_cores]))


@dataclass(frozen=True, slots=True)
class Visit:
    """One measurement of a point; ``round`` counts from 1, and is ``None`` where every point is visited once."""

    point: Point
    round: int | None = None


def visits(points: Sequence[Point], rounds: int, seed: int) -> list[Visit]:
    """Return every visit to every point in the order of measuring.

    One visit each is made in ``loading_order``. Several are made in rounds over all points, so that slow drift of the
    board (heat above all) falls on all points alike and shows as a difference between the rounds. The order of each
    round is random; points that one loading of the network serves stay together, and those groups are shuffled too: to
    mix them as well would load the network for nearly every point, which takes seconds and heats the board by itself.

    Args:
        points: What to measure, each once.
        rounds: How often to visit each.
        seed: Of the order, which so is the same when the sweep is resumed.
    """
    if rounds == 1:
        return [Visit(point) for point in loading_order(points)]
    groups = [list(group) for _, group in groupby(loading_order(points), key=_loading)]
    found: list[Visit] = []
    for number in range(1, rounds + 1):
        generator = random.Random(f"{seed} round {number}")
        for group in generator.sample(groups, len(groups)):
            found += [Visit(point, number) for point in generator.sample(group, len(group))]
    return found


def _loading(point: Point) -> tuple[int, int | None]:
    """Return what the network has to be loaded anew for."""
    return point.batch_size, point.mode.cpu_cores


class Queue:
    """Visits still to be made; a batch size at which nothing works, as when memory is short, steps back.

    Args:
        pending: In the order of measuring.
        worked: Batch sizes that have been measured before.
    """

    def __init__(self, pending: Sequence[Visit], worked: Iterable[int] = ()) -> None:
        self._pending = list(pending)
        self._worked = set(worked)
        self._failures: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._pending)

    def take(self) -> Visit:
        """Remove and return the next visit."""
        return self._pending.pop(0)

    def note(self, point: Point, *, failed: bool) -> None:
        """Say what came of a point."""
        size = point.batch_size
        if not failed:
            self._worked.add(size)
            return
        self._failures[size] += 1
        if self._failures[size] == GIVE_UP_AFTER and size not in self._worked:
            self._pending.sort(key=lambda other: other.point.batch_size == size)  # stable: the others keep their order

    @property
    def hopeless(self) -> bool:
        """Whether nothing has worked and every batch size that is left has failed often enough."""
        return (
            not self._worked
            and bool(self._pending)
            and all(self._failures[visit.point.batch_size] >= GIVE_UP_AFTER for visit in self._pending)
        )
