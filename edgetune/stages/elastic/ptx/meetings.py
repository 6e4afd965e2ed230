"""PTX instructions at which threads of a block or lanes of a warp meet.

Source: NVIDIA, "PTX ISA", section 9.7.13 and, for shuffles, section 9.7.9.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.control_flow import waits_for_block
from edgetune.stages.elastic.ptx.formats import DTYPES, Array
from edgetune.stages.elastic.ptx.memory import AT_ONCE
from edgetune.stages.elastic.ptx.operands import Operands
from edgetune.stages.elastic.ptx.parse import Instruction
from edgetune.stages.elastic.ptx.tensor_cores import PRODUCTS

_ALL = 0xFFFFFFFF


def meeting(of: Operands, each: Instruction) -> str:
    """Return the expression of what an instruction waits for.

    Lanes of the warp, as the bits of a number; ``None``: all threads of the block.
    """
    if each.op[0] in PRODUCTS:
        return of.bind(np.array([_ALL], np.uint32))
    return "None" if waits_for_block(each) else of.read(each.operands[-1], "u32")


def _at_barrier(of: Operands, each: Instruction) -> None:
    """Write what a barrier does once all threads that it waits for are there."""
    if set(each.op[1:]) - {"sync", "red", "cta", "aligned", "popc", "and", "or", "pred", "u32", "warp"}:
        raise KeyError(each.name)
    if "red" in each.op:
        way = next(word for word in each.op if word in ("popc", "and", "or"))
        kind = each.op[-1]
        of.effect(partial(_votes, way, DTYPES[kind]), [of.predicate(each.operands[-1])], [(each.operands[0], kind)])


def _votes(way: str, dtype: np.dtype[Any], threads: Any, held: Array) -> list[Array]:
    count = threads.by_block(held)
    value = {"popc": count, "and": count == threads.by_block(np.ones(1)), "or": count > 0}[way]
    return [value.astype(dtype)]


def _shuffle(of: Operands, each: Instruction) -> None:
    target, _, inside = each.operands[0].partition("|")
    reads = [of.read(operand, "b32") for operand in each.operands[1:4]]
    of.effect(partial(_shuffled, each.op[2]), reads, [(target, "b32"), (inside or "_", "pred")])


def _shuffled(way: str, threads: Any, value: Array, by: Array, limit: Array) -> list[Array]:
    lane = threads.lane
    amount, limits = by.astype(np.int64) & 31, limit.astype(np.int64)
    segment, clamp = (limits >> 8) & 31, limits & 31
    last, first = (lane & segment) | (clamp & ~segment & 31), lane & segment
    source = {"up": lane - amount, "down": lane + amount, "bfly": lane ^ amount,
              "idx": first | (amount & ~segment & 31)}[way]  # fmt: skip
    held = source >= last if way == "up" else source <= last
    return [threads.from_lane(value, np.where(held, source, lane)), held]


def _vote(of: Operands, each: Instruction) -> None:
    reads = [of.predicate(each.operands[1]), of.read(each.operands[-1], "u32")]
    of.effect(partial(_voted, each.op[2]), reads, [(each.operands[0], each.op[-1])])


def _voted(way: str, threads: Any, held: Array, named: Array) -> list[Array]:
    members = threads.bits(np.ones(1, bool)) & named
    bits = threads.bits(held) & members
    if way == "ballot":
        return [bits]
    return [{"any": bits != 0, "all": bits == members, "uni": (bits == 0) | (bits == members)}[way]]


def _match(of: Operands, each: Instruction) -> None:
    target, _, alike = each.operands[0].partition("|")
    reads = [of.read(each.operands[1], each.op[-1]), of.read(each.operands[2], "u32")]
    of.effect(partial(_matched, each.op[1]), reads, [(target, "b32"), (alike or "_", "pred")])


def _matched(way: str, threads: Any, value: Array, named: Array) -> list[Array]:
    """Return the lanes that have the same value as each (``any``), or all of them where all have one (``all``)."""
    others, there = threads.of_warp(value, named)
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    found = ((others == value[:, None]) & there) @ bits
    if way == "any":
        return [found, np.ones(1, bool)]
    members = there @ bits
    alike = found == members
    return [np.where(alike, members, np.uint32(0)), alike]


def _reduce(of: Operands, each: Instruction) -> None:
    kind = each.op[-1]
    if DTYPES[kind].itemsize != 4 or DTYPES[kind].kind == "f":
        raise KeyError(each.name)
    reads = [of.read(each.operands[1], kind), of.read(each.operands[2], "u32")]
    limits = np.iinfo(DTYPES[kind])
    start = {"min": limits.max, "max": limits.min, "and": limits.max}.get(each.op[2], 0)
    of.effect(partial(_reduced, AT_ONCE[each.op[2]], start), reads, [(each.operands[0], kind)])


def _reduced(operation: np.ufunc, start: int, threads: Any, value: Array, named: Array) -> list[Array]:
    """Return the sum, minimum ... of the values of all lanes that are named (``redux``)."""
    values, there = threads.of_warp(value, named)
    return [operation.reduce(values, axis=1, dtype=value.dtype, initial=start, where=there)]


MEETINGS: dict[str, Callable[[Operands, Instruction], None]] = {
    "bar": _at_barrier, "barrier": _at_barrier, "shfl": _shuffle, "vote": _vote, "match": _match, "redux": _reduce,
    **PRODUCTS,
}  # fmt: skip
"""By the first word of the instruction."""
