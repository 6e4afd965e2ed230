"""The arithmetic of PTX on arrays with one element per thread, bit for bit where IEEE 754 or PTX defines the bits.

    fma.rn.f32    a * b + c rounded once: exact product in float64, sum rounded to odd, then to float32
    ex2.approx    the nearest float32 of the exact value: the hardware may be 2 ulp off, so that bits differ from a GPU

Rounding to odd before the last rounding gives the correctly rounded result: Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", IEEE Trans. Computers 57 (2008). The same source has the fma of float64 on two halves.
Instructions, their rounding and their types: NVIDIA, "PTX ISA", chapters 5 (types) and 9 (instructions).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from edgetune.stages.elastic.ptx.formats import (
    DTYPES,
    INTEGER_ROUNDINGS,
    ROUNDINGS,
    Array,
    Operation,
    directed,
    narrowed,
    rounded,
    widened,
)

_SINGLE, _DOUBLE = np.dtype("f4"), np.dtype("f8")
_MOST_BITS = 64
_SPLIT = 134217729.0  # 2**27 + 1
_BELOW_SINGLE, _HALF_SINGLE = 0x1FFFFFFF, 0x10000000
"""Bits of a float64 below the last of a float32, and the highest of them."""
_SMALLEST_SINGLE = float(np.finfo(np.float32).tiny)


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the sum of float64 values, and what it misses of the exact sum."""
    total = np.asarray(a + b)
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the product of float64 values, and what it misses of the exact product."""
    high = np.asarray(a * b)
    (x, x_low), (y, y_low) = (
        (head, each - head) for each in (a, b) for head in (each * _SPLIT - (each * _SPLIT - each),)
    )
    return high, ((x * y - high) + x * y_low + x_low * y) + x_low * y_low


def _sum_of_product(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    high, low = _product(a, b)
    top, rest = _sum(c, low)
    total, remains = _sum(high, top)
    small = add_to_odd(rest, remains)
    found = np.asarray(total + small)
    error = add_to_odd(total - found, small)
    finite = np.isfinite(found)
    return np.where(finite, found, high + c), np.where(finite, error, 0.0)


_WITH_ERROR: dict[str, Callable[..., tuple[Array, Array]]] = {
    "add": _sum, "sub": lambda a, b: _sum(a, -b), "mul": _product, "fma": _sum_of_product, "mad": _sum_of_product,
}  # fmt: skip
"""The nearest float64 of a result, and a number with the sign of what it misses."""


def _to_odd(total: Array, error: Array) -> Array:
    """Return results rounded to odd: an inexact one gets an odd last bit."""
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    return np.where(inexact, bits + np.where((error > 0) == (total > 0), 1, -1), bits).view(np.float64)


def add_to_odd(a: Array, b: Array) -> Array:
    """Return the sum of float64 values, rounded to odd."""
    return _to_odd(*_sum(a, b))


def in_direction(name: str, dtype: np.dtype[Any], mode: str, *values: Array) -> Array:
    """Return a sum, product, quotient ... rounded once to a type in a direction.

    Args:
        name: The first word of the instruction.
        dtype: Of the result and of all values.
        mode: ``rn``, ``rz``, ``rm`` or ``rp``.
        values: The operands.
    """
    total, error = _WITH_ERROR[name](*(np.asarray(each, np.float64) for each in np.broadcast_arrays(*values)))
    if dtype.itemsize < _DOUBLE.itemsize:
        return rounded(_to_odd(total, error), dtype, mode)
    return np.where(np.isfinite(total), directed(total, error > 0, error < 0, mode), total)


def fma(a: Any, b: Any, c: Any, dtype: np.dtype[Any], mode: str = "rn") -> Any:
    """Return a * b + c, rounded once to a type in a direction.

    Args:
        a: Of this type, as all arguments.
        b: The second factor.
        c: The summand.
        dtype: float16, float32 or float64.
        mode: ``rn`` (nearest), ``rz`` (zero), ``rm`` (down), ``rp`` (up).
    """
    if dtype != _SINGLE or mode != "rn":
        return in_direction("fma", dtype, mode, np.atleast_1d(a), b, c)
    total = np.multiply(a, b, dtype=np.float64) + c  # the product is exact
    found = total.astype(np.float32)
    # A float64 sum that is rounded a second time may only be wrong in the middle between two float32 numbers.
    small = (np.abs(total) < _SMALLEST_SINGLE) & (total != 0)  # 0 is exact
    doubtful = ((total.view(np.int64) & _BELOW_SINGLE) == _HALF_SINGLE) | small
    if doubtful.any():
        found[doubtful] = in_direction("fma", dtype, mode, *(each[doubtful] for each in np.broadcast_arrays(a, b, c)))
    return found


def to_integer(value: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Return floating-point values as integers, those out of range as the nearest limit and no numbers as 0."""
    whole = INTEGER_ROUNDINGS[mode](value.astype(np.float64))
    limits = np.iinfo(dtype)
    inside = np.clip(np.nan_to_num(whole, nan=0.0), float(limits.min), np.nextafter(float(limits.max) + 1, 0))
    exact = inside.astype(dtype)
    return np.asarray(np.where(whole > float(limits.max), dtype.type(limits.max), exact))


