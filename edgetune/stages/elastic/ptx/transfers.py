"""PTX instructions that read and write memory (NVIDIA, "PTX ISA", section 9.7.9), textures, and calls of the system.

A texture has no memory, for a check that all forms of a kernel read the same: each number is made of the object's own
number and the bits of the coordinates.

Source of the instructions: NVIDIA, "PTX ISA", section 9.7.10. No filtering, no addressing modes, no formats.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.formats import DTYPES, PAIRS, Array, narrowed, widened
from edgetune.stages.elastic.ptx.memory import AT_ONCE, StoppedError
from edgetune.stages.elastic.ptx.operands import Operands, parts
from edgetune.stages.elastic.ptx.parse import Instruction

_HASH, _PRIME, _MIX = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(0x94D049BB133111EB)


def _object(operand: str) -> tuple[str, list[str]]:
    """Return the texture of an operand, and its coordinates."""
    name, _, coordinates = operand.strip("[] ").partition(",")
    return name.strip(), parts(coordinates.strip().partition("}")[0])


def _tex(of: Operands, each: Instruction) -> None:
    """Write a read of a texture: what it holds is made of its number and the coordinates."""
    targets, (name, coordinates) = parts(each.operands[0]), _object(each.operands[1])
    kind, by = each.op[-2:]
    reads = [of.read(name, "u64"), *(of.read(one, by) for one in coordinates)]
    value = of.let(f"{of.bind(partial(_texels, DTYPES[kind], len(targets)))}({', '.join(reads)})")
    for place, target in enumerate(targets):
        of.write(target, kind, f"{value}[{place}]")


def _texels(dtype: np.dtype[Any], count: int, texture: Array, *coordinates: Array) -> list[Array]:
    """Return numbers from 0 to 1, or integers below 8: they often are counts or places."""
    mixed = _mixed([texture, *(np.ascontiguousarray(each).view(f"u{each.itemsize}") for each in coordinates)])
    found = []
    for place in range(count):
        bits = (((mixed + np.uint64(place)) * _PRIME) ^ (mixed >> np.uint64(31))) * _MIX >> np.uint64(32)
        found.append((bits >> np.uint64(8)) / 2.0**24 if dtype.kind == "f" else bits % np.uint64(8))
    return [each.astype(dtype) for each in found]


def _mixed(values: Sequence[Array]) -> Array:
    """Return numbers made of the bits of others (Fowler, Noll and Vo's hash FNV-1a, by words)."""
    found: Array = np.full(1, _HASH)
    for each in values:
        found = (found ^ each.astype(np.uint64)) * _PRIME
        found = found ^ (found >> np.uint64(29))
    return found


_SPACES = ("shared", "global", "const", "local", "param")
_OUTSIDE = ("", "global")
"""Where control words may be."""
_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, x: old + x, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda _, x: x, "cas": lambda old, x, y: np.where(old == x, y, old),
    "inc": lambda old, x: np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - old.dtype.type(1)),
}  # fmt: skip


def _space(of: Operands, each: Instruction, address: str) -> str:
    if of.is_own(address):  # a parameter of a called function
        return "local"
    return next((word for word in each.op[1:] if word in _SPACES), "")


def _cvta(of: Operands, each: Instruction) -> None:
    space = next((word for word in each.op[1:] if word in _SPACES), "global")
    kind, read = each.op[-1], of.read(each.operands[1], each.op[-1])
    if space not in ("shared", "local"):
        return of.write(each.operands[0], kind, read)
    reads = [of.let(f"{read}.astype({of.bind(np.dtype('i8'))})")]
    return of.effect(
        partial(_generic, space, -1 if "to" in each.op else 1, DTYPES[kind]), reads, [(each.operands[0], kind)]
    )


def _generic(space: str, sign: int, dtype: np.dtype[Any], threads: Any, address: Array) -> list[Array]:
    return [(address + sign * threads.base(space)).astype(dtype)]


def _ld(of: Operands, each: Instruction) -> None:
    kind, space = each.op[-1], _space(of, each, each.operands[1])
    targets = parts(each.operands[0])
    of.effect(
        partial(_loaded, space, DTYPES[kind], len(targets)), [of.address(each.operands[1])],
        [(target, kind) for target in targets],
    )  # fmt: skip


def _loaded(space: str, dtype: np.dtype[Any], count: int, threads: Any, address: Array) -> list[Array]:
    size_bytes, memory = dtype.itemsize, threads.memory
    places = memory.places(threads, space, address, size_bytes * count, "a read")
    found = [memory.load(places + number * size_bytes if number else places, size_bytes).view(dtype)
            for number in range(count)]  # fmt: skip
    if threads.blocks.control is not None and space in _OUTSIDE:
        threads.blocks.control.loaded(threads, places, found[0])
    return found


def _st(of: Operands, each: Instruction) -> None:
    kind, space = each.op[-1], _space(of, each, each.operands[0])
    values = [of.read(part, kind) for part in parts(each.operands[1])]
    of.effect(partial(_stored, space), [of.address(each.operands[0]), *values])


def _stored(space: str, threads: Any, address: Array, *values: Array) -> None:
    size_bytes, memory = values[0].itemsize, threads.memory
    places = memory.places(threads, space, address, size_bytes * len(values), "a write")
    if threads.blocks.control is not None and space in _OUTSIDE:
        threads.blocks.control.stored(threads, places)
    for number, value in enumerate(values):
        memory.store(places + number * size_bytes if number else places, value)


