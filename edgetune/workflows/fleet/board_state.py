"""The state of each board of a sweep, and the modes that wait for one."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.profiling.queue import Visit

TRIES = 2
"""Boards on which a mode may fail before it counts as failed, and failures in a row before a board is left out."""
Batch: TypeAlias = tuple[Visit, ...]
"""The visits of one mode in one round, which one request measures."""


@dataclass(slots=True)
class BoardState:
    """What is known of a board.

    Args:
        name: Of the board.
        worker: The address of its worker, which changes when the worker dies.
        doing: ``describe``, ``first``, ``mode``, ``last``; empty while it waits.
        described: Whether it has said which points the options select.
        batch: What it measures now.
        ready: Whether it has measured the first anchors, and returned what its journal has.
        last: Whether it has measured the last anchors.
        out: Why it gets no work; empty while it does.
        off: Whether its figures are beyond the tolerance, so that its rows do not count.
        errors: Failures in a row.
        seen_s: When it was there last, s; see ``here``.
        points: Visits measured.
        failed: Visits failed.
    """

    name: str
    worker: str
    doing: str = ""
    described: bool = False
    batch: tuple[Visit, ...] = ()
    ready: bool = False
    last: bool = False
    out: str = ""
    off: bool = False
    errors: int = 0
    seen_s: float = 0.0
    points: int = 0
    failed: int = 0

    def __str__(self) -> str:
        """Return what it does, for people."""
        now = self.out or {"first": "first anchors", "last": "last anchors", "describe": "begins"}.get(self.doing, "")
        now = now or (str(self.batch[0].point) if self.batch else "idle")
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.name}: {self.points} done{failed}: {now}"


@dataclass(slots=True)
class Waiting:
    """The modes that wait for a board, each with the boards on which it has failed."""

    batches: deque[Batch] = field(default_factory=deque)
    tried: dict[Batch, list[str]] = field(default_factory=dict)

    def take(self, board: str, *, alone: bool) -> Batch | None:
        """Remove and return the first mode that has not failed on this board; any mode if the board is alone."""
        for place, batch in enumerate(self.batches):
            if alone or board not in self.tried.get(batch, ()):
                del self.batches[place]
                return batch
        return None

    def failed(self, batch: Batch, board: str, *, alone: bool) -> bool:
        """Record a failure; return whether the mode has failed for good."""
        boards = self.tried.setdefault(batch, [])
        boards.append(board)
        return len(boards if alone else set(boards)) >= TRIES


def attempt_of(row: ProfileRow) -> tuple[Any, ...]:
    """Return what tells a row from all others of a sweep, however often a journal gives it."""
    return row.board, row.point, row.round, row.started, row.status


def batches_of(order: Sequence[Visit]) -> Iterable[Batch]:
    """Return the visits of one mode and round together, the modes in the order of their first visit."""
    rank = {key: place for place, key in enumerate(dict.fromkeys(map(_of, order)))}
    ordered = sorted(order, key=lambda visit: rank[_of(visit)])
    return [tuple(group) for _, group in groupby(ordered, key=_of)]


def _of(visit: Visit) -> tuple[Any, ...]:
    return (visit.round, visit.point.mode)
