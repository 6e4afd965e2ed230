"""Runs PTX kernels on the CPU, to compare elastic forms with originals where there is no GPU and no source.

All threads of some blocks run at once, as arrays with one element per thread (see ``groups``), and so do sequences of
launches of one form, each with memory of its own. Threads at one instruction run it together, and where they part, the
order says which go first:

    forward    all blocks at once, those at the lowest instruction first: threads meet again as early as they can
    reverse    the last half of the blocks first, those at the highest instruction first
    random     blocks in random waves, threads in random order

Threads that never part would hide what is missing between them. In the last two orders they are in teams, of warps or
of single threads, and a team runs on until it waits for another.

It stands in for ``shim.run``: the same launches, orders and outcomes. An instruction that it does not know is an error
with its name.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.ptx.calls import with_functions
from edgetune.stages.elastic.ptx.decode import Code, decoded, unknown_instruction
from edgetune.stages.elastic.ptx.groups import Blocks, Unit
from edgetune.stages.elastic.ptx.memory import Layout, Memory, StoppedError, layout
from edgetune.stages.elastic.ptx.parse import Entry, Module, parse
from edgetune.stages.elastic.shim.run import LIMIT_S, Buffers, ExecutionOrder, Sequenced, ShimLaunch, ShimResult

_MOST_THREADS = 16384
"""That run at once."""
_MOST_COPY_BYTES = 64 << 20
"""Of the memories of sequences that run at once."""


@dataclass(slots=True)
class PtxProgram:
    """The kernels of a PTX text, ready to run on the CPU.

    Args:
        module: The text.
        name: Of the file, for messages.
    """

    module: Module
    name: str
    _codes: dict[str, tuple[Entry, Layout, Code]] = field(default_factory=dict)

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
        found: dict[int, ShimResult] = {}
        for number in range(len(sequences)):
            if number not in found:
                alike = self._alike(
                    sequences, [each for each in range(number, len(sequences)) if each not in found], buffers
                )
                found |= zip(alike, self._outcomes([sequences[each] for each in alike], buffers, limit_s), strict=False)
            yield found[number]
            if found[number].status == "hang":
                return

    def _alike(self, sequences: Sequence[Sequenced], left: Sequence[int], buffers: Buffers) -> list[int]:
        """Return the first of some sequences, and those that can run beside it."""

        def kind(number: int) -> object:
            launches, order = sequences[number]
            return (
                order.order,
                order.seed % 2,
                [(each.symbol, each.block, each.dynamic_shared_bytes) for each in launches[:1]],
            )

        def threads(number: int) -> int:
            return max((math.prod(each.grid) * math.prod(each.block) for each in sequences[number][0]), default=1)

        room, wanted, found = _MOST_THREADS, kind(left[0]), list[int]()
        most = max(1, _MOST_COPY_BYTES // max(1, Memory.bytes_of(self.module, buffers)))
        for number in left:
            if kind(number) == wanted and len(found) < most and (not found or threads(number) <= room):
                found.append(number)
                room -= threads(number)
        return found

    def _outcomes(self, sequences: Sequence[Sequenced], buffers: Buffers, limit_s: int) -> list[ShimResult]:
        """Return the outcomes of sequences that run at once; one by one where they do not all come to their end."""
        memory, end_s = Memory(self.module, buffers, len(sequences)), time.process_time() + limit_s
        try:
            with np.errstate(all="ignore"):
                for turn in range(max((len(launches) for launches, _ in sequences), default=0)):
                    now = {copy: launches[turn] for copy, (launches, _) in enumerate(sequences) if turn < len(launches)}
                    self._launch(now, memory, sequences[0][1], end_s)
        except StoppedError as stopped:
            outcome = ShimResult(stopped.status, stopped.message, stopped.line, {})
            if len(sequences) == 1:
                return [outcome]
            alone = list[ShimResult]()
            for each in sequences:
                alone += self._outcomes([each], buffers, limit_s)
                if alone[-1].status == "hang":
                    return alone
            return (
                alone
                if any(each.status != "ok" for each in alone) or stopped.status == "hang"
                else [outcome, *alone[1:]]
            )
        return [ShimResult("ok", "", None, memory.contents(copy)) for copy in range(len(sequences))]

    def _launch(self, launches: dict[int, ShimLaunch], memory: Memory, order: ExecutionOrder, end_s: float) -> None:
        """Run one launch in each of some copies of the memory."""
        some = next(iter(launches.values()))
        entry, placed, code = self._code(some.symbol)
        for launch in launches.values():
            _check_block(entry, launch)
        memory.enter(entry, placed, launches)
        random = np.random.default_rng(order.seed)
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
                raise unknown_instruction(at, self.name) from None

    def _code(self, symbol: str) -> tuple[Entry, Layout, Code]:
        if symbol not in self._codes:
            entry = next((each for each in self.module.entries if each.name == symbol), None)
            if entry is None:
                names = ", ".join(each.name for each in self.module.entries)
                raise InputError(f"no kernel {symbol!r} in {self.name}", f"it has {names}")
            entry = with_functions(self.module, entry)
            placed = layout(self.module, entry)
            self._codes[symbol] = entry, placed, decoded(entry, placed, self.name)
        return self._codes[symbol]


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


def _units(launches: dict[int, ShimLaunch], order: ExecutionOrder, random: np.random.Generator) -> Iterator[list[Unit]]:
    """Yield the blocks that run at once, of each launch."""
    blocks = {}
    for copy, launch in launches.items():
        numbers = np.arange(math.prod(launch.grid))
        blocks[copy] = {"forward": numbers, "reverse": numbers[::-1]}.get(order.order)
        if order.order == "random":
            blocks[copy] = random.permutation(numbers)
    threads = math.prod(next(iter(launches.values())).block)
    most, start = max(1, _MOST_THREADS // (threads * len(launches))), 0
    while units := [(copy, launches[copy], each[start : start + most]) for copy, each in blocks.items()
                    if start < len(each)]:  # fmt: skip
        yield units
        start += most
