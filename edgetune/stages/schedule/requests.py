"""Requests: one sample for one network; where they come from, and which wait for the answers of others.

From jobs to requests: when each arrives, for which network, when it is due and what it waits for.
"""

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise, repeat, takewhile

import numpy as np

from edgetune import limits
from edgetune.artifacts.jobs import Job, drawn_of
from edgetune.errors import InputError, blaming
from edgetune.serving.arrivals import PROCESSES, ArrivalSpec, parse_arrivals
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.units import MOST_S, NS


@dataclass(frozen=True, slots=True)
class Request:
    """One sample for one network. Times are ns on the clock of the run, which begins at 0.

    Args:
        number: Unique in a run, ascending with arrival.
        network: Name of the network.
        arrival_ns: Its arrival.
        deadline_ns: Its deadline; ``None`` without one.
        after: Numbers of requests that must have been answered before it may begin (a job that depends on others).
        job: Name of the job that it belongs to, as the user calls it.
        follows: Whether it arrives when the last that it comes after is answered, and is due so much later as it would
            be after ``arrival_ns``: a client that waits for answers.
    """

    number: int
    network: str
    arrival_ns: int
    deadline_ns: int | None = None
    after: tuple[int, ...] = ()
    job: str = ""
    follows: bool = False


def arrived_at(request: Request, now_ns: int) -> Request:
    """Return a request that follows others as it arrives: now, and its deadline as much later."""
    if not request.follows or now_ns <= request.arrival_ns:
        return request
    late_ns = now_ns - request.arrival_ns
    deadline_ns = None if request.deadline_ns is None else request.deadline_ns + late_ns
    return replace(request, arrival_ns=now_ns, deadline_ns=deadline_ns)


@dataclass(slots=True)
class _Group:
    """Requests that wait for the same others: a job after another may be thousands that wait for thousands.

    Args:
        unmet: The others that have not been answered.
        requests: The waiting requests.
    """

    unmet: set[int]
    requests: list[Request] = field(default_factory=list)


class DependentRequests:
    """Requests that have arrived and wait for the answers of others."""

    def __init__(self) -> None:
        self._answered: set[int] = set()
        self._failed: set[int] = set()
        self._groups: dict[tuple[int, ...], _Group] = {}
        """By what they wait for."""
        self._waiting_for: dict[int, list[tuple[int, ...]]] = {}
        """By a request the groups that wait for it."""
        self._waits: set[int] = set()

    def __len__(self) -> int:
        return len(self._waits)

    def admit(self, request: Request) -> int | None:
        """Register a request, which waits if it must; ``waits`` says whether it does.

        Returns:
            A request that it comes after and that failed, so that it can never begin; ``None`` where there is none.
        """
        failed = self._failed.intersection(request.after) if self._failed else None
        if failed:
            return min(failed)
        group = self._groups.get(request.after)
        if group is None:
            group = _Group(set(request.after) - self._answered)
            if not group.unmet:
                return None
            self._groups[request.after] = group
            for number in group.unmet:
                self._waiting_for.setdefault(number, []).append(request.after)
        group.requests.append(request)
        self._waits.add(request.number)
        return None

    def waits(self, number: int) -> bool:
        """Return whether a request waits for others."""
        return number in self._waits

    def answered(self, number: int) -> Sequence[Request]:
        """Note an answer; return the requests that may begin now, in the order of arrival."""
        self._answered.add(number)
        begin: list[Request] = []
        for after in self._waiting_for.pop(number, ()):
            if after in self._groups:
                self._groups[after].unmet.discard(number)
                if not self._groups[after].unmet:
                    begin += self._leave(after)
        return sorted(begin, key=lambda request: request.number)

    def failed(self, number: int) -> Sequence[Request]:
        """Note that a request has no answer; return those that waited for it and can never begin."""
        self._failed.add(number)
        groups = self._waiting_for.pop(number, ())
        return [request for after in groups if after in self._groups for request in self._leave(after)]

    def give_up(self) -> Sequence[Request]:
        """Return all that wait, in the order of arrival; none waits afterwards."""
        left = [request for after in list(self._groups) for request in self._leave(after)]
        return sorted(left, key=lambda request: request.number)

    def _leave(self, after: tuple[int, ...]) -> list[Request]:
        """Remove a group and return its requests."""
        requests = self._groups.pop(after).requests
        self._waits.difference_update(request.number for request in requests)
        return requests


