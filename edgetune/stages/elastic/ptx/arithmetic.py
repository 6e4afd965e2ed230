"""The arithmetic of PTX on arrays with one element per thread, bit for bit where IEEE 754 or PTX defines the bits.

    fma.rn.f32    a * b + c rounded once: exact product in float64, sum rounded to odd, then to float32
    ex2.approx    the nearest float32 of the exact value: the hardware may be 2 ulp off, so that bits differ from a GPU

Rounding to odd before the last rounding gives the correctly rounded result: Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", IEEE Trans. Computers 57 (2008). The same source has the fma of float64 on two halves.
Instructions and their rounding: NVIDIA, "PTX ISA", chapter 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Operation: TypeAlias = Callable[..., Any]

_BITS = (8, 16, 32, 64)
DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{letter}{bits}": np.dtype(f"{letter.replace('b', 'u').replace('s', 'i')}{bits // 8}")
       for letter in "bus" for bits in _BITS},
    "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8"), "pred": np.dtype(bool),
    "f16x2": np.dtype("f2"),
}  # fmt: skip
"""numpy's type of each PTX type; two halves of one register are two elements."""
ROUNDINGS = frozenset({"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"})
_SPLIT = 134217729.0  # 2**27 + 1


def add_to_odd(a: Array, b: Array) -> Array:
    """Return the sum of float64 values, rounded to odd: an inexact sum gets an odd last bit."""
    total = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    return np.where(inexact, bits + np.where((error > 0) == (total > 0), 1, -1), bits).view(np.float64)


def fma(a: Any, b: Any, c: Any, dtype: np.dtype[Any], mode: str = "rn") -> Any:
    """Return a * b + c, rounded once to a type in a direction.

    Args:
        a: Of this type, as all arguments.
        b: The second factor.
        c: The summand.
        dtype: float16, float32 or float64.
        mode: ``rn`` (nearest), ``rz`` (zero), ``rm`` (down), ``rp`` (up); float64 rounds to nearest only.
    """
    x, y, z = (np.asarray(each, np.float64) for each in np.broadcast_arrays(np.atleast_1d(a), b, c))
    if dtype.itemsize < 8:
        return rounded(add_to_odd(x * y, z), dtype, mode)
    high = x * y
    left, right = (each * _SPLIT - (each * _SPLIT - each) for each in (x, y))
    low = ((left * right - high) + left * (y - right) + (x - left) * right) + (x - left) * (y - right)
    top = z + low
    part = top - z
    rest = (z - (top - part)) + (low - part)
    total = high + top
    part = total - high
    remains = (high - (total - part)) + (top - part)
    found = total + add_to_odd(rest, remains)
    return np.where(np.isfinite(found), found, high + z)


