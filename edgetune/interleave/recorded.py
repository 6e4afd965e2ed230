"""What a run on a device took, minibatch by minibatch, as a process in time: what a simulation beside it is made of.

    measured   |--5--|--5--|---9---|----12----|--5--|        drift, bursts of other programs' work
    simulated    |--5--|---9---|----12----|--5--|            each as long as the one that began nearest to it

Times on a real machine come in bursts: what is slow now is slow a moment later, whoever runs. Drawn one by one from a
bag, as ``simulated.resampled`` does, they are as long as measured, but slow ones no longer meet, and the longest waits
are missing. Here a simulated minibatch takes what the one of the same tenant took that began nearest to it, and before
it passes what passed at the change of the same kind nearest to it. It is a simulation of that very run: how near it
comes says how well loop, policy and stage are modelled, not what another run would be like.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgetune.artifacts.mode import Mode
from edgetune.interleave.backend import FinishedMinibatch, Minibatch, MinibatchBackend
from edgetune.interleave.simulated import Durations, Overhead
from edgetune.serving.clock import EventClock

Change = tuple[str | None, str, bool]
"""A kind of change, as ``simulated.Overhead`` has it: who ran until then, who runs next, whether it was lined up."""


@dataclass(slots=True)
class Series:
    """Lengths of time, ns, and when each began, ns since the run did, ascending."""

    at_ns: list[int] = field(default_factory=list)
    lasted_ns: list[int] = field(default_factory=list)

    def add(self, at_ns: int, lasted_ns: int) -> None:
        """Add one; what began later and was added before comes after it."""
        place = bisect_right(self.at_ns, at_ns)
        self.at_ns.insert(place, at_ns)
        self.lasted_ns.insert(place, lasted_ns)

    def nearest_ns(self, at_ns: int) -> int:
        """Return what the one lasted that began nearest to a time, ns; there must be one.

        After the last of them they come backwards, then forwards again, so that what drifts does not jump.
        """
        last_ns = self.at_ns[-1]
        if at_ns > last_ns > 0:
            at_ns %= 2 * last_ns
            at_ns = min(at_ns, 2 * last_ns - at_ns)
        after = bisect_right(self.at_ns, at_ns)
        before = max(after - 1, 0)
        after = min(after, len(self.at_ns) - 1)
        nearer = before if at_ns - self.at_ns[before] <= self.at_ns[after] - at_ns else after
        return self.lasted_ns[nearer]


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run, in one mode and at the same batch sizes throughout.

    Args:
        minibatches: What each would have taken alone, by tenant.
        changes: What passed between what led to a start (the end of the minibatch before it, a request, a time that was
            waited for) and the start on the device, by kind of change.
    """

    minibatches: dict[str, Series] = field(default_factory=dict)
    changes: dict[Change, Series] = field(default_factory=dict)

    def durations(self, clock: EventClock, otherwise: Durations) -> Durations:
        """Return the durations of this run at the time of the clock; of a tenant that never ran, other ones."""

        def duration_ns(tenant: str, batch_size: int, mode: Mode) -> int:
            series = self.minibatches.get(tenant)
            return otherwise(tenant, batch_size, mode) if series is None else series.nearest_ns(clock.now_ns())

        return duration_ns

    def overhead(self, clock: EventClock) -> Overhead:
        """Return what passes at changes at the time of the clock; one that did not occur is as one most like it."""

        def overhead_ns(before: str | None, tenant: str, lined_up: bool) -> int:
            def unlike(kind: Change) -> tuple[bool, bool]:
                return kind[1] != tenant, kind[0] != before

            alike = [kind for kind in self.changes if kind[2] == lined_up]
            return self.changes[min(alike, key=unlike)].nearest_ns(clock.now_ns()) if alike else 0

        return overhead_ns


