"""Arrival processes of requests: their table, the parser of their words, and the resulting times.

uniform:60    |    |    |    |    |   evenly      closed:2         ||   (answered)   ||   a batch after the answers
periodic:2s  |    |    |    |    |    from 0 on   trace:FILE@60/s    |   || |   |||  |    as recorded, scaled
poisson:60     | ||     |  |      ||  at random   live, or -         ?                    one a line of input
normal:2s    |   |     |    |   |     about so    batch, list        in a file of jobs, which has count and times
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from edgetune import limits
from edgetune.artifacts.arrivals import read_arrivals
from edgetune.errors import InputError
from edgetune.plugins import Registry
from edgetune.serving.requests import ArrivalSource, ClosedLoopArrivals, LineArrivals, ScheduledArrivals
from edgetune.units import NS, parse_rate_per_s, parse_time_s

_TRACE = re.compile(
    r"(?P<file>.+?)(?:@(?P<rate>[\d.]+(?:/(?:s|min|h))?))?"
    r"(?::(?P<window>[\d.]+(?:ms|s|min|m|h)))?"
)
_LEAST_PER_S = 1e-8
_MOST_DIGITS = 30
_DRAWN_AT_ONCE = 1024
_END_S = 2**62 / NS
"""Longer than any run: a century."""
WINDOW_S = 300.0
"""How long a rate of a trace lasts by default: five minutes, as in Fulcrum's dynamic workloads (2025)."""
DEVIATION = 0.25
"""Standard deviation of normal gaps as a share of their mean, by default: a negative gap, which counts as zero, is then
four deviations away."""

Seed = int | Sequence[int]
Dues = Callable[[Seed, float], Iterator[float]]
"""Times of a process of one request per unit of time, ascending, from a seed and the deviation of gaps."""


@dataclass(frozen=True, slots=True)
class ArrivalSpec:
    """An arrival process, independent of the begin of a run.

    Args:
        kind: Name of the row of ``PROCESSES``.
        rates_per_s: Requests per second in consecutive windows, repeated; one value for a constant rate, none if the
            rate is unknown or ``times_s`` has the times.
        window_s: Length of each window, s.
        spacing: Name of the process that spaces requests within a window.
        clients: Number of clients of ``closed``; ``None`` takes the batch size.
        times_s: Times of a recorded trace since its first arrival, s.
        period_s: Period of repetition of such a trace, s; ``None`` without repetition.
        deviation: Standard deviation of normal gaps as a share of their mean.
    """

    kind: str
    rates_per_s: tuple[float, ...] = ()
    window_s: float = math.inf
    spacing: str = "uniform"
    clients: int | None = None
    times_s: tuple[float, ...] = ()
    period_s: float | None = None
    deviation: float = DEVIATION

    @property
    def even(self) -> bool:
        """Whether requests have a constant gap, so that there are no bursts."""
        return PROCESSES[self.kind].even

    @property
    def rate_per_s(self) -> float | None:
        """Mean rate, requests per second; ``None`` if unknown."""
        if self.rates_per_s:
            return math.fsum(self.rates_per_s) / len(self.rates_per_s)
        return len(self.times_s) / self.period_s if self.period_s else None

    @property
    def peak_rate_per_s(self) -> float | None:
        """Rate of the busiest window, which a plan has to serve; the mean rate of recorded arrivals."""
        return max(self.rates_per_s) if self.rates_per_s else self.rate_per_s

    @property
    def duration_s(self) -> float | None:
        """Length of a trace, s; ``None`` for a process without an end."""
        if self.kind != "trace":
            return None
        if self.rates_per_s:
            return self.window_s * len(self.rates_per_s)
        return self.times_s[-1] if self.period_s is None else self.period_s

    def source(self, begin_ns: int, end_ns: int, seed: Seed = 0, batch_size: int = 1) -> ArrivalSource:
        """Return the requests of a run.

        Args:
            begin_ns, end_ns: Begin and end of the run on the stage's clock; all arrivals are before the end.
            seed: Seed of the arrivals; several tenants need different seeds.
            batch_size: Requests per minibatch: the default number of clients of ``closed``.
        """
        if self.kind == "live":
            return LineArrivals(end_ns=end_ns)
        if self.kind == "closed":
            return ClosedLoopArrivals(self.clients or batch_size, begin_ns, end_ns)
        until_s = (end_ns - begin_ns) / NS
        offsets_s = itertools.takewhile(lambda offset_s: offset_s <= until_s, self.offsets_s(seed, until_s))
        times_ns = (begin_ns + round(offset_s * NS) for offset_s in offsets_s)
        return ScheduledArrivals(itertools.takewhile(lambda time_ns: time_ns < end_ns, times_ns))

    def offsets_s(self, seed: Seed = 0, until_s: float = _END_S) -> Iterator[float]:
        """Return the arrival times of a process without answers or input, s since the begin, ascending.

        Args:
            seed: Seed of the arrivals.
            until_s: Later arrivals may be left out.
        """
        if not self.times_s:
            yield from self._by_rate(seed, until_s)
            return
        for turn in itertools.count() if self.period_s is not None else range(1):
            yield from (turn * (self.period_s or 0.0) + time_s for time_s in self.times_s)

    def _by_rate(self, seed: Seed, until_s: float) -> Iterator[float]:
        """Return times whose count follows the integral of the rate.

        A process of variable rate is a process of rate 1 on a clock that advances by the integral of the rate
        (Lewis and Shedler, 1979).
        """
        dues = PROCESSES[self.spacing].dues
        assert dues is not None
        coming = dues(seed, self.deviation)
        due, passed, begin_s = next(coming), 0.0, 0.0
        for rate_per_s in itertools.cycle(self.rates_per_s):
            while rate_per_s > 0 and due - passed <= rate_per_s * self.window_s:
                yield begin_s + max(due - passed, 0.0) / rate_per_s
                due = next(coming)
            passed += rate_per_s * self.window_s
            begin_s += self.window_s
            if begin_s >= until_s:
                return


