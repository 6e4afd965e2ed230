"""The rule that combines several rows of one point into one.

A table may have several rows of one point for three reasons:

    an attempt that throttled, drifted, swapped or failed, before one that did not     the measurement stands
    a point measured again later                                              the newest measurement stands
    rounds of one sweep (``--interleave-repeats``), all of equal standing     the median of the rounds that are ``ok``

With two rounds the median is their mean; from three on, a round that something disturbed does not move it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.profile import RAW_COLUMNS, Point, ProfileRow
from edgetune.artifacts.row_figures import mean_minibatch_s
from edgetune.stats import median

SAME = 0.03
"""Share by which two measurements of one point may differ: boards repeat to 2 to 3 %."""

_DIGITS = 6
"""Knob values that agree to a millionth are the same: tables are written with more and with fewer digits."""

PointKey: TypeAlias = tuple[str, str, int, tuple[float | str | None, ...]]
"""What is equal for two spellings of one point."""

_MIDDLE = (
    "minibatch_s", "power_w", "energy_j", "minibatch_p95_s", "temp_start_c", "duration_s", "own_value", "ttft_s",
    "ttft_p95_s", "ttft_p99_s", "token_s", "token_p95_s", "token_p99_s", "prompt_tokens", "output_tokens",
    "tokens_per_s", "own_ttft_s", "own_token_s", "bunched_share", "build_s", "engine_bytes", "minibatch_mean_s",
)  # fmt: skip
_LOWEST = ("minibatch_ci95_low_s", "memory_available_min_bytes")
_HIGHEST = (
    "power_peak_w", "temp_max_c", "minibatch_ci95_high_s", "others_cpu_share", "memory_peak_bytes",
    "memory_device_bytes", "cpu_throttled_share",
)  # fmt: skip
_SUMS = ("minibatches", "warmups", "power_samples", "swap_in_bytes")
_SUMMARIES: tuple[tuple[tuple[str, ...], Callable[[list[Any]], Any]], ...] = (
    (_MIDDLE, median), (_LOWEST, min), (_HIGHEST, max), (_SUMS, sum),
)  # fmt: skip
_RAW: Mapping[str, Any] = dict.fromkeys((*RAW_COLUMNS, "power_from_s", "round"))


@dataclass(frozen=True, slots=True)
class OnePerPoint:
    """The rows of a table, one per point.

    Args:
        by_point: The row that stands for each point, in the order of the table.
        ignored: Number of unused measurements; failed attempts are not counted.
        disagreeing: Number of these that differ from the newest by more than ``SAME``.
    """

    by_point: Mapping[PointKey, ProfileRow]
    ignored: int
    disagreeing: int

    @property
    def rows(self) -> tuple[ProfileRow, ...]:
        """The rows alone."""
        return tuple(self.by_point.values())


def one_per_point(rows: Iterable[ProfileRow]) -> OnePerPoint:
    """Return the row of each point of a table by the rule above.

    The newer of two rows is the one started last if both have a start, else the later one in the table.
    """
    by_point: dict[PointKey, ProfileRow] = {}
    ignored = disagreeing = 0
    for key, group in rows_by_point(rows).items():
        used = standing(group)
        by_point[key] = together(used)
        left = [row for row in group if row.status == "ok" and all(row is not other for other in used)]
        ignored += len(left)
        disagreeing += sum(disagree(row, used[-1]) for row in left)
    return OnePerPoint(by_point, ignored, disagreeing)


def rows_by_point(rows: Iterable[ProfileRow]) -> dict[PointKey, list[ProfileRow]]:
    """Return all rows of each point, in the order of the table."""
    groups: dict[PointKey, list[ProfileRow]] = {}
    for row in rows:
        groups.setdefault(point_key(row.point), []).append(row)
    return groups


def point_key(point: Point) -> PointKey:
    """Return a key that is equal for all spellings of one point."""
    return point.workload, point.task, point.batch_size, knob_key(point.mode)


def knob_key(mode: Mode) -> tuple[float | str | None, ...]:
    """Return a key that is equal for all spellings of one mode: a value per knob, and the name."""
    knobs = mode.knobs()
    return (*(round(float(knobs[knob]), _DIGITS) if knob in knobs else None for knob in KNOBS), mode.power_mode)


def standing(rows: Sequence[ProfileRow]) -> list[ProfileRow]:
    """Return the counted rows of one point, newest last: the newest row, with the other rounds of its sweep."""
    oldest_first = sorted(rows, key=lambda row: row.started or "")
    measured = [row for row in oldest_first if row.status == "ok"]
    if not measured or measured[-1].round is None:
        return [(measured or oldest_first)[-1]]
    measured = [row for row in measured if row.board == measured[-1].board]
    rounds = {row.round: row for row in measured if row.round is not None}
    return [row for row in measured if row.round is not None and rounds[row.round] is row]


def together(rounds: Sequence[ProfileRow]) -> ProfileRow:
    """Combine rounds of one point into one row without raw values; return a single row unchanged.

    The interval spans those of all rounds, and so includes changes between rounds.
    """
    newest = rounds[-1]
    if len(rounds) == 1:
        return newest
    merged: dict[str, Any] = dict(_RAW)
    for names, summary in _SUMMARIES:
        for name in names:
            read = mean_minibatch_s if name == "minibatch_mean_s" else attrgetter(name)
            values = [value for row in rounds if (value := read(row)) is not None]
            merged[name] = summary(values) if values else None
    return replace(newest, reason=next((row.reason for row in rounds if row.reason), None), **merged)


def disagree(a: ProfileRow, b: ProfileRow) -> bool:
    """Return whether two measurements of one point differ by more than the tolerance."""
    pairs = ((a.minibatch_s, b.minibatch_s), (a.power_w, b.power_w))
    both = a.status == b.status == "ok"
    return both and any(x and y and abs(x - y) > SAME * max(abs(x), abs(y)) for x, y in pairs)
