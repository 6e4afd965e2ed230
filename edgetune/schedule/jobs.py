"""From jobs to requests: when each comes, for which network, when it is due and what it waits for.

batch        |||||                       all at once
periodic:2s  |    |    |    |    |       first at 0
normal:2s    |   |     |    |   |        gaps around 2 s, by a quarter of it or as in normal:2s,0.1s
list         | |        ||    |          as the document lists them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice, repeat, takewhile
from typing import Literal

from edgetune.artifacts.jobs import Job
from edgetune.errors import InputError
from edgetune.schedule.request import Request
from edgetune.units import NS, parse_time_s

_HINT = "write batch, periodic:2s, normal:2s, normal:2s,0.5s or a list of times, e.g. [0s, 1.5s]"
_DRAWN_AT_ONCE = 1024
_DEVIATION = 0.25
"""Standard deviation of normal gaps as a share of their mean, where nobody said: a negative gap, which is taken for
none, is then four deviations away."""

Kind = Literal["batch", "list", "periodic", "normal"]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How a job's arrivals come.

    Args:
        kind: See the head of this module.
        gap_s: Mean time between two, s; ``None`` where an intensity says, or there are none.
        deviation_s: Standard deviation of normal gaps, s; ``None`` for a quarter of the mean.
    """

    kind: Kind
    gap_s: float | None = None
    deviation_s: float | None = None


def arrivals_of(job: Job) -> Arrivals:
    """Return how a job's arrivals come, from its words.

    Raises:
        InputError: other words, a time that is none, neither a gap nor an intensity, or both.
    """
    where = f"job {job.name}"
    word, _, rest = job.arrivals.partition(":")
    if word in ("batch", "list") and not rest:
        if job.intensity is not None:
            raise InputError(f"{where} has an intensity, and its arrivals have no mean gap", "e.g. arrivals: normal")
        return Arrivals(word)  # type: ignore[arg-type]
    if word not in ("periodic", "normal"):
        raise InputError(f"{where}: nothing is known of arrivals {job.arrivals!r}", _HINT)
    gap, comma, deviation = rest.partition(",")
    if comma and word == "periodic":
        raise InputError(f"{where}: periodic arrivals do not deviate: {job.arrivals!r}", "write normal:2s,0.5s")
    if bool(rest) == (job.intensity is not None):
        message = f"{where} has a gap and an intensity" if rest else f"{where}: {job.arrivals!r} has no gap"
        raise InputError(message, f"write arrivals: {word}:2s, or arrivals: {word} and intensity: 0.8")
    what = f"{where}: the gap of {word} arrivals"
    return Arrivals(
        word,  # type: ignore[arg-type]
        parse_time_s(gap, what=what) if rest else None,
        parse_time_s(deviation, what=f"{what}: the deviation") if comma else None,
    )


def requests_of(
    jobs: Sequence[Job], service_s: Mapping[str, float], *, seed: int | Sequence[int], until_s: float | None = None
) -> tuple[Request, ...]:
    """Return the requests of all jobs, ascending with arrival.

    Args:
        jobs: As the document has them.
        service_s: What one request takes alone, s, by network: an intensity is a share of it.
        seed: The same seed gives the same arrivals, whichever policy answers them.
        until_s: Nothing arrives then or later, s; ``None`` where jobs end by themselves.

    Raises:
        InputError: see ``arrivals_of``; or nothing says when a job ends, or what an intensity is a share of.
    """
    entropy = (seed,) if isinstance(seed, int) else tuple(seed)
    found: list[tuple[int, Job, str]] = []
    for place, job in enumerate(jobs):
        times_s = _times_s(job, service_s, (*entropy, place, 0), until_s)
        chosen = _networks(job, (*entropy, place, 1))
        found += [(round(at_s * NS), job, name) for at_s, names in zip(times_s, chosen, strict=False) for name in names]
    found.sort(key=lambda each: each[0])  # stable: what comes at once stays in the order of the document
    numbers: dict[str, list[int]] = {job.name: [] for job in jobs}
    for number, (_, job, _) in enumerate(found):
        numbers[job.name].append(number)
    waits_for = {job.name: tuple(sorted(chain.from_iterable(numbers[name] for name in job.after))) for job in jobs}
    return tuple(
        Request(
            number,
            network,
            arrival_ns,
            None if job.deadline_s is None else arrival_ns + round(job.deadline_s * NS),
            waits_for[job.name],
            job.name,
        )
        for number, (arrival_ns, job, network) in enumerate(found)
    )


def _times_s(job: Job, service_s: Mapping[str, float], seed: Sequence[int], until_s: float | None) -> Iterator[float]:
    arrivals = arrivals_of(job)
    if arrivals.kind == "list":
        times_s: Iterator[float] = iter(job.times_s)
    elif arrivals.kind == "batch":
        times_s = repeat(0.0, job.count or 1)
    else:
        if job.count is None and until_s is None:
            raise InputError(
                f"nothing says when job {job.name} ends", "give it a count, e.g. 150, or add --duration 60s"
            )
        gap_s = arrivals.gap_s or _by_intensity_s(job, service_s)
        deviation_s = _DEVIATION * gap_s if arrivals.deviation_s is None else arrivals.deviation_s
        endless = (gap_s * n for n in count()) if arrivals.kind == "periodic" else _normal_s(gap_s, deviation_s, seed)
        times_s = islice(endless, job.count)
    return times_s if until_s is None else takewhile(lambda at_s: at_s < until_s, times_s)


def _by_intensity_s(job: Job, service_s: Mapping[str, float]) -> float:
    """Return the mean gap at which an arrival finds the device busy for ``intensity`` of the time, one layer at a time.

    The mean service time divided by the traffic intensity, as in MASA (Cox et al., PerCom 2021).
    """
    assert job.intensity is not None
    alone_s = sum(service_s[name] for name in job.networks)
    if alone_s <= 0:
        message = f"job {job.name} has an intensity, and nobody knows how long {', '.join(job.networks)} take"
        raise InputError(message, "measure them with edgetune schedule profile and add --costs FILE, or give a gap")
    return (alone_s if job.choose == "all" else alone_s / len(job.networks)) / job.intensity


def _normal_s(gap_s: float, deviation_s: float, seed: Sequence[int]) -> Iterator[float]:
    """Return times from 0 on, normal gaps apart; one that would be negative is none."""
    import numpy as np

    drawn, at_s = np.random.default_rng(seed), 0.0
    while True:
        for gap in drawn.normal(gap_s, deviation_s, _DRAWN_AT_ONCE).tolist():
            yield at_s
            at_s += max(gap, 0.0)


def _networks(job: Job, seed: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Return the networks of one arrival after another."""
    if job.choose == "all":
        yield from repeat(job.networks)
    import numpy as np

    drawn = np.random.default_rng(seed)
    while True:
        yield from ((job.networks[place],) for place in drawn.integers(len(job.networks), size=_DRAWN_AT_ONCE).tolist())
