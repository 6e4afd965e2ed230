"""Writes instructions that compute as statements on arrays (see ``operands``).

What an instruction does, which types it takes and what its words mean: NVIDIA, "PTX ISA", chapter 9.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx import arithmetic, formats
from edgetune.stages.elastic.ptx.arithmetic import COMPARISONS, INTEGERS
from edgetune.stages.elastic.ptx.formats import DTYPES, FLOAT_KINDS, PAIRS, ROUNDINGS, Array
from edgetune.stages.elastic.ptx.memory import StoppedError
from edgetune.stages.elastic.ptx.operands import CARRY, Operands, parts
from edgetune.stages.elastic.ptx.parse import Instruction
from edgetune.stages.elastic.ptx.transfers import TRANSFERS

_NOTHING = frozenset({"bra", "membar", "fence", "prefetch", "prefetchu", "nanosleep"})
"""Words of instructions that compute nothing here; branches are those to the next instruction."""


def write(of: Operands, each: Instruction) -> None:
    """Write what an instruction does.

    Raises:
        KeyError: it is not known here, or a word or an operand of it; likewise IndexError and ValueError.
    """
    first = each.op[0]
    if first not in _NOTHING and each.op[:3] != ("cp", "async", "commit_group"):
        (TRANSFERS.get(first) or _MAKERS.get(first, _arithmetic))(of, each)


def _arithmetic(of: Operands, each: Instruction) -> None:
    """Write an instruction whose operands and result have its type, or that counts bits."""
    kind, first, words = each.op[-1], each.op[0], set(each.op[1:-1])
    if kind in FLOAT_KINDS:
        return of.put(each, kind, arithmetic.floating(first, kind, words), of.operands(each, kind))
    operation = INTEGERS[first]
    if words == {"sat"} and kind == "s32":
        wide, operation = {"add": np.add, "sub": np.subtract}[first], _limited_sum
        return of.put(each, kind, partial(operation, wide), of.operands(each, kind))
    if words - {"cc"}:
        raise KeyError(", ".join(words))
    if "cc" in words:
        return _extended(of, each)
    return of.put(each, "u32" if first in ("popc", "clz") else kind, operation, of.operands(each, kind))


def _limited_sum(of: Callable[..., Any], a: Array, b: Array) -> Array:
    return arithmetic.limited(of(a.astype(np.int64), b.astype(np.int64)), np.dtype("i4"))


def _extended(of: Operands, each: Instruction) -> None:
    """Write a sum that takes the carry flag of its thread or leaves one (``add.cc``, ``addc``, ``madc.hi.cc`` ...)."""
    kind, first = each.op[-1], each.op[0]
    dtype = np.dtype(f"u{DTYPES[kind].itemsize}")
    takes, leaves, minus = first.endswith("c"), "cc" in each.op, first.startswith("sub")
    reads = of.operands(each, kind)
    if first.startswith("mad"):
        product = of.let(f"{of.bind(_half(each.op[1], DTYPES[kind]))}({reads[0]}, {reads[1]})")
        reads = [product, reads[2]]
    carry = of.read(CARRY, "pred") if takes else of.bind(np.zeros(1, bool))
    value = of.let(f"{of.bind(partial(_with_carry, dtype, minus))}({', '.join(reads)}, {carry})")
    of.write(each.operands[0], kind, f"{value}[0].view({of.bind(DTYPES[kind])})")
    if leaves:
        of.write(CARRY, "pred", f"{value}[1]")


def _with_carry(dtype: np.dtype[Any], minus: bool, a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """Return a sum or difference with a carry or borrow, and the new one."""
    a, b, more = a.view(dtype), b.view(dtype), carry.astype(dtype)
    if minus:
        found = a - b
        return found - more, (a < b) | (found < more)
    found = a + b
    return found + more, (found < a) | (found + more < found)


def _half(way: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """Return the product of integers of which one half or all is wanted."""
    if way == "lo":
        return np.multiply
    if way == "hi":
        return arithmetic.high_half
    wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
    return {"wide": lambda a, b: a.astype(wide) * b.astype(wide)}[way]


def _product(of: Operands, each: Instruction) -> None:
    """Write a product of integers, or a product and sum: its lower or upper half, or all of it."""
    kind, way, first = each.op[-1], each.op[1], each.op[0]
    dtype = DTYPES[kind]
    if kind in FLOAT_KINDS:
        return _arithmetic(of, each)
    if "cc" in each.op or first == "madc":
        return _extended(of, each)
    if first.endswith("24"):
        dtype = np.dtype(f"{dtype.kind}8")
        if way != "lo":
            raise KeyError(each.name)
        product: Callable[..., Any] = _product_of_24
    else:
        product = _half(way, dtype)
    wide = f"{kind[0]}{int(kind[1:]) * 2}" if way == "wide" else kind
    reads = [of.read(operand, kind) for operand in each.operands[1:3]]
    if first.startswith("mul"):
        return of.put(each, wide, product, reads)
    value = of.let(f"{of.bind(product)}({', '.join(reads)})")
    return of.put(each, wide, np.add, [value, of.read(each.operands[3], wide)])


def _product_of_24(a: Array, b: Array) -> Array:
    """Return the lowest 32 bits of products of integers of 24 bits."""
    left, right = ((each << each.dtype.type(8)) >> each.dtype.type(8) for each in (a, b))
    return np.asarray(left * right)


def _shift(of: Operands, each: Instruction) -> None:
    kind = each.op[-1]
    if each.op[0] == "shr":
        kind = kind.replace("b", "u")
    left, by = each.op[0] == "shl", each.operands[2]
    value = of.read(each.operands[1], kind)
    bits = DTYPES[kind].itemsize * 8
    if by.isdigit() and int(by) < bits:  # which is what compilers write
        amount = of.bind(np.array([int(by)], DTYPES[kind]))
        return of.put(each, kind, np.left_shift if left else np.right_shift, [value, amount])
    return of.put(each, kind, partial(arithmetic.shifted, left=left), [value, of.read(by, "u32")])


def _by_table(of: Operands, each: Instruction) -> None:
    kind, compute, kinds = _TABLE[each.op[0]](each.op)
    of.put(each, kind, compute, [of.read(one, as_) for one, as_ in zip(each.operands[1:], kinds, strict=True)])


def _limit(op: Sequence[str]) -> Any:
    """Return the bits of a place or count that matter."""
    return np.uint32(31 if "wrap" in op else 255)


_NONE = np.zeros(1, np.uint32)
_TABLE: dict[str, Callable[[Sequence[str]], tuple[str, Callable[..., Any], list[str]]]] = {
    "shf": lambda op: ("b32", partial(arithmetic.funnel, left=op[1] == "l", wrap=op[2] == "wrap"), ["b32"] * 3),
    "prmt": lambda _: ("b32", arithmetic.permuted, ["b32"] * 3),
    "bfind": lambda op: ("u32", partial(arithmetic.highest_bit, as_shift="shiftamt" in op), [op[-1]]),
    "bfe": lambda op: (op[-1], arithmetic.field, [op[-1], "u32", "u32"]),
    "bfi": lambda op: (op[-1], arithmetic.inserted, [op[-1], op[-1], "u32", "u32"]),
    "bmsk": lambda op: (
        "b32", lambda at, size: arithmetic.inserted(~_NONE, _NONE, at & _limit(op), size & _limit(op)), ["u32"] * 2
    ),
    "szext": lambda op: (
        op[-1], lambda value, size: arithmetic.field(value, _NONE, size & _limit(op)), [op[-1], "u32"]
    ),
    "selp": lambda op: (op[-1], lambda a, b, held: np.where(held, a, b), [op[-1], op[-1], "pred"]),
    "slct": lambda op: (op[-2], lambda a, b, by: np.where(by >= 0, a, b), [op[-2], op[-2], op[-1]]),
    "testp": lambda op: ("pred", arithmetic.PROPERTIES[op[1]], [op[-1]]),
}  # fmt: skip
"""From the words of an instruction to the type of its result, what it computes, and the types of its operands."""


def _lop3(of: Operands, each: Instruction) -> None:
    target, _, holds = each.operands[0].partition("|")
    reads = [of.read(operand, "b32") for operand in each.operands[1:4]]
    value = of.let(f"{of.bind(partial(arithmetic.looked_up, table=int(each.operands[4], 0)))}({', '.join(reads)})")
    if holds:
        way = next(word for word in each.op if word in ("and", "or"))
        flag = of.predicate(each.operands[5])
        of.write(holds, "pred", f"{of.bind(INTEGERS[way])}({value} != 0, {flag})")
    of.write(target, "b32", value)


def _dot(of: Operands, each: Instruction) -> None:
    """Write ``dp4a`` or ``dp2a``: a product of rows of small integers, added to a number."""
    a, b = each.op[-2:]
    by = 4 if each.op[0] == "dp4a" else 2
    first = of.let(f"{of.read(each.operands[1], 'u32')}.view({of.bind(np.dtype(f'{DTYPES[a].kind}{4 // by}'))})")
    second = of.let(f"{of.read(each.operands[2], 'u32')}.view({of.bind(np.dtype(f'{DTYPES[b].kind}1'))})")
    compute = partial(arithmetic.dot_product, by=by, start=2 if "hi" in each.op else 0)
    of.put(each, "s32" if "s32" in (a, b) else "u32", compute, [first, second, of.read(each.operands[3], "s32")])


def _setp(of: Operands, each: Instruction) -> None:
    """Write a comparison into a predicate, or as a number (``set``), alone or with another predicate."""
    words = each.op[2:-1] if each.op[0] == "setp" else each.op[2:-2]
    kind, compare = each.op[-1], COMPARISONS[each.op[1]]
    a, b = (of.read(operand, kind) for operand in each.operands[1:3])
    if kind.startswith("bf16"):
        a, b = (of.let(f"{of.bind(formats.widened)}({one}, {kind!r})") for one in (a, b))
    if "ftz" in words:
        a, b = (of.let(f"{of.bind(arithmetic.flush)}({one})") for one in (a, b))
    if set(words) - {"ftz", "and", "or", "xor"}:
        raise KeyError(each.name)
    yes, _, no = each.operands[0].partition("|")
    held = of.let(f"{of.bind(compare)}({a}, {b})")
    other = ""
    if kind in PAIRS and each.op[0] == "setp":  # of each half
        held, other = f"{held}[:, 0]", f"{held}[:, 1]"
    elif no:
        other = f"~{held}"
    combine = next((INTEGERS[word] for word in words if word in ("and", "or", "xor")), None)
    if combine is not None:
        third = of.predicate(each.operands[3])
        held, other = (f"{of.bind(combine)}({one}, {third})" if one else "" for one in (held, other))
    if each.op[0] == "set":
        to = each.op[-2]
        one = 0x3F80 if to.startswith("bf16") else 1 if DTYPES[to].kind == "f" else -1
        numbers = [of.bind(np.array([each]).astype(DTYPES[to])) for each in (one, 0)]
        return of.put(each, to, np.where, [held, *numbers])
    held = of.let(held)  # before a register that is compared is written
    other = of.let(other) if no else ""
    of.write(yes, "pred", held)
    if no:
        of.write(no, "pred", other)
    return None


def _cvt(of: Operands, each: Instruction) -> None:
    """Write a conversion between numbers, of one or of two that go into one register."""
    target, source = each.op[-2:]
    words = set(each.op[1:-2])
    if words - ROUNDINGS - set(formats.INTEGER_ROUNDINGS) - {"sat", "ftz", "satfinite", "relu", "pack"}:
        raise KeyError(each.name)
    if target in PAIRS and source not in PAIRS:  # the second operand is the lower one
        high, low = (of.read(operand, source) for operand in each.operands[1:3])
        pair = of.let(f"{of.bind(_pair)}({low}, {high})")
        kind = source
        return of.put(each, target, partial(_converted, kind, target, frozenset(words)), [pair])
    if target in FLOAT_KINDS and source in FLOAT_KINDS and (target in PAIRS) != (source in PAIRS):
        raise KeyError(each.name)
    return of.put(
        each, target, partial(_converted, source, target, frozenset(words)), [of.read(each.operands[1], source)]
    )


def _pair(low: Array, high: Array) -> Array:
    """Return rows of two numbers."""
    return np.stack(np.broadcast_arrays(low, high), axis=-1)


def _converted(source: str, target: str, words: frozenset[str], value: Array) -> Array:
    """Return values of a type as another one."""
    to, mode = DTYPES[target], next(iter(words & ROUNDINGS), "")
    whole = next(iter(words & set(formats.INTEGER_ROUNDINGS)), "")
    value = formats.widened(value, source)
    if "ftz" in words and value.dtype == np.float32:
        value = arithmetic.flush(value)
    if value.dtype.kind != "f":
        if target not in FLOAT_KINDS:
            return arithmetic.limited(value, to) if "sat" in words else value.astype(to)
        if to.kind != "f":
            value = arithmetic.from_integer(value, np.dtype("f4"), "rn")  # only small ones, which are exact
        else:
            found = arithmetic.from_integer(value, to, mode or "rn")
            return arithmetic.saturated(found) if "sat" in words else found
    if target not in FLOAT_KINDS:
        return arithmetic.to_integer(value, to, whole)
    if whole:
        value = formats.INTEGER_ROUNDINGS[whole](value)
    if "relu" in words:
        value = arithmetic.rectified(value)
    found = formats.narrowed(value, target, mode or "rn", finite="satfinite" in words)
    if "sat" in words:
        found = arithmetic.saturated(found)
    return arithmetic.flush(found) if "ftz" in words and found.dtype == np.float32 else found


def _mov(of: Operands, each: Instruction) -> None:
    """Write a copy, or one between a register and the parts of it."""
    kind, (target, source) = each.op[-1], each.operands
    size_bytes = DTYPES[kind].itemsize
    if source.startswith("{"):  # several registers become one
        pieces = parts(source)
        part, joined = f"u{size_bytes * 8 // len(pieces)}", np.dtype(f"u{size_bytes}")
        return of.put(each, f"u{size_bytes * 8}", partial(_joined, joined), [of.read(one, part) for one in pieces])
    if not target.startswith("{"):
        return of.write(target, kind, of.read(source, kind))
    pieces = parts(target)
    bits = size_bytes * 8 // len(pieces)
    value = of.read(source, f"u{size_bytes * 8}")
    for place, one in enumerate(pieces):
        if one != "_":
            by = of.bind(np.array([bits * place], f"u{size_bytes}"))
            of.write(one, f"u{bits}", f"({value} >> {by}).astype({of.bind(DTYPES[f'u{bits}'])})")
    return None


def _joined(dtype: np.dtype[Any], *values: Array) -> Array:
    """Return numbers made of smaller ones, the lowest first."""
    bits = values[0].dtype.itemsize * 8
    found = values[0].astype(dtype)
    for place, value in enumerate(values[1:], 1):
        found = found | (value.astype(dtype) << dtype.type(bits * place))
    return found


def _trap(of: Operands, _: Instruction) -> None:
    def stop(_: Any) -> None:
        raise StoppedError("crash", "trap")

    of.effect(stop, [])


_MAKERS: dict[str, Callable[[Operands, Instruction], None]] = {
    "mul": _product, "mad": _product, "mul24": _product, "mad24": _product, "madc": _product, "addc": _extended,
    "subc": _extended, "shl": _shift, "shr": _shift,
    "lop3": _lop3, "dp4a": _dot, "dp2a": _dot,
    "setp": _setp, "set": _setp, "cvt": _cvt, "mov": _mov,
    "trap": _trap,
    **dict.fromkeys(_TABLE, _by_table),
}  # fmt: skip
"""By the first word of the instruction; all others are plain arithmetic."""