def limited(value: Array, dtype: np.dtype[Any]) -> Array:
    """Return integers as another type, those out of its range as the nearest limit (``cvt.sat``)."""
    limits, own = np.iinfo(dtype), np.iinfo(value.dtype)
    low, high = (value.dtype.type(min(max(each, own.min), own.max)) for each in (limits.min, limits.max))
    return np.clip(value, low, high).astype(dtype)


def flush(value: Any) -> Any:
    """Return float32 values with zeros for subnormal ones (``.ftz``)."""
    small = np.abs(value) < _SMALLEST_SINGLE
    return np.where(small, np.copysign(np.float32(0), value), value)


def saturated(value: Any) -> Any:
    """Return floating-point values limited to 0 and 1, no numbers as 0 (``.sat``)."""
    return np.where(value > 0, np.minimum(value, value.dtype.type(1)), value.dtype.type(0))


def rectified(value: Any) -> Any:
    """Return floating-point values with zeros for negative ones (``.relu``)."""
    return np.where(np.isnan(value) | (value > 0), value, value.dtype.type(0))


def high_half(a: Array, b: Array) -> Array:
    """Return the upper half of the product of integers."""
    dtype, bits = a.dtype, a.dtype.itemsize * 8
    wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}" if bits < _MOST_BITS else object)
    return np.asarray(((a.astype(wide) * b.astype(wide)) >> bits).astype(dtype))