@dataclass(frozen=True, slots=True)
class ArrivalProcess:
    """A row of the table of arrival processes.

    Args:
        name: The word before the colon.
        examples: Examples for hints.
        parse: Returns the spec from the name and the text after the colon; ``None`` if no text may follow.
        dues: For a process with a mean rate, which a rate, a mean gap or an intensity fixes.
        even: Whether requests have a constant gap, so that there are no bursts.
        needs: ``job`` if a job has the rest (its count or its times), ``answers`` if a request follows an answer.
    """

    name: str
    examples: tuple[str, ...]
    parse: Callable[[str, str], ArrivalSpec] | None = None
    dues: Dues | None = None
    even: bool = False
    needs: Literal["nothing", "job", "answers"] = "nothing"


def parse_arrivals(text: str) -> ArrivalSpec:
    """Parse an arrival process.

    Args:
        text: See ``PROCESSES``. The rate of a trace is the mean to scale it to; the window, e.g. ``trace:FILE:10s``, is
            how long each of its rates lasts.

    Raises:
        InputError: the process is unknown or is one of jobs; a rate, gap or number of clients is not above zero; a
            trace cannot be read or scaled.
    """
    word, colon, rest = ("live", "", "") if text == "-" else text.partition(":")
    process = PROCESSES.get(word)
    if process is None or process.needs == "job" or (colon and process.parse is None) or (word == "trace" and not rest):
        known = [example for each in PROCESSES.values() if each.needs != "job" for example in each.examples]
        raise InputError(f"unknown arrivals {text!r}", f"write {', '.join(known)}, or - for standard input")
    if process.parse is None or (not colon and process.needs == "answers"):
        return ArrivalSpec(word)
    return process.parse(word, rest)


def _parse_rate(word: str, rest: str) -> ArrivalSpec:
    rate_per_s = _rate_per_s(rest, f"{word}:{rest}" if rest else word)
    if rate_per_s < _LEAST_PER_S:
        raise InputError(f"{f'{word}:{rest}'!r} is less than one request in three years", "e.g. poisson:60/h")
    return ArrivalSpec(word, (rate_per_s,), spacing=word)


def _parse_gap(word: str, rest: str) -> ArrivalSpec:
    gap, comma, deviation = rest.partition(",")
    if comma and word == "periodic":
        raise InputError(f"periodic arrivals have no deviation: {rest!r}", "write normal:2s,0.5s")
    what = f"the gap of {word} arrivals"
    gap_s = parse_time_s(gap, what=what)
    share = parse_time_s(deviation, what=f"{what}: the deviation") / gap_s if comma else DEVIATION
    return ArrivalSpec(word, (1 / gap_s,), spacing=word, deviation=share)


