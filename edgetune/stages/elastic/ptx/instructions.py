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
from edgetune.stages.elastic.ptx.operands import Rule, parts
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
    elif words:
        raise KeyError(", ".join(words))
    else:
        compute = INTEGERS[first]
    return Rule(each.operands, (result,), compute, (kind,) * (len(each.operands) - 1))


def _product(each: Instruction) -> Rule:
    """Return the rule of a product of integers, or a product and sum: its lower or upper half, or all of it."""
    kind, first = each.op[-1], each.op[0]
    if kind in FLOAT_KINDS:
        return _plain(each)
    (way,) = each.op[1:-1]
    result = f"{kind[0]}{int(kind[1:]) * 2}" if way == "wide" else kind
    wide = DTYPES[result]
    products: dict[str, Callable[..., Any]] = {
        "lo": np.multiply, "hi": arithmetic.high_half, "wide": lambda a, b: a.astype(wide) * b.astype(wide),
    }  # fmt: skip
    product = products[way]
    if first == "mul":
        return Rule(each.operands, (result,), product, (kind, kind))
    return Rule(each.operands, (result,), lambda a, b, c: product(a, b) + c, (kind, kind, result))


def _shift(each: Instruction) -> Rule:
    left, by = each.op[0] == "shl", each.operands[2]
    kind = each.op[-1] if left else each.op[-1].replace("b", "u")
    if by.isdigit() and int(by) < DTYPES[kind].itemsize * 8:  # which is what compilers write
        return Rule(each.operands, (kind,), np.left_shift if left else np.right_shift, (kind, kind))
    return Rule(each.operands, (kind,), partial(arithmetic.shifted, left=left), (kind, "u32"))


def _lop3(each: Instruction) -> Rule:
    *operands, table = each.operands
    return Rule(operands, ("b32",), partial(arithmetic.looked_up, table=int(table, 0)), ("b32",) * 3)


def _dot(each: Instruction) -> Rule:
    """Return the rule of ``dp4a``: a product of rows of four small integers, added to a number."""
    kinds = [DTYPES[kind].kind for kind in each.op[-2:]]
    compute = partial(arithmetic.dot_product, dtypes=[np.dtype(f"{kind}1") for kind in kinds])
    return Rule(each.operands, ("s32" if "i" in kinds else "u32",), compute, ("u32", "u32", "s32"))


def _setp(each: Instruction) -> Rule:
    """Return the rule of a comparison, of which a predicate comes, alone or with a predicate."""
    kind, compare, words = each.op[-1], COMPARISONS[each.op[1]], each.op[2:-1]
    if set(words) - {"ftz", "and", "or", "xor"}:
        raise KeyError(each.name)
    combine = next((INTEGERS[word] for word in words if word in ("and", "or", "xor")), None)
    both, halves, wide = "|" in each.operands[0], kind in PAIRS, kind.startswith("bf16")

    def run(a: Array, b: Array, third: Array | None = None) -> Any:
        a, b = (formats.widened(each, kind) if wide else each for each in (a, b))
        a, b = (arithmetic.flush(each) if "ftz" in words else each for each in (a, b))
        held = compare(a, b)
        found = [held[:, 0], held[:, 1]] if halves else [held, ~held]
        found = found if combine is None else [combine(each, third) for each in found]
        return found if both else found[0]

    reads = (kind, kind, *["pred"] * (combine is not None))
    return Rule(each.operands, ("pred", "pred"), run if both or words or wide or halves else compare, reads)


def _cvt(each: Instruction) -> Rule:
    """Return the rule of a conversion between numbers, of one or of two that go into one register."""
    target, source = each.op[-2:]
    words, joins = frozenset(each.op[1:-2]), target in PAIRS and source not in PAIRS
    if words - ROUNDINGS - set(formats.INTEGER_ROUNDINGS) - {"sat", "ftz", "relu"}:
        raise KeyError(each.name)
    if {target, source} <= FLOAT_KINDS and source in PAIRS and target not in PAIRS:
        raise KeyError(each.name)
    if source in ("s64", "u64") and words & ROUNDINGS - {"rn"}:  # not every one is a float64
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
        value = value.astype(to if to.kind == "f" and value.itemsize == 8 else np.float64)
    if target not in FLOAT_KINDS:
        return arithmetic.to_integer(value, to, whole)
    value = formats.INTEGER_ROUNDINGS[whole](value) if whole else value
    value = arithmetic.rectified(value) if "relu" in words else value
    found = formats.narrowed(value, target, mode or "rn")
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
        last = {"last": each.op[-1]}
        return Rule(each.operands, (last.get(result, result),), compute(each), [last.get(one, one) for one in kinds])

    return rule


_RULES: dict[str, Callable[[Instruction], Rule]] = {
    "mul": _product, "mad": _product, "shl": _shift, "shr": _shift, "lop3": _lop3, "dp4a": _dot, "setp": _setp,
    "cvt": _cvt, "mov": _mov,
    "shf": _alike(
        lambda each: partial(arithmetic.funnel, left=each.op[1] == "l", wrap=each.op[2] == "wrap"), "b32", *["b32"] * 3
    ),
    "prmt": _alike(lambda _: arithmetic.permuted, "b32", "b32", "b32", "b32"),
    "bfind": _alike(lambda each: partial(arithmetic.highest_bit, as_shift="shiftamt" in each.op), "u32", "last"),
    "bfe": _alike(lambda _: arithmetic.field, "last", "last", "u32", "u32"),
    "bfi": _alike(lambda _: arithmetic.inserted, "last", "last", "last", "u32", "u32"),
    "bmsk": _alike(lambda each: {"clamp": arithmetic.bit_mask}[each.op[1]], "b32", "u32", "u32"),
    "selp": _alike(lambda _: lambda a, b, held: np.where(held, a, b), "last", "last", "last", "pred"),
}  # fmt: skip
"""By the first word of the instruction; all others are plain arithmetic."""