def divided(a: Array, b: Array) -> Array:
    """Return integer quotients rounded towards zero; PTX leaves those by zero undefined, here all bits are set."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient += ((quotient * safe) != a) & ((a < 0) != (safe < 0))
    return np.where(b == 0, ~a.dtype.type(0), quotient)


def shifted(a: Array, by: Array, left: bool) -> Array:
    """Return shifted integers; shifts by the width or more give zeros, or signs."""
    bits = a.dtype.itemsize * 8
    amount = np.minimum(by, np.uint32(bits - 1)).astype(a.dtype)
    moved = a << amount if left else a >> amount
    if a.dtype.kind == "i" and not left:
        return np.asarray(moved)
    return np.asarray(np.where(by >= bits, a.dtype.type(0), moved))


def reversed_bits(a: Array) -> Array:
    """Return integers with the order of their bits reversed."""
    bits = np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1), axis=1)
    return np.ascontiguousarray(np.packbits(bits[:, ::-1], axis=1)).view(a.dtype).reshape(-1)


def highest_bit(a: Array, as_shift: bool) -> Array:
    """Return the place of the highest set bit, or the shift that brings it to the top; all bits set where there is
    none."""
    bits = a.dtype.itemsize * 8
    value = (np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a).astype(np.uint64)
    for by in (1, 2, 4, 8, 16, 32):
        value = value | value >> np.uint64(by)
    place = np.bitwise_count(value).astype(np.int32) - 1
    return np.where(place < 0, place, bits - 1 - place if as_shift else place).astype(np.int32).view(np.uint32)


def field(a: Array, start: Array, length: Array) -> Array:
    """Return the bits of integers from one on, sign-extended for signed types (``bfe``)."""
    dropped = np.uint32(64) - np.minimum(length & np.uint32(255), np.uint32(64))
    moved = shifted(a.astype(f"{a.dtype.kind}8"), start & np.uint32(255), left=False)
    return shifted(shifted(moved, dropped, left=True), dropped, left=False).astype(a.dtype)


def inserted(a: Array, b: Array, start: Array, length: Array) -> Array:
    """Return integers b with bits from one on replaced by the lowest of a (``bfi``)."""
    start, kept = start & np.uint32(255), shifted(~np.zeros(1, np.uint64), length & np.uint32(255), left=True)
    mask, moved = shifted(~kept, start, left=True), shifted(a.astype(np.uint64), start, left=True)
    return np.asarray(((b & ~mask) | (moved & mask)).astype(b.dtype))


def bit_mask(start: Array, length: Array) -> Array:
    """Return integers whose bits are set from one on (``bmsk.clamp``)."""
    nothing = np.zeros(1, np.uint32)
    return inserted(~nothing, nothing, np.minimum(start, np.uint32(32)), np.minimum(length, np.uint32(32)))


def permuted(a: Array, b: Array, selector: Array) -> Array:
    """Return four bytes chosen from eight by the digits of a selector (``prmt``)."""
    words = np.stack(np.broadcast_arrays(a, b, selector), axis=-1)
    digits = words[:, 2:] >> np.arange(0, 16, 4, dtype=np.uint32)
    found = np.take_along_axis(np.ascontiguousarray(words[:, :2]).view(np.uint8), (digits & 7).astype(np.intp), axis=1)
    found = np.where(digits & 8, np.where(found & 128, 255, 0), found).astype(np.uint8)
    return found.view(np.uint32).reshape(-1)


def looked_up(a: Array, b: Array, c: Array, table: int) -> Array:
    """Return any logical function of three values by its table (``lop3``)."""
    found: Array = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), a.dtype)
    for case in range(8):
        if table >> case & 1:
            found |= (a if case & 4 else ~a) & (b if case & 2 else ~b) & (c if case & 1 else ~c)
    return found


def funnel(low: Array, high: Array, by: Array, left: bool, wrap: bool) -> Array:
    """Return 32 bits of two words shifted as one (``shf``)."""
    amount = (by & np.uint32(31) if wrap else np.minimum(by, np.uint32(32))).astype(np.uint64)
    both = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    moved = both >> (np.uint64(32) - amount if left else amount)
    return np.asarray((moved & np.uint64(0xFFFFFFFF)).astype(np.uint32))


def dot_product(a: Array, b: Array, c: Array, dtypes: Sequence[Any]) -> Array:
    """Return c with the products of four small integers of each thread added (``dp4a``)."""
    left, right = (each.view(dtype).reshape(-1, 4) for each, dtype in zip((a, b), dtypes, strict=True))
    products = left.astype(np.int64) * right.astype(np.int64)
    return np.asarray((c.astype(np.int64) + products.sum(axis=-1)).astype(c.dtype))


def _unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


_ORDERED: dict[str, Operation] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
COMPARISONS: dict[str, Operation] = {
    **_ORDERED, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    "ne": lambda a, b: (a != b) & ~_unordered(a, b), "num": lambda a, b: ~_unordered(a, b), "nan": _unordered,
    **{f"{name}u": lambda a, b, test=test: test(a, b) | _unordered(a, b) for name, test in _ORDERED.items()},
}  # fmt: skip


def _approximate(of: Operation) -> Operation:
    return lambda a: of(np.asarray(a, np.float64)).astype(np.asarray(a).dtype)


FLOATS: dict[str, Operation] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.fmin, "max": np.fmax,
    "abs": np.abs, "neg": np.negative, "sqrt": np.sqrt, "copysign": lambda a, b: np.copysign(b, a),
    "rcp": lambda a: (a.dtype.type(1) / a), "rsqrt": _approximate(lambda a: 1 / np.sqrt(a)),
    "ex2": _approximate(np.exp2), "lg2": _approximate(np.log2), "sin": _approximate(np.sin),
    "cos": _approximate(np.cos), "tanh": _approximate(np.tanh), "fma": lambda a, b, c: fma(a, b, c, a.dtype),
    "mad": lambda a, b, c: fma(a, b, c, a.dtype),
}  # fmt: skip
"""By the first word of the instruction, on values of its type, rounded to nearest."""

INTEGERS: dict[str, Operation] = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "abs": np.abs, "neg": np.negative,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "cnot": lambda a: (a == 0).astype(a.dtype), "div": divided, "rem": lambda a, b: a - divided(a, b) * b,
    "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
    "brev": reversed_bits, "clz": lambda a: np.minimum(highest_bit(a, True), np.uint32(a.itemsize * 8)),
    "sad": lambda a, b, c: c + np.where(a > b, a - b, b - a),
}  # fmt: skip


def floating(name: str, kind: str, words: set[str]) -> Operation:
    """Return the operation of a floating-point instruction on values of its type.

    Args:
        name: Its first word.
        kind: Its type.
        words: Those in between.

    Raises:
        KeyError: it has a word, a type or a rounding that is not known here.
    """
    if unknown := words - ROUNDINGS - {"ftz", "sat", "approx", "full", "relu", "NaN"}:
        raise KeyError(", ".join(unknown))
    mode, dtype = next(iter(words & ROUNDINGS), "rn"), DTYPES[kind]
    table = FLOATS if "NaN" not in words else {"min": np.minimum, "max": np.maximum}
    if kind.startswith("bf16"):
        if name not in table or mode != "rn" or "sat" in words:
            raise KeyError(name)
        exact = _WITH_ERROR.get(name)
        double = table[name] if exact is None else lambda *values: _to_odd(*exact(*values))
        double = adjusted(double, words & {"relu"})
        return lambda *values: narrowed(
            double(*(widened(each, kind).astype(np.float64) for each in np.broadcast_arrays(*values))), "bf16"
        )
    if mode != "rn" and name not in _WITH_ERROR:
        raise KeyError(mode)
    return adjusted(table[name] if mode == "rn" else partial(in_direction, name, dtype, mode), words)


def adjusted(of: Operation, words: set[str]) -> Operation:
    """Return an operation with its arguments and result flushed or limited, as its words say."""
    if not words & {"ftz", "sat", "relu"}:
        return of

    def run(*values: Any) -> Any:
        flushes = "ftz" in words
        found = of(*(flush(one) if flushes and one.dtype == np.float32 else one for one in values))
        found = flush(found) if flushes and found.dtype == np.float32 else found
        if "relu" in words and found.dtype.kind == "f":
            found = rectified(found)
        return saturated(found) if "sat" in words else found

    return run