def rounded(value: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Return float64 values, exact or rounded to odd, as another floating-point type."""
    near = np.asarray(value.astype(dtype))
    if mode == "rn":
        return near
    back = near.astype(np.float64)
    down = np.nextafter(near, dtype.type(-np.inf))
    up = np.nextafter(near, dtype.type(np.inf))
    too_high, too_low = back > value, back < value
    if mode == "rz":
        return np.where(value > 0, np.where(too_high, down, near), np.where(too_low, up, near))
    return np.where(too_high, down, near) if mode == "rm" else np.where(too_low, up, near)


def to_integer(value: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Return floating-point values as integers, those out of range as the nearest limit and no numbers as 0."""
    way = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    whole = way(value.astype(np.float64))
    limits = np.iinfo(dtype)
    inside = np.clip(np.nan_to_num(whole, nan=0.0), float(limits.min), np.nextafter(float(limits.max) + 1, 0))
    exact = inside.astype(dtype)
    return np.asarray(np.where(whole > float(limits.max), dtype.type(limits.max), exact))


def flush(value: Any) -> Any:
    """Return float32 values with zeros for subnormal ones (``.ftz``)."""
    small = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(small, np.copysign(np.float32(0), value), value)


def high_half(a: Array, b: Array, dtype: np.dtype[Any]) -> Array:
    """Return the upper half of the product of integers."""
    bits = dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
        return np.asarray(((a.astype(wide) * b.astype(wide)) >> wide.type(bits)).astype(dtype))
    products = [(int(x) * int(y)) >> bits for x, y in zip(*np.broadcast_arrays(np.atleast_1d(a), b), strict=True)]
    return np.array(products, dtype)


def divided(a: Array, b: Array) -> Array:
    """Return integer quotients rounded towards zero; PTX leaves those by zero undefined, here all bits are set."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient += ((a % safe) != 0) & ((a < 0) != (safe < 0))
    return np.where(zero, a.dtype.type(-1 if a.dtype.kind == "i" else np.iinfo(a.dtype).max), quotient)


def remainder(a: Array, b: Array) -> Array:
    """Return integer remainders with the sign of the dividend."""
    return np.asarray(a - divided(a, b) * b)


def shifted(a: Array, by: Array, left: bool) -> Array:
    """Return shifted integers; shifts by the width or more give zeros, or signs."""
    bits = a.dtype.itemsize * 8
    amount = np.minimum(by.view(np.uint32) if isinstance(by, np.ndarray) else np.uint32(by), np.uint32(bits - 1))
    moved = a << amount.astype(a.dtype) if left else a >> amount.astype(a.dtype)
    beyond = (by >= bits) & ((a.dtype.kind == "u") | left)
    return np.asarray(np.where(beyond, a.dtype.type(0), moved))


def reversed_bits(a: Array) -> Array:
    """Return integers with the order of their bits reversed."""
    bits, found = a.dtype.itemsize * 8, np.zeros_like(a)
    for place in range(bits):
        found |= ((a >> a.dtype.type(place)) & a.dtype.type(1)) << a.dtype.type(bits - 1 - place)
    return found


def highest_bit(a: Array, as_shift: bool) -> Array:
    """Return the place of the highest set bit, or the shift that brings it to the top; all bits set where there is
    none."""
    bits = a.dtype.itemsize * 8
    place = np.full(a.shape, -1, np.int64)
    value = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    for each in range(bits):
        place[(value >> value.dtype.type(each)) & value.dtype.type(1) == 1] = each
    return np.where(place < 0, place, bits - 1 - place if as_shift else place).astype(np.int32).view(np.uint32)


def set_bits(a: Array) -> Array:
    """Return how many bits of each integer are set."""
    bytes_of = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.dtype.itemsize)
    return np.asarray(np.unpackbits(bytes_of, axis=-1).sum(axis=-1).astype(np.uint32))


def field(a: Array, start: Array, length: Array) -> Array:
    """Return the bits of 32-bit integers from one on, sign-extended for signed types (``bfe``)."""
    at, size = (np.asarray(each & np.uint32(255), np.int64) for each in (start, length))
    found = (a.astype(np.int64) >> np.minimum(at, 63)) & ((np.int64(1) << np.minimum(size, 33)) - 1)
    if a.dtype.kind == "i":
        last = (a.astype(np.int64) >> np.clip(at + size - 1, 0, 31)) & 1
        found -= np.where(size > 0, last << np.minimum(size, 33), 0)
    return np.asarray(found.astype(a.dtype))


def inserted(a: Array, b: Array, start: Array, length: Array) -> Array:
    """Return 32-bit integers b with bits from one on replaced by the lowest of a (``bfi``)."""
    at, size = (np.minimum(each & np.uint32(255), 32).astype(np.uint64) for each in (start, length))
    mask = (((np.uint64(1) << size) - np.uint64(1)) << at).astype(np.uint32)
    return np.asarray((b & ~mask) | ((a.astype(np.uint64) << at).astype(np.uint32) & mask))


def permuted(a: Array, b: Array, selector: Array) -> Array:
    """Return four bytes chosen from eight by the digits of a selector (``prmt`` in its default mode)."""
    both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    found = np.zeros(np.broadcast_shapes(a.shape, b.shape, np.shape(selector)), np.uint32)
    for place in range(4):
        digit = (np.asarray(selector, np.uint32) >> np.uint32(4 * place)) & np.uint32(15)
        byte = ((both >> (8 * (digit & np.uint32(7))).astype(np.uint64)) & np.uint64(255)).astype(np.uint32)
        byte = np.where(digit & np.uint32(8), np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0)), byte)
        found |= byte << np.uint32(8 * place)
    return found


def looked_up(a: Array, b: Array, c: Array, table: int) -> Array:
    """Return any logical function of three values by its table (``lop3``)."""
    found = np.zeros_like(a)
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


def _unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


COMPARISONS: dict[str, Operation] = {
    "eq": np.equal, "ne": lambda a, b: (a != b) & ~_unordered(a, b), "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal, "num": lambda a, b: ~_unordered(a, b), "nan": _unordered,
    **{f"{name}u": lambda a, b, test=test: test(a, b) | _unordered(a, b)
       for name, test in (("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
                          ("gt", np.greater), ("ge", np.greater_equal))},
}  # fmt: skip


def _approximate(of: Operation) -> Operation:
    return lambda a: of(np.asarray(a, np.float64)).astype(np.asarray(a).dtype)


FLOATS: dict[str, Operation] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.fmin, "max": np.fmax,
    "abs": np.abs, "neg": np.negative, "sqrt": np.sqrt, "copysign": lambda a, b: np.copysign(b, a),
    "rcp": lambda a: (a.dtype.type(1) / a), "rsqrt": _approximate(lambda a: 1 / np.sqrt(a)),
    "ex2": _approximate(np.exp2), "lg2": _approximate(np.log2), "sin": _approximate(np.sin),
    "cos": _approximate(np.cos), "tanh": _approximate(np.tanh),
}  # fmt: skip
"""By the first word of the instruction, on values of its type, rounded to nearest."""

INTEGERS: dict[str, Operation] = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "abs": np.abs, "neg": np.negative,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "cnot": lambda a: (a == 0).astype(a.dtype), "div": divided, "rem": remainder, "popc": set_bits,
    "brev": reversed_bits, "prmt": permuted,
    "clz": lambda a: np.where(a == 0, a.dtype.itemsize * 8, highest_bit(a, True).view(np.int32)).astype(np.uint32),
    "sad": lambda a, b, c: c + np.where(a > b, a - b, b - a),
}  # fmt: skip
