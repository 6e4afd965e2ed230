"""Runs PTX kernels on the CPU, to compare elastic forms with originals where there is no GPU and no source.

All threads of some blocks run at once, as arrays with one element per thread; threads at one instruction run it
together, and where they part, the order says which go first:

    forward    all blocks at once, those at the lowest instruction first: threads meet again as early as they can
    reverse    half of the blocks at a time from the last on, those at the highest instruction first
    random     blocks in random groups, threads in random order

Threads that never part would hide what is missing between them. In the last two orders they are in teams, of warps or
of single threads, and a team runs on until it waits for another.

It stands in for ``shim.run``: the same launches, orders and outcomes. An instruction that it does not know is an error
with its name. Memory is one array, an address an index into it, and each access is checked.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.ptx.arithmetic import Array
from edgetune.stages.elastic.ptx.decode import Code, decoded, unknown_instruction
from edgetune.stages.elastic.ptx.memory import Memory, StoppedError
from edgetune.stages.elastic.ptx.parse import Entry, Module, parse
from edgetune.stages.elastic.shim.run import LIMIT_S, Buffers, ExecutionOrder, Sequenced, ShimLaunch, ShimResult

_MOST_THREADS = 16384
"""That run at once."""
_WARP = 32
_POISON = 0xA5
"""Fills registers: what a kernel reads before it writes it is undefined."""
_MOST_TURNS, _FEW_TURNS = 200, 20
"""Jumps after which the time is looked at, and after which others get their turn: threads may wait for them."""
_RUNS, _AT_BARRIER, _AT_WARP = range(3)


@dataclass(slots=True)
class PtxProgram:
    """The kernels of a PTX text, ready to run on the CPU.

    Args:
        module: The text.
        name: Of the file, for messages.
    """

    module: Module
    name: str
    _codes: dict[str, Code] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str, name: str) -> PtxProgram:
        """Read a PTX text.

        Raises:
            InputError: it is no PTX.
        """
        return cls(parse(text, name), name)

    def run_all(self, sequences: Sequence[Sequenced], buffers: Buffers, limit_s: int = LIMIT_S) -> Iterator[ShimResult]:
        """Run sequences of launches, each from the same buffers; yield their outcomes up to the first endless one.

        Args:
            sequences: Launches and their order.
            buffers: Device memory by name before the first launch; not changed.
            limit_s: CPU time after which a sequence counts as endless, s.

        Raises:
            InputError: a launch does not suit its kernel, or the kernel has an instruction that is not known here.
        """
        for launches, order in sequences:
            memory = Memory(self.module, buffers)
            end = time.process_time() + limit_s
            try:
                with np.errstate(all="ignore"):
                    for launch in launches:
                        self._launch(launch, memory, order, end)
            except StoppedError as stopped:
                yield ShimResult(stopped.status, stopped.message, stopped.line, {})
                if stopped.status == "hang":
                    return
                continue
            yield ShimResult("ok", "", None, memory.contents())

    def _launch(self, launch: ShimLaunch, memory: Memory, order: ExecutionOrder, end: float) -> None:
        entry = next((each for each in self.module.entries if each.name == launch.symbol), None)
        if entry is None:
            names = ", ".join(each.name for each in self.module.entries)
            raise InputError(f"no kernel {launch.symbol!r} in {self.name}", f"it has {names}")
        _check_block(entry, launch)
        memory.enter(entry, launch)
        if entry.name not in self._codes:
            self._codes[entry.name] = decoded(entry, memory.symbols, self.name)
        random = np.random.default_rng(order.seed)
        for blocks in _groups(launch, order, random):
            threads = Threads(self._codes[entry.name], launch, memory, blocks, order=order, random=random, end=end)
            try:
                threads.run()
            except (TypeError, ValueError, IndexError):  # of operands that do not go with the instruction
                raise unknown_instruction(entry.instructions[threads.now], self.name) from None


def _check_block(entry: Entry, launch: ShimLaunch) -> None:
    """Check a block against the directives of a kernel.

    Raises:
        InputError: a GPU would not take the launch.
    """
    for found in re.finditer(r"\.(reqntid|maxntid)\s+(\d[\d,\s]*)", entry.bounds):
        wanted = (*map(int, re.findall(r"\d+", found[2])), 1, 1)[:3]
        if (found[1] == "reqntid" and wanted != launch.block) or math.prod(launch.block) > math.prod(wanted):
            message = f"{entry.name} is compiled for blocks of {wanted} threads, and is launched with {launch.block}"
            raise InputError(message, f"launch it with block={','.join(map(str, wanted))}")


def _groups(launch: ShimLaunch, order: ExecutionOrder, random: np.random.Generator) -> Iterator[Array]:
    """Yield the numbers of the blocks that run at once."""
    count = math.prod(launch.grid)
    most = max(1, _MOST_THREADS // math.prod(launch.block))
    blocks: Array = np.arange(count)
    if order.order == "reverse":
        blocks, most = blocks[::-1], min(most, -(-count // 2))
    elif order.order == "random":
        blocks, most = random.permutation(count), min(most, int(random.integers(1, count + 1)))
    for start in range(0, count, most):
        yield blocks[start : start + most]


class Threads:
    """The threads of some blocks, which run at once.

    Attributes:
        registers: By number; an array with an element per thread each.
        special: ``%tid.x`` and the like, as 32-bit arrays.
        mask: Threads that run the present instruction.
        memory: All of it.
        size: How many threads there are.
        per_block: How many of them in a block.
        lane: Of each thread in its warp.
        block: Place of each thread's block among those that run at once.
        now: Number of the present instruction.
        copies: Asynchronous copies under way: threads, where to, where from, bytes to read, bytes to write.
    """

    def __init__(
        self,
        code: Code,
        launch: ShimLaunch,
        memory: Memory,
        blocks: Array,
        *,
        order: ExecutionOrder,
        random: np.random.Generator,
        end: float,
    ) -> None:
        self.memory, self._code, self._order, self._random, self._end = memory, code, order, random, end
        self.per_block = math.prod(launch.block)
        self.size = self.per_block * len(blocks)
        thread = np.tile(np.arange(self.per_block), len(blocks))
        block = np.repeat(blocks, self.per_block)
        self.block = np.repeat(np.arange(len(blocks)), self.per_block)
        self.lane = (thread % _WARP).astype(np.uint32)
        warps = -(-self.per_block // _WARP)
        self._warp = self.block * warps + thread // _WARP
        self._warps = warps * len(blocks)
        self.special = self._positions(launch, thread, block)
        self.registers = [
            np.full(self.size * each.itemsize, _POISON, np.uint8).view(each) if each.kind != "b" else
            np.zeros(self.size, bool) for each in code.registers
        ]  # fmt: skip
        memory.window(len(blocks), self.size)
        self._at = np.zeros(self.size, np.int32)
        self._alive = np.ones(self.size, bool)
        self._waits = np.zeros(self.size, np.int8)
        self.mask, self.now = self._alive.copy(), 0
        self.copies: list[tuple[Array, Array, Array, Array, int]] = []
        self._rank = random.permutation(self.size) if order.order == "random" else None
        self._team = self._teams(thread)

    def _teams(self, thread: Array) -> Array:
        """Return the team of each thread: two in the reverse order, three in a random one."""
        if self._order.order == "forward":
            return np.zeros(self.size, np.int8)
        by_warp = self.per_block > _WARP and self._order.seed % 2 == 0
        member = thread // _WARP if by_warp else thread
        if self._order.order == "reverse":
            return member % 2
        return np.asarray(self._random.integers(0, 3, self.per_block)[member])

    def _positions(self, launch: ShimLaunch, thread: Array, block: Array) -> Mapping[str, Array]:
        found = {"laneid": self.lane}
        for name, number, sizes in (("tid", thread, launch.block), ("ctaid", block, launch.grid)):
            x, y, z = sizes
            for axis, at in zip("xyz", (number % x, number // x % y, number // (x * y)), strict=True):
                found[f"{name}.{axis}"] = at.astype(np.uint32)
            for axis, size in zip("xyz", (x, y, z), strict=True):
                found[f"n{name}.{axis}"] = np.full(self.size, size, np.uint32)
        one = np.uint32(1)
        found["lanemask_eq"] = one << self.lane
        found["lanemask_lt"] = found["lanemask_eq"] - one
        found["lanemask_le"] = found["lanemask_lt"] | found["lanemask_eq"]
        found["lanemask_gt"], found["lanemask_ge"] = ~found["lanemask_le"], ~found["lanemask_lt"]
        return found

    @property
    def active(self) -> Array:
        """Numbers of the threads that run the present instruction, in the order in which they do."""
        found = np.flatnonzero(self.mask)
        if self._rank is not None:
            return found[np.argsort(self._rank[found])]
        return found[::-1] if self._order.order == "reverse" else found

    def put(self, register: int, value: Array) -> None:
        """Write a register of the active threads."""
        target = self.registers[register]
        np.copyto(target, np.asarray(value).view(target.dtype) if np.ndim(value) else value, where=self.mask)

    def run(self) -> None:
        """Run all threads to their end.

        Raises:
            StoppedError: they do not come to it.
        """
        while True:
            ready = self._alive & (self._waits == _RUNS)
            if not ready.any():
                if not self._alive.any():
                    return
                if not self._release():
                    raise StoppedError("deadlock", "threads wait for others that never come", self._line())
                continue
            teams = self._team[ready]
            team = teams.max() if self._order.order != "random" else self._random.choice(teams)
            ready &= self._team == team
            here = self._at[ready]
            at = int(here.min() if self._order.order == "forward" else here.max())
            if self._order.order == "random":
                at = int(self._random.choice(here))
            self._go(at, ready & (self._at == at), ready)
            if time.process_time() > self._end:
                raise StoppedError("hang", "it does not end in time: it waits, or the launch is large", self._line())

    def _line(self) -> int | None:
        here = self._at[self._alive]
        return self._code.lines[int(here.min())] if here.size and here.min() < len(self._code.lines) else None

    def _go(self, at: int, mask: Array, ready: Array) -> None:
        """Run threads from an instruction on to where they may part, or meet others of those that are ready."""
        code, alone = self._code, bool((mask == ready).all())
        self.mask = mask
        steps, most = 0, _MOST_TURNS if (ready == (self._alive & (self._waits == _RUNS))).all() else _FEW_TURNS
        while at < len(code.steps):
            kind, run, guard = code.steps[at]
            self.now = at
            if kind == "plain":
                self._plain(at, run, guard, mask)
            elif kind == "jump":
                taken = mask if guard is None else mask & guard(self)
                if not alone or ((taken != mask).any() and taken.any()):
                    self._at[mask] = at + 1
                    self._at[taken] = run
                    return
                at = run if taken.any() else at + 1
                steps += 1
                if steps > most:
                    self._at[mask] = at
                    return
                continue
            elif kind == "end":
                left = mask if guard is None else mask & guard(self)
                self.copy(left)
                self._alive &= ~left
                self._at[mask] = at + 1
                return
            else:
                self._at[mask] = at
                self._wait(kind, at, mask)
                return
            at += 1
            if not alone and at in code.leaders:
                break
        self._at[mask] = at
        if at >= len(code.steps):
            self._alive &= ~mask

    def _plain(self, at: int, run: object, guard: object, mask: Array) -> None:
        if guard is not None:
            self.mask = mask & guard(self)  # type: ignore[operator]
            if not self.mask.any():
                self.mask = mask
                return
        try:
            run(self)  # type: ignore[operator]
        except StoppedError as stopped:
            stopped.line = self._code.lines[at]
            raise
        self.mask = mask

    def _wait(self, kind: str, at: int, mask: Array) -> None:
        if kind == "barrier":
            self._waits[mask] = _AT_BARRIER
            self._release_blocks()
        else:
            self._meet(at, mask)

    def _release(self) -> bool:
        """Let threads go on that waited for others which have ended; return whether there were any."""
        before = self._waits.copy(), self._at.copy()
        self._release_blocks()
        for at in np.unique(self._at[self._alive & (self._waits == _AT_WARP)]):
            self._meet(int(at), np.zeros(self.size, bool))
        return bool((before[0] != self._waits).any() or (before[1] != self._at).any())

    def _release_blocks(self) -> None:
        """Let the blocks go on whose threads have all come to a barrier."""
        waits = self._alive & (self._waits == _AT_BARRIER)
        by_block = (waits | ~self._alive).reshape(-1, self.per_block).all(axis=1)
        free = waits & np.repeat(by_block, self.per_block)
        if not free.any():
            return
        for at in np.unique(self._at[free]):
            here = free & (self._at == at)
            blocks = np.unique(self.block[here])
            if (free & np.isin(self.block, blocks) & ~here).any():
                message = "threads of a block wait at different barriers"
                raise StoppedError("mismatched-barrier", message, self._code.lines[int(at)])
            self.mask, self.now = here, int(at)
            self._code.steps[int(at)][1](self)
        self._waits[free] = _RUNS
        self._at[free] += 1

    def _meet(self, at: int, came: Array) -> None:
        """Run an instruction for which lanes wait for each other, where all have come."""
        _, run, named = self._code.steps[at]
        self.now = at
        here = self._alive & (self._at == at) & ((self._waits == _AT_WARP) | came)
        missing = self.bits(self._alive) & ~self.bits(here)
        ready = here & ((named(self) & missing) == 0)
        self._waits[here & ~ready] = _AT_WARP
        if ready.any():
            self._waits[ready] = _RUNS
            self.mask = ready
            run(self)
            self._at[ready] += 1

    def bits(self, which: Array) -> Array:
        """Return, to each thread, which lanes of its warp are among some threads, as the bits of a number."""
        weights = np.where(which, np.uint32(1) << self.lane, np.uint32(0)).astype(float)
        return np.asarray(np.bincount(self._warp, weights, self._warps).astype(np.uint32)[self._warp])

    def copy(self, of: Array) -> None:
        """Make the asynchronous copies of some threads."""
        rest = []
        for active, to, start, count, size_bytes in self.copies:
            now = of[active]
            for byte in range(size_bytes if now.any() else 0):
                value = np.where(byte < count[now], self.memory.load(start[now] + byte, 1), 0).astype(np.uint8)
                self.memory.store(to[now] + byte, value)
            if not now.all():
                rest.append((active[~now], to[~now], start[~now], count[~now], size_bytes))
        self.copies = rest

    def by_block(self, value: Array) -> Array:
        """Return the sum of a value over the active threads of each block, to each of its threads."""
        sums = np.where(self.mask, value, 0).reshape(-1, self.per_block).sum(axis=1)
        return np.repeat(sums, self.per_block)

    def from_lane(self, value: Array, lane: Array) -> Array:
        """Return the value of another lane of the warp; its own where there is none, which PTX leaves undefined."""
        start = np.arange(self.size) - self.lane
        source = start + lane
        there = (source < self.size) & (lane < _WARP)
        source = np.where(there, source, 0)
        there &= (self._warp[source] == self._warp) & self.mask[source]
        return np.where(there, value[source], value)
