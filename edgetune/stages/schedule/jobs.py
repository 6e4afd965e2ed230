"""From jobs to requests: when each arrives, for which network, when it is due and what it waits for."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat, takewhile

import numpy as np

from edgetune import limits
from edgetune.artifacts.jobs import Job, drawn_of
from edgetune.errors import InputError, blaming
from edgetune.serving.arrivals import PROCESSES, ArrivalSpec, parse_arrivals
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.requests import Request
from edgetune.units import MOST_S, NS

_DRAWN_AT_ONCE = 1024


def arrivals_of(job: Job) -> ArrivalSpec:
    """Return how the requests of a job arrive, from its words; without a rate where it has an intensity.

    Raises:
        InputError: the process is unknown; a time is not above zero; a trace cannot be read; the
            job has neither a gap nor an intensity, or both.
    """
    word, _, rest = job.words.partition(":")
    process, where = PROCESSES.get(word), f"job {job.name}"
    lacks = word in ("trace", "list") and not (rest or job.times_s)
    if process is None or word == "live" or lacks or (rest and process.parse is None):
        known = [example for each in PROCESSES.values() for example in each.examples]
        hint = f"write {', '.join(known)}, or times, e.g. [0s, 1.5s]"
        raise InputError(f"{where}: unknown arrivals {job.words!r}", hint)
    if process.dues is None and job.intensity is not None:
        raise InputError(f"{where} has an intensity, and its arrivals have no mean gap", "e.g. arrivals: normal")
    if process.dues is not None and bool(rest) == (job.intensity is not None):
        hint = f"write arrivals: {process.examples[-1]}, or arrivals: {word} and intensity: 0.8"
        problem = f" has both a gap, {rest}, and an intensity" if rest else f": {word!r} has no gap"
        raise InputError(f"{where}{problem}", hint)
    if not rest:
        return ArrivalSpec(word, spacing=word, times_s=job.times_s)
    with blaming(where):
        return parse_arrivals(job.words)


def times_s(
    job: Job, service_s: Mapping[str, float], *, seed: Sequence[int], until_s: float | None = None
) -> Iterator[float]:
    """Return when the requests of a job arrive, s since the run began, ascending.

    Args:
        job: The job.
        service_s: Time of one request alone by network, s: an intensity is a share of it.
        seed: Of random gaps.
        until_s: Nothing arrives then or later, s; ``None`` where the job ends by itself.

    Raises:
        InputError: see ``arrivals_of``; or the job has no end, or what its intensity is a share of is unknown.
    """
    spec = arrivals_of(job)
    if spec.kind in ("batch", "closed") and not (spec.kind == "closed" and job.count is None):
        found: Iterator[float] = repeat(0.0, job.count or 1)
    elif spec.times_s:
        found = islice(spec.offsets_s(seed), job.count or len(spec.times_s))
    elif job.count is None and spec.duration_s is not None:
        duration_s = spec.duration_s
        found = takewhile(lambda at_s: at_s < duration_s, spec.offsets_s(seed))
    elif job.count is None and (until_s is None or spec.kind == "closed"):
        hint = "give it a count, e.g. 150, or a duration to the run, e.g. 60s"
        raise InputError(f"job {job.name} has no end", hint)
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
        message = f"job {job.name} has an intensity, and the durations of {', '.join(job.networks)} are unknown"
        raise InputError(
            message, "measure them with edgetune schedule profile and give that table of costs, or give a gap"
        )
    drawn = drawn_of(job.choose)
    share = 1.0 if drawn is None else sum(drawn) / 2 / len(job.networks)
    return alone_s * share / job.intensity


def requests_of(
    jobs: Sequence[Job], service_s: Mapping[str, float], *, seed: int | Sequence[int], until_s: float | None = None
) -> tuple[Request, ...]:
    """Return the requests of all jobs, ascending with arrival.

    Args:
        jobs: As the document has them.
        service_s: Time of one request alone by network, s: an intensity is a share of it.
        seed: The same seed gives the same arrivals, whichever policy answers them.
        until_s: Nothing arrives then or later, s; ``None`` where jobs end by themselves.

    Raises:
        InputError: see ``times_s``; or there are more requests than the limit allows, or one is
            later than ``units.MOST_S``.
    """
    entropy = (seed,) if isinstance(seed, int) else tuple(seed)
    found: list[tuple[int, Job, str, int]] = []
    for place, job in enumerate(jobs):
        where = f"job {job.name}"
        limits.check("requests", job.count or 0, where)
        times = times_s(job, service_s, seed=(*entropy, place, 0), until_s=until_s)
        chosen = networks_of(job, (*entropy, place, 1))
        for arrival, (at_s, names) in enumerate(zip(times, chosen, strict=False)):
            if not at_s <= MOST_S:
                raise InputError(f"{where}: an arrival at {at_s:g} s, later than three years", "shorten its gaps")
            found += [(round(at_s * NS), job, name, arrival) for name in names]
            if len(found) > limits.limit("requests"):
                raise limits.beyond("requests", f"the scenario, with {where},")
    found.sort(key=lambda each: each[0])  # stable: what comes at once stays in the order of the document
    numbers: dict[str, list[int]] = {job.name: [] for job in jobs}
    arrivals: dict[tuple[str, int], list[int]] = {}
    for number, (_, job, _, arrival) in enumerate(found):
        numbers[job.name].append(number)
        arrivals.setdefault((job.name, arrival), []).append(number)
    clients = {job.name: arrivals_of(job).clients or 1 for job in jobs if arrivals_of(job).kind == "closed"}
    waits = sum(len(numbers[job.name]) * len(numbers[other]) for job in jobs for other in job.after)
    limits.check("waits", waits, "the scenario")
    waits_for = {job.name: tuple(sorted(chain.from_iterable(numbers[name] for name in job.after))) for job in jobs}
    return tuple(
        Request(
            number,
            network,
            arrival_ns,
            None if job.deadline_s is None else arrival_ns + round(job.deadline_s * NS),
            (*waits_for[job.name], *arrivals.get((job.name, arrival - clients.get(job.name, 0)), ()))
            if job.name in clients
            else waits_for[job.name],
            job.name,
            job.name in clients,
        )
        for number, (arrival_ns, job, network, arrival) in enumerate(found)
    )


def check_tasks(requests: Sequence[Request], networks: Iterable[LayeredNetwork]) -> None:
    """Refuse requests whose layers are more than the limit allows.

    Args:
        requests: Of a turn.
        networks: That they ask.

    Raises:
        InputError: the requests have more layers than the limit allows.
    """
    layers = {network.name: len(network.layers) for network in networks}
    limits.check("schedule_tasks", sum(layers[request.network] for request in requests), "the scenario")


def networks_of(job: Job, seed: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Return the networks of one arrival of a job after another, without end."""
    drawn = drawn_of(job.choose)
    if drawn is None:
        yield from repeat(job.networks)
        return
    least, most = drawn
    rng = np.random.default_rng(seed)
    while least == most == 1:
        yield from ((job.networks[place],) for place in rng.integers(len(job.networks), size=_DRAWN_AT_ONCE).tolist())
    while True:
        places = rng.permutation(len(job.networks))[: int(rng.integers(least, most + 1))].tolist()
        yield tuple(job.networks[place] for place in sorted(places))
