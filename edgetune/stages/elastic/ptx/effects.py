"""PTX instructions that do more than compute: memory, textures, meetings of threads, calls of the system.

A texture has no memory, for a check that all forms of a kernel read the same: each number is made of the object's own
number and the bits of the coordinates, without filtering, addressing modes and formats.

Source of the instructions: NVIDIA, "PTX ISA", sections 9.7.9 (memory, shuffles), 9.7.10 (textures), 9.7.13 (meetings).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.formats import DTYPES, PAIRS, Array, narrowed, widened
from edgetune.stages.elastic.ptx.memory import AT_ONCE, StoppedError
from edgetune.stages.elastic.ptx.operands import Rule, parts
from edgetune.stages.elastic.ptx.parse import Instruction
from edgetune.stages.elastic.ptx.tensor_cores import PRODUCTS

_HASH, _PRIME, _MIX = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(0x94D049BB133111EB)
_SPACES = ("shared", "global", "const", "local", "param")
_OUTSIDE = ("", "global")
"""Where control words may be."""
_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, x: old + x, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda _, x: x, "cas": lambda old, x, y: np.where(old == x, y, old),
    "inc": lambda old, x: np.where(old >= x, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - old.dtype.type(1)),
}  # fmt: skip


def _tex(each: Instruction) -> Rule:
    """Return the rule of a read of a texture: what it holds is made of its number and the coordinates."""
    name, _, coordinates = each.operands[1].strip("[] ").partition(",")
    given, (kind, by) = parts(coordinates.strip().partition("}")[0]), each.op[-2:]
    compute = partial(_texels, DTYPES[kind], len(parts(each.operands[0])))
    return Rule((each.operands[0], name.strip(), *given), (kind,), compute, ("u64", *[by] * len(given)))


def _texels(dtype: np.dtype[Any], count: int, texture: Array, *coordinates: Array) -> list[Array]:
    """Return numbers from 0 to 1, or integers below 8: they often are counts or places.

    They are made of the bits of others by Fowler, Noll and Vo's hash FNV-1a, by words.
    """
    mixed: Array = np.full(1, _HASH)
    for each in (texture, *(np.ascontiguousarray(each).view(f"u{each.itemsize}") for each in coordinates)):
        mixed = (mixed ^ each.astype(np.uint64)) * _PRIME
        mixed = mixed ^ (mixed >> np.uint64(29))
    found = []
    for place in range(count):
        bits = (((mixed + np.uint64(place)) * _PRIME) ^ (mixed >> np.uint64(31))) * _MIX >> np.uint64(32)
        found.append((bits >> np.uint64(8)) / 2.0**24 if dtype.kind == "f" else bits % np.uint64(8))
    return [each.astype(dtype) for each in found]


def _space(each: Instruction) -> str:
    return next((word for word in each.op[1:] if word in _SPACES), "")


def _cvta(each: Instruction) -> Rule:
    space, kind = _space(each), each.op[-1]
    if space not in ("shared", "local"):
        return Rule(each.operands, (kind,), None, (kind,))
    return Rule(each.operands, (kind,), partial(_generic, space, -1 if "to" in each.op else 1), (kind,), acts=True)


def _generic(space: str, sign: int, threads: Any, address: Array) -> list[Array]:
    return [(address.astype(np.int64) + sign * threads.of(space)).astype(address.dtype)]


def _ld(each: Instruction) -> Rule:
    kind, count = each.op[-1], len(parts(each.operands[0]))
    return Rule(each.operands, (kind,), partial(_loaded, _space(each), DTYPES[kind], count), ("[]",), acts=True)


def _loaded(space: str, dtype: np.dtype[Any], count: int, threads: Any, address: Array) -> list[Array]:
    size_bytes, memory = dtype.itemsize, threads.memory
    places = memory.places(threads, space, address, size_bytes * count, "a read")
    found = [memory.load(places + number * size_bytes if number else places, size_bytes).view(dtype)
             for number in range(count)]  # fmt: skip
    if threads.blocks.control is not None and space in _OUTSIDE:
        threads.blocks.control.loaded(threads, places, found[0])
    return found


def _st(each: Instruction) -> Rule:
    return Rule(each.operands, (), partial(_stored, _space(each)), ("[]", each.op[-1]), acts=True)


def _stored(space: str, threads: Any, address: Array, *values: Array) -> None:
    size_bytes, memory = values[0].itemsize, threads.memory
    places = memory.places(threads, space, address, size_bytes * len(values), "a write")
    if threads.blocks.control is not None and space in _OUTSIDE:
        threads.blocks.control.stored(threads, places)
    for number, value in enumerate(values):
        memory.store(places + number * size_bytes if number else places, value)


def _cp(each: Instruction) -> Rule:
    """Return the rule of a copy that is made as late as it may be: when the thread waits for it, or ends."""
    if each.op[1] != "async" or each.op[2] in ("bulk", "mbarrier"):
        raise KeyError(each.name)
    if each.op[2] in ("wait_group", "wait_all"):
        return Rule((), (), lambda threads: threads.memory.copy(threads.threads), (), acts=True)
    to, start, size_bytes, *given = each.operands[:4]
    run = partial(_copied, int(size_bytes, 0))
    return Rule((to, start, *given), (), run, ("[]", "[]", *["u32"] * len(given)), acts=True)


def _copied(size_bytes: int, threads: Any, to: Array, start: Array, given: Array | None = None) -> None:
    count = np.full(threads.size, size_bytes) if given is None else threads.full(given).astype(np.int64)
    places = threads.memory.places(threads, "shared", to, size_bytes, "a write")
    reads, found = threads.only(np.flatnonzero(count > 0)), np.zeros(threads.size, np.int64)
    if reads.size:
        address = threads.full(start)[count > 0]
        found[count > 0] = threads.memory.places(reads, "global", address, size_bytes, "a read")
    threads.memory.copies.append((threads.threads, threads.full(places), found, count, size_bytes))


def _atom(each: Instruction) -> Rule:
    """Return the rule of an atomic operation: threads make it one after the other."""
    kind = "b32" if each.op[-1] in PAIRS and "add" not in each.op else each.op[-1]
    target, where, *values = ("_", *each.operands) if each.op[0] == "red" else each.operands
    name = next(word for word in each.op[1:-1] if word in _ATOMICS)
    whole = f"u{DTYPES[kind].itemsize * (2 if kind in PAIRS else 1) * 8}"
    values, results = values[: 2 if name == "cas" else 1], [] if target == "_" else [target]
    run = partial(_atomic, name, kind, (_space(each), not results))
    return Rule((*results, where, *values), (whole,) * len(results), run, ("[]", *[whole] * len(values)), acts=True)


def _atomic(
    name: str, kind: str, how: tuple[str, bool], threads: Any, address: Array, *values: Array
) -> list[Array] | None:
    space, silent = how
    memory, size_bytes = threads.memory, values[0].itemsize
    places = threads.full(memory.places(threads, space, address, size_bytes, "an atomic operation"))
    if threads.blocks.control is not None and space in _OUTSIDE:
        threads.blocks.control.changed(threads, places)
    given = [threads.full(value) for value in values]
    dtype = DTYPES[kind]
    if silent and name in AT_ONCE and dtype.itemsize == size_bytes and not kind.startswith("bf16"):
        memory.change(AT_ONCE[name], places, given[0].view(dtype))
        return None
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
        now[which] = _changed(name, kind, now[which], *(value[chosen] for value in given))
    memory.store(at, now)
    return [before]


def _changed(name: str, kind: str, *values: Array) -> Array:
    """Return what an atomic operation makes of the bits of numbers."""
    found = _ATOMICS[name](*(widened(np.ascontiguousarray(each).view(DTYPES[kind]), kind) for each in values))
    found = narrowed(found, "bf16") if kind.startswith("bf16") and found.dtype.kind == "f" else found
    return np.ascontiguousarray(found).view(values[0].dtype)


def _call(each: Instruction) -> Rule | None:
    """Return the rule of a call of the system: ``printf`` prints nowhere, and a failed assertion ends the launch."""
    names = [one for one in each.operands if not one.startswith("(")]
    if names[:1] == ["vprintf"]:
        return None
    if names[:1] != ["__assertfail"]:
        raise KeyError(each.name)
    return Rule((f"[{parts(each.operands[-1].strip('() '))[0]}]",), (), _failed, ("[]",), acts=True)


def _failed(threads: Any, address: Array) -> None:
    memory = threads.memory
    place = memory.places(threads, "local", address, 8, "a read")
    text = memory.text(int(memory.load(place, 8)[0]))
    raise StoppedError("crash", f"a thread failed its assertion {text}")


def _trap(_: Instruction) -> Rule:
    def stop(_: Any) -> None:
        raise StoppedError("crash", "trap")

    return Rule((), (), stop, (), acts=True)


def _barrier(each: Instruction) -> Rule | None:
    """Return the rule of what a barrier does once all threads that it waits for are there."""
    if set(each.op[1:]) - {"sync", "red", "cta", "aligned", "popc", "and", "or", "pred", "u32", "warp"}:
        raise KeyError(each.name)
    if "red" not in each.op:
        return None
    way, kind = next(word for word in each.op if word in ("popc", "and", "or")), each.op[-1]
    run = partial(_votes, way, DTYPES[kind])
    return Rule((each.operands[0], each.operands[-1]), (kind,), run, ("pred",), acts=True)


def _votes(way: str, dtype: np.dtype[Any], threads: Any, held: Array) -> list[Array]:
    count = threads.by_block(held)
    value = {"popc": count, "and": count == threads.by_block(np.ones(1)), "or": count > 0}[way]
    return [value.astype(dtype)]


def _shfl(each: Instruction) -> Rule:
    return Rule(each.operands[:4], ("b32", "pred"), partial(_shuffled, each.op[2]), ("b32",) * 3, acts=True)


def _shuffled(way: str, threads: Any, value: Array, by: Array, limit: Array) -> list[Array]:
    lane = threads.of("laneid").astype(np.int64)
    amount, limits = by.astype(np.int64) & 31, limit.astype(np.int64)
    segment, clamp = (limits >> 8) & 31, limits & 31
    last, first = (lane & segment) | (clamp & ~segment & 31), lane & segment
    source = {"up": lane - amount, "down": lane + amount, "bfly": lane ^ amount,
              "idx": first | (amount & ~segment & 31)}[way]  # fmt: skip
    held = source >= last if way == "up" else source <= last
    return [threads.from_lane(value, np.where(held, source, lane)), held]


def _vote(each: Instruction) -> Rule:
    return Rule(each.operands, (each.op[-1],), partial(_voted, each.op[2]), ("pred", "u32"), acts=True)


def _voted(way: str, threads: Any, held: Array, named: Array) -> list[Array]:
    members = threads.bits(np.ones(1, bool)) & named
    bits = threads.bits(held) & members
    if way == "ballot":
        return [bits]
    return [{"any": bits != 0, "all": bits == members, "uni": (bits == 0) | (bits == members)}[way]]


def _match(each: Instruction) -> Rule:
    return Rule(each.operands, ("b32", "pred"), partial(_matched, each.op[1]), (each.op[-1], "u32"), acts=True)


def _matched(way: str, threads: Any, value: Array, named: Array) -> list[Array]:
    """Return the lanes that have the same value as each (``any``), or all of them where all have one (``all``)."""
    others, there = threads.of_warp(value, named)
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    found = ((others == value[:, None]) & there) @ bits
    if way == "any":
        return [found]
    members = there @ bits
    alike = found == members
    return [np.where(alike, members, np.uint32(0)), alike]


def _redux(each: Instruction) -> Rule:
    dtype = DTYPES[each.op[-1]]
    if dtype.itemsize != 4 or dtype.kind == "f":
        raise KeyError(each.name)
    start = {"min": np.iinfo(dtype).max, "max": np.iinfo(dtype).min, "and": np.iinfo(dtype).max}.get(each.op[2], 0)
    run = partial(_reduced, AT_ONCE[each.op[2]], start)
    return Rule(each.operands, (each.op[-1],), run, (each.op[-1], "u32"), acts=True)


def _reduced(operation: np.ufunc, start: int, threads: Any, value: Array, named: Array) -> list[Array]:
    """Return the sum, minimum ... of the values of all lanes that are named (``redux``)."""
    values, there = threads.of_warp(value, named)
    return [operation.reduce(values, axis=1, dtype=value.dtype, initial=start, where=there)]


MEETINGS: dict[str, Callable[[Instruction], Rule | None]] = {
    "bar": _barrier, "barrier": _barrier, "shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux, **PRODUCTS,
}  # fmt: skip
"""Instructions at which threads of a block or lanes of a warp meet, by their first words."""
EFFECTS: dict[str, Callable[[Instruction], Rule | None]] = {
    "cvta": _cvta, "ld": _ld, "ldu": _ld, "st": _st, "cp": _cp, "atom": _atom, "red": _atom, "call": _call,
    "tex": _tex, "tld4": _tex, "trap": _trap, **MEETINGS,
}  # fmt: skip
"""By the first word of the instruction."""
