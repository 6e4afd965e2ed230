"""Turns a PTX kernel into segments of instructions without branches, each one function of Python (see ``operands``).

    fma.rn.f32 %f3, %f1, %f2, 0f3F800000     def s3(T, R):  threads T and their registers R
    setp.lt.f32 %p1, %f3, %f4                    v1 = R[4]; ...
    @%p1 bra $L2                                 R[5] = v9; return v12       the threads that take the branch

What an instruction does, which types it takes and what its words mean: NVIDIA, "PTX ISA", chapter 9.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from traceback import walk_tb
from types import TracebackType
from typing import Any

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.ptx.control_flow import waits_for_block
from edgetune.stages.elastic.ptx.effects import MEETINGS
from edgetune.stages.elastic.ptx.formats import DTYPES
from edgetune.stages.elastic.ptx.instructions import rule_of
from edgetune.stages.elastic.ptx.memory import Layout
from edgetune.stages.elastic.ptx.operands import Operands, Statements
from edgetune.stages.elastic.ptx.parse import Entry, Instruction
from edgetune.stages.elastic.ptx.tensor_cores import ALL, PRODUCTS

NEXT, JUMP, BARRIER, WARP = range(4)
"""How a segment ends, or that it is one instruction at which threads of a block or lanes of a warp meet."""

_HINT = "the check on the CPU has only the usual instructions: check on a GPU with --device nvidia:0"
_REASONS = {
    "wgmma": "the hardware reads its matrices at a time of its own, which no order of threads stands for",
    **dict.fromkeys(("suld", "sust", "sured", "suq"), "surfaces are not modelled"),
}
"""Why instructions are not run here, by their first words."""
_FILE = "<ptx>"


class UnknownInstructionError(InputError):
    """A kernel has an instruction that the interpreter does not know."""


@dataclass(slots=True)
class Segment:
    """Instructions that threads run one after the other, or one at which they meet.

    Args:
        kind: ``NEXT``, ``JUMP``, ``BARRIER`` or ``WARP``.
        statements: What it computes.
        last: Its last instruction.
        answer: The expression of the threads that jump.
        label: Number of the instruction to which they jump.
        mask: Lanes of the warp for which an instruction waits, as bits, or the number of the register of these bits.
        out: Registers that are read behind it, the bits of a number.
        target: The segment to which threads jump; the number of segments stands for the end.
        run: From threads and their registers to a predicate of those that jump; ``None`` for all of them.
    """

    kind: int
    statements: Statements
    last: Instruction
    answer: str = "None"
    label: int = -1
    mask: Any = None
    out: int = 0
    target: int = 0
    run: Any = None


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel, ready to run.

    Args:
        registers: numpy's type of each register.
        segments: In order.
        live: Registers that are read from each segment on, before they are written; of none behind the last.
        lines: The instruction of each line of the functions.
    """

    registers: Sequence[np.dtype[Any]]
    segments: Sequence[Segment]
    live: Sequence[Sequence[int]]
    lines: Mapping[int, Instruction]

    def instruction(self, trace: TracebackType | None) -> Instruction | None:
        """Return the instruction that was run when an exception was raised."""
        places = [line for frame, line in walk_tb(trace) if frame.f_code.co_filename == _FILE]
        return self.lines.get(places[-1]) if places else None


def decoded(entry: Entry, placed: Layout, name: str) -> Code:
    """Return a kernel, ready to run.

    Args:
        entry: The kernel.
        placed: Where its variables and parameters are.
        name: Of the file, for messages.

    Raises:
        UnknownInstructionError: there is an instruction that is not known here; the message names it.
    """
    if unknown := {kind for kind in entry.registers.values() if kind not in DTYPES}:
        message = f"{name}:{entry.line}: the interpreter does not know registers of type {', '.join(sorted(unknown))}"
        raise UnknownInstructionError(message, _HINT)
    of = Operands(entry, placed.symbols)
    segments, starts = _segments(of, entry, name)
    live = _live(segments, starts)
    source, lines = _source(of, segments)
    exec(compile(source, _FILE, "exec"), of.names)
    for number, each in enumerate(segments):
        each.run, each.target = of.names[f"s{number}"], starts.get(each.label, len(segments))
    numbers = [tuple(number for number in range(bits.bit_length()) if bits >> number & 1) for bits in live]
    return Code(of.types, segments, numbers, lines)


