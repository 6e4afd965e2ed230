"""PTX instructions that read and write memory, as functions on threads (NVIDIA, "PTX ISA", section 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.arithmetic import DTYPES, Array
from edgetune.stages.elastic.ptx.operands import Operands, Reader, parts
from edgetune.stages.elastic.ptx.parse import Instruction

_SPACES = ("shared", "global", "const", "local", "param")

_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, x: old + x, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda _, x: x, "cas": lambda old, x, y: np.where(old == x, y, old),
    "inc": lambda old, x: np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - old.dtype.type(1)),
}  # fmt: skip


def _cvta(of: Operands, each: Instruction) -> Reader:
    space, sign = ("global", 1)
    for word in each.op[1:]:
        space = word if word in _SPACES else space
        sign = -1 if word == "to" else sign
    kind = each.op[-1]
    read, write = of.read(each.operands[1], kind), of.writer(each.operands[0], kind)

    def run(threads: Any) -> None:
        base = threads.memory.bases.get(space, 0)
        write(threads, (read(threads).astype(np.int64) + sign * np.asarray(base)).astype(DTYPES[kind]))

    return run


def _ld(of: Operands, each: Instruction) -> Reader:
    kind, space = each.op[-1], _space(each)
    size_bytes = DTYPES[kind].itemsize
    targets = [of.writer(part, kind) for part in parts(each.operands[0])]
    read, offset = of.address(each.operands[1])

    def run(threads: Any) -> None:
        active = threads.active
        places = _places(threads, read, offset, active, (space, size_bytes * len(targets), "a read"))
        for number, write in enumerate(targets):
            value = np.zeros(threads.size, f"u{size_bytes}")
            value[active] = threads.memory.load(places + number * size_bytes, size_bytes)
            write(threads, value.view(DTYPES[kind]))

    return run


def _st(of: Operands, each: Instruction) -> Reader:
    kind, space = each.op[-1], _space(each)
    size_bytes = DTYPES[kind].itemsize
    values = [of.read(part, kind) for part in parts(each.operands[1])]
    read, offset = of.address(each.operands[0])

    def run(threads: Any) -> None:
        active = threads.active
        places = _places(threads, read, offset, active, (space, size_bytes * len(values), "a write"))
        for number, value in enumerate(values):
            whole = np.broadcast_to(value(threads), threads.size)
            threads.memory.store(places + number * size_bytes, whole[active])

    return run


def _cp(of: Operands, each: Instruction) -> Reader:
    """Return a copy that is made as late as it may be: when the thread waits for it, or ends."""
    if each.op[2] in ("wait_group", "wait_all"):
        return lambda threads: threads.copy(threads.mask)
    size_bytes = int(each.operands[2], 0)
    target, source = of.address(each.operands[0]), of.address(each.operands[1])
    given = of.read(each.operands[3], "u32") if len(each.operands) > 3 else None

    def run(threads: Any) -> None:
        active = threads.active
        to = _places(threads, *target, active, ("shared", size_bytes, "a write"))
        count = np.full(threads.size, size_bytes) if given is None else given(threads).astype(np.int64)
        count = np.broadcast_to(count, threads.size)[active]
        start = np.zeros(len(active), np.int64)
        start[count > 0] = _places(threads, *source, active[count > 0], ("global", size_bytes, "a read"))
        threads.copies.append((active, to, start, count, size_bytes))

    return run


def _atom(of: Operands, each: Instruction) -> Reader:
    kind, space = each.op[-1], _space(each)
    dtype = DTYPES[kind]
    reduces = each.op[0] == "red"
    operands = each.operands if reduces else each.operands[1:]
    change = _ATOMICS[next(word for word in each.op[1:-1] if word in _ATOMICS)]
    read, offset = of.address(operands[0])
    values = [of.read(operand, kind) for operand in operands[1:]]
    write = None if reduces else of.writer(each.operands[0], kind)

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


def _places(threads: Any, read: Reader, offset: int, active: Array, of: tuple[str, int, str]) -> Array:
    """Return the checked indices of an access of the active threads."""
    space, size_bytes, what = of
    address = np.broadcast_to(read(threads), threads.size)[active].astype(np.int64) + offset
    found: Array = threads.memory.places(space, address, active, size_bytes, what)
    return found


def _space(each: Instruction) -> str:
    return next((word for word in each.op[1:] if word in _SPACES), "")


TRANSFERS: dict[str, Callable[[Operands, Instruction], Reader]] = {
    "cvta": _cvta, "ld": _ld, "ldu": _ld, "st": _st, "cp": _cp, "atom": _atom, "red": _atom,
}  # fmt: skip
"""By the first word of the instruction."""