def _rate_per_s(words: str, text: str) -> float:
    try:
        float(words)
    except ValueError:
        if not words:
            raise InputError(f"{text!r} has no rate", "e.g. uniform:60, or poisson:0.5/s") from None
        return parse_rate_per_s(words, what="the rate of arrivals")
    return parse_rate_per_s(f"{words}/s", what="the rate of arrivals")


def _parse_clients(word: str, rest: str) -> ArrivalSpec:
    if not rest.isascii() or not rest.isdigit() or len(rest) > _MOST_DIGITS or int(rest) == 0:
        raise InputError(f"the number of clients is {rest!r}", "write a whole number above zero, e.g. closed:4")
    limits.check("clients", int(rest), f"{word}:{rest}")
    return ArrivalSpec(word, clients=int(rest))


def _parse_trace(word: str, rest: str) -> ArrivalSpec:
    parts = None if Path(rest).exists() else _TRACE.fullmatch(rest)
    told = {} if parts is None else {name: text for name, text in parts.groupdict().items() if text is not None}
    arrivals = read_arrivals(told.get("file", rest))
    rate_per_s = _rate_per_s(told["rate"], rest) if "rate" in told else None
    if arrivals.rates:
        if not any(arrivals.values):
            raise InputError(f"{arrivals.name} has no requests: every rate is zero", "give one rate above zero")
        window_s = parse_time_s(told["window"], what="the window of a trace") if "window" in told else WINDOW_S
        mean = math.fsum(arrivals.values) / len(arrivals.values)
        scaled = (value * rate_per_s / mean for value in arrivals.values) if rate_per_s else arrivals.values
        rates_per_s = tuple(scaled)
        requests = window_s * sum(rates_per_s) / len(rates_per_s)
        what = f"{arrivals.name} with windows of {window_s:g} s"
        limits.check("windows", 1 / requests if requests else math.inf, what)
        return ArrivalSpec(word, rates_per_s, window_s, "poisson")
    if "window" in told:
        message = f"{arrivals.name} has times of requests; only rates per window have windows"
        raise InputError(message, "leave the window out, or give a column rate_per_s")
    times_s = arrivals.values
    if times_s[-1] == 0:
        if rate_per_s is not None:
            message = f"{arrivals.name} cannot be scaled: its requests all arrive at once, so that it has no rate"
            raise InputError(message, "give requests at two different times at least")
        return ArrivalSpec(word, times_s=times_s)
    period_s = times_s[-1] * len(times_s) / (len(times_s) - 1)  # repeated after one mean gap
    factor = 1.0 if rate_per_s is None else len(times_s) / period_s / rate_per_s
    return ArrivalSpec(word, times_s=tuple(time_s * factor for time_s in times_s), period_s=period_s * factor)


def _exponential(seed: Seed, _deviation: float) -> Iterator[float]:
    drawn = np.random.default_rng(seed)
    return itertools.accumulate(
        gap for _ in itertools.count() for gap in drawn.standard_exponential(_DRAWN_AT_ONCE).tolist()
    )


def _normal(seed: Seed, deviation: float) -> Iterator[float]:
    """Return times from 0 on with normally distributed gaps; a negative gap counts as zero."""
    drawn = np.random.default_rng(seed)
    gaps = (gap for _ in itertools.count() for gap in drawn.normal(1.0, deviation, _DRAWN_AT_ONCE).tolist())
    return itertools.accumulate((max(gap, 0.0) for gap in gaps), initial=0.0)


def _evenly_from(first: int) -> Dues:
    return lambda _seed, _deviation: map(float, itertools.count(first))


PROCESSES: Registry[ArrivalProcess] = Registry(
    "arrival process",
    {
        process.name: process
        for process in (
            ArrivalProcess("uniform", ("uniform:60",), _parse_rate, _evenly_from(1), even=True),
            ArrivalProcess("poisson", ("poisson:60", "poisson:0.5/s"), _parse_rate, _exponential),
            ArrivalProcess("periodic", ("periodic:2s",), _parse_gap, _evenly_from(0), even=True),
            ArrivalProcess("normal", ("normal:2s", "normal:2s,0.5s"), _parse_gap, _normal),
            ArrivalProcess("trace", ("trace:FILE", "trace:FILE@60/s"), _parse_trace),
            ArrivalProcess("live", ()),
            ArrivalProcess("closed", ("closed", "closed:4"), _parse_clients, even=True, needs="answers"),
            ArrivalProcess("batch", ("batch",), needs="job"),
            ArrivalProcess("list", (), needs="job"),
        )
    },
)
"""Every way in which requests arrive."""
