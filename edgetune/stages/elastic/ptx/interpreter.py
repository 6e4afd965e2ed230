"""Runs PTX kernels on the CPU, to compare elastic forms with originals where there is no GPU and no source.

All threads of some blocks run at once, as arrays with one element per thread (see ``groups``), and so do sequences of
launches of one form, each with memory of its own. Threads at one instruction run it together, and where they part, the
order says which go first:

    forward    all blocks at once, those at the lowest instruction first: threads meet again as early as they can
    reverse    the last half of the blocks first, those at the highest instruction first
    random     blocks in random waves, threads in random teams, of which now one and now another goes on

Threads that never part would hide what is missing between them. In the last two orders they are in teams, of warps or
of single threads, and a team runs on until it waits for another.

An instruction that it does not know is an error with its name.

Puts the functions that a PTX kernel calls into its body, for the interpreter.

    call (retval0), helper, (param0);        bra $helper@1;   $helper@1+: ...
    ...                                      ... body with names of its own, and param0 for its parameter
    .func (.param .b32 r) helper(.param p)   ret              -> bra behind the call

Each call gets a copy of its own behind the kernel. A call of a function that is not in the text stays as it is. Source
of the syntax: NVIDIA, "PTX ISA", section 7.1.
"""

import math
import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from copy import deepcopy
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.kernel import CONTROL
from edgetune.stages.elastic.ptx.decode import Code, decoded, unknown_instruction
from edgetune.stages.elastic.ptx.groups import Blocks, ordered
from edgetune.stages.elastic.ptx.memory import Layout, Memory, StoppedError, Unit, layout
from edgetune.stages.elastic.ptx.parse import MOST_STATEMENTS, Entry, Module, parse
from edgetune.stages.elastic.sample_launches import LIMIT_S, Buffers, CpuLaunch, CpuResult, ExecutionOrder, Sequenced

_WORD = re.compile(r"[%\w$@]+")


def with_functions(module: Module, entry: Entry) -> Entry:
    """Return a kernel with the bodies of the functions that it calls."""
    if not any(each.op[0] == "call" for each in entry.instructions):
        return entry
    made = deepcopy(entry)
    code = made.instructions
    code.append(replace(code[-1], op=("ret",), operands=(), guard=None))
    for at, each in enumerate(code):  # which grows
        name = next((one for one in each.operands if not one.startswith("(")), "")
        if each.op[0] == "call" and name in module.functions and len(code) < MOST_STATEMENTS:
            start, number = len(code), f"{name}@{at}"
            code[at] = replace(each, op=("bra",), operands=(f"$in@{number}",))
            made.labels |= {f"$in@{number}": start, f"$out@{number}": at + 1}
            actual = _WORD.findall(" ".join(one for one in each.operands if one.startswith("(")))
            _append(made, module.functions[name], actual, number)
    own = {each.name for each in made.variables if each.space == "param"}  # of called functions: of each thread
    code[:] = [
        replace(each, op=(each.op[0], "local", *each.op[2:]))
        if each.op[1:2] == ("param",) and own.intersection(_WORD.findall(" ".join(each.operands))) else each
        for each in code
    ]  # fmt: skip
    return made


def _append(made: Entry, function: Entry, actual: list[str], number: str) -> None:
    """Put a function behind a kernel, with names of its own."""
    own = [*function.registers, *function.labels, *(one.name for one in function.variables if one.space != "shared")]
    names = {name: f"{name}@{number}" for name in own}
    names |= {formal.name: name for formal, name in zip(function.parameters, actual, strict=False)}
    start = len(made.instructions)
    made.registers.update({names[name]: kind for name, kind in function.registers.items()})
    made.labels.update({names[name]: start + place for name, place in function.labels.items()})
    known = {each.name for each in made.variables}
    made.variables.extend(
        replace(each, name=names.get(each.name, each.name)) for each in function.variables if each.name not in known
    )
    for each in function.instructions:
        operands = tuple(_WORD.sub(lambda word: names.get(word[0], word[0]), one) for one in each.operands)
        guard = each.guard and (names.get(each.guard[0], each.guard[0]), each.guard[1])
        op = each.op
        if op[0] == "ret":
            op, operands = ("bra",), (f"$out@{number}",)
        made.instructions.append(replace(each, op=op, operands=operands, guard=guard))


