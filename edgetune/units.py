"""Parses quantities (``30W``, ``80ms``, ``512MiB``, ``60/s``) to base SI units, and formats them."""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from edgetune.errors import InputError

NS = 1_000_000_000
"""Nanoseconds in a second: clocks count them as integers, people count seconds."""

MOST_S = 1e8
"""The longest time that is reckoned with, s: three years, which a float holds to 16 ns."""
_MOST = 1e100
"""No quantity is larger; products of some such are still finite."""

_NUMBER = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?))\s*([^\d\s]\S*)?\s*$", re.IGNORECASE
)

POWER: Mapping[str, float] = MappingProxyType({"W": 1.0, "mW": 1e-3, "kW": 1e3})
TIME: Mapping[str, float] = MappingProxyType(
    {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "m": 60.0, "h": 3600.0}
)
BYTES: Mapping[str, float] = MappingProxyType(
    {"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
)
RATE: Mapping[str, float] = MappingProxyType({"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600, "rps": 1.0, "Hz": 1.0})


def parse_quantity(text: str | float, units: Mapping[str, float], *, what: str, example: str) -> float:
    """Return ``text`` in the base unit of ``units``.

    Args:
        text: A number and its unit, e.g. ``"30W"`` or ``"1.5 GHz"``. Units are case-sensitive: mW is not MW. A number
            is in the base unit already.
        units: Factor to the base unit, by unit.
        what: What the quantity is, for the error, e.g. ``"the power budget"``.
        example: A right way to write it, for the hint.

    Raises:
        InputError: no number, no unit, an unknown unit, NaN, infinite, zero, negative or above 1e100.
    """
    if not isinstance(text, str):
        text = f"{text!r}{next(unit for unit, factor in units.items() if factor == 1)}"
    match = _NUMBER.match(text)
    if match is None:
        raise InputError(f"{what} is not a quantity: {text!r}", f"write a number and a unit, e.g. {example}")
    number, unit = float(match[1]), match[2]
    if not math.isfinite(number) or number <= 0:
        raise InputError(f"{what} must be a finite number above zero, not {text!r}", f"e.g. {example}")
    if unit is None:
        raise InputError(f"{what} has no unit: {text!r}", f"write it with one, e.g. {example}")
    if unit.startswith(","):
        raise InputError(f"{what} is not a quantity: {text!r}", f"decimals follow a point; no commas, e.g. {example}")
    if unit not in units:
        raise InputError(f"{what} has an unknown unit {unit!r}", f"known: {', '.join(units)}; e.g. {example}")
    value = number * units[unit]
    if not 0 < value <= _MOST:
        raise InputError(f"{what} is too {'large' if value else 'small'} to compute with: {text!r}", f"e.g. {example}")
    return value


def parse_power_w(text: str | float, *, what: str = "the power") -> float:
    """Return watts from e.g. ``30W`` or ``4500mW``."""
    return parse_quantity(text, POWER, what=what, example="30W")


def parse_time_s(text: str | float, *, what: str = "the time") -> float:
    """Return seconds from e.g. ``80ms``, ``2s`` or ``10m``."""
    time_s = parse_quantity(text, TIME, what=what, example="80ms")
    if time_s > MOST_S:
        raise InputError(f"{what} is longer than three years: {text!r}", "e.g. 80ms")
    return time_s


def parse_bytes(text: str | float, *, what: str = "the size") -> int:
    """Return bytes from e.g. ``512MiB`` or ``1GB``."""
    return round(parse_quantity(text, BYTES, what=what, example="512MiB"))


def parse_rate_per_s(text: str | float, *, what: str = "the rate") -> float:
    """Return events per second from e.g. ``60/s``."""
    return parse_quantity(text, RATE, what=what, example="60/s")


def parse_share(text: str | float, *, what: str = "the share", most: float = 1.0) -> float:
    """Return a share of one from e.g. ``5%`` or ``0.05``.

    Raises:
        InputError: not a number, NaN, or outside 0 to ``most``.
    """
    text = text if isinstance(text, str) else repr(text)
    body, percent = (text.strip()[:-1], True) if text.strip().endswith("%") else (text, False)
    try:
        value = float(body) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise InputError(f"{what} must be between 0 and {100 * most:g} %, not {text!r}", "write e.g. 5% or 0.05")
    return value


def format_si(value: float, unit: str, digits: int = 3, *, zeros: bool = False) -> str:
    """Return ``value`` with an SI prefix, e.g. ``format_si(0.0123, "s") == "12.3 ms"``; columns keep ``zeros``."""
    if value == 0:
        return f"0 {unit}"
    prefixes = {-12: "p", -9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
    rounded = float(f"{value:.{digits}g}")
    exponent = min(max(3 * math.floor(math.log10(abs(rounded)) / 3), -12), 15)
    number = rounded / 10**exponent
    text = f"{number:#.{digits}g}".rstrip(".") if zeros else f"{number:.{digits}g}"
    return f"{text} {prefixes[exponent]}{unit}"


def format_bytes(size_bytes: float) -> str:
    """Return a size in binary units, e.g. ``512 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.4g} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.4g} TiB"


def exact_bytes(size_bytes: int) -> str:
    """Return a size as ``parse_bytes`` reads it back: in the largest binary unit of which it is a whole number."""
    unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if size_bytes % round(BYTES[unit]) == 0)
    return f"{size_bytes // round(BYTES[unit])}{unit}"


def exact_time(time_s: float) -> str:
    """Return a time as ``parse_time_s`` reads it back, s."""
    return f"{repr(time_s).removesuffix('.0')}s"


def format_duration(seconds: float) -> str:
    """Return a duration a person reads at a glance, e.g. ``2 m 05 s``."""
    if seconds < 10:
        return format_si(seconds, "s")
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
