"""The types of PTX: their numbers in NumPy, and conversions between formats of floating-point numbers.

Formats: NVIDIA, "PTX ISA", chapter 5. Values that were rounded to odd are rounded to a shorter format once (see
``arithmetic``).
"""

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
    "f16x2": np.dtype("f2"), "bf16": np.dtype("u2"), "bf16x2": np.dtype("u2"), "tf32": np.dtype("u4"),
    "u16x2": np.dtype("u2"), "s16x2": np.dtype("i2"),
}  # fmt: skip
"""numpy's type of each PTX type, of its bits where numpy has no such type; two numbers of one register are two
elements."""
PAIRS = frozenset({"f16x2", "bf16x2", "u16x2", "s16x2"})
FLOAT_KINDS = frozenset({"f16", "f32", "f64", "f16x2", "bf16", "bf16x2", "tf32"})
ROUNDINGS = frozenset({"rn", "rz", "rm", "rp", "rna"})
INTEGER_ROUNDINGS: dict[str, Operation] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def directed(near: Array, up: Any, down: Any, mode: str) -> Array:
    """Return the nearest numbers, or those beside them in a direction.

    Args:
        near: The nearest numbers.
        up: Where they are below the exact results.
        down: Where they are above.
        mode: ``rn`` (nearest), ``rz`` (zero), ``rm`` (down), ``rp`` (up).
    """
    if mode == "rn":
        return near
    limit = near.dtype.type(np.inf)
    below, above = np.nextafter(near, -limit), np.nextafter(near, limit)
    if mode == "rz":
        return np.where(np.signbit(near), np.where(up, above, near), np.where(down, below, near))
    return np.where(down, below, near) if mode == "rm" else np.where(up, above, near)


def rounded(value: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """Return numbers, exact or rounded to odd, as a floating-point type in a direction."""
    near = np.asarray(value.astype(dtype))
    if mode == "rn":
        return near
    back = near.astype(value.dtype)
    return directed(near, back < value, back > value, mode)


def _quantized(value: Array, places: int, mode: str) -> Array:
    """Return float64 values rounded to a format that numpy does not have, with the exponents of float32.

    Args:
        value: Exact, or rounded to odd.
        places: Bits behind the point of a significand.
        mode: A rounding of ``ROUNDINGS``.
    """
    scale = np.ldexp(1.0, np.maximum(np.frexp(value)[1] - 1, -126) - places)
    whole = value / scale
    if mode == "rna":
        whole = np.trunc(whole + np.copysign(0.5, whole))
    else:
        whole = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}[mode](whole)
    return np.where(np.isfinite(value), whole * scale, value)


_LARGEST_BF16 = 3.3895313892515355e38


def widened(value: Array, kind: str) -> Array:
    """Return numbers of a format that numpy does not have as float32, which are exact; others as they are."""
    if kind.startswith("bf16"):
        return (value.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "tf32":
        return (value & np.uint32(0xFFFFE000)).view(np.float32)
    return value


def narrowed(value: Array, kind: str, mode: str = "rn") -> Array:
    """Return numbers, exact or rounded to odd, in a format: as its bits where numpy does not have it.

    Args:
        value: float32 or float64.
        kind: PTX's name of the format.
        mode: A rounding of ``ROUNDINGS``.
    """
    format_, value = kind.removesuffix("x2"), value.astype(np.float64)
    if format_ == "bf16":
        near = _quantized(value, 7, mode)
        if mode == "rz":
            near = np.where(np.isfinite(value), np.clip(near, -_LARGEST_BF16, _LARGEST_BF16), near)
        bits = (near.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        return np.where(np.isnan(value), np.uint16(0x7FFF), bits)
    if format_ == "tf32":
        return _quantized(value, 10, mode).astype(np.float32).view(np.uint32)
    return rounded(value, DTYPES[kind], mode)