def check_requests(requests: Sequence[Request], networks: Collection[str]) -> None:
    """Check the requests that are known before a run.

    Raises:
        InputError: they are out of order, ask for an unknown network, share a number, or wait for each other in a
            circle.
    """
    for before, request in pairwise(requests):
        if request.arrival_ns < before.arrival_ns or request.number <= before.number:
            raise InputError(
                f"requests are out of order: request {request.number} (arriving at {request.arrival_ns} ns) is listed "
                f"behind request {before.number} (at {before.arrival_ns} ns)",
                "list requests by when they arrive, and number them upwards",
            )
    numbers, checked = {request.number for request in requests}, set[tuple[int, ...]]()
    for request in requests:
        if request.network not in networks:
            raise InputError(
                f"request {request.number} is for network {request.network!r}, which does not exist",
                f"known networks: {', '.join(sorted(networks)) or 'none'}",
            )
        if request.after in checked:
            continue
        checked.add(request.after)
        for number in request.after:
            if number not in numbers:
                raise InputError(
                    f"request {request.number} comes after request {number}, which does not exist",
                    "let it wait for requests of the same run",
                )
    _check_no_circle(requests)


def _check_no_circle(requests: Sequence[Request]) -> None:
    """Refuse requests that wait for each other in a circle (Kahn, 1962)."""
    waiting, answered = DependentRequests(), deque[int]()
    for request in requests:
        waiting.admit(request)
        if not waiting.waits(request.number):
            answered.append(request.number)
    while answered:
        answered.extend(request.number for request in waiting.answered(answered.popleft()))
    left = waiting.give_up()
    if left:
        names = ", ".join(
            f"{request.number}" + (f" (job {request.job})" if request.job else "") for request in left[:5]
        )
        raise InputError(
            f"requests wait for one another in a circle: {names}", "let one of them begin before the others"
        )


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
    if process is None or lacks or (rest and process.parse is None):
        known = [example for each in PROCESSES.values() for example in each.examples]
        hint = f"write {', '.join(known)}, live, or times, e.g. [0s, 1.5s]"
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
    """Return when the requests of a job arrive, s since the run began, ascending; of a live job none is known.

    Args:
        job: The job.
        service_s: Time of one request alone by network, s: an intensity is a share of it.
        seed: Of random gaps.
        until_s: Nothing arrives then or later, s; ``None`` where the job ends by itself.

    Raises:
        InputError: see ``arrivals_of``; or the job has no end, or what its intensity is a share of is unknown.
    """
    spec = arrivals_of(job)
    if spec.kind == "live":
        return iter(())
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
    """Return the requests of all jobs that are known before a run, ascending with arrival.

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


def live_jobs(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the jobs whose requests come from outside during the run.

    Raises:
        InputError: several jobs are live, or a live job, whose end is unknown, waits for others or others for it.
    """
    live = tuple(job for job in jobs if arrivals_of(job).kind == "live")
    if len(live) > 1:
        names = " and ".join(job.name for job in live)
        raise InputError(
            f"standard input cannot be the requests of {names} at once", "let only one of these jobs be live"
        )
    for job in live:
        waiting = [job.name] if job.after else [other.name for other in jobs if job.name in other.after]
        if waiting:
            message = f"job {waiting[0]} is after another, and arrivals of {job.name} are live"
            raise InputError(message, "leave after out: live arrivals have no known end")
    return live
