"""Outcomes and latencies of requests, and the cost of decisions, for all stages.

This module imports only the standard library, because processes that run networks import it.

How many background minibatches a policy runs between two batches of requests when they may run on while one fills.

    full            full            full             batches fill in one period each
    | answer | step | step |        |
                    |   answer | step | step | ...   the second step delays the next batch, within the latency budget

A step begins while no full batch waits, and a batch ``spare`` after it is full at the latest. With no time to spare a
step has to fit between two batches, and the whole number k of Fulcrum (2025, section 4) comes out; with as much to
spare as a step takes, no time is lost.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, Union

from edgetune.stats import percentile

if TYPE_CHECKING:
    from edgetune.artifacts.kernel_timeline import KernelTimelineRow
    from edgetune.artifacts.run import RunRow
    from edgetune.artifacts.timeline import TimelineRow

Outcome = Literal["ok", "failed", "abandoned"]
"""Outcome of a request; ``abandoned`` where the run ended, or broke down, before its answer."""


RequestRow = Union["RunRow", "TimelineRow", "KernelTimelineRow"]
"""A row of a request, in a file of any stage: its ``status``, ``reason``, ``arrived_s`` and ``finished_s``."""
Row = TypeVar("Row", "RunRow", "TimelineRow", "KernelTimelineRow")


def group_turns(
    rows: Iterable[Row], name_of: Callable[[Row], str], *, by_turn: bool
) -> Iterator[tuple[str, dict[int, list[Row]]]]:
    """Yield each engine or policy with its rows by turn, in the order of first rows.

    Args:
        rows: Of a run.
        name_of: Returns the engine or policy of a row.
        by_turn: Whether to yield each turn by itself.
    """
    found: dict[str | tuple[str, int], dict[int, list[Row]]] = {}
    for row in rows:
        name = name_of(row)
        found.setdefault((name, row.turn) if by_turn else name, {}).setdefault(row.turn, []).append(row)
    for key, turns in found.items():
        yield key if isinstance(key, str) else key[0], dict(sorted(turns.items()))


class OutcomeCounts(NamedTuple):
    """Numbers of requests by outcome."""

    requests: int
    answered: int
    failed: int
    abandoned: int


def count_outcomes(rows: Sequence[RequestRow]) -> OutcomeCounts:
    """Return the numbers of requests by outcome."""
    statuses = [row.status for row in rows]
    return OutcomeCounts(len(rows), *(statuses.count(status) for status in ("ok", "failed", "abandoned")))


def latencies_s(rows: Iterable[RequestRow]) -> list[float]:
    """Return the latency from arrival to answer of every answered request, s, in the order of the rows."""
    return [row.finished_s - row.arrived_s for row in rows if row.status == "ok" and row.arrived_s is not None]


def percentiles_s(times_s: Sequence[float], *percents: float) -> tuple[float | None, ...]:
    """Return percentiles of latencies, s; each ``None`` without latencies."""
    ordered = sorted(times_s)
    return tuple(percentile(ordered, percent) if ordered else None for percent in percents)


def first_failure(rows: Iterable[RequestRow]) -> str | None:
    """Return the reason of the first failed request; ``None`` without one."""
    return next((row.reason for row in rows if row.status == "failed" and row.reason is not None), None)


@dataclass(slots=True)
class DecisionOverhead:
    """The real-time cost of a policy's decisions.

    Args:
        decisions: Number of decisions.
        decisions_s: Total duration, s.
        longest_s: Longest duration without a pause, s.
    """

    decisions: int = 0
    decisions_s: float = 0.0
    longest_s: float = 0.0

    def add(self, took_s: float, decisions: int = 1) -> None:
        """Add decisions with their total duration, s."""
        self.decisions += decisions
        self.decisions_s += took_s
        self.longest_s = max(self.longest_s, took_s)


_SETTLING, _CYCLES = 16, 128
"""Batches before the mean and over which it is taken: whole steps per batch vary from one to the next."""
_STEPS, _MOST_CYCLES = 32, 4096
"""The mean is taken over the batches that go with so many steps, where that is more, up to a bound."""
_A_WHOLE = 1e-9
"""Rounding error allowed in a whole number of steps."""


def steps_per_batch(period_s: float, answer_s: float, step_s: float, spare_s: float) -> float:
    """Return the mean number of background steps per batch of requests, where none is started that delays one too long.

    Args:
        period_s: Time in which a batch fills, s.
        answer_s: Time that a batch takes, s.
        step_s: Time that a background step takes, s, above zero.
        spare_s: Longest delay of a full batch, s; infinite without a latency budget.
    """
    free_s = max(period_s - answer_s, 0.0)
    if spare_s >= step_s or free_s == 0:
        return free_s / step_s
    cycles = min(max(_CYCLES, math.ceil(_STEPS * step_s / free_s)), _MOST_CYCLES)
    delay_s, steps = 0.0, 0
    for cycle in range(_SETTLING + cycles):
        idle_s = period_s - delay_s - answer_s
        fit = math.floor((idle_s + spare_s) / step_s + _A_WHOLE)
        begin = math.ceil(idle_s / step_s - _A_WHOLE)  # before the next batch is full
        count = max(min(fit, begin), 0)
        delay_s = max(count * step_s - idle_s, 0.0)
        steps += count if cycle >= _SETTLING else 0
    return steps / cycles