def _cp(of: Operands, each: Instruction) -> None:
    """Write a copy that is made as late as it may be: when the thread waits for it, or ends."""
    if each.op[1] != "async" or each.op[2] in ("bulk", "mbarrier"):
        raise KeyError(each.name)
    if each.op[2] in ("wait_group", "wait_all"):
        return of.effect(lambda threads: threads.memory.copy(threads.threads), [])
    size_bytes = int(each.operands[2], 0)
    given = [of.read(each.operands[3], "u32")] if len(each.operands) > 3 else []
    return of.effect(partial(_copied, size_bytes), [*map(of.address, each.operands[:2]), *given])


def _copied(size_bytes: int, threads: Any, to: Array, start: Array, given: Array | None = None) -> None:
    count = np.full(threads.size, size_bytes) if given is None else threads.full(given).astype(np.int64)
    places = threads.memory.places(threads, "shared", to, size_bytes, "a write")
    reads, found = threads.only(np.flatnonzero(count > 0)), np.zeros(threads.size, np.int64)
    if reads.size:
        address = threads.full(start)[count > 0]
        found[count > 0] = threads.memory.places(reads, "global", address, size_bytes, "a read")
    threads.memory.copies.append((threads.threads, threads.full(places), found, count, size_bytes))


def _atom(of: Operands, each: Instruction) -> None:
    """Write an atomic operation: threads make it one after the other."""
    kind, space = each.op[-1], next((word for word in each.op[1:] if word in _SPACES), "")
    kind = "b32" if kind in PAIRS and "add" not in each.op else kind
    reduces = each.op[0] == "red"
    operands = each.operands if reduces else each.operands[1:]
    name = next(word for word in each.op[1:-1] if word in _ATOMICS)
    whole = f"u{DTYPES[kind].itemsize * (2 if kind in PAIRS else 1) * 8}"
    values = [of.read(operand, whole) for operand in operands[1 : 3 if name == "cas" else 2]]
    result = [] if reduces or each.operands[0] == "_" else [(each.operands[0], whole)]
    of.effect(partial(_atomic, name, kind, (space, not result)), [of.address(operands[0]), *values], result)


def _atomic(
    name: str, kind: str, how: tuple[str, bool], threads: Any, address: Array, *values: Array
) -> list[Array] | None:
    space, silent = how
    memory, change, size_bytes = threads.memory, _changing(name, kind), values[0].itemsize
    places = threads.full(memory.places(threads, space, address, size_bytes, "an atomic operation"))
    if threads.blocks.control is not None and space in _OUTSIDE:
        threads.blocks.control.changed(threads, places)
    given = [threads.full(value) for value in values]
    dtype = DTYPES[kind]
    if silent and name in AT_ONCE and dtype.itemsize == size_bytes and not kind.startswith("bf16"):
        memory.change(AT_ONCE[name], places, given[0].view(dtype))
        return None
    if name in ("add", "or", "xor") and not values[0].any():  # which only looks
        return [memory.load(places, size_bytes)]
    order = np.argsort(places, kind="stable")
    sorted_ = places[order]
    begins = np.concatenate([[True], sorted_[1:] != sorted_[:-1]])
    first = np.flatnonzero(begins)
    group, at = np.cumsum(begins) - 1, sorted_[first]
    turn = np.arange(len(order)) - first[group]
    now, before = memory.load(at, size_bytes), np.zeros(threads.size, values[0].dtype)
    for number in range(int(turn.max()) + 1):
        here = np.flatnonzero(turn == number) if number else first
        chosen, which = order[here], group[here]
        before[chosen] = now[which]
        now[which] = change(now[which], *(value[chosen] for value in given))
    memory.store(at, now)
    return [before]


def _changing(name: str, kind: str) -> Callable[..., Array]:
    """Return an atomic operation on the bits of numbers."""
    dtype, change = DTYPES[kind], _ATOMICS[name]

    def run(*values: Array) -> Array:
        numbers = [widened(np.ascontiguousarray(each).view(dtype), kind) for each in values]
        found = change(*numbers)
        found = narrowed(found, "bf16") if kind.startswith("bf16") and found.dtype.kind == "f" else found
        return np.ascontiguousarray(found).view(values[0].dtype)

    return run


def _call(of: Operands, each: Instruction) -> None:
    """Write a call of the system: what ``printf`` prints is nowhere, and an assertion that fails ends the launch."""
    names = [one for one in each.operands if not one.startswith("(")]
    if names[:1] == ["vprintf"]:
        return None
    if names[:1] != ["__assertfail"]:
        raise KeyError(each.name)
    return of.effect(_failed, [of.address(f"[{parts(each.operands[-1].strip('() '))[0]}]")])


def _failed(threads: Any, address: Array) -> None:
    memory = threads.memory
    place = memory.places(threads, "local", address, 8, "a read")
    text = memory.text(int(memory.load(place, 8)[0]))
    raise StoppedError("crash", f"a thread failed its assertion {text}")


TRANSFERS: dict[str, Callable[[Operands, Instruction], None]] = {
    "cvta": _cvta, "ld": _ld, "ldu": _ld, "st": _st, "cp": _cp, "atom": _atom, "red": _atom,
    "call": _call, "tex": _tex, "tld4": _tex,
}  # fmt: skip
"""By the first word of the instruction."""
