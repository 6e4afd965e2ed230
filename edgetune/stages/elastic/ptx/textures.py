"""Textures and surfaces, for a check that all forms of a kernel read and write the same.

    texture    no memory: each number is made of the object's own number and the bits of the coordinates
               how large it is, is made of its number as well
    surface    a buffer of the launch: its bytes, rows and layers, and then the memory, which is compared as others are

Instructions: NVIDIA, "PTX ISA", sections 9.7.10 and 9.7.11. No filtering, no addressing modes, no formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.formats import DTYPES, Array
from edgetune.stages.elastic.ptx.memory import AT_ONCE, StoppedError
from edgetune.stages.elastic.ptx.operands import Operands, parts
from edgetune.stages.elastic.ptx.parse import Instruction

_HASH, _PRIME, _MIX = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(0x94D049BB133111EB)
_HEAD_BYTES = 16
"""Of a surface, as ``sample_launches`` makes it: bytes of a row, rows, layers, and nothing."""


def _object(operand: str) -> tuple[str, list[str]]:
    """Return the texture or surface of an operand, and its coordinates."""
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


def _queried(of: Operands, each: Instruction) -> None:
    """Write a question about a texture (``txq``): its answer is made of its number, from 1 to 8."""
    known = [of.read(_object(each.operands[1])[0], "u64"), of.bind(np.frombuffer(each.op[1].encode()[:4], "u4"))]
    of.put(each, each.op[-1], lambda *values: _texels(np.dtype("u4"), 1, *values)[0] + np.uint32(1), known)


def _mixed(values: Sequence[Array]) -> Array:
    """Return numbers made of the bits of others (Fowler, Noll and Vo's hash FNV-1a, by words)."""
    found: Array = np.full(1, _HASH)
    for each in values:
        found = (found ^ each.astype(np.uint64)) * _PRIME
        found = found ^ (found >> np.uint64(29))
    return found


def _surface(of: Operands, each: Instruction) -> None:
    """Write a read (``suld``), write (``sust``) or change (``sured``) of a surface, whose first coordinate counts
    bytes."""
    writes, kind = each.op[0] != "suld", each.op[-2]
    change = AT_ONCE[each.op[2]] if each.op[0] == "sured" else None
    shape = next(word for word in each.op if word in ("1d", "2d", "3d", "a1d", "a2d"))
    if each.op[1] != "b":
        raise KeyError(each.name)
    operand, values = each.operands if writes else each.operands[::-1]
    name, coordinates = _object(operand)
    if shape.startswith("a"):  # the layer comes first
        coordinates = [coordinates[1], coordinates[2] if shape == "a2d" else "0", coordinates[0]]
    reads = [of.read(name, "u64"), *(of.read(one, "s32") for one in [*coordinates, "0", "0"][:3])]
    registers = parts(values)
    run = partial(_accessed, (change, each.op[-1]), DTYPES[kind], len(registers))
    if writes:
        return of.effect(run, [*reads, *(of.read(one, kind) for one in registers)])
    return of.effect(run, reads, [(one, kind) for one in registers])


def _accessed(
    how: tuple[np.ufunc | None, str], dtype: np.dtype[Any], count: int, threads: Any, surface: Array, *values: Array
) -> list[Array] | None:
    change, mode = how
    memory, size_bytes = threads.memory, dtype.itemsize
    coordinates, written = [threads.full(each).astype(np.int64) for each in values[:3]], values[3:]
    address = threads.full(surface).astype(np.int64)
    head = [memory.load(memory.places(threads, "", address + at, 4, "a read of a surface"), 4) for at in (0, 4, 8)]
    bytes_, rows, layers = (each.astype(np.int64) for each in head)
    last = [bytes_ - size_bytes * count, rows - 1, layers - 1]
    held = np.logical_and.reduce([(at >= 0) & (at <= end) for at, end in zip(coordinates, last, strict=True)])
    if mode == "trap" and not held.all():
        raise StoppedError("crash", "a thread is beside the surface")
    x, y, z = (np.clip(at, 0, end) for at, end in zip(coordinates, last, strict=True))
    address = address + _HEAD_BYTES + (z * rows + y) * bytes_ + x
    there = np.flatnonzero(held | (mode == "clamp"))
    some = threads.only(there)
    found = [np.zeros(threads.size, dtype) for _ in range(0 if written else count)]
    for place in range(count if there.size else 0):
        at = memory.places(some, "", address[there] + place * size_bytes, size_bytes, "an access of a surface")
        if change is not None:
            memory.change(change, at, threads.full(written[place])[there])
        elif written:
            memory.store(at, threads.full(written[place])[there])
        else:
            found[place][there] = memory.load(at, size_bytes).view(dtype)
    return None if written else found


TEXTURES: dict[str, Callable[[Operands, Instruction], None]] = {
    "tex": _tex, "tld4": _tex, "suld": _surface, "sust": _surface, "sured": _surface,
    "txq": _queried,
}  # fmt: skip
"""By the first word of the instruction."""
