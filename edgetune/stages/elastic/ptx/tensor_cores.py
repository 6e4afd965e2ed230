"""Products of small matrices that a warp computes together, and how they come to it.

    ldmatrix.x4     four matrices of 8 x 8 halves, each row at the address that one lane gives; a lane gets two elements
    mma.m16n8k16    D = A B + C of 16 x 16, 16 x 8 halves and 16 x 8 singles, spread over the lanes
    wmma.m16n16k16  the same with fragments of which PTX does not say which lane holds what: here in order of elements

The order of additions in the hardware is not published; here the sum is exact to float64 and rounded once, so that bits
may differ from a GPU, in original and form alike. Which lane holds which element: NVIDIA, "PTX ISA", sections on matrix
fragments for ``mma``, and on ``ldmatrix``.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.kernel import WARP_THREADS
from edgetune.stages.elastic.ptx.formats import DTYPES, Array, narrowed, widened
from edgetune.stages.elastic.ptx.operands import Rule, parts
from edgetune.stages.elastic.ptx.parse import Instruction

_LANE = np.arange(WARP_THREADS)
ALL = np.array([0xFFFFFFFF], np.uint32)
"""The lanes of a warp that come to a product, as the bits of a number."""
_GROUP, _PLACE = _LANE // 4, _LANE % 4
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SHAPES = frozenset({
    ("m16n8k16", "f16"), ("m16n8k8", "f16"), ("m16n8k16", "bf16"), ("m16n8k8", "bf16"), ("m16n8k8", "tf32"),
    ("m16n8k4", "tf32"), ("m16n8k16", "s8"), ("m16n8k32", "s8"), ("m16n8k16", "u8"), ("m16n8k32", "u8"),
    ("m8n8k16", "s8"), ("m8n8k16", "u8"), ("m8n8k4", "f64"), ("m16n8k4", "f64"), ("m16n8k8", "f64"),
    ("m16n8k16", "f64"),
})  # fmt: skip


def _fragment(matrix: str, shape: tuple[int, int, int], bits: int) -> tuple[Array, Array]:
    """Return row and column of each element that the lanes hold, as arrays of elements and lanes.

    Args:
        matrix: ``a``, ``b`` or ``c``.
        shape: m, n and k.
        bits: Of an element; of A and B, registers of 32 bits hold several, except of 64 bits.
    """
    m, n, k = shape
    each = 2 if matrix == "c" else max(32 // bits, 1)  # consecutive elements of a lane
    rows, columns = {"a": (m, k), "b": (n, k), "c": (m, n)}[matrix]
    across, down = max(columns // (4 * each), 1), max(rows // 8, 1)
    found = [(_GROUP + 8 * i, _PLACE * each + 4 * each * j + e)
             for j in range(across) for i in range(down) for e in range(each)]  # fmt: skip
    row, column = (np.array(one) for one in zip(*found, strict=True))
    return (column, row) if matrix == "b" else (row, column)


def _mma(each: Instruction) -> Rule:
    """Return the rule of a product of matrices.

    Raises:
        KeyError: of another shape or type than here.
    """
    words = [word for word in each.op if word != "rn"]
    if words[:3] != ["mma", "sync", "aligned"] or words[4:6] != ["row", "col"] or len(words) != 10:
        raise KeyError(each.name)
    to, left, right, added = words[6:]
    if (words[3], left) not in _SHAPES or right not in DTYPES or left[-1] != right[-1]:
        raise KeyError(each.name)
    shape = _sizes(words[3])
    fragments = [_fragment("a", shape, _bits(left)), _fragment("b", shape, _bits(right)), _fragment("c", shape, 32)]
    return _multiply(each, shape, (to, left, right, added), fragments)


def _multiply(
    each: Instruction,
    shape: tuple[int, int, int],
    types: Sequence[str],
    fragments: Sequence[tuple[Array, Array]] | None = None,
) -> Rule:
    """Return the rule of a product of fragments, which are in order of elements unless it is said where these are."""
    (to, *kinds), (m, n, k) = types, shape
    counts = [len(parts(some)) for some in each.operands[1:]]
    fragments = fragments or [_in_order(count * _held(kind), rows, columns) for count, kind, (rows, columns)
                              in zip(counts, kinds, ((m, k), (k, n), (m, n)), strict=True)]  # fmt: skip
    run = partial(_multiplied, shape=shape, fragments=fragments, kinds=kinds, to=to, counts=counts)
    return Rule(each.operands, (_of_register(to),), run, [*map(_of_register, kinds)], acts=True)


def _sizes(word: str) -> tuple[int, int, int]:
    """Return m, n and k of a shape."""
    m, n, k = map(int, re.findall(r"\d+", word))
    return m, n, k


def _bits(kind: str) -> int:
    return 32 if kind == "tf32" else DTYPES[kind].itemsize * 8


def _of_register(kind: str) -> str:
    return f"u{max(_bits(kind), 32)}"


def _multiplied(
    threads: Any,
    *values: Array,
    shape: tuple[int, int, int],
    fragments: Sequence[tuple[Array, Array]],
    kinds: Sequence[str],
    to: str,
    counts: Sequence[int],
) -> list[Array]:
    warps = threads.warps()
    m, n, k = shape
    matrices, at = [], 0
    for (row, column), kind, count, size in zip(fragments, kinds, counts, ((m, k), (k, n), (m, n)), strict=True):
        matrix = np.zeros((len(warps), *size), np.int64 if kind in ("s8", "u8", "s32") else float)
        elements = widened(_elements(threads, values[at : at + count], kind), kind)[:, warps]  # element, warp, lane
        matrix[:, row, column] = elements.transpose(1, 0, 2)
        matrices.append(matrix)
        at += count
    left, right, total = matrices
    row, column = fragments[2]
    return _spread(threads, warps, (left @ right + total)[:, row, column].transpose(1, 0, 2), to)


def _elements(threads: Any, registers: Sequence[Array], kind: str) -> Array:
    """Return what is in registers, as an array of elements and threads."""
    found = np.ascontiguousarray(np.stack([threads.full(each) for each in registers])).view(DTYPES[kind])
    return found.reshape(len(registers), threads.size, -1).transpose(0, 2, 1).reshape(-1, threads.size)


def _in_registers(elements: Array) -> list[Array]:
    """Return registers that hold an array of elements and threads."""
    held, threads = max(4 // elements.itemsize, 1), elements.shape[1]
    joined = np.ascontiguousarray(elements.reshape(-1, held, threads).transpose(0, 2, 1))
    return list(joined.view(f"u{elements.itemsize * held}").reshape(-1, threads))


def _spread(threads: Any, warps: Array, elements: Array, kind: str) -> list[Array]:
    """Return registers that hold an array of elements, warps and lanes."""
    numbers = _by_thread(threads, warps, elements)
    return _in_registers(numbers.astype(np.int32) if kind == "s32" else narrowed(numbers, kind))


def _by_thread(threads: Any, warps: Array, elements: Array) -> Array:
    """Return an array of elements, warps and lanes as one of elements and threads."""
    found = np.zeros((len(elements), threads.size), elements.dtype)
    found[:, warps] = elements
    return found


_LOADS = frozenset({"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "b16"})


def _ldmatrix(each: Instruction) -> Rule:
    """Return the rule of a load of matrices from shared memory.

    Raises:
        KeyError: of another shape or type than here.
    """
    if not set(each.op[1:]) <= _LOADS:
        raise KeyError(each.name)
    count, space = len(parts(each.operands[0])), "shared" if "shared" in each.op else ""
    run = partial(_loaded, space=space, count=count, turns="trans" in each.op)
    return Rule(each.operands, ("u32",), run, ("[]",), acts=True)


def _loaded(threads: Any, address: Array, *, space: str, count: int, turns: bool) -> list[Array]:
    warps = threads.warps()[:, : 8 * count].ravel()
    places = threads.memory.places(threads.only(warps), space, threads.full(address)[warps], 16, "a read")
    at = np.asarray(places.reshape(-1, count, 8))  # rows of 16 bytes: of warps, matrices and rows
    elements = threads.memory.load(at[..., None] + 2 * np.arange(8), 2)
    elements = elements.transpose(0, 1, 3, 2) if turns else elements
    found = elements[:, :, _GROUP[:, None], 2 * _PLACE[:, None] + np.arange(2)].astype(np.uint32)
    words = found[..., 0] | found[..., 1] << np.uint32(16)
    return list(_by_thread(threads, threads.warps(), words.transpose(1, 0, 2)))


def _wmma(each: Instruction) -> Rule:
    """Return the rule of ``wmma``: a load, product or store of fragments."""
    shape = next(word for word in each.op if _SHAPE.fullmatch(word))
    m, n, k = _sizes(shape)
    if each.op[1] == "mma":
        words = [word for word in each.op[each.op.index(shape) + 1 :] if word != "rn"]
        types = words if len(words) > 2 else (words[0], "f16", "f16", words[1])
        return _multiply(each, (m, n, k), types)
    loads, matrix, kind, by_row = each.op[1] == "load", each.op[2], each.op[-1], "row" in each.op
    registers, address = each.operands[:2] if loads else each.operands[1::-1]
    rows, columns = {"a": (m, k), "b": (k, n)}.get(matrix, (m, n))
    stride = each.operands[2] if len(each.operands) > 2 else str(columns if by_row else rows)
    space = next((word for word in each.op if word in ("shared", "global")), "")
    row, column = _in_order(len(parts(registers)) * _held(kind), rows, columns)
    move = partial(_fragment_moved, space=space, kind=kind, place=(row, column) if by_row else (column, row))
    if loads:
        return Rule((registers, address, stride), (_of_register(kind),), move, ("[]", "s32"), acts=True)
    return Rule((address, stride, registers), (), move, ("[]", "s32", _of_register(kind)), acts=True)


def _held(kind: str) -> int:
    """Return how many elements a register holds."""
    return max(32 // _bits(kind), 1)


def _in_order(elements: int, rows: int, columns: int) -> tuple[Array, Array]:
    """Return row and column of each element of the lanes; where they hold more than there are, from the first again."""
    number = np.arange(elements)[:, None] + elements * _LANE
    return number // columns % rows, number % columns


def _fragment_moved(
    threads: Any, address: Array, stride: Array, *values: Array, space: str, kind: str, place: tuple[Array, Array]
) -> list[Array] | None:
    warps, dtype = threads.warps(), DTYPES[kind]
    start = threads.full(address)[warps].astype(np.int64)  # the same for all lanes
    along = threads.full(stride)[warps].astype(np.int64)
    at = start + (place[0][:, None] * along + place[1][:, None]) * dtype.itemsize  # element, warp, lane
    there = threads.only(np.broadcast_to(warps, at.shape).ravel())
    what = "a write" if values else "a read"
    places = threads.memory.places(there, space, at.ravel(), dtype.itemsize, what)
    if values:
        threads.memory.store(places, _elements(threads, values, kind)[:, warps].ravel())
        return None
    bits = threads.memory.load(places, dtype.itemsize).reshape(at.shape)
    return _in_registers(_by_thread(threads, warps, bits))


PRODUCTS: dict[str, Callable[[Instruction], Rule]] = {"mma": _mma, "ldmatrix": _ldmatrix, "wmma": _wmma}
"""By the first word of the instruction."""
