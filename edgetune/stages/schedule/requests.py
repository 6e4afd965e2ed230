"""Requests: one sample for one network; where they come from, and which wait for the answers of others."""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from edgetune.errors import InputError


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
