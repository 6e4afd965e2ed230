"""When the requests of a job arrive, from its words, its count and its intensity."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, repeat, takewhile

from edgetune.artifacts.jobs import Job
from edgetune.errors import InputError, blaming
from edgetune.serving.arrivals import PROCESSES, ArrivalSpec, parse_arrivals


def arrivals_of(job: Job) -> ArrivalSpec:
    """Return how the requests of a job arrive, from its words; without a rate where it has an intensity.

    Raises:
        InputError: the process is unknown or waits for answers; a time is not above zero; a trace cannot be read; the
            job has neither a gap nor an intensity, or both.
    """
    word, _, rest = job.arrivals.partition(":")
    process, where = PROCESSES.get(word), f"job {job.name}"
    if process is None or process.needs == "answers" or (rest and process.parse is None):
        known = [example for each in PROCESSES.values() if each.needs != "answers" for example in each.examples]
        hint = f"write {', '.join(known)}, live, or times, e.g. [0s, 1.5s]"
        raise InputError(f"{where}: nothing is known of arrivals {job.arrivals!r}", hint)
    if process.dues is None and job.intensity is not None:
        raise InputError(f"{where} has an intensity, and its arrivals have no mean gap", "e.g. arrivals: normal")
    if process.dues is not None and bool(rest) == (job.intensity is not None):
        hint = f"write arrivals: {process.examples[-1]}, or arrivals: {word} and intensity: 0.8"
        problem = f" has both a gap, {rest}, and an intensity" if rest else f": {word!r} has no gap"
        raise InputError(f"{where}{problem}", hint)
    if not rest:
        return ArrivalSpec(word, spacing=word, times_s=job.times_s)
    with blaming(where):
        return parse_arrivals(job.arrivals)


def times_s(
    job: Job, service_s: Mapping[str, float], *, seed: Sequence[int], until_s: float | None = None
) -> Iterator[float]:
    """Return when the requests of a job arrive, s since the run began, ascending; of a live job none is known.

    Args:
        job: Which.
        service_s: What one request takes alone, s, by network: an intensity is a share of it.
        seed: Of random gaps.
        until_s: Nothing arrives then or later, s; ``None`` where the job ends by itself.

    Raises:
        InputError: see ``arrivals_of``; or the job has no end, or what its intensity is a share of is unknown.
    """
    spec = arrivals_of(job)
    if spec.kind == "live":
        return iter(())
    if spec.kind == "batch":
        found: Iterator[float] = repeat(0.0, job.count or 1)
    elif spec.times_s:
        found = islice(spec.offsets_s(seed), job.count or len(spec.times_s))
    elif job.count is None and spec.duration_s is not None:
        duration_s = spec.duration_s
        found = takewhile(lambda at_s: at_s < duration_s, spec.offsets_s(seed))
    elif job.count is None and until_s is None:
        hint = "give it a count, e.g. 150, or a duration to the run, e.g. 60s"
        raise InputError(f"nothing says when job {job.name} ends", hint)
    else:
        if job.intensity is not None:
            rate_per_s = 1 / _gap_by_intensity_s(job, service_s) or sys.float_info.min
            spec = replace(spec, rates_per_s=(rate_per_s,))
        found = islice(spec.offsets_s(seed), job.count)
    return found if until_s is None else takewhile(lambda at_s: at_s < until_s, found)


def _gap_by_intensity_s(job: Job, service_s: Mapping[str, float]) -> float:
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
