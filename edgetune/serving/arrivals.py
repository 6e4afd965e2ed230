"""The words by which people say how requests arrive: ``uniform:60``, ``trace:FILE@30-90/s:10s``, ``-``."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from edgetune import limits
from edgetune.artifacts.arrivals import read_arrivals
from edgetune.errors import InputError
from edgetune.serving.sources import ArrivalSource, ClosedLoopArrivals, LineArrivals, ScheduledArrivals
from edgetune.units import NS, parse_rate_per_s, parse_time_s

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


_DRAWN_AT_ONCE = 1024


Spacing = Literal["uniform", "poisson"]


ArrivalKind = Literal["uniform", "poisson", "closed", "trace", "live"]


@dataclass(frozen=True, slots=True)
class ArrivalSpec:
    """How requests arrive, before it is known when a run begins.

    Args:
        kind: See the head of this module.
        rates_per_s: Requests per second in one window after another, over again when they are through; one value
            where it stays the same, none where it is unknown or ``times_s`` says more.
        window_s: How long each of several rates lasts, s.
        spacing: How requests are spaced within a window.
        clients: Of ``closed``; ``None`` takes as many as make a batch.
        times_s: Of a trace of arrivals: when each came since the first, s.
        period_s: After which such a trace is repeated, s; ``None`` where it is not.
    """

    kind: ArrivalKind
    rates_per_s: tuple[float, ...] = ()
    window_s: float = math.inf
    spacing: Spacing = "uniform"
    clients: int | None = None
    times_s: tuple[float, ...] = ()
    period_s: float | None = None

    @property
    def rate_per_s(self) -> float | None:
        """Mean rate, requests per second; ``None`` where there is no telling."""
        if self.rates_per_s:
            return math.fsum(self.rates_per_s) / len(self.rates_per_s)
        return None if self.period_s is None else len(self.times_s) / self.period_s

    @property
    def peak_rate_per_s(self) -> float | None:
        """Rate of the busiest window, which a plan has to serve; of a trace of arrivals the mean, bursts or not."""
        return max(self.rates_per_s) if self.rates_per_s else self.rate_per_s

    @property
    def duration_s(self) -> float | None:
        """How long a trace is, s; ``None`` for what has no end of its own."""
        if self.kind != "trace":
            return None
        if self.rates_per_s:
            return self.window_s * len(self.rates_per_s)
        return self.times_s[-1] if self.period_s is None else self.period_s

    def source(self, begin_ns: int, end_ns: int, seed: int | Sequence[int] = 0, batch_size: int = 1) -> ArrivalSource:
        """Return the requests of a run.

        Args:
            begin_ns, end_ns: Of the run, on the stage's clock; nothing arrives at its end or later.
            seed: The same seed gives the same arrivals; of several tenants, give each another.
            batch_size: Requests per minibatch: how many clients there are where nobody said.
        """
        if self.kind == "live":
            return LineArrivals(end_ns=end_ns)
        if self.kind == "closed":
            return ClosedLoopArrivals(self.clients or batch_size, begin_ns, end_ns)
        return ScheduledArrivals(self.times_ns(begin_ns, end_ns, seed))

    def times_ns(self, begin_ns: int, end_ns: int, seed: int | Sequence[int] = 0) -> Iterator[int]:
        """Return when requests arrive that do not depend on answers or on anybody outside; see ``source``."""
        until_s = (end_ns - begin_ns) / NS
        offsets_s = self._repeated() if self.times_s else self._by_rate(seed, until_s)
        offsets_s = itertools.takewhile(lambda offset_s: offset_s <= until_s, offsets_s)
        times_ns = (begin_ns + round(offset_s * NS) for offset_s in offsets_s)
        return itertools.takewhile(lambda time_ns: time_ns < end_ns, times_ns)

    def _repeated(self) -> Iterator[float]:
        for turn in itertools.count() if self.period_s is not None else range(1):
            begin_s = turn * (self.period_s or 0.0)
            yield from (begin_s + time_s for time_s in self.times_s)

    def _by_rate(self, seed: int | Sequence[int], until_s: float) -> Iterator[float]:
        """Return times at which as many requests are due as the integral of the rate says: 1, 2, 3 or at random.

        A Poisson process of changing rate is one of rate 1 on the clock that runs as fast as the rate is high
        (Lewis and Shedler, 1979).
        """
        dues = (float(due) for due in itertools.count(1)) if self.spacing == "uniform" else _unit_poisson(seed)
        due, passed, begin_s = next(dues), 0.0, 0.0
        for rate_per_s in itertools.cycle(self.rates_per_s):
            while rate_per_s > 0 and due - passed <= rate_per_s * self.window_s:
                yield begin_s + max(due - passed, 0.0) / rate_per_s
                due = next(dues)
            passed += rate_per_s * self.window_s
            begin_s += self.window_s
            if begin_s >= until_s:
                return


def _unit_poisson(seed: int | Sequence[int]) -> Iterator[float]:
    """Return the times of a Poisson process of one request per unit of time."""
    import numpy as np

    drawn = np.random.default_rng(seed)
    last = 0.0
    while True:
        for gap in drawn.standard_exponential(_DRAWN_AT_ONCE).tolist():
            last += gap
            yield last
