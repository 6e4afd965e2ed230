"""When the arrivals of a job come, from its words.

batch          |||||                       all at once
periodic:2s    |    |    |    |    |       first at 0
normal:2s      |   |     |    |   |        gaps around 2 s, by a quarter of it or as in normal:2s,0.1s
poisson:0.5/s    | ||     |   |      ||    at random
trace:FILE       || |     |   ||           as recorded, or as in trace:FILE@0.5/s at another mean rate
list             | |        ||     |       as the document lists them
live             ?                         when somebody writes a line
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, repeat, takewhile
from typing import Literal, cast, get_args

from edgetune.artifacts.jobs import Job
from edgetune.errors import InputError
from edgetune.serving.arrivals import ArrivalSpec, parse_arrivals
from edgetune.units import NS, parse_time_s

_HINT = (
    "write batch, periodic:2s, normal:2s, normal:2s,0.5s, poisson:0.5/s, trace:FILE, live, or times, e.g. [0s, 1.5s]"
)
_DRAWN_AT_ONCE = 1024
_DEVIATION = 0.25
"""Standard deviation of normal gaps as a share of their mean, where nobody said: a negative gap, which is taken for
none, is then four deviations away."""
_END_NS = 2**62
"""Of what nobody ends: a century."""

Kind = Literal["batch", "list", "periodic", "normal", "poisson", "trace", "live"]
_ALONE = ("batch", "list", "live")
"""Words that nothing follows."""
_WITHOUT_GAP = (*_ALONE, "trace")


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How a job's arrivals come.

    Args:
        kind: See the head of this module.
        gap_s: Mean time between two, s; ``None`` where an intensity or ``spec`` says, or there is none.
        deviation_s: Standard deviation of normal gaps, s; ``None`` for a quarter of the mean.
        spec: Of a trace, and of a Poisson process whose rate is known.
    """

    kind: Kind
    gap_s: float | None = None
    deviation_s: float | None = None
    spec: ArrivalSpec | None = None


def arrivals_of(job: Job) -> Arrivals:
    """Return how a job's arrivals come, from its words.

    Raises:
        InputError: other words, a time that is none, a trace that cannot be read, neither a gap nor an intensity, or
            both.
    """
    word, _, rest = job.arrivals.partition(":")
    if word not in get_args(Kind) or (rest and word in _ALONE):
        raise InputError(f"job {job.name}: nothing is known of arrivals {job.arrivals!r}", _HINT)
    _check_gap(job, word, rest)
    kind = cast("Kind", word)
    if kind == "trace" or (kind == "poisson" and rest):
        return Arrivals(kind, spec=parse_arrivals(job.arrivals))
    if not rest:
        return Arrivals(kind)
    gap, comma, deviation = rest.partition(",")
    if comma and kind == "periodic":
        raise InputError(f"job {job.name}: periodic arrivals do not deviate: {rest!r}", "write normal:2s,0.5s")
    what = f"job {job.name}: the gap of {word} arrivals"
    deviation_s = parse_time_s(deviation, what=f"{what}: the deviation") if comma else None
    return Arrivals(kind, parse_time_s(gap, what=what), deviation_s)


def _check_gap(job: Job, word: str, rest: str) -> None:
    """Refuse a job that says its mean gap twice, or not at all."""
    where = f"job {job.name}"
    if word in _WITHOUT_GAP:
        if job.intensity is not None:
            raise InputError(f"{where} has an intensity, and its arrivals have no mean gap", "e.g. arrivals: normal")
        return
    example = "poisson:0.5/s" if word == "poisson" else f"{word}:2s"
    hint = f"write arrivals: {example}, or arrivals: {word} and intensity: 0.8"
    if rest and job.intensity is not None:
        raise InputError(f"{where} has both a gap, {rest}, and an intensity", hint)
    if not rest and job.intensity is None:
        raise InputError(f"{where}: {word!r} has no gap", hint)


