"""From jobs to requests: when each comes, for which network, when it is due and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat

from edgetune import limits
from edgetune.artifacts.jobs import Job
from edgetune.errors import InputError
from edgetune.schedule.job_arrivals import arrivals_of, times_s
from edgetune.schedule.network import LayeredNetwork
from edgetune.schedule.request import Request
from edgetune.units import MOST_S, NS

_DRAWN_AT_ONCE = 1024


def requests_of(
    jobs: Sequence[Job], service_s: Mapping[str, float], *, seed: int | Sequence[int], until_s: float | None = None
) -> tuple[Request, ...]:
    """Return the requests of all jobs that are known before a run, ascending with arrival.

    Args:
        jobs: As the document has them.
        service_s: What one request takes alone, s, by network: an intensity is a share of it.
        seed: The same seed gives the same arrivals, whichever policy answers them.
        until_s: Nothing arrives then or later, s; ``None`` where jobs end by themselves.

    Raises:
        InputError: see ``job_arrivals.times_s``; or there are more requests than the limit allows, or one is
            later than ``units.MOST_S``.
    """
    entropy = (seed,) if isinstance(seed, int) else tuple(seed)
    found: list[tuple[int, Job, str]] = []
    for place, job in enumerate(jobs):
        where = f"job {job.name}"
        limits.check("requests", job.count or 0, where)
        times = times_s(job, service_s, seed=(*entropy, place, 0), until_s=until_s)
        chosen = networks_of(job, (*entropy, place, 1))
        for at_s, names in zip(times, chosen, strict=False):
            if not at_s <= MOST_S:
                raise InputError(f"{where}: an arrival at {at_s:g} s, later than three years", "shorten its gaps")
            found += [(round(at_s * NS), job, name) for name in names]
            if len(found) > limits.limit("requests"):
                raise limits.beyond("requests", f"the scenario, with {where},")
    found.sort(key=lambda each: each[0])  # stable: what comes at once stays in the order of the document
    numbers: dict[str, list[int]] = {job.name: [] for job in jobs}
    for number, (_, job, _) in enumerate(found):
        numbers[job.name].append(number)
    waits = sum(len(numbers[job.name]) * len(numbers[other]) for job in jobs for other in job.after)
    limits.check("waits", waits, "the scenario")
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


def check_tasks(requests: Sequence[Request], networks: Iterable[LayeredNetwork]) -> None:
    """Refuse requests whose layers are more than the limit allows.

    Args:
        requests: Of a turn.
        networks: That they ask.

    Raises:
        InputError: they are more.
    """
    layers = {network.name: len(network.layers) for network in networks}
    limits.check("schedule_tasks", sum(layers[request.network] for request in requests), "the scenario")


def networks_of(job: Job, seed: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Return the networks of one arrival of a job after another, without end."""
    if job.choose == "all":
        yield from repeat(job.networks)
    import numpy as np

    drawn = np.random.default_rng(seed)
    while True:
        yield from ((job.networks[place],) for place in drawn.integers(len(job.networks), size=_DRAWN_AT_ONCE).tolist())


def live_jobs(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the jobs whose requests come from outside while a run goes on.

    Raises:
        InputError: there are several, or one is to wait for others, or others for it: nobody knows when it ends.
    """
    live = tuple(job for job in jobs if arrivals_of(job).kind == "live")
    if len(live) > 1:
        names = " and ".join(job.name for job in live)
        raise InputError(f"standard input cannot be the requests of {names} at once", "leave one of them live")
    for job in live:
        waiting = [job.name] if job.after else [other.name for other in jobs if job.name in other.after]
        if waiting:
            message = f"job {waiting[0]} is after another, and arrivals of {job.name} are live"
            raise InputError(message, "leave after out: nobody knows when what is live ends")
    return live