def unknown_instruction(each: Instruction, name: str) -> UnknownInstructionError:
    """Return the error for an instruction of a file."""
    written = f"{each.name} {', '.join(each.operands)}".strip()
    why = f": {_REASONS[each.op[0]]}" if each.op[0] in _REASONS else ""
    message = f"{name}:{each.line}: the interpreter does not know the instruction {written}{why}"
    return UnknownInstructionError(message, _HINT)


def _segments(of: Operands, entry: Entry, name: str) -> tuple[list[Segment], dict[int, int]]:
    """Return the segments of a kernel, and which of them begins at an instruction."""
    code, leaders = entry.instructions, {0, *entry.labels.values()}
    segments, starts = list[Segment](), dict[int, int]()

    def keep(kind: int, each: Instruction, **more: Any) -> None:
        segments.append(Segment(kind, of.now, each, **more))
        of.now = Statements()

    for number, each in enumerate(code):
        of.at = each
        try:
            if number in leaders:
                if of.now.lines:
                    keep(NEXT, code[number - 1])
                starts[number] = len(segments)
            kind, of.guard = _kind(each), None
            guard = None if each.guard is None else of.predicate("!" * each.guard[1] + each.guard[0])
            if kind in (BARRIER, WARP):
                if guard is not None:
                    keep(JUMP, each, answer=of.let(f"~{guard}"), label=number + 1)
                elif of.now.lines:
                    keep(NEXT, each)
                mask = None if kind == BARRIER else ALL if each.op[0] in PRODUCTS else of.mask(each.operands[-1])
                of.perform(rule_of(each))
                keep(kind, each, mask=mask)
                leaders.add(number + 1)
            elif kind == JUMP:
                label = entry.labels[each.operands[0]] if each.op[0] == "bra" else len(code)
                keep(kind, each, answer=guard or "None", label=label)
                leaders.add(number + 1)
            else:
                of.guard = guard
                of.perform(rule_of(each))
        except (KeyError, IndexError, ValueError):
            raise unknown_instruction(each, name) from None
    if of.now.lines:
        keep(NEXT, code[-1])
    return segments, starts


def _kind(each: Instruction) -> int:
    """Return how a segment ends with an instruction, if it does."""
    first = each.op[0]
    if first in ("bra", "ret", "exit"):
        return JUMP
    if waits_for_block(each):
        return BARRIER
    return WARP if first in MEETINGS else NEXT


def _live(segments: Sequence[Segment], starts: Mapping[int, int]) -> list[int]:
    """Return the registers that are read from each segment on before they are written, as the bits of numbers."""
    end = len(segments)
    live = [0] * (end + 1)
    used = [sum(1 << one for one in each.statements.used) for each in segments]
    kept = [~sum(1 << one for one in each.statements.written) for each in segments]
    after = [
        [*([starts.get(each.label, end)] if each.kind == JUMP else []),
         *([number + 1] if each.kind != JUMP or each.answer != "None" else [])]
        for number, each in enumerate(segments)
    ]  # fmt: skip
    changed = True
    while changed:
        changed = False
        for number in reversed(range(end)):
            out = segments[number].out = reduce(or_, (live[each] for each in after[number]), 0)
            found = used[number] | (out & kept[number])
            if found != live[number]:
                live[number], changed = found, True
    return live


def _source(of: Operands, segments: Sequence[Segment]) -> tuple[str, dict[int, Instruction]]:
    """Return the text of the functions of all segments, and the instruction of each of its lines."""
    text, lines = list[str](), dict[int, Instruction]()

    for number, segment in enumerate(segments):
        text.append(f"def s{number}(T, R):")
        for line, each in segment.statements.lines:
            text.append(f" {line}")
            if each is not None:
                lines[len(text)] = each
        text.extend(f" {line}" for line in (*of.ends(segment.statements, segment.out), f"return {segment.answer}"))
    return "\n".join(text), lines
