"""The order in which a sweep measures its points, when it stops trying, and what changed between its rounds.

The confidence interval of one visit holds while nothing changes. Between two visits to the same point, minutes apart,
a board may warm up or be used by others; the rounds of a sweep show by how much.

The largest batch size that fits in memory: doubling, then closing in, without trying what is expected not to fit.

memory |                          limit - - - - - - - - - - - - -
       |                        x . too much by the line through the last two: not tried
       |             o    o  o    closing in
       |       o
       |  o o                     1, 2, 4, ... doubling
       +--------------------------------------------------> batch size
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import SAME
from edgetune.errors import InputError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stats import median
from edgetune.units import format_bytes, format_si

GIVE_UP_AFTER = 3
"""Points of one batch size that may fail before any succeeds; then the batch size is considered at fault."""


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


def visits(points: Sequence[Point], rounds: int, seed: int, anchors: Sequence[Point] = ()) -> list[Visit]:
    """Return every visit to every point in the order of measuring: the anchors first, and at the end again.

    One visit each is made in ``loading_order``. Several are made in rounds over all points, so that slow drift of the
    board (heat above all) falls on all points alike and shows as a difference between the rounds. The order of each
    round is random; points that one loading of the network serves stay together, and those groups are shuffled too: to
    mix them as well would load the network for nearly every point, which takes seconds and heats the board by itself.

    Args:
        points: What to measure, each once.
        rounds: How often to visit each.
        seed: Of the order, which so is the same when the sweep is resumed.
        anchors: The points by which boards are compared; they have two rounds at least.
    """
    if rounds == 1:
        others = [Visit(point) for point in loading_order(points) if point not in anchors]
        return [*anchor_visits(anchors, 1), *others, *anchor_visits(anchors, 2)]
    points = list(dict.fromkeys([*points, *anchors]))
    groups = [list(group) for _, group in groupby(loading_order(points), key=_loading)]
    found: list[Visit] = []
    for number in range(1, rounds + 1):
        generator = random.Random(f"{seed} round {number}")
        for group in generator.sample(groups, len(groups)):
            found += [Visit(point, number) for point in generator.sample(group, len(group))]
    first, last = anchor_visits(anchors, 1), anchor_visits(anchors, rounds)
    return [*first, *(visit for visit in found if visit not in first and visit not in last), *last]


def anchor_visits(anchors: Sequence[Point], number: int) -> list[Visit]:
    """Return a round over the anchors."""
    return [Visit(point, number) for point in anchors]


def _loading(point: Point) -> tuple[int, int | None]:
    """Return what the network has to be loaded anew for."""
    return point.batch_size, point.mode.cpu_cores


class Queue:
    """The visits still to be made; a batch size at which every point fails, as when memory is short, moves to the end.

    Args:
        pending: In the order of measuring.
        worked: Batch sizes with a measured point.
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
        """Record whether a point failed."""
        size = point.batch_size
        if not failed:
            self._worked.add(size)
            return
        self._failures[size] += 1
        if self._failures[size] == GIVE_UP_AFTER and size not in self._worked:
            self._pending.sort(key=lambda other: other.point.batch_size == size)  # stable: the others keep their order

    @property
    def hopeless(self) -> bool:
        """Whether no point succeeded and every remaining batch size failed ``GIVE_UP_AFTER`` times."""
        return (
            not self._worked
            and bool(self._pending)
            and all(self._failures[visit.point.batch_size] >= GIVE_UP_AFTER for visit in self._pending)
        )


@dataclass(frozen=True, slots=True)
class PointChange:
    """The widest difference between the rounds of one point, as a share of their median.

    Args:
        minibatch_s: Of the time of a minibatch.
        power_w: Of the mean power; ``None`` where fewer than two rounds have it.
        explained: Whether the 95 % intervals of all rounds have a time in common.
    """

    minibatch_s: float
    power_w: float | None
    explained: bool


def between_rounds(rows: Sequence[ProfileRow]) -> list[PointChange]:
    """Return the changes between the rounds of each point that was measured in two rounds or more."""
    rounds: dict[Point, list[ProfileRow]] = {}
    for row in rows:
        if row.status == "ok" and row.round is not None:
            rounds.setdefault(row.point, []).append(row)
    return [_change(own) for own in rounds.values() if len(own) > 1]


def change_summary(changes: Sequence[PointChange]) -> dict[str, Any]:
    """Return the median and the largest change of time and power, for the header."""
    power = [point.power_w for point in changes if point.power_w is not None]
    return {
        "change_minibatch_s": _summary([point.minibatch_s for point in changes]),
        "change_power_w": _summary(power) if power else None,
    }


def disagreements(changes: Sequence[PointChange], options: ProfileOptions) -> tuple[DataWarning, ...]:
    """Return a warning where rounds differ by more than their intervals explain and the target allows.

    Power has no interval: a difference above the repeatability of boards (``SAME``) counts.
    """
    apart = [
        point
        for point in changes
        if (point.minibatch_s > options.target_ci and not point.explained) or (point.power_w or 0.0) > SAME
    ]
    if not apart:
        return ()
    numbers: dict[str, float] = {"points": len(apart), "points_compared": len(changes)}
    for name, summary in change_summary(changes).items():
        numbers |= {f"{name}_{which}": value for which, value in (summary or {}).items()}
    advice = "the board changed between rounds: cool it (--cool-to), let it warm up first, or see what else runs on it"
    return (DataWarning("rounds-disagree", advice, numbers),)


def _change(rounds: Sequence[ProfileRow]) -> PointChange:
    times_s = [row.minibatch_s for row in rounds if row.minibatch_s is not None]
    powers_w = [row.power_w for row in rounds if row.power_w is not None]
    lows = [row.minibatch_ci95_low_s for row in rounds if row.minibatch_ci95_low_s is not None]
    highs = [row.minibatch_ci95_high_s for row in rounds if row.minibatch_ci95_high_s is not None]
    known = len(lows) == len(highs) == len(rounds)  # too few minibatches have no interval: then nothing is explained
    return PointChange(
        _spread(times_s), _spread(powers_w) if len(powers_w) > 1 else None, known and max(lows) <= min(highs)
    )


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / median(values)


def _summary(shares: Sequence[float]) -> dict[str, float]:
    return {"median": median(shares), "max": max(shares)}


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
