"""Turns the instructions of a PTX kernel into functions on the threads that run them (see ``interpreter``).

    fma.rn.f32 %f3, %f1, %f2, 0f3F800000    threads -> registers[7] = fma(registers[5], registers[6], 1.0) where active

What an instruction does, which types it takes and what its words mean: NVIDIA, "PTX ISA", chapter 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.ptx import arithmetic
from edgetune.stages.elastic.ptx.arithmetic import COMPARISONS, DTYPES, FLOATS, INTEGERS, ROUNDINGS, Array
from edgetune.stages.elastic.ptx.meetings import barrier, warp_wide
from edgetune.stages.elastic.ptx.memory import StoppedError
from edgetune.stages.elastic.ptx.operands import Operands, Reader, parts
from edgetune.stages.elastic.ptx.parse import Entry, Instruction
from edgetune.stages.elastic.ptx.tensor_cores import matrices, warp_product
from edgetune.stages.elastic.ptx.transfers import TRANSFERS

Step: TypeAlias = tuple[str, Any, Any]
"""``plain``: function, predicate; ``jump``: target, predicate; ``end``: nothing, predicate; ``barrier``: what it does
once all are there; ``warp``: function, lanes that it waits for."""

_NOTHING = frozenset({"membar", "fence", "prefetch", "prefetchu", "nanosleep"})
_PRODUCTS = {"mma": warp_product, "ldmatrix": matrices}
_OF_TEXTURES = frozenset({"tex", "tld4", "txq", "suld", "suq", "sured", "sust"})
_HINT = "the check on the CPU has only the usual instructions: check on a GPU with --device nvidia:0"


class UnknownInstructionError(InputError):
    """A kernel has an instruction that the interpreter does not know."""


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel, ready to run.

    Args:
        registers: numpy's type of each register.
        steps: One for each instruction.
        leaders: Numbers of instructions at which threads may meet again.
        lines: Of the text, of each instruction.
    """

    registers: Sequence[np.dtype[Any]]
    steps: Sequence[Step]
    leaders: frozenset[int]
    lines: Sequence[int]


def decoded(entry: Entry, symbols: Mapping[str, int], name: str) -> Code:
    """Return a kernel, ready to run.

    Args:
        entry: The kernel.
        symbols: Address of each variable and parameter in its state space.
        name: Of the file, for messages.

    Raises:
        UnknownInstructionError: there is an instruction that is not known here; the message names it.
    """
    if unknown := {kind for kind in entry.registers.values() if kind not in DTYPES}:
        message = f"{name}:{entry.line}: the interpreter does not know registers of type {', '.join(sorted(unknown))}"
        raise UnknownInstructionError(message, _HINT)
    of = Operands(entry, symbols)
    steps = []
    for each in entry.instructions:
        try:
            steps.append(_step(of, entry, each))
        except (KeyError, IndexError, ValueError):
            raise unknown_instruction(each, name) from None
    lines = [each.line for each in entry.instructions]
    return Code(of.types, steps, frozenset(entry.labels.values()), lines)


def unknown_instruction(each: Instruction, name: str) -> UnknownInstructionError:
    """Return the error for an instruction of a file."""
    written = f"{each.name} {', '.join(each.operands)}".strip()
    message = f"{name}:{each.line}: the interpreter does not know the instruction {written}"
    if each.op[0] in _OF_TEXTURES:
        message = f"{name}:{each.line}: the interpreter has no textures and surfaces: {written}"
    return UnknownInstructionError(message, _HINT)


def _step(of: Operands, entry: Entry, each: Instruction) -> Step:
    """Return what an instruction does."""
    kind = each.op[0]
    guard = None if each.guard is None else of.predicate("!" * each.guard[1] + each.guard[0])
    if kind == "bra":
        return "jump", entry.labels[each.operands[0]], guard
    if kind in ("ret", "exit"):
        return "end", None, guard
    if kind in ("bar", "barrier") and "warp" not in each.op and guard is None:
        return "barrier", barrier(of, each), None
    if kind in ("shfl", "vote", "bar", "barrier", *_PRODUCTS) and guard is None:
        run, named = (_PRODUCTS[kind](of, each), of.read("-1", "u32")) if kind in _PRODUCTS else warp_wide(of, each)
        return "warp", run, named
    if kind in _NOTHING or each.op[:3] == ("cp", "async", "commit_group"):
        return "plain", lambda _: None, guard
    make = TRANSFERS.get(kind) or _MAKERS.get(kind, _arithmetic)
    return "plain", make(of, each), guard