class Recorder:
    """A stage that notes what runs on another; see ``MinibatchBackend``.

    Args:
        backend: Where things run. The run begins now.
    """

    def __init__(self, backend: MinibatchBackend) -> None:
        self._backend = backend
        self._begin_ns = backend.now_ns()
        self._led: tuple[str | None, int] = (None, self._begin_ns)
        """What the loop acts on now: whose minibatch ended and when, or which time came."""
        self._sent: dict[tuple[str, int], tuple[str | None, int]] = {}
        """What led to each, by tenant and number."""
        self._behind: dict[tuple[str, int], tuple[str, int]] = {}
        """What each was lined up behind."""
        self._ended_ns: dict[str, int] = {}
        self._ran: list[tuple[str, int, int]] = []
        self._changes: dict[Change, Series] = {}

    def recorded(self) -> RecordedRun:
        """Return what ran until now."""
        found = RecordedRun(changes=self._changes)
        for (tenant, start_ns, _), alone_ns in zip(self._ran, _alone_ns(self._ran), strict=True):
            found.minibatches.setdefault(tenant, Series()).add(start_ns - self._begin_ns, alone_ns)
        return found

    def now_ns(self) -> int:
        """Return the time of the other stage."""
        return self._backend.now_ns()

    def start(self, minibatch: Minibatch) -> None:
        """Begin a minibatch and note what led to it."""
        key = (minibatch.tenant, minibatch.number)
        ahead = [each for each in self._sent if minibatch.begin_by_ns is not None or each[0] == minibatch.tenant]
        if ahead:
            self._behind[key] = ahead[-1]
        self._sent[key] = self._led
        self._backend.start(minibatch)

    def wait(self, until_ns: int | None) -> Sequence[FinishedMinibatch]:
        """Wait as the other stage does, and note what is over."""
        over = self._backend.wait(until_ns)
        now_ns = self._backend.now_ns()
        self._led = (None, now_ns if until_ns is None else min(until_ns, now_ns))
        for done in over:
            self._led = (done.minibatch.tenant, done.end_ns)
            self._note(done)
        return over

    def prepare(self, tenant: str, batch_size: int) -> None:
        """Hold a tenant ready at another batch size."""
        self._backend.prepare(tenant, batch_size)

    def apply(self, mode: Mode) -> Mode:
        """Set a power mode and return it as read back."""
        return self._backend.apply(mode)

    def _note(self, done: FinishedMinibatch) -> None:
        tenant = done.minibatch.tenant
        before, since_ns = self._sent.pop((tenant, done.minibatch.number))
        ahead = self._behind.pop((tenant, done.minibatch.number), None)
        if ahead is not None and ahead not in self._sent:
            before, since_ns = ahead[0], self._ended_ns[ahead[0]]
        self._ended_ns[tenant] = done.end_ns
        if done.failure is None and not done.failed:  # what failed was run again: no measure of anything
            self._ran.append((tenant, done.start_ns, done.end_ns))
            if ahead not in self._sent:  # else it began beside what it was lined up behind
                series = self._changes.setdefault((before, tenant, ahead is not None), Series())
                series.add(since_ns - self._begin_ns, max(done.start_ns - since_ns, 0))


def _alone_ns(ran: Sequence[tuple[str, int, int]]) -> list[int]:
    """Return what minibatches would have taken alone, ns, as ``SimulatedMinibatchBackend`` has it: n at once each get
    1/n of it.

    Were they not told apart, two that overlapped would be slowed down a second time when they overlap there.
    """
    edges = [(start_ns, False, place) for place, (_, start_ns, _) in enumerate(ran)]
    edges += [(end_ns, True, place) for place, (_, _, end_ns) in enumerate(ran)]
    alone_ns = [0.0] * len(ran)
    running: set[int] = set()
    before_ns = 0
    for time_ns, is_end, place in sorted(edges):
        for each in running:
            alone_ns[each] += (time_ns - before_ns) / len(running)
        before_ns = time_ns
        if is_end:
            running.remove(place)
        else:
            running.add(place)
    return [round(time_ns) for time_ns in alone_ns]
