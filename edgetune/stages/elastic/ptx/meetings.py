"""PTX instructions at which threads of a block or lanes of a warp meet, as functions on threads.

Source: NVIDIA, "PTX ISA", section 9.7.13 and, for shuffles, section 9.7.9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.arithmetic import DTYPES
from edgetune.stages.elastic.ptx.operands import Operands, Reader
from edgetune.stages.elastic.ptx.parse import Instruction


def barrier(of: Operands, each: Instruction) -> Reader:
    """Return what a barrier does once all threads of a block are there."""
    if "red" not in each.op:
        if each.operands != ("0",):
            raise ValueError("a named barrier")
        return lambda _: None
    predicate = of.predicate(each.operands[2])
    way = next(word for word in each.op if word in ("popc", "and", "or"))
    write = of.writer(each.operands[0], each.op[-1])

    def run(threads: Any) -> None:
        held = threads.by_block(np.broadcast_to(predicate(threads), threads.size))
        came = threads.by_block(np.ones(threads.size, np.int64))
        value = {"popc": held, "and": held == came, "or": held > 0}[way]
        write(threads, value.astype(DTYPES[each.op[-1]]))

    return run


def warp_wide(of: Operands, each: Instruction) -> tuple[Reader, Reader]:
    """Return an instruction that lanes of a warp run together, and the lanes that it waits for."""
    named = of.read(each.operands[-1], "u32")
    if each.op[:2] in (("bar", "warp"), ("barrier", "warp")):
        return (lambda _: None), named
    if each.op[0] == "vote":
        return _vote(of, each, named), named
    value, by, limit = (of.read(operand, "b32") for operand in each.operands[1:4])
    target, _, inside = each.operands[0].partition("|")
    write, write_inside = of.writer(target, "b32"), of.writer(inside or "_", "pred")
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


def _vote(of: Operands, each: Instruction, named: Reader) -> Reader:
    predicate = of.predicate(each.operands[1])
    kind = each.op[-1]
    way = each.op[2]
    write = of.writer(each.operands[0], kind)

    def run(threads: Any) -> None:
        held = threads.mask & np.broadcast_to(predicate(threads), threads.size)
        members = threads.bits(threads.mask) & named(threads)
        bits = threads.bits(held) & members
        value = {"ballot": bits, "any": bits != 0, "all": bits == members,
                 "uni": (bits == 0) | (bits == members)}[way]  # fmt: skip
        write(threads, value)

    return run