def _arithmetic(of: Operands, each: Instruction) -> Reader:
    """Return an instruction whose operands and result have its type, or that counts bits."""
    kind, first = each.op[-1], each.op[0]
    dtype, words = DTYPES[kind], set(each.op[1:-1])
    reads = of.operands(each, kind)
    if dtype.kind != "f":
        if words:
            raise KeyError(", ".join(words))
        return of.put(each, "u32" if first in ("popc", "clz") else kind, INTEGERS[first], reads)
    if words - ROUNDINGS - {"ftz", "sat", "approx", "full"}:
        raise KeyError(", ".join(words - ROUNDINGS))
    mode = next(iter(words & ROUNDINGS), "rn")
    if first in ("fma", "mad"):
        compute: Callable[..., Any] = partial(arithmetic.fma, dtype=dtype, mode=mode)
        if dtype.itemsize == 8 and mode != "rn":
            raise KeyError(mode)
    elif mode == "rn":
        compute = FLOATS[first]
    else:
        raise KeyError(mode)
    return of.put(each, kind, _adjusted(compute, words), reads)


def _product(of: Operands, each: Instruction) -> Reader:
    """Return a product of integers, or a product and sum: its lower or upper half, or all of it."""
    kind, way = each.op[-1], each.op[1]
    dtype = DTYPES[kind]
    if dtype.kind == "f" or each.op == ("mul", kind):
        return _arithmetic(of, each)
    wide = f"{kind[0]}{int(kind[1:]) * 2}" if way == "wide" else kind
    to = DTYPES[wide]
    product: Callable[..., Any] = {
        "lo": lambda a, b: a * b,
        "hi": lambda a, b: arithmetic.high_half(a, b, dtype),
        "wide": lambda a, b: a.astype(to) * b.astype(to),
    }[way]
    reads = [of.read(operand, kind) for operand in each.operands[1:3]]
    if each.op[0] == "mul":
        return of.put(each, wide, product, reads)
    return of.put(each, wide, lambda a, b, c: product(a, b) + c, [*reads, of.read(each.operands[3], wide)])


def _shift(of: Operands, each: Instruction) -> Reader:
    kind = each.op[-1]
    reads = [of.read(each.operands[1], kind), of.read(each.operands[2], "u32")]
    return of.put(each, kind, partial(arithmetic.shifted, left=each.op[0] == "shl"), reads)


def _funnel(of: Operands, each: Instruction) -> Reader:
    compute = partial(arithmetic.funnel, left=each.op[1] == "l", wrap=each.op[2] == "wrap")
    return of.put(each, "b32", compute, of.operands(each, "b32"))


def _bit_field(of: Operands, each: Instruction) -> Reader:
    kind = each.op[-1]
    if DTYPES[kind].itemsize != 4:
        raise KeyError(kind)
    values = 1 if each.op[0] == "bfe" else 2
    reads = [of.read(operand, "u32" if place >= values else kind) for place, operand in enumerate(each.operands[1:])]
    return of.put(each, kind, arithmetic.field if values == 1 else arithmetic.inserted, reads)


def _lop3(of: Operands, each: Instruction) -> Reader:
    reads = [of.read(operand, "b32") for operand in each.operands[1:4]]
    return of.put(each, "b32", partial(arithmetic.looked_up, table=int(each.operands[4], 0)), reads)


def _bfind(of: Operands, each: Instruction) -> Reader:
    compute = partial(arithmetic.highest_bit, as_shift="shiftamt" in each.op)
    return of.put(each, "u32", compute, of.operands(each, each.op[-1]))


def _selp(of: Operands, each: Instruction) -> Reader:
    kind, (a, b, p) = each.op[-1], each.operands[1:]
    return of.put(each, kind, np.where, [of.predicate(p), of.read(a, kind), of.read(b, kind)])


def _setp(of: Operands, each: Instruction) -> Reader:
    kind = each.op[-1]
    compare = COMPARISONS[each.op[1]]
    a, b = (of.read(operand, kind) for operand in each.operands[1:3])
    combine = next((INTEGERS[word] for word in each.op[2:-1] if word in ("and", "or", "xor")), None)
    third = of.predicate(each.operands[3]) if combine else None
    yes, _, no = each.operands[0].partition("|")
    write = of.writer(yes, "pred")
    write_no = of.writer(no, "pred") if no else None

    def run(threads: Any) -> None:
        x, y = a(threads), b(threads)
        held = compare(x, y)
        other = ~held
        if combine is not None and third is not None:
            held, other = combine(held, third(threads)), combine(other, third(threads))
        write(threads, held)
        if write_no is not None:
            write_no(threads, other)

    return run


