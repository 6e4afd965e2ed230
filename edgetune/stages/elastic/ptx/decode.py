"""Turns the instructions of a PTX kernel into functions on the threads that run them (see ``interpreter``).

    fma.rn.f32 %f3, %f1, %f2, 0f3F800000    threads -> registers[7] = fma(registers[5], registers[6], 1.0) where active

What an instruction does, which types it takes and what its words mean: NVIDIA, "PTX ISA", chapter 9.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.elastic.ptx import arithmetic
from edgetune.stages.elastic.ptx.arithmetic import COMPARISONS, DTYPES, FLOATS, INTEGERS, ROUNDINGS, Array
from edgetune.stages.elastic.ptx.memory import StoppedError
from edgetune.stages.elastic.ptx.parse import Entry, Instruction

Reader = Callable[[Any], Any]
"""From the threads to their values of an operand."""
Step = tuple[str, Any, Any]
"""``plain``: function, predicate; ``jump``: target, predicate; ``end``: nothing, predicate; ``barrier``: what it does
once all are there; ``warp``: function, lanes that it waits for."""

_NOTHING = frozenset("membar fence prefetch prefetchu nanosleep discard applypriority".split())
_SPACES = ("shared", "global", "const", "local", "param")
_ADDRESS = re.compile(r"\[\s*([%\w$@.]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_HINT = "the interpreter knows the arithmetic of the kernels here; on a GPU load the written file with cuModuleLoadData"


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
        InputError: there is an instruction that is not known here; the message names it.
    """
    types = [_storage(kind) for kind in entry.registers.values()]
    decoder = _Decoder(entry, symbols)
    steps = []
    for each in entry.instructions:
        try:
            steps.append(decoder.step(each))
        except (KeyError, IndexError, ValueError) as unknown:
            written = f"{each.name} {', '.join(each.operands)}"
            message = f"{name}:{each.line}: the interpreter does not know the instruction {written.strip()}"
            raise InputError(f"{message} ({unknown})" if str(unknown) else message, _HINT) from None
    lines = [each.line for each in entry.instructions]
    return Code(types, steps, frozenset(entry.labels.values()), lines)


def _storage(kind: str) -> np.dtype[Any]:
    return DTYPES["pred"] if kind == "pred" else np.dtype(f"u{int(kind[1:].partition('x')[0]) // 8}")