def times_s(
    job: Job, service_s: Mapping[str, float], *, seed: Sequence[int], until_s: float | None = None
) -> Iterator[float]:
    """Return when a job's arrivals come, s since the run began, ascending; of live ones nothing is known.

    Args:
        job: Which.
        service_s: What one request takes alone, s, by network: an intensity is a share of it.
        seed: Of random gaps.
        until_s: Nothing arrives then or later, s; ``None`` where the job ends by itself.

    Raises:
        InputError: see ``arrivals_of``; or nothing says when the job ends, or what an intensity is a share of.
    """
    arrivals = arrivals_of(job)
    found: Iterator[float] = iter(())
    if arrivals.kind == "list":
        found = iter(job.times_s)
    elif arrivals.kind == "batch":
        found = repeat(0.0, job.count or 1)
    elif arrivals.kind == "trace":
        found = _trace_s(job, arrivals, seed)
    elif arrivals.kind != "live":
        if job.count is None and until_s is None:
            raise InputError(
                f"nothing says when job {job.name} ends",
                "give it a count, e.g. 150, or a duration to the run, e.g. 60s",
            )
        found = islice(_endless_s(job, arrivals, service_s, seed), job.count)
    return found if until_s is None else takewhile(lambda at_s: at_s < until_s, found)


def _trace_s(job: Job, arrivals: Arrivals, seed: Sequence[int]) -> Iterator[float]:
    """Return the times of a trace, once through or as often as a count takes."""
    spec = arrivals.spec
    assert spec is not None
    if spec.times_s:
        return islice(_spec_s(spec, seed), job.count or len(spec.times_s))
    if job.count is not None:
        return islice(_spec_s(spec, seed), job.count)
    return takewhile(lambda at_s: at_s < (spec.duration_s or 0.0), _spec_s(spec, seed))


def _endless_s(job: Job, arrivals: Arrivals, service_s: Mapping[str, float], seed: Sequence[int]) -> Iterator[float]:
    if arrivals.spec is not None:
        return _spec_s(arrivals.spec, seed)
    gap_s = arrivals.gap_s or _by_intensity_s(job, service_s)
    if arrivals.kind == "poisson":
        return _spec_s(ArrivalSpec("poisson", (1 / gap_s,), spacing="poisson"), seed)
    if arrivals.kind == "periodic":
        return (gap_s * number for number in count())
    return _normal_s(gap_s, _DEVIATION * gap_s if arrivals.deviation_s is None else arrivals.deviation_s, seed)


def _spec_s(spec: ArrivalSpec, seed: Sequence[int]) -> Iterator[float]:
    return (at_ns / NS for at_ns in spec.times_ns(0, _END_NS, seed))


def _by_intensity_s(job: Job, service_s: Mapping[str, float]) -> float:
    """Return the mean gap at which an arrival finds the device busy for ``intensity`` of the time, one layer at a time.

    The mean service time divided by the traffic intensity, as in MASA (Cox et al., PerCom 2021).
    """
    assert job.intensity is not None
    alone_s = sum(service_s[name] for name in job.networks)
    if alone_s <= 0:
        message = f"job {job.name} has an intensity, and nobody knows how long {', '.join(job.networks)} take"
        raise InputError(
            message, "measure them with edgetune schedule profile and give that table of costs, or give a gap"
        )
    return (alone_s if job.choose == "all" else alone_s / len(job.networks)) / job.intensity


def _normal_s(gap_s: float, deviation_s: float, seed: Sequence[int]) -> Iterator[float]:
    """Return times from 0 on, normal gaps apart; one that would be negative is none."""
    import numpy as np

    drawn, at_s = np.random.default_rng(seed), 0.0
    while True:
        for gap in drawn.normal(gap_s, deviation_s, _DRAWN_AT_ONCE).tolist():
            yield at_s
            at_s += max(gap, 0.0)
