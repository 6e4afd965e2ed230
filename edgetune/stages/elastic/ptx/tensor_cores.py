"""Products of small matrices that a warp computes together, as functions on threads.

    ldmatrix.x4     four matrices of 8 x 8 halves, each row at the address that one lane gives; a lane gets two elements
    mma.m16n8k16    D = A B + C of 16 x 16, 16 x 8 halves and 16 x 8 singles, spread over the lanes

The order of additions in the hardware is not published; here the sum is exact to float64 and rounded once, so that bits
may differ from a GPU, in original and form alike. Which lane holds which element: NVIDIA, "PTX ISA", sections on matrix
fragments for ``mma.m16n8k16`` with 16-bit operands, and on ``ldmatrix``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.arithmetic import Array
from edgetune.stages.elastic.ptx.operands import Operands, Reader, parts
from edgetune.stages.elastic.ptx.parse import Instruction

_WARP = 32
_LANE = np.arange(_WARP)
_GROUP, _PAIR = _LANE // 4, _LANE % 4 * 2
_PRODUCT = ("mma", "sync", "aligned", "m16n8k16", "row", "col", "f32", "f16", "f16", "f32")
_A = [(_GROUP + 8 * (reg % 2), _PAIR + 8 * (reg // 2)) for reg in range(4)]
_B = [(_PAIR + 8 * reg, _GROUP) for reg in range(2)]
_C = [(_GROUP + 8 * (reg // 2), _PAIR + reg % 2) for reg in range(4)]
"""Row and column of what each register holds, of its lower half for A and B, by lane."""


def warp_product(of: Operands, each: Instruction) -> Reader:
    """Return a product of matrices.

    Raises:
        KeyError: of another shape or type than here.
    """
    if each.op != _PRODUCT:
        raise KeyError(each.name)
    writes = [of.writer(one, "f32") for one in parts(each.operands[0])]
    a, b, c = ([of.read(one, "f32" if kind == "c" else "u32") for one in parts(operand)]
               for operand, kind in zip(each.operands[1:], "abc", strict=True))  # fmt: skip

    def run(threads: Any) -> None:
        left, right, total = (np.zeros((threads.size // _WARP, *shape)) for shape in ((16, 16), (16, 8), (16, 8)))
        for read, (row, column) in zip(a, _A, strict=True):
            left[:, row, column], left[:, row, column + 1] = _halves(threads, read)
        for read, (row, column) in zip(b, _B, strict=True):
            right[:, row, column], right[:, row + 1, column] = _halves(threads, read)
        for read, (row, column) in zip(c, _C, strict=True):
            total[:, row, column] = _by_warp(threads, read(threads))
        total = (left @ right + total).astype(np.float32)
        for write, (row, column) in zip(writes, _C, strict=True):
            write(threads, total[:, row, column].ravel())

    return run


def matrices(of: Operands, each: Instruction) -> Reader:
    """Return a load of matrices from shared memory.

    Raises:
        KeyError: of another shape or type than here.
    """
    words = set(each.op[1:])
    if not words <= {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "b16"}:
        raise KeyError(each.name)
    writes = [of.writer(one, "u32") for one in parts(each.operands[0])]
    read, offset = of.address(each.operands[1])

    def run(threads: Any) -> None:
        addresses = _by_warp(threads, read(threads)).astype(np.int64) + offset
        warps = threads.mask.reshape(-1, _WARP).any(axis=1)
        for number, write in enumerate(writes):
            rows = addresses[:, 8 * number : 8 * number + 8]
            holders = np.arange(threads.size).reshape(-1, _WARP)[:, 8 * number : 8 * number + 8]
            found = np.zeros((len(rows), 8, 8), np.uint32)
            at = threads.memory.places("shared", rows[warps].ravel(), holders[warps].ravel(), 16, "a read")
            elements = threads.memory.load(at[:, None] + 2 * np.arange(8), 2)
            found[warps] = elements.reshape(-1, 8, 8)
            if "trans" in words:
                found = found.transpose(0, 2, 1)
            low, high = found[:, _GROUP, _PAIR], found[:, _GROUP, _PAIR + 1]
            write(threads, (low | high << np.uint32(16)).ravel())

    return run


def _by_warp(threads: Any, value: Array) -> Array:
    """Return values by warp and lane; a block of parts of warps is an error, and no GPU defines what it does."""
    return np.broadcast_to(value, threads.size).reshape(-1, _WARP)


def _halves(threads: Any, read: Reader) -> tuple[Array, Array]:
    value = _by_warp(threads, read(threads))
    return tuple(np.asarray(part).astype(np.uint16).view(np.float16) for part in (value & 0xFFFF, value >> 16))  # type: ignore[return-value]
