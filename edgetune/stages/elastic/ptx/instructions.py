"""What instructions compute on arrays: a rule for each (see ``operands``).

What an instruction does, which types it takes and what its words mean: NVIDIA, "PTX ISA", chapter 9.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx import arithmetic, formats
from edgetune.stages.elastic.ptx.arithmetic import COMPARISONS, INTEGERS
from edgetune.stages.elastic.ptx.effects import EFFECTS
from edgetune.stages.elastic.ptx.formats import DTYPES, FLOAT_KINDS, PAIRS, ROUNDINGS, Array
from edgetune.stages.elastic.ptx.operands import CARRY, Rule, parts
from edgetune.stages.elastic.ptx.parse import Instruction

_NOTHING = frozenset({"membar", "fence", "prefetch", "prefetchu", "nanosleep"})
"""Words of instructions that compute nothing here."""


def rule_of(each: Instruction) -> Rule | None:
    """Return what an instruction computes or does; ``None`` for nothing.

    Raises:
        KeyError: it is not known here, or a word or an operand of it; likewise IndexError and ValueError.
    """
    if each.op[0] in _NOTHING or each.op[:3] == ("cp", "async", "commit_group"):
        return None
    return (EFFECTS.get(each.op[0]) or _RULES.get(each.op[0], _plain))(each)


def _plain(each: Instruction) -> Rule:
    """Return the rule of an instruction whose operands and result have its type, or that counts bits."""
    kind, first, words = each.op[-1], each.op[0], set(each.op[1:-1])
    result = "u32" if first in ("popc", "clz") else kind
    if kind in FLOAT_KINDS:
        compute = arithmetic.floating(first, kind, words)
    elif words == {"sat"} and kind == "s32":
        compute = partial(_limited_sum, {"add": np.add, "sub": np.subtract}[first])
    elif words == {"cc"}:
        return _extended(each)
    elif words:
        raise KeyError(", ".join(words))
    else:
        compute = INTEGERS[first]
    return Rule(each.operands, (result,), compute, (kind,) * (len(each.operands) - 1))


def _limited_sum(of: Callable[..., Any], a: Array, b: Array) -> Array:
    return arithmetic.limited(of(a.astype(np.int64), b.astype(np.int64)), np.dtype("i4"))


def _extended(each: Instruction) -> Rule:
    """Return the rule of a sum that takes the carry flag of its thread or leaves one (``add.cc``, ``madc`` ...)."""
    kind, first, (target, *given) = each.op[-1], each.op[0], each.operands
    dtype = np.dtype(f"u{DTYPES[kind].itemsize}")
    product = _half(each.op[1], DTYPES[kind]) if first.startswith("mad") else None
    takes, leaves, minus = first.endswith("c"), "cc" in each.op, first.startswith("sub")

    def run(*values: Array) -> Any:
        carry = values[-1].astype(dtype) if takes else dtype.type(0)
        a, b = (product(*values[:2]), values[2]) if product else values[:2]
        a, b = a.view(dtype), b.view(dtype)
        found = a - b if minus else a + b
        total = found - carry if minus else found + carry
        flag = (a < b) | (found < carry) if minus else (found < a) | (total < found)
        value = total.view(DTYPES[kind])
        return (value, flag) if leaves else value

    operands = (f"{target}|{CARRY}" if leaves else target, *given, *[CARRY] * takes)
    return Rule(operands, (kind, "pred"), run, (*[kind] * len(given), *["pred"] * takes))


def _half(way: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """Return the product of integers of which one half or all is wanted."""
    wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}") if way == "wide" else dtype
    whole: dict[str, Callable[..., Any]] = {
        "lo": np.multiply,
        "hi": arithmetic.high_half,
        "wide": lambda a, b: a.astype(wide) * b.astype(wide),
    }
    return whole[way]


def _product(each: Instruction) -> Rule:
    """Return the rule of a product of integers, or a product and sum: its lower or upper half, or all of it."""
    kind, way, first = each.op[-1], each.op[1], each.op[0]
    if kind in FLOAT_KINDS:
        return _plain(each)
    if "cc" in each.op or first == "madc":
        return _extended(each)
    product = _half(way, DTYPES[kind])
    if first.endswith("24"):
        if way != "lo":
            raise KeyError(each.name)
        product = _product_of_24
    wide = f"{kind[0]}{int(kind[1:]) * 2}" if way == "wide" else kind
    if first.startswith("mul"):
        return Rule(each.operands, (wide,), product, (kind, kind))
    return Rule(each.operands, (wide,), lambda a, b, c: product(a, b) + c, (kind, kind, wide))


def _product_of_24(a: Array, b: Array) -> Array:
    """Return the lowest 32 bits of products of integers of 24 bits."""
    left, right = ((each << each.dtype.type(8)) >> each.dtype.type(8) for each in (a, b))
    return np.asarray(left * right)


def _shift(each: Instruction) -> Rule:
    left, by = each.op[0] == "shl", each.operands[2]
    kind = each.op[-1] if left else each.op[-1].replace("b", "u")
    if by.isdigit() and int(by) < DTYPES[kind].itemsize * 8:  # which is what compilers write
        return Rule(each.operands, (kind,), np.left_shift if left else np.right_shift, (kind, kind))
    return Rule(each.operands, (kind,), partial(arithmetic.shifted, left=left), (kind, "u32"))


def _lop3(each: Instruction) -> Rule:
    look = partial(arithmetic.looked_up, table=int(each.operands[4], 0))
    if "|" not in each.operands[0]:
        return Rule(each.operands[:4], ("b32",), look, ("b32",) * 3)
    way = INTEGERS[next(word for word in each.op if word in ("and", "or"))]

    def run(a: Array, b: Array, c: Array, flag: Array) -> tuple[Array, Array]:
        value = look(a, b, c)
        return value, way(value != 0, flag)

    return Rule((*each.operands[:4], each.operands[5]), ("b32", "pred"), run, ("b32", "b32", "b32", "pred"))


def _dot(each: Instruction) -> Rule:
    """Return the rule of ``dp4a`` or ``dp2a``: a product of rows of small integers, added to a number."""
    by, kinds = 4 if each.op[0] == "dp4a" else 2, [DTYPES[kind].kind for kind in each.op[-2:]]
    dtypes = np.dtype(f"{kinds[0]}{4 // by}"), np.dtype(f"{kinds[1]}1")
    compute = partial(arithmetic.dot_product, dtypes=dtypes, by=by, start=2 if "hi" in each.op else 0)
    return Rule(each.operands, ("s32" if "i" in kinds else "u32",), compute, ("u32", "u32", "s32"))


def _setp(each: Instruction) -> Rule:
    """Return the rule of a comparison, of which a predicate or (``set``) a number comes, alone or with a predicate."""
    sets, kind, compare = each.op[0] == "set", each.op[-1], COMPARISONS[each.op[1]]
    words, both = each.op[2 : -2 if sets else -1], "|" in each.operands[0]
    if set(words) - {"ftz", "and", "or", "xor"}:
        raise KeyError(each.name)
    combine = next((INTEGERS[word] for word in words if word in ("and", "or", "xor")), None)
    result, halves, wide = each.op[-2] if sets else "pred", kind in PAIRS and not sets, kind.startswith("bf16")
    one = 0x3F80 if result.startswith("bf16") else 1 if DTYPES[result].kind == "f" else -1
    numbers = [np.array([each]).astype(DTYPES[result]) for each in (one, 0)]

    def run(a: Array, b: Array, third: Array | None = None) -> Any:
        a, b = (formats.widened(each, kind) if wide else each for each in (a, b))
        a, b = (arithmetic.flush(each) if "ftz" in words else each for each in (a, b))
        held = compare(a, b)
        found = [held[:, 0], held[:, 1]] if halves else [held, ~held]
        found = found if combine is None else [combine(each, third) for each in found]
        if sets:
            return np.where(found[0], *numbers)
        return found if both else found[0]

    plain = not (both or words or wide or halves or sets)
    reads = (kind, kind, *["pred"] * (combine is not None))
    return Rule(each.operands, (result, "pred"), compare if plain else run, reads)


def _cvt(each: Instruction) -> Rule:
    """Return the rule of a conversion between numbers, of one or of two that go into one register."""
    target, source = each.op[-2:]
    words, joins = frozenset(each.op[1:-2]), target in PAIRS and source not in PAIRS
    if words - ROUNDINGS - set(formats.INTEGER_ROUNDINGS) - {"sat", "ftz", "satfinite", "relu"}:
        raise KeyError(each.name)
    if {target, source} <= FLOAT_KINDS and source in PAIRS and target not in PAIRS:
        raise KeyError(each.name)
    return Rule(each.operands, (target,), partial(_converted, source, target, words), (source,) * (1 + joins))


def _converted(source: str, target: str, words: frozenset[str], *values: Array) -> Array:
    """Return values of a type as another one; of two, the second becomes the lower one."""
    to, mode = DTYPES[target], next(iter(words & ROUNDINGS), "")
    whole = next(iter(words & set(formats.INTEGER_ROUNDINGS)), "")
    value = values[0] if len(values) == 1 else np.stack(np.broadcast_arrays(*values[::-1]), axis=-1)
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
    value = formats.INTEGER_ROUNDINGS[whole](value) if whole else value
    value = arithmetic.rectified(value) if "relu" in words else value
    found = formats.narrowed(value, target, mode or "rn", finite="satfinite" in words)
    found = arithmetic.saturated(found) if "sat" in words else found
    return arithmetic.flush(found) if "ftz" in words and found.dtype == np.float32 else found


def _mov(each: Instruction) -> Rule:
    """Return the rule of a copy, or of one between a register and the parts of it."""
    kind, vectors = each.op[-1], [one for one in each.operands if one.startswith("{")]
    size_bits = DTYPES[kind].itemsize * 8
    if not vectors:
        return Rule(each.operands, (kind,), None, (kind,))
    if len(vectors) > 1:
        raise KeyError(each.name)
    count, whole = len(parts(vectors[0])), f"u{size_bits}"
    part, bits = f"u{size_bits // count}", size_bits // count
    if vectors[0] == each.operands[1]:
        return Rule(each.operands, (whole,), partial(_joined, DTYPES[whole], bits), (part,))
    return Rule(each.operands, (part,), partial(_parted, DTYPES[part], bits, count), (whole,))


def _joined(dtype: np.dtype[Any], bits: int, *values: Array) -> Array:
    """Return numbers made of smaller ones, the lowest first."""
    found = values[0].astype(dtype)
    for place, value in enumerate(values[1:], 1):
        found = found | (value.astype(dtype) << dtype.type(bits * place))
    return found


def _parted(dtype: np.dtype[Any], bits: int, count: int, value: Array) -> list[Array]:
    """Return the parts of numbers, the lowest first."""
    return [(value >> value.dtype.type(bits * place)).astype(dtype) for place in range(count)]


def _alike(compute: Callable[[Instruction], Any], result: str, *kinds: str) -> Callable[[Instruction], Rule]:
    """Return the rules of an instruction by the types of its result and operands, where they are not those named."""

    def rule(each: Instruction) -> Rule:
        named = {"last": each.op[-1], "first": each.op[-2]}
        return Rule(
            each.operands, (named.get(result, result),), compute(each), tuple(named.get(one, one) for one in kinds)
        )

    return rule


_RULES: dict[str, Callable[[Instruction], Rule]] = {
    **dict.fromkeys(("mul", "mad", "mul24", "mad24", "madc"), _product), "addc": _extended, "subc": _extended,
    "shl": _shift, "shr": _shift, "lop3": _lop3, "dp4a": _dot, "dp2a": _dot, "setp": _setp, "set": _setp, "cvt": _cvt,
    "mov": _mov,
    "shf": _alike(
        lambda each: partial(arithmetic.funnel, left=each.op[1] == "l", wrap=each.op[2] == "wrap"), "b32", *["b32"] * 3
    ),
    "prmt": _alike(lambda _: arithmetic.permuted, "b32", "b32", "b32", "b32"),
    "bfind": _alike(lambda each: partial(arithmetic.highest_bit, as_shift="shiftamt" in each.op), "u32", "last"),
    "bfe": _alike(lambda _: arithmetic.field, "last", "last", "u32", "u32"),
    "bfi": _alike(lambda _: arithmetic.inserted, "last", "last", "last", "u32", "u32"),
    "selp": _alike(lambda _: lambda a, b, held: np.where(held, a, b), "last", "last", "last", "pred"),
    "slct": _alike(lambda _: lambda a, b, by: np.where(by >= 0, a, b), "first", "first", "first", "last"),
}  # fmt: skip
"""By the first word of the instruction; all others are plain arithmetic."""
