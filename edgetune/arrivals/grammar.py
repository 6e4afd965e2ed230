"""The words by which people say how requests arrive: ``uniform:60``, ``trace:FILE@30-90/s:10s``, ``-``."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from edgetune import limits
from edgetune.arrivals.sources import ArrivalSpec, Spacing
from edgetune.artifacts.arrivals import read_arrivals
from edgetune.errors import InputError
from edgetune.units import parse_rate_per_s, parse_time_s

_HINT = "write uniform:60, poisson:60, closed, closed:4, trace:FILE, trace:FILE@60/s, or - for standard input"
_TRACE = re.compile(
    r"(?P<file>.+?)(?:@(?:(?P<low>[\d.]+)-)?(?P<high>[\d.]+)(?P<unit>/(?:s|min|h))?)?"
    r"(?::(?P<window>[\d.]+(?:ms|s|min|m|h)))?"
)
_LEAST_PER_S = 1e-8
_MOST_DIGITS = 30
WINDOW_S = 300.0
"""How long a rate of a trace lasts where nobody said: five minutes, as in Fulcrum's dynamic workloads (2025)."""


def parse_arrivals(text: str, *, spacing: Spacing = "poisson") -> ArrivalSpec:
    """Return how requests arrive, from words.

    Args:
        text: ``uniform:RATE``, ``poisson:RATE``, ``closed[:CLIENTS]``, ``trace:FILE[@RATE][:WINDOW]``, or ``-``. The
            rate of a trace is the mean to scale it to, or a range, e.g. ``trace:FILE@30-90/s``; the window, e.g.
            ``trace:FILE:10s``, is how long each rate lasts where it tells rates.
        spacing: How requests are spaced where a trace tells rates.

    Raises:
        InputError: other words, a rate or number of clients that is none, a file that is no trace or cannot be scaled.
    """
    word, _, rest = text.partition(":")
    if text == "-":
        return ArrivalSpec("live")
    if word in ("uniform", "poisson"):
        rate_per_s = _rate_per_s(rest, text)
        if rate_per_s < _LEAST_PER_S:
            raise InputError(f"{text!r} is less than one request in three years", "e.g. poisson:60/h")
        return ArrivalSpec(word, (rate_per_s,), spacing=word)  # type: ignore[arg-type]
    if word == "closed":
        return ArrivalSpec("closed", clients=_clients(rest) if ":" in text else None)
    if word == "trace" and rest:
        return _trace(rest, spacing)
    raise InputError(f"nothing is known of arrivals {text!r}", _HINT)


def _rate_per_s(words: str, text: str) -> float:
    try:
        float(words)
    except ValueError:
        if not words:
            raise InputError(f"{text!r} has no rate", _HINT) from None
        return parse_rate_per_s(words, what="the rate of arrivals")
    return parse_rate_per_s(f"{words}/s", what="the rate of arrivals")


def _clients(words: str) -> int:
    if not words.isascii() or not words.isdigit() or len(words) > _MOST_DIGITS or int(words) == 0:
        raise InputError(f"the number of clients is {words!r}", "write a whole number above zero, e.g. closed:4")
    limits.check("clients", int(words), f"closed:{words}")
    return int(words)


def _trace(words: str, spacing: Spacing) -> ArrivalSpec:
    parts = None if Path(words).exists() else _TRACE.fullmatch(words)
    told = {} if parts is None else {name: text for name, text in parts.groupdict().items() if text is not None}
    arrivals = read_arrivals(told.get("file", words))
    low, high = (
        _rate_per_s(told[end] + told.get("unit", ""), words) if end in told else None for end in ("low", "high")
    )
    if arrivals.rates:
        if not any(arrivals.values):
            raise InputError(f"{arrivals.name} has no requests: every rate is zero", "give one rate above zero")
        window_s = parse_time_s(told["window"], what="the window of a trace") if "window" in told else WINDOW_S
        spec = ArrivalSpec("trace", arrivals.values, window_s, spacing)
        return spec if high is None else replace(spec, rates_per_s=_scaled_rates(arrivals.values, low, high))
    if low is not None or "window" in told:
        what = "have windows" if low is None else "can be scaled to a range"
        message = f"{arrivals.name} tells when requests arrived; only rates per window {what}"
        raise InputError(message, "scale it to one mean rate, e.g. trace:FILE@60/s, or give a column rate_per_s")
    return _scaled_times(arrivals.values, high, arrivals.name)


def _scaled_rates(rates: tuple[float, ...], low: float | None, high: float) -> tuple[float, ...]:
    if low is None:
        mean = math.fsum(rates) / len(rates)
        return tuple(rate * high / mean for rate in rates)
    if low > high:
        raise InputError(f"the range of rates {low:g}-{high:g} is upside down", f"write {high:g}-{low:g}/s")
    least, span = min(rates), max(rates) - min(rates)
    if span == 0:
        raise InputError("a trace whose rates are all the same has no range to scale", f"write @{high:g}/s")
    return tuple(low + (rate - least) * (high - low) / span for rate in rates)


def _scaled_times(times_s: tuple[float, ...], rate_per_s: float | None, name: str) -> ArrivalSpec:
    """Return a trace of arrivals, scaled, and repeated after one mean gap."""
    if times_s[-1] == 0:
        if rate_per_s is not None:
            message = f"{name} cannot be scaled: its requests all arrive at once, so that it has no rate"
            raise InputError(message, "give requests at two different times at least")
        return ArrivalSpec("trace", times_s=times_s)
    period_s = times_s[-1] * len(times_s) / (len(times_s) - 1)
    factor = 1.0 if rate_per_s is None else len(times_s) / period_s / rate_per_s
    return ArrivalSpec("trace", times_s=tuple(time_s * factor for time_s in times_s), period_s=period_s * factor)