class _Decoder:
    def __init__(self, entry: Entry, symbols: Mapping[str, int]) -> None:
        self._entry, self._symbols = entry, symbols
        self._numbers = {name: number for number, name in enumerate(entry.registers)}
        self._types = [_storage(kind) for kind in entry.registers.values()]

    def step(self, each: Instruction) -> Step:
        """Return what an instruction does."""
        kind = each.op[0]
        guard = None if each.guard is None else self._predicate("!" * each.guard[1] + each.guard[0])
        if kind == "bra":
            return "jump", self._entry.labels[each.operands[0]], guard
        if kind in ("ret", "exit"):
            return "end", None, guard
        if kind == "bar" and "warp" not in each.op and guard is None:
            return "barrier", self._barrier(each), None
        if kind in ("shfl", "vote", "bar") and guard is None:
            run, named = self._warp_wide(each)
            return "warp", run, named
        maker = getattr(self, f"_{kind}", None)
        if kind in _NOTHING or each.op[:3] == ("cp", "async", "commit_group"):
            return "plain", lambda _: None, guard
        return "plain", maker(each) if maker is not None else self._arithmetic(each), guard

    def _read(self, operand: str, kind: str) -> Reader:
        """Return the reader of an operand as values of a type."""
        dtype = DTYPES[kind]
        if kind == "pred":
            return self._predicate(operand)
        if operand in self._numbers:
            number, own = self._numbers[operand], self._types[self._numbers[operand]]
            width = 4 if kind == "f16x2" else dtype.itemsize
            if own.itemsize == width:
                return lambda threads: threads.registers[number].view(dtype)
            same = np.dtype(f"u{width}")
            return lambda threads: threads.registers[number].astype(same).view(dtype)
        if operand.startswith("%"):
            name = operand[1:]
            if name.split(".")[0] not in ("tid", "ntid", "ctaid", "nctaid") and not name.startswith("lane"):
                raise KeyError(operand)
            return lambda threads: threads.special[name].astype(dtype)
        value = self._constant(operand, dtype)
        return lambda _: value

    def _constant(self, operand: str, dtype: np.dtype[Any]) -> Any:
        """Return a number, or the address of a variable, as an array of one element."""
        text = operand.strip()
        if text[:2] in ("0f", "0F", "0d", "0D"):
            code = ">f" if text[1] in "fF" else ">d"
            return np.array(struct.unpack(code, bytes.fromhex(text[2:])), dtype)
        if text == "WARP_SZ":
            return np.array([32]).astype(dtype)
        name, _, more = text.partition("+")
        if name.strip() in self._symbols:
            return np.array([self._symbols[name.strip()] + int(more or 0)]).astype(dtype)
        if dtype.kind == "f" and "." in text:
            return np.array([float(text)], dtype)
        bits = dtype.itemsize * 8
        number = int(text.rstrip("U"), 0) % (1 << bits)
        return np.array([number], f"u{dtype.itemsize}").view(dtype)

    def _predicate(self, operand: str) -> Reader:
        name = operand.lstrip("!").strip()
        if name in self._numbers:
            number = self._numbers[name]
            if operand.startswith("!"):
                return lambda threads: ~threads.registers[number]
            return lambda threads: threads.registers[number]
        value = np.array([bool(int(name, 0)) != operand.startswith("!")])
        return lambda _: value

    def _writer(self, operand: str, kind: str) -> Callable[[Any, Any], None]:
        """Return what writes values of a type to a register; wider registers get them extended."""
        if operand == "_":
            return lambda threads, value: None
        number = self._numbers[operand]
        own, dtype = self._types[number], DTYPES[kind]
        if kind in ("pred", "f16x2") or own.itemsize == dtype.itemsize:
            return lambda threads, value: threads.put(number, np.ascontiguousarray(value))
        wide = np.dtype(f"{dtype.kind if dtype.kind == 'i' else 'u'}{own.itemsize}")
        bits = np.dtype(f"u{dtype.itemsize}")
        if dtype.kind == "i":
            return lambda threads, value: threads.put(number, np.asarray(value).astype(wide))
        return lambda threads, value: threads.put(number, np.ascontiguousarray(value).view(bits).astype(wide))

    def _put(self, each: Instruction, kind: str, compute: Callable[..., Any], reads: Sequence[Reader]) -> Reader:
        write = self._writer(each.operands[0], kind)

        def run(threads: Any) -> None:
            write(threads, compute(*(read(threads) for read in reads)))

        return run

    def _operands(self, each: Instruction, kind: str) -> list[Reader]:
        return [self._read(operand, kind) for operand in each.operands[1:]]

    def _arithmetic(self, each: Instruction) -> Reader:
        kind, first = each.op[-1], each.op[0]
        dtype = DTYPES[kind]
        words = set(each.op[1:-1])
        if dtype.kind != "f":
            if words - {"shiftamt"} or first not in INTEGERS:
                raise KeyError(first)
            result = "u32" if first in ("popc", "clz") else kind
            reads = [self._read(operand, "u32" if first == "bfe" and place else kind)
                     for place, operand in enumerate(each.operands[1:])]  # fmt: skip
            return self._put(each, result, INTEGERS[first], reads)
        modes, reads = words & ROUNDINGS, self._operands(each, kind)
        mode = next(iter(modes), "rn")
        if words - ROUNDINGS - {"ftz", "sat", "approx", "full", "NaN"} or "NaN" in words:
            raise KeyError(first)
        of: Callable[..., Any]
        if first in ("fma", "mad"):
            def of(a: Any, b: Any, c: Any) -> Any:
                return arithmetic.fma(a, b, c, dtype, mode)
        elif mode == "rn":
            of = FLOATS[first]
        else:
            of = self._directed(first, dtype, mode)
        return self._put(each, kind, _adjusted(of, words), reads)

    def _directed(self, first: str, dtype: np.dtype[Any], mode: str) -> Callable[..., Any]:
        """Return a sum or product that is rounded in a direction."""
        one, zero = np.ones(1, dtype), np.zeros(1, dtype)
        if dtype.itemsize == 8:
            raise KeyError(mode)
        return {
            "add": lambda a, b: arithmetic.fma(a, one, b, dtype, mode),
            "sub": lambda a, b: arithmetic.fma(a, one, -b, dtype, mode),
            "mul": lambda a, b: arithmetic.fma(a, b, zero, dtype, mode),
        }[first]

    def _mul(self, each: Instruction) -> Reader:
        kind, way = each.op[-1], each.op[1]
        dtype = DTYPES[kind]
        if dtype.kind == "f":
            return self._arithmetic(each)
        wide = _wide(kind) if way == "wide" else kind
        product = {"lo": lambda a, b: a * b, "hi": lambda a, b: arithmetic.high_half(a, b, dtype),
                   "wide": lambda a, b: a.astype(DTYPES[wide]) * b.astype(DTYPES[wide])}[way]  # fmt: skip
        return self._put(each, wide, product, self._operands(each, kind))

    def _mad(self, each: Instruction) -> Reader:
        kind, way = each.op[-1], each.op[1]
        dtype = DTYPES[kind]
        if dtype.kind == "f":
            return self._arithmetic(each)
        wide = _wide(kind) if way == "wide" else kind
        product = {"lo": lambda a, b, c: a * b + c, "hi": lambda a, b, c: arithmetic.high_half(a, b, dtype) + c,
                   "wide": lambda a, b, c: a.astype(DTYPES[wide]) * b.astype(DTYPES[wide]) + c}[way]  # fmt: skip
        a, b, c = each.operands[1:]
        return self._put(each, wide, product, [self._read(a, kind), self._read(b, kind), self._read(c, wide)])

    def _shl(self, each: Instruction) -> Reader:
        kind = each.op[-1]
        a, by = self._read(each.operands[1], kind), self._read(each.operands[2], "u32")
        left = each.op[0] == "shl"
        return self._put(each, kind, lambda x, y: arithmetic.shifted(x, y, left), [a, by])

    _shr = _shl

    def _shf(self, each: Instruction) -> Reader:
        left, wrap = each.op[1] == "l", each.op[2] == "wrap"
        return self._put(
            each, "b32", lambda a, b, c: arithmetic.funnel(a, b, c, left, wrap), self._operands(each, "b32")
        )

    def _lop3(self, each: Instruction) -> Reader:
        table = int(each.operands[4], 0)
        reads = [self._read(operand, "b32") for operand in each.operands[1:4]]
        return self._put(each, "b32", lambda a, b, c: arithmetic.looked_up(a, b, c, table), reads)

    def _bfind(self, each: Instruction) -> Reader:
        reads = self._operands(each, each.op[-1])
        return self._put(each, "u32", lambda a: arithmetic.highest_bit(a, "shiftamt" in each.op), reads)

    def _selp(self, each: Instruction) -> Reader:
        a, b, p = each.operands[1:]
        kind = each.op[-1]
        reads = [self._predicate(p), self._read(a, kind), self._read(b, kind)]
        return self._put(each, kind, np.where, reads)

    def _setp(self, each: Instruction) -> Reader:
        kind = each.op[-1]
        compare = COMPARISONS[each.op[1]]
        a, b = (self._read(operand, kind) for operand in each.operands[1:3])
        combine = next((INTEGERS[word] for word in each.op[2:-1] if word in ("and", "or", "xor")), None)
        third = self._predicate(each.operands[3]) if combine else None
        yes, _, no = each.operands[0].partition("|")
        write = self._writer(yes, "pred")
        write_no = self._writer(no, "pred") if no else None

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

    def _cvt(self, each: Instruction) -> Reader:
        target, source = each.op[-2:]
        to, words = DTYPES[target], set(each.op[1:-2])
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
        return self._put(each, target, _adjusted(convert, words - {"sat"}), [self._read(each.operands[1], source)])

    def _cvta(self, each: Instruction) -> Reader:
        space, sign = ("global", 1)
        for word in each.op[1:]:
            space = word if word in _SPACES else space
            sign = -1 if word == "to" else sign
        kind = each.op[-1]
        read, write = self._read(each.operands[1], kind), self._writer(each.operands[0], kind)

        def run(threads: Any) -> None:
            base = threads.memory.bases.get(space, 0)
            write(threads, (read(threads).astype(np.int64) + sign * np.asarray(base)).astype(DTYPES[kind]))

        return run

    def _mov(self, each: Instruction) -> Reader:
        kind = each.op[-1]
        target, source = each.operands
        if source.startswith("{"):
            parts = _parts(source)
            each_bits = DTYPES[kind].itemsize * 8 // len(parts)
            reads = [self._read(part, f"u{each_bits}") for part in parts]
            shifts = [DTYPES[kind].type(each_bits * place) for place in range(len(parts))]
            wide = np.dtype(f"u{DTYPES[kind].itemsize}")
            return self._put(
                each, kind,
                lambda *values: sum((v.astype(wide) << wide.type(s) for v, s in zip(values, shifts, strict=True)),
                                    wide.type(0)),
                reads,
            )  # fmt: skip
        read = self._read(source, kind)
        if target.startswith("{"):
            parts = _parts(target)
            bits = DTYPES[kind].itemsize * 8 // len(parts)
            writes = [self._writer(part, f"u{bits}") for part in parts]

            def run(threads: Any) -> None:
                value = read(threads)
                for place, write in enumerate(writes):
                    write(threads, (value >> value.dtype.type(bits * place)).astype(DTYPES[f"u{bits}"]))

            return run
        return self._put(each, kind, lambda value: value, [read])

    def _address(self, operand: str) -> tuple[Reader, int]:
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise ValueError("its address")
        kind = "u64"
        if found[1] in self._numbers:
            kind = f"u{self._types[self._numbers[found[1]]].itemsize * 8}"
        return self._read(found[1], kind), int(found[2] or "0", 0)

    def _ld(self, each: Instruction) -> Reader:
        kind, space = each.op[-1], _space(each)
        size_bytes = DTYPES[kind].itemsize
        parts = _parts(each.operands[0]) if each.operands[0].startswith("{") else [each.operands[0]]
        targets = [self._writer(part, kind) for part in parts]
        read, offset = self._address(each.operands[1])

        def run(threads: Any) -> None:
            active = threads.active
            places = _places(threads, read, offset, active, (space, size_bytes * len(parts), "a read"))
            for number, write in enumerate(targets):
                value = np.zeros(threads.size, f"u{size_bytes}")
                value[active] = threads.memory.load(places + number * size_bytes, size_bytes)
                write(threads, value.view(DTYPES[kind]))

        return run

    _ldu = _ld

    def _st(self, each: Instruction) -> Reader:
        kind, space = each.op[-1], _space(each)
        size_bytes = DTYPES[kind].itemsize
        parts = _parts(each.operands[1]) if each.operands[1].startswith("{") else [each.operands[1]]
        values = [self._read(part, kind) for part in parts]
        read, offset = self._address(each.operands[0])

        def run(threads: Any) -> None:
            active = threads.active
            places = _places(threads, read, offset, active, (space, size_bytes * len(parts), "a write"))
            for number, value in enumerate(values):
                whole = np.broadcast_to(value(threads), threads.size)
                threads.memory.store(places + number * size_bytes, whole[active])

        return run

    def _cp(self, each: Instruction) -> Reader:
        """Return a copy that is made as late as it may be: when the thread waits for it, or ends."""
        if each.op[2] in ("wait_group", "wait_all"):
            return lambda threads: threads.copy(threads.mask)
        size_bytes = int(each.operands[2], 0)
        target, source = self._address(each.operands[0]), self._address(each.operands[1])
        given = self._read(each.operands[3], "u32") if len(each.operands) > 3 else None

        def run(threads: Any) -> None:
            active = threads.active
            to = _places(threads, *target, active, ("shared", size_bytes, "a write"))
            count = np.full(threads.size, size_bytes) if given is None else given(threads).astype(np.int64)
            count = np.broadcast_to(count, threads.size)[active]
            start = np.zeros(len(active), np.int64)
            start[count > 0] = _places(threads, *source, active[count > 0], ("global", size_bytes, "a read"))
            threads.copies.append((active, to, start, count, size_bytes))

        return run

    def _atom(self, each: Instruction) -> Reader:
        kind, space = each.op[-1], _space(each)
        dtype = DTYPES[kind]
        reduces = each.op[0] == "red"
        operands = each.operands if reduces else each.operands[1:]
        change = _ATOMICS[next(word for word in each.op[1:-1] if word in _ATOMICS)]
        read, offset = self._address(operands[0])
        values = [self._read(operand, kind) for operand in operands[1:]]
        write = None if reduces else self._writer(each.operands[0], kind)

        def run(threads: Any) -> None:
            active = threads.active
            places = _places(threads, read, offset, active, (space, dtype.itemsize, "an atomic operation"))
            given = [np.broadcast_to(value(threads), threads.size)[active] for value in values]
            before = np.zeros(threads.size, dtype)
            for turn, thread in enumerate(active):
                here = places[turn : turn + 1]
                old = threads.memory.load(here, dtype.itemsize).view(dtype)
                before[thread] = old[0]
                new = change(old, *(value[turn : turn + 1] for value in given))
                threads.memory.store(here, np.asarray(new, dtype))
            if write is not None:
                write(threads, before)

        return run

    _red = _atom

    def _trap(self, each: Instruction) -> Reader:
        def run(threads: Any) -> None:
            raise StoppedError("crash", "trap")

        return run

    def _barrier(self, each: Instruction) -> Reader:
        """Return what a barrier does once all threads of a block are there."""
        if each.op[1] != "red":
            if each.operands != ("0",):
                raise ValueError("a named barrier")
            return lambda _: None
        predicate = self._predicate(each.operands[2])
        way = each.op[2]
        write = self._writer(each.operands[0], each.op[-1])

        def run(threads: Any) -> None:
            held = threads.by_block(np.broadcast_to(predicate(threads), threads.size))
            came = threads.by_block(np.ones(threads.size, np.int64))
            value = {"popc": held, "and": held == came, "or": held > 0}[way]
            write(threads, value.astype(DTYPES[each.op[-1]]))

        return run

    def _warp_wide(self, each: Instruction) -> tuple[Reader, Reader]:
        """Return an instruction that lanes of a warp run together, and the lanes that it waits for."""
        named = self._read(each.operands[-1], "u32")
        if each.op[:2] == ("bar", "warp"):
            return (lambda _: None), named
        if each.op[0] == "vote":
            return self._vote(each, named), named
        value, by, limit = (self._read(operand, "b32") for operand in each.operands[1:4])
        target, _, inside = each.operands[0].partition("|")
        write, write_inside = self._writer(target, "b32"), self._writer(inside or "_", "pred")
        way = each.op[2]

        def run(threads: Any) -> None:
            lane = threads.lane.astype(np.int64)
            amount, limits = (np.broadcast_to(one(threads), threads.size).astype(np.int64) for one in (by, limit))
            segment, clamp, amount = (limits >> 8) & 31, limits & 31, amount & 31
            last, first = (lane & segment) | (clamp & ~segment & 31), lane & segment
            source = {"up": lane - amount, "down": lane + amount, "bfly": lane ^ amount,
                      "idx": first | (amount & ~segment & 31)}[way]  # fmt: skip
            held = source >= last if way == "up" else source <= last
            whole = np.broadcast_to(value(threads), threads.size)
            write(threads, threads.from_lane(whole, np.where(held, source, lane)))
            write_inside(threads, held)

        return run, named

    def _vote(self, each: Instruction, named: Reader) -> Reader:
        predicate = self._predicate(each.operands[1])
        kind = each.op[-1]
        way = each.op[2]
        write = self._writer(each.operands[0], kind)

        def run(threads: Any) -> None:
            held = threads.mask & np.broadcast_to(predicate(threads), threads.size)
            members = threads.bits(threads.mask) & named(threads)
            bits = threads.bits(held) & members
            value = {"ballot": bits, "any": bits != 0, "all": bits == members,
                     "uni": (bits == 0) | (bits == members)}[way]  # fmt: skip
            write(threads, value)

        return run


_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, x: old + x, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda old, x: x, "cas": lambda old, x, y: np.where(old == x, y, old),
    "inc": lambda old, x: np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - old.dtype.type(1)),
}  # fmt: skip


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


def _places(threads: Any, read: Reader, offset: int, active: Array, of: tuple[str, int, str]) -> Array:
    """Return the checked indices of an access of the active threads."""
    space, size_bytes, what = of
    address = np.broadcast_to(read(threads), threads.size)[active].astype(np.int64) + offset
    found: Array = threads.memory.places(space, address, active, size_bytes, what)
    return found


def _space(each: Instruction) -> str:
    return next((word for word in each.op[1:] if word in _SPACES), "")


def _parts(operand: str) -> list[str]:
    return [part.strip() for part in operand.strip("{} \t").split(",")]


def _wide(kind: str) -> str:
    return f"{kind[0]}{int(kind[1:]) * 2}"