_MOST_THREADS = 16384
"""That run at once."""
_ALONE_S = 2.0
"""Time of work after which a pool helps: its processes take as long to start."""
_MOST_COPY_BYTES = 64 << 20
"""Of the memories of sequences that run at once."""

Batch: TypeAlias = tuple[Sequence[Sequenced], Buffers, int]
"""Sequences that run at once, the memory before them, and the CPU time of one, s."""


class PtxProgram:
    """The kernels of a PTX text, ready to run on the CPU.

    Args:
        text: Of one module.
        name: Of the file, for messages.
        pool: Processes that began with ``begin``, which help once the work is more than a moment's.

    Raises:
        InputError: it is no PTX.
    """

    def __init__(self, text: str, name: str, pool: Executor | None = None) -> None:
        self.module, self._name, self._pool = parse(text, name), name, pool
        self._spent_s = 0.0
        self._codes: dict[str, tuple[Entry, Layout, Code]] = {}

    def run_all(self, sequences: Sequence[Sequenced], buffers: Buffers, limit_s: int = LIMIT_S) -> Iterator[CpuResult]:
        """Run sequences of launches, each from the same buffers; yield their outcomes up to the first endless one.

        Args:
            sequences: Launches and their order.
            buffers: Device memory by name before the first launch; not changed.
            limit_s: CPU time after which a sequence counts as endless, s.

        Raises:
            InputError: a launch does not suit its kernel, or the kernel has an instruction that is not known here.
        """
        batches = self._batches(sequences, buffers)
        found: dict[int, CpuResult] = {}
        ran = self._ran([([sequences[each] for each in batch], buffers, limit_s) for batch in batches])
        done = zip(batches, ran, strict=False)
        for number in range(len(sequences)):
            while number not in found:
                found |= zip(*next(done), strict=False)
            yield found[number]
            if found[number].status == "hang":
                return

    def _ran(self, batches: Sequence[Batch]) -> Iterator[list[CpuResult]]:
        """Yield the outcomes of each batch, with other processes once this one has worked for a while."""
        for place, batch in enumerate(batches):
            if self._pool is not None and self._spent_s > _ALONE_S and len(batches) - place > 1:
                yield from self._pool.map(_outcomes_of, *zip(*batches[place:], strict=True))
                return
            began_s = time.monotonic()
            outcomes = self.outcomes(*batch)
            self._spent_s += time.monotonic() - began_s
            yield outcomes

    def _batches(self, sequences: Sequence[Sequenced], buffers: Buffers) -> list[list[int]]:
        """Return the numbers of sequences that run at once: of one kernel and kind of order, while there is room."""
        size_bytes = sum(each.nbytes for each in buffers.values()) + sum(
            each.size_bytes for each in self.module.variables.values()
        )
        most = max(1, _MOST_COPY_BYTES // max(1, size_bytes))
        batches, rooms = list[list[int]](), dict[object, tuple[list[int], int]]()
        for number, (launches, order) in enumerate(sequences):
            alike = [(each.symbol, each.block, each.dynamic_shared_bytes) for each in launches[:1]]
            kind = (order.order, order.seed % 2, *alike)
            threads = max((math.prod(each.grid) * math.prod(each.block) for each in launches), default=1)
            batch, room = rooms.get(kind, ([], 0))
            if threads > room or len(batch) == most:
                batch, room = [], _MOST_THREADS
                batches.append(batch)
            batch.append(number)
            rooms[kind] = batch, room - threads
        return batches

    def outcomes(self, sequences: Sequence[Sequenced], buffers: Buffers, limit_s: int) -> list[CpuResult]:
        """Return the outcomes of sequences that run at once; one by one where they do not all come to their end."""
        memory, end_s = Memory(self.module, buffers, len(sequences)), time.process_time() + limit_s
        try:
            with np.errstate(all="ignore"):
                for turn in range(max((len(launches) for launches, _ in sequences), default=0)):
                    now = {copy: launches[turn] for copy, (launches, _) in enumerate(sequences) if turn < len(launches)}
                    self._launch(now, memory, sequences[0][1], end_s)
        except StoppedError as stopped:
            outcome = CpuResult(stopped.status, stopped.message, stopped.line, {})
            if len(sequences) == 1:
                return [outcome]
            alone = list[CpuResult]()
            for each in sequences:
                alone += self.outcomes([each], buffers, limit_s)
                if alone[-1].status == "hang":
                    return alone
            if stopped.status != "hang" and all(each.status == "ok" for each in alone):
                alone[0] = outcome  # it depends on the order, in which they do not stand by themselves
            return alone
        return [CpuResult("ok", "", None, memory.contents(copy)) for copy in range(len(sequences))]

    def _launch(self, launches: dict[int, CpuLaunch], memory: Memory, order: ExecutionOrder, end_s: float) -> None:
        """Run one launch in each of some copies of the memory."""
        some = next(iter(launches.values()))
        entry, placed, code = self._code(some.symbol)
        for launch in launches.values():
            _check_block(entry, launch)
        memory.enter(entry, placed, launches)
        random = np.random.default_rng(order.seed)
        quotas = {copy: memory.words(CONTROL, copy)[-1].copy() for copy in launches if some.rank is not None}
        for units in _units(launches, order, random):
            blocks = Blocks(code, units, memory, order=order, random=random, end_s=end_s)
            try:
                blocks.run()
            except StoppedError as stopped:
                if (at := code.instruction(sys.exc_info()[2])) is not None:
                    stopped.line = at.line
                raise
            except (TypeError, ValueError, IndexError):  # of operands that do not go with the instruction
                if (at := code.instruction(sys.exc_info()[2])) is None:
                    raise
                raise unknown_instruction(at, self._name) from None
        for copy, quota in quotas.items():
            memory.words(CONTROL, copy)[-1] = quota

    def _code(self, symbol: str) -> tuple[Entry, Layout, Code]:
        if symbol not in self._codes:
            entry = with_functions(self.module, next(each for each in self.module.entries if each.name == symbol))
            placed = layout(self.module, entry)
            self._codes[symbol] = entry, placed, decoded(entry, placed, self._name)
        return self._codes[symbol]


def _check_block(entry: Entry, launch: CpuLaunch) -> None:
    """Check a block against the directives of a kernel.

    Raises:
        InputError: a GPU would not take the launch.
    """
    for found in re.finditer(r"\.(reqntid|maxntid)\s+(\d[\d,\s]*)", entry.bounds):
        wanted = (*map(int, re.findall(r"\d+", found[2])), 1, 1)[:3]
        if (found[1] == "reqntid" and wanted != launch.block) or math.prod(launch.block) > math.prod(wanted):
            message = f"{entry.name} is compiled for blocks of {wanted} threads, and is launched with {launch.block}"
            raise InputError(message, f"launch it with block={','.join(map(str, wanted))}")


def _units(launches: dict[int, CpuLaunch], order: ExecutionOrder, random: np.random.Generator) -> Iterator[list[Unit]]:
    """Yield the blocks that run at once, of each launch."""
    blocks = {copy: ordered(math.prod(launch.grid), order, random) for copy, launch in launches.items()}
    threads = math.prod(next(iter(launches.values())).block)
    most, start = max(1, _MOST_THREADS // (threads * len(launches))), 0
    while units := [(copy, launches[copy], each[start : start + most]) for copy, each in blocks.items()
                    if start < len(each)]:  # fmt: skip
        yield units
        start += most


_programs: list[PtxProgram] = []
"""What a process of a pool runs."""


def begin(text: str, name: str) -> None:
    """Have a process of a pool run kernels of a text."""
    _programs[:] = [PtxProgram(text, name)]


def _outcomes_of(sequences: Sequence[Sequenced], buffers: Buffers, limit_s: int) -> list[CpuResult]:
    return _programs[0].outcomes(sequences, buffers, limit_s)
