"""Runs the threads of blocks in groups: threads that are at the same instruction have their values in the same arrays.

    one group     registers: an array with an element per thread each, or with one for all of them
    a branch      the group parts, where threads go different ways
    a meeting     groups that come to the same instruction become one group again

Which group goes first is the order's: in teams, of warps or of single threads, a team runs on until it waits for
another, so that what is missing between threads that would never part shows. Blocks are in teams as well: later waves
begin when earlier ones have ended, or wait.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgetune.stages.elastic.kernel import CONTROL, DONE_OFFSET_BYTES, QUOTA_OFFSET_BYTES, WARP_THREADS
from edgetune.stages.elastic.ptx.decode import BARRIER, JUMP, WARP, Code, Segment
from edgetune.stages.elastic.ptx.formats import Array
from edgetune.stages.elastic.ptx.memory import Memory, StoppedError, Unit
from edgetune.stages.elastic.ptx.thread_group import CLOCKS, SPECIAL, Group
from edgetune.stages.elastic.sample_launches import ExecutionOrder

_UNDEFINED = {"forward": 0xFF, "reverse": 0x00, "random": 0xA5}
"""Fills registers, shared and local memory, by order: a kernel that reads what it never wrote differs from itself."""
_MOST_TURNS = 100
"""Turns or jumps after which others get their turn: threads may wait for what others write."""
_NS_A_TICK = {"forward": 1000, "reverse": 1700, "random": 900}
"""By order, so that a kernel which writes down what a clock says differs from itself."""
_TEAMS = 2
"""In each of two waves."""


class ControlWords:
    """The control words of persistent forms: which are changed here, and how blocks use them (see ``abi``)."""

    def __init__(self, blocks: Any, units: Sequence[Unit]) -> None:
        self._launches = [(launch, blocks.memory.words(CONTROL, copy)) for copy, launch, _ in units]
        self._at = np.array([blocks.memory.place(CONTROL, copy) for copy, *_ in units])
        self._seen = np.zeros(len(blocks.block), np.int64)

    def between_turns(self, random: np.random.Generator) -> None:
        """Change quotas where that is asked for."""
        for launch, words in self._launches:
            if launch.quota_changes and not random.integers(4):
                words[QUOTA_OFFSET_BYTES // 4] = random.integers((launch.rank or 0) + math.prod(launch.grid) + 2)

    def _at_word(self, threads: Any, places: Array, offset_bytes: int) -> Array:
        """Return the places of the threads that access a control word."""
        return np.flatnonzero(threads.full(places == self._at[threads.of("unit")] + offset_bytes))

    def loaded(self, threads: Any, places: Array, value: Array) -> None:
        """Keep the quota that blocks have seen."""
        there = self._at_word(threads, places, QUOTA_OFFSET_BYTES)
        self._seen[threads.of("block")[there]] = threads.full(value)[there]

    def stored(self, threads: Any, places: Array) -> None:
        """Check a write.

        Raises:
            StoppedError: it changes a counter, which only atomic operations may.
        """
        if any(self._at_word(threads, places, offset).size for offset in (0, DONE_OFFSET_BYTES)):
            raise StoppedError("crash", "it changed a counter of logical blocks other than by an atomic operation")

    def changed(self, threads: Any, places: Array) -> None:
        """Check an atomic operation.

        Raises:
            StoppedError: a block takes a logical block that the quota which it saw since the last one forbids.
        """
        there = self._at_word(threads, places, 0)
        unit, block = threads.full(threads.of("unit"))[there], threads.of("block")[there]
        rank = np.array([launch.rank for launch, _ in self._launches])[unit] + threads.of("number")[there]
        quota = self._seen[block]
        if (rank >= quota).any():
            at = int(np.argmax(rank >= quota))
            message = f"the block of rank {rank[at]} takes a logical block, and the quota that it saw is {quota[at]}"
            raise StoppedError("crash", message)
        self._seen[block] = 0


def ordered(count: int, order: ExecutionOrder, random: np.random.Generator) -> Array:
    """Return numbers from 0 on in an order."""
    found: Array = random.permutation(count) if order.order == "random" else np.arange(count)
    return found[::-1] if order.order == "reverse" else found


class Blocks:
    """Blocks that run at once.

    Attributes:
        memory: All of it.
        launch: One of those that run.
        thread: Number of each thread in its block.
        block: The block of each thread among them.
        number: Of this block in its grid.
        grid: Blocks along x, y and z, of each thread or of all of them.
        unit: The launch of each thread.
        slot: Its place among the lanes of all warps.
        slots: Lanes of all warps.
        control: Of persistent forms.
    """

    def __init__(
        self,
        code: Code,
        units: Sequence[Unit],
        memory: Memory,
        *,
        order: ExecutionOrder,
        random: np.random.Generator,
        end_s: float,
    ) -> None:
        self.memory, self._code, self._order, self._random, self._end_s = memory, code, order, random, end_s
        self._first: Callable[..., Any] = max if order.order == "reverse" else min
        self.launch = launch = units[0][1]
        per_block = math.prod(launch.block)
        self._count = sum(len(blocks) for *_, blocks in units)
        total = self._count * per_block
        place = ordered(total, order, random)
        self.thread, self.block = place % per_block, place // per_block
        self.number = np.concatenate([blocks for *_, blocks in units])[self.block]
        unit = np.repeat(np.arange(len(units)), [len(blocks) for *_, blocks in units])[self.block]
        self.unit = unit if len(units) > 1 else np.zeros(1, np.int64)
        grids = np.array([each.grid for _, each, _ in units])
        self.grid = grids[0] if (grids == grids[0]).all() else grids[self.unit].T
        warps = -(-per_block // WARP_THREADS)
        self.slot = self.block * warps * WARP_THREADS + self.thread
        self.slots = self._count * warps * WARP_THREADS
        self._team = self._teams(units, unit, per_block)
        fill = _UNDEFINED[order.order]
        shared, local = memory.window(self._count, total, fill)
        self._known: dict[str, Array] = {
            "": memory.starts[[copy for copy, *_ in units]][self.unit], "shared": shared[self.block], "local": local,
            "slot": self.slot, "unit": self.unit, "block": self.block, "number": self.number,
        }  # fmt: skip
        self._ticks = 0
        self._alive = np.zeros(self.slots, bool)
        self._alive[self.slot] = True
        self.control = ControlWords(self, units) if launch.rank is not None else None
        self._waiting, self._news, self._tired = list[Group](), False, False
        registers = [np.full(each.itemsize, fill, np.uint8).view(each) if each.kind != "b" else np.zeros(1, bool)
                     for each in code.registers]  # fmt: skip
        self._ready = self._by_team(Group(self, np.arange(total), registers, 0, 0))

    def _teams(self, units: Sequence[Unit], unit: Array, per_block: int) -> Array:
        """Return the team of each thread: the higher ones run first."""
        order, random = self._order, self._random
        if order.order == "forward":
            return np.zeros(len(unit), np.int64)
        member, waves = np.arange(per_block), list[Array]()
        if per_block > WARP_THREADS and order.seed % 2 == 0:
            member = member // WARP_THREADS
        for *_, blocks in units:
            half = -(-len(blocks) // 2)
            at_once = half if order.order == "reverse" else int(random.integers(half, len(blocks) + 1))
            waves.append(np.arange(len(blocks)) < at_once)
        team = member % 2 if order.order == "reverse" else random.integers(0, _TEAMS, per_block)[member]
        return np.asarray(np.concatenate(waves)[self.block] * _TEAMS + team[self.thread])

    def known(self, name: str) -> Array:
        """Return what is known of all threads, by the name of an attribute, a state space or a special register.

        The array has an element for each thread, or one for all.
        """
        if name in CLOCKS:
            self._ticks += 1
            now = self._ticks * _NS_A_TICK[self._order.order]
            return np.array([now >> 32 if name.endswith("_hi") else now], np.uint64)
        if name not in self._known:
            self._known[name] = np.atleast_1d(np.asarray(SPECIAL[name](self))).astype(np.uint32)
        return self._known[name]

    def run(self) -> None:
        """Run all threads to their end.

        Raises:
            StoppedError: they do not come to it.
        """
        turns = 0
        while True:
            if self._waiting and self._wave(self._waiting) > self._wave(self._ready) and self._release():
                continue
            if not self._ready:
                if not self._alive.any():
                    return
                raise StoppedError("deadlock", "threads wait for others that never come", self._line())
            turns += 1
            if self.control is not None:
                self.control.between_turns(self._random)
            if self._tired or turns % _MOST_TURNS == 0:
                self._tired = False
                self._release()
                self._go(self._ready.pop(0), ahead=True)
            else:
                self._go(self._next())
            if turns % _MOST_TURNS == 0 and time.process_time() > self._end_s:
                message = "it does not end in time: it waits, or the launch is large"
                raise StoppedError("hang", message, self._line())

    @staticmethod
    def _wave(groups: Sequence[Group]) -> int:
        """Return the first wave of some groups; -1 where there are none."""
        return max((each.team for each in groups), default=-_TEAMS) // _TEAMS

    def _line(self) -> int | None:
        return min((self._code.segments[each.at].last.line for each in (*self._ready, *self._waiting)
                    if each.at < len(self._code.segments)), default=None)  # fmt: skip

    def _next(self) -> Group:
        """Return the group whose turn it is, with all of its team that are at the same instruction."""
        ready = self._ready
        if len(ready) == 1:
            return ready.pop()
        team = max(each.team for each in ready)
        if self._order.order == "random":
            wave = team // _TEAMS
            team = int(self._random.choice(sorted({each.team for each in ready if each.team // _TEAMS == wave})))
        at = self._first(each.at for each in ready if each.team == team)
        chosen = [each for each in ready if each.team == team and each.at == at]
        self._ready = [each for each in ready if each.team != team or each.at != at]
        return self._joined(chosen)

    def _joined(self, groups: Sequence[Group]) -> Group:
        """Return one group in place of some at the same instruction."""
        if len(groups) == 1:
            return groups[0]
        at = groups[0].at
        registers: list[Any] = [None] * len(self._code.registers)
        for number in self._code.live[at]:
            values = [each.registers[number] for each in groups]
            if max(map(len, values)) == 1 and len({each.tobytes() for each in values}) == 1:
                registers[number] = values[0]
            else:
                registers[number] = np.concatenate(
                    [value if len(value) == each.size else value.repeat(each.size)
                     for value, each in zip(values, groups, strict=True)]
                )  # fmt: skip
        threads = np.concatenate([each.threads for each in groups])
        return Group(self, threads, registers, at, max(each.team for each in groups))

    def _part(self, group: Group, chosen: Array, at: int, team: int | None = None) -> Group:
        """Return a group of some threads of another one at an instruction."""
        registers: list[Any] = [None] * len(self._code.registers)
        for number in self._code.live[at]:
            value = group.registers[number]
            registers[number] = value if len(value) == 1 else value.take(chosen)
        return Group(self, group.threads.take(chosen), registers, at, group.team if team is None else team)

    def _by_team(self, group: Group) -> list[Group]:
        """Return the threads of a group in groups of their teams."""
        team = self._team.take(group.threads)
        found = sorted(set(team.tolist()))
        if len(found) == 1:
            group.team = found[0]
            return [group]
        return [self._part(group, np.flatnonzero(team == each), group.at, each) for each in found]

    def _go(self, group: Group, ahead: bool = False) -> None:
        """Run a group on to where it parts, waits or ends, or, unless it goes ahead, may meet others of its team."""
        segments, jumps = self._code.segments, 0
        stop = self._first((each.at for each in self._ready if each.team == group.team and not ahead), default=None)
        while group.at < len(segments):
            segment = segments[group.at]
            target = group.at + 1
            if segment.kind in (BARRIER, WARP):
                if not self._meets(group, segment):
                    self._waiting.append(group)
                    self._news = True
                    return
                group.at = target
                continue
            taken = segment.run(group, group.registers)
            if segment.kind == JUMP:
                jumps += 1
                count = group.size if taken is None else np.count_nonzero(taken) * (group.size // taken.size)
                if count == group.size:
                    target = segment.target
                elif count:
                    self._ready.append(self._part(group, np.flatnonzero(~taken), target))
                    group = self._part(group, np.flatnonzero(taken), segment.target)
                    break
            group.at = target
            met = stop is not None and self._first(target, stop) == stop
            self._tired = jumps > _MOST_TURNS
            if met or self._tired:
                break
        if group.at < len(segments):
            self._ready.append(group)
        else:
            self._end(group)

    def _end(self, group: Group) -> None:
        """End the threads of a group."""
        self.memory.copy(group.threads)
        self._news = True
        self._alive[self.slot[group.threads]] = False

    def _meets(self, group: Group, segment: Segment) -> bool:
        """Run an instruction at which threads meet if all are there; return whether they were."""
        if group.size < np.count_nonzero(self._alive) and (
            segment.kind == BARRIER or not self._complete(group, segment).all()
        ):
            return False
        segment.run(group, group.registers)
        return True

    def _complete(self, group: Group, segment: Segment) -> Array:
        """Return for each thread of a group whether all lanes are there that an instruction waits for."""
        alive = np.packbits(self._alive, bitorder="little").view("<u4")[group.of("slot") // WARP_THREADS]
        missing = alive & ~group.bits(np.ones(group.size, bool))
        mask = group.registers[segment.mask] if isinstance(segment.mask, int) else segment.mask
        return np.broadcast_to((mask & missing) == 0, group.size)

    def _release(self) -> bool:
        """Let threads go on for which all others have come; return whether there were any."""
        waiting, before = self._waiting, len(self._ready)
        if not self._news:
            return False
        self._waiting, self._news = [], False
        by_place: dict[int, list[Group]] = {}
        for each in waiting:
            by_place.setdefault(each.at, []).append(each)
        barriers = {at: by_place.pop(at) for at in [*by_place] if self._code.segments[at].kind == BARRIER}
        for at, groups in by_place.items():
            group = self._joined(groups)
            self._pass(group, self._complete(group, self._code.segments[at]))
        if barriers:
            self._release_blocks(barriers)
        return len(self._ready) > before

    def _release_blocks(self, places: Mapping[int, Sequence[Group]]) -> None:
        """Let the blocks go on of which all threads have come to a barrier; ``places``: where they wait."""
        blocks = {at: [self.block[each.threads] for each in alike] for at, alike in places.items()}
        came = [np.bincount(np.concatenate(each), minlength=self._count) for each in blocks.values()]
        alive = self._alive.reshape(self._count, -1).sum(axis=1)
        free = (sum(came) == alive) & (alive > 0)
        if (free & (sum(each > 0 for each in came) > 1)).any():
            line = self._code.segments[max(places)].last.line
            raise StoppedError("mismatched-barrier", "threads of a block wait at different barriers", line)
        for alike in places.values():
            group = self._joined(alike)
            self._pass(group, free[self.block[group.threads]])

    def _pass(self, group: Group, free: Array) -> None:
        """Let some threads of a group run the instruction at which they waited; the others wait on."""
        if not free.any():
            self._waiting.append(group)
            return
        if not free.all():
            self._waiting.append(self._part(group, np.flatnonzero(~free), group.at))
            group = self._part(group, np.flatnonzero(free), group.at)
        self._code.segments[group.at].run(group, group.registers)
        group.at += 1
        self._ready += self._by_team(group)