def _cvt(of: Operands, each: Instruction) -> Reader:
    target, source = each.op[-2:]
    to, words = DTYPES[target], set(each.op[1:-2])
    if each.op == ("cvt", "rn", "f16x2", "f32"):
        return of.put(each, "u32", _two_halves, [of.read(one, "f32") for one in each.operands[1:]])
    mode = next(iter(words & ROUNDINGS), "")

    def convert(value: Any) -> Any:
        if to.kind == "f":
            if value.dtype.kind != "f":
                found = value.astype(to)
            elif mode.endswith("i"):
                found = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](value).astype(to)
            else:
                found = arithmetic.rounded(value.astype(np.float64), to, mode or "rn")
            return np.where(found > 0, np.minimum(found, to.type(1)), to.type(0)) if "sat" in words else found
        if value.dtype.kind == "f":
            return arithmetic.to_integer(value, to, mode)
        if "sat" in words:
            limits = np.iinfo(to)
            wide = value.astype(object)
            return np.array([min(max(int(one), int(limits.min)), int(limits.max)) for one in wide], to)
        return value.astype(to)

    if words - ROUNDINGS - {"sat", "ftz"} or (mode and mode[-1] != "i" and to.kind != "f"):
        raise KeyError(each.name)
    return of.put(each, target, _adjusted(convert, words - {"sat"}), [of.read(each.operands[1], source)])


def _two_halves(high: Array, low: Array) -> Array:
    """Return two numbers as halves of a register."""
    first, second = (
        arithmetic.rounded(one.astype(np.float64), np.dtype("f2"), "rn").view(np.uint16) for one in (low, high)
    )
    return _joined("u32", first, second)


def _mov(of: Operands, each: Instruction) -> Reader:
    kind, (target, source) = each.op[-1], each.operands
    size_bytes = DTYPES[kind].itemsize
    if source.startswith("{"):  # several registers become one
        pieces = parts(source)
        part, whole = f"u{size_bytes * 8 // len(pieces)}", f"u{size_bytes * 8}"
        return of.put(each, kind, partial(_joined, whole), [of.read(one, part) for one in pieces])
    if not target.startswith("{"):
        return of.put(each, kind, lambda value: value, [of.read(source, kind)])
    pieces = parts(target)
    bits = size_bytes * 8 // len(pieces)
    read, writes = of.read(source, f"u{size_bytes * 8}"), [of.writer(one, f"u{bits}") for one in pieces]

    def run(threads: Any) -> None:
        value = read(threads)
        for place, write in enumerate(writes):
            write(threads, (value >> value.dtype.type(bits * place)).astype(DTYPES[f"u{bits}"]))

    return run


def _joined(kind: str, *values: Array) -> Array:
    """Return numbers made of smaller ones, the lowest first."""
    dtype, bits = DTYPES[kind], values[0].dtype.itemsize * 8
    found = values[0].astype(dtype)
    for place, value in enumerate(values[1:], 1):
        found = found | (value.astype(dtype) << dtype.type(bits * place))
    return found


def _trap(*_: object) -> Reader:
    """Return what stops the launch."""

    def run(_: Any) -> None:
        raise StoppedError("crash", "trap")

    return run


def _adjusted(of: Callable[..., Any], words: set[str]) -> Callable[..., Any]:
    """Return an operation with its arguments and result flushed or limited, as its words say."""
    if not words & {"ftz", "sat"}:
        return of

    def run(*values: Any) -> Any:
        flushes = "ftz" in words
        found = of(*(arithmetic.flush(one) if flushes and one.dtype == np.float32 else one for one in values))
        found = arithmetic.flush(found) if flushes and found.dtype == np.float32 else found
        if "sat" in words:
            found = np.where(found > 0, np.minimum(found, found.dtype.type(1)), found.dtype.type(0))
        return found

    return run


_MAKERS: dict[str, Callable[[Operands, Instruction], Reader]] = {
    "mul": _product, "mad": _product, "shl": _shift, "shr": _shift, "shf": _funnel, "bfe": _bit_field,
    "bfi": _bit_field, "lop3": _lop3, "bfind": _bfind, "selp": _selp, "setp": _setp, "cvt": _cvt, "mov": _mov,
    "trap": _trap,
}  # fmt: skip
"""By the first word of the instruction; all others are plain arithmetic."""
