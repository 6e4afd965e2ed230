"""A sweep over boards: what each of them does next, and what becomes of a board or a mode that fails.

A board first says which points the options select on it; all boards of a sweep say the same. It then measures the
anchors, and returns whatever its journal has of this sweep. Then it gets one mode after the other, and at the end the
anchors again. A mode whose board died or failed goes to another board, and counts as failed when two have failed.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgetune.artifacts.header import Header
from edgetune.artifacts.io import profile_of_bytes
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow
from edgetune.artifacts.repeats import first_difference, merged
from edgetune.errors import DeviceError, InputError, PartialError
from edgetune.stages.profiling.boards import BoardFactors, choose_anchors, compare_boards
from edgetune.stages.profiling.queue import Visit, anchor_visits, visits
from edgetune.workflows.fleet.client import (
    TRIES,
    Batch,
    Boards,
    BoardState,
    Reply,
    Waiting,
    attempt_of,
    batches_of,
    none_joined,
)
from edgetune.workflows.fleet.task import to_point, visits_of

GONE_S = 60.0
"""How long a board may be away before its mode goes to another one."""
_ALONE_S = 600.0
"""How long a sweep waits for a board when none is left."""
_LOOK_S = 2.0
_WAIT_S = 0.5


@dataclass(slots=True)
class FleetSweep:
    """A sweep over boards.

    Args:
        fleet: The boards.
        request: What every request has: the options, the files by hash and the id of the sweep.
        send: Sends an absent file to a board, by its hash; returns the reply.
        anchors: How many anchors each board measures; 0 for none.
        rounds, seed: See ``visits``.
        tolerance: See ``compare_boards``.
        note: Reports a sentence.
        on_done: Called with each row that is new.
        now_s: The clock, s.
    """

    fleet: Boards
    request: Mapping[str, Any]
    send: Callable[[str, str], Mapping[str, Any]] = lambda _board, _sha256: {}
    anchors: int = 3
    rounds: int = 1
    seed: int = 0
    tolerance: float = 0.1
    note: Callable[[str], None] = lambda _: None
    on_done: Callable[[FleetSweep, ProfileRow], None] = lambda _sweep, _row: None
    now_s: Callable[[], float] = time.monotonic
    boards: dict[str, BoardState] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    header: Header | None = None
    identity: str = ""
    tables: list[Profile] = field(default_factory=list)
    done: dict[Visit, set[str]] = field(default_factory=dict)
    rows: dict[Visit, ProfileRow] = field(default_factory=dict)
    _given_up: dict[Visit, ProfileRow] = field(default_factory=dict)
    _anchors: list[Point] = field(default_factory=list)
    _waiting: Waiting = field(default_factory=Waiting)
    _seen: set[tuple[Any, ...]] = field(default_factory=set)
    _looked_s: float = float("-inf")
    _alone_s: float | None = None
    _error: str = ""
    _hint: str = ""
    _free: dict[str, BoardState] = field(default_factory=dict)
    _opened: bool = False
    _begun: bool = False

    def open(self, patience_s: float = 0.0) -> Header:
        """Wait until a board has described the points; return the header of what it would measure.

        Args:
            patience_s: How long to wait for a board.

        Raises:
            DeviceError: no board has joined, or none can measure this.
            InputError: the boards are of two kinds.
        """
        give_up_s = self.now_s() + patience_s
        self._look()
        while not self.boards and self.now_s() < give_up_s:
            self._take_replies()  # none come: it waits
            self._look()
        if not self.boards:
            raise none_joined()
        while any(not (each.described or each.out) and self._here(each) for each in self.boards.values()):
            self._give()
            self._take_replies()
            self._look()
        if self.header is None:
            raise DeviceError(f"no board of the fleet can measure this: {self._error}", self._hint)
        self._opened = True
        self._anchors = choose_anchors(self.points, self.anchors) if self.anchors else []
        return self.header

    def begin(self) -> list[ProfileRow]:
        """Measure the first anchors on every board; return these rows, and all others in the boards' journals.

        Raises:
            PartialError, LostSchedulerError: see ``run``.
        """
        while not self._begun:
            self._turn()
        return [row for table in self.tables for row in table.rows if self._counts(row.board)]

    def add(self, visits_: Sequence[Visit]) -> None:
        """Have some board make each of these visits as soon as it can."""
        self._waiting.batches.extend((visit,) for visit in visits_)
        self._give()

    def wait_for(self, visit: Visit) -> ProfileRow:
        """Return the row of a visit once a board has made it.

        Raises:
            PartialError, LostSchedulerError: see ``run``.
        """
        while visit not in self.rows:
            self._turn()
        return self.rows[visit]

    def factors(self) -> dict[str, BoardFactors]:
        """Return how each board compares, from the anchors so far."""
        rows = [row for table in self.tables for row in table.rows if row.board is not None and row.status == "ok"]
        return compare_boards(rows, self.tolerance)[1] if rows else {}

    def _counts(self, board: str | None) -> bool:
        return board not in self.boards or not self.boards[board].off

    def _turn(self, *, closing: bool = False) -> None:
        """Give out work, take replies, and look who is there."""
        self._give(closing=closing)
        self._take_replies()
        self._look()
        self._check_alone()

    def run(self, points: Sequence[Point]) -> list[Profile]:
        """Measure the points and return the tables of all boards.

        Raises:
            PartialError: no board is left.
            LostSchedulerError: the scheduler cannot be reached.
        """
        order = visits([point for point in points if point not in self._anchors], self.rounds, self.seed)
        left = order
        while True:
            self._waiting.batches.extend(batches_of([visit for visit in left if not self._measured(visit)]))
            while self._waiting.batches or self._busy():
                self._turn(closing=True)
            self._leave_out()
            left = [visit for visit in order if not self._measured(visit) and visit not in self._given_up]
            if not left:
                return [*self.tables, *self._failures()]

    def _measured(self, visit: Visit) -> bool:
        return any(not self.boards[board].off for board in self.done.get(visit, ()))

    def stop(self) -> None:
        """Forget what is under way; the boards finish the mode that they measure."""
        for board in self.boards:
            self.fleet.forget(board)

    def _busy(self) -> bool:
        """Return whether a board works, has its last anchors before it, or is expected back with its journal."""
        if any(each.doing for each in self.boards.values() if each.name not in self._free):
            return True
        due = (each for each in self._free.values() if not each.ready or (self._anchors and not each.last))
        return any(self._here(each) for each in due)

    def _here(self, board: BoardState) -> bool:
        return self.now_s() - board.seen_s < GONE_S

    def _look(self) -> None:
        """Look which boards are there, at most every ``_LOOK_S``; have new ones describe the points."""
        now_s = self.now_s()
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        for name, facts in self.fleet.present().items():
            board = self.boards.get(name)
            if board is None:
                board = self.boards[name] = self._free[name] = BoardState(name, str(facts["worker"]))
            elif board.worker != facts["worker"]:  # its worker has died or left; the journal may have more
                board.worker, board.ready = str(facts["worker"]), False
            board.seen_s = now_s
        for board in self.boards.values():
            if board.doing and not self._here(board):
                self.fleet.forget(board.name)
                self.note(f"board {board.name} has gone; what it has measured is in its journal")
                self._put_back(board)

    def _ask(self, board: BoardState, doing: str, request: Mapping[str, Any], batch: Batch = ()) -> None:
        board.doing, board.batch = doing, batch
        self._free.pop(board.name, None)
        about = str(batch[0].point) if batch else doing
        self.fleet.ask(board.name, {**self.request, **request, "about": about, "visits": visits_of(batch)})

    def _give(self, *, closing: bool = False) -> None:
        """Give work to every board that waits for some; when ``closing``, the last anchors to those without."""
        if self._opened and not self._begun and self._compared():
            self._begun = True
            self._leave_out()
        for board in list(self._free.values()):
            if not self._here(board):
                continue
            if not board.described:
                self._ask(board, "describe", {"do": "describe"})
            elif not self._opened:
                continue
            elif not board.ready:
                self._ask(board, "first", {"do": "measure", "all": True}, tuple(anchor_visits(self._anchors, 1)))
            elif batch := self._next(board):
                self._ask(board, "mode", {"do": "measure"}, batch)
            elif closing and self._anchors and not board.last and not self._waiting.batches:
                self._ask(board, "last", {"do": "measure"}, tuple(anchor_visits(self._anchors, max(self.rounds, 2))))

    def _compared(self) -> bool:
        """Return whether every board has measured its first anchors, so that an odd one is known."""
        return all(each.ready or each.out or not self._here(each) for each in self.boards.values())

    def _next(self, board: BoardState) -> Batch:
        """Return the visits of the next mode that no journal has; empty for none, or until boards are compared."""
        while self._begun and (batch := self._waiting.take(board.name, alone=self._alone())):
            if left := tuple(visit for visit in batch if not self._measured(visit)):
                return left
        return ()

    def _alone(self) -> bool:
        """Return whether at most one board gets work."""
        return sum(not each.out and self._here(each) for each in self.boards.values()) <= 1

    def _take_replies(self) -> None:
        for reply in self.fleet.replies(_WAIT_S):
            board = self.boards[reply.board]
            if "error" in reply.value:
                self._fail(board, reply)
                continue
            board.errors = 0
            doing, board.doing, board.batch = board.doing, "", ()
            self._free[board.name] = board
            if doing == "describe":
                self._described(board, reply.value)
                continue
            for sentence in reply.value.get("notes", ()):
                self.note(f"board {board.name}: {sentence}")
            self._keep(board, reply.value)
            board.last |= doing == "last"
            if doing == "first":
                board.ready = True
                if self._begun:
                    self._leave_out()

    def _described(self, board: BoardState, value: Mapping[str, Any]) -> None:
        for sha256 in value.get("absent", ()):
            reply = self.send(board.name, sha256)
            if "error" in reply:
                self._out(board, reply["error"])
                return
        if value.get("absent"):
            return  # it is asked again
        board.described = True
        header = Header.of(value["header"], name=board.name)
        if self.header is None:
            self.header, self.identity = header, value["identity"]
            self.points = [to_point(each) for each in value["points"]]
            return
        differs = first_difference(self.header, header)
        if differs is None and value["identity"] == self.identity:
            return
        kinds = f"{board.name} differs in {differs or 'its description'}"
        if self._opened:
            self._out(board, f"it is of another kind: {kinds}")
            return
        hint = "stop edgetune fleet join on those of one kind, or run a scheduler for each kind"
        raise InputError(f"the fleet has boards of two kinds: {kinds}", hint)

    def _keep(self, board: BoardState, value: Mapping[str, Any]) -> None:
        """Keep the visits and the table of a reply."""
        made = [Visit(to_point(each["point"]), each["round"]) for each in value.get("visits", ())]
        for visit in made:
            self.done.setdefault(visit, set()).add(board.name)
        if "table" not in value:
            return
        table = profile_of_bytes(base64.b64decode(value["table"]), None, name=board.name)
        self.tables.append(table)
        if len(made) == 1:
            self.rows[made[0]] = table.rows[-1]
        for row in table.rows:
            if (key := attempt_of(row)) not in self._seen:
                self._seen.add(key)
                self._count(board, row)

    def _count(self, board: BoardState, row: ProfileRow) -> None:
        board.points += row.status == "ok"
        board.failed += row.status == "failed"
        self.on_done(self, row)

    def _fail(self, board: BoardState, reply: Reply) -> None:
        """Put the work of a board that failed back, and leave the board out after ``TRIES`` failures in a row."""
        why, died = str(reply.value["error"]), bool(reply.value.get("died"))
        self._error, self._hint = f"board {board.name}: {why}", str(reply.value.get("hint", "see edgetune fleet show"))
        board.errors += not died
        useless = board.errors >= TRIES or (board.doing == "describe" and not died)
        batch = board.batch if board.doing == "mode" else ()
        if batch and self._waiting.failed(batch, board.name, alone=self._alone()):
            self._give_up(board, batch, why)
        self._put_back(board, lost=died)
        if useless:
            self._out(board, why)

    def _give_up(self, board: BoardState, batch: Batch, why: str) -> None:
        """Try a mode no more; its points have failed unless the journal of some board has them."""
        reason = f"given up after {TRIES} failures on boards: {why}"
        for visit in batch:
            row = replace(ProfileRow.at(visit.point, None), status="failed", reason=reason, round=visit.round)
            self.rows[visit] = self._given_up[visit] = replace(row, board=board.name)
        board.batch = ()

    def _failures(self) -> list[Profile]:
        """Return a table of the points that no board has measured; empty for none."""
        assert self.header is not None
        rows = tuple(row for visit, row in self._given_up.items() if not self._measured(visit))
        for row in rows:
            self._count(self.boards[str(row.board)], row)
        return [Profile(self.header, rows)] if rows else []

    def _put_back(self, board: BoardState, *, lost: bool = True) -> None:
        if board.doing == "mode" and board.batch:
            self._waiting.batches.appendleft(board.batch)
        board.ready &= not lost
        board.doing, board.batch = "", ()
        self._free[board.name] = board

    def _out(self, board: BoardState, why: str) -> None:
        board.out, board.doing = f"left out: {why}", ""
        self._free.pop(board.name, None)
        self.note(f"board {board.name} is left out: {why}")

    def _leave_out(self) -> None:
        """Leave out every board whose first anchors are beyond the tolerance."""
        for name, factors in self.factors().items():
            board = self.boards.get(name)
            if factors.left_out and board is not None and not board.off:
                board.off = True
                self._out(board, factors.describe(name).partition(": ")[2])

    def _check_alone(self) -> None:
        """Stop waiting when no board is left.

        Raises:
            PartialError: for ``_ALONE_S``, or all are left out.
        """
        able = [each for each in self.boards.values() if not each.out]
        if any(each.doing or self._here(each) for each in able):
            self._alone_s = None
            return
        self._alone_s = self.now_s() if self._alone_s is None else self._alone_s
        if not able or self.now_s() - self._alone_s > _ALONE_S:
            raise PartialError(
                f"no board of the fleet is left{': ' + self._error if self._error else ''}",
                "the boards keep what they have measured, and the same command goes on",
            )


def whole(tables: Sequence[Profile], request: Mapping[str, Any]) -> Profile:
    """Return the tables of all boards as one."""
    partial = [point for table in tables for point in table.header.inputs.get("request", {}).get("partial", ())]
    inputs = {"request": {**request, **({"partial": partial} if partial else {})}}
    found = merged(tables, inputs=inputs)
    return Profile(replace(found.header, kind=KIND, version=VERSION), found.rows)
