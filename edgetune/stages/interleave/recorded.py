"""Records the durations of a run on a device, minibatch by minibatch, for the simulation of a later one.

    measured   |--5--|--5--|---9---|----12----|--5--|        drift, bursts of other programs' work
    simulated    |--5--|---9---|----12----|--5--|            each as long as the one that began nearest to it

Times on a real machine come in bursts: a slow moment slows every tenant. Durations drawn one by one, as by
``simulated.resampled``, are as long as measured, but slow ones no longer coincide, and the longest waits are missing.
Here a simulated minibatch takes as long as the one of the same tenant that began nearest to it, after a pause as long
as the one before the nearest change of the same kind. The recorded run is an earlier one than the run that is
predicted; a longer one than it reads its durations backwards and forwards.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from edgetune.artifacts.mode import Mode
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.backend import FinishedMinibatch, Minibatch, MinibatchBackend
from edgetune.stages.interleave.simulated import Durations, Overhead

Change = tuple[str | None, str, bool]
"""A kind of change, as in ``simulated.Overhead``: the tenant before, the tenant after, whether it was lined up."""


@dataclass(slots=True)
class Series:
    """Lengths of time, ns, and when each began, ns since the run did, ascending."""

    at_ns: list[int] = field(default_factory=list)
    lasted_ns: list[int] = field(default_factory=list)

    def add(self, at_ns: int, lasted_ns: int) -> None:
        """Insert a length by the time of its begin."""
        place = bisect_right(self.at_ns, at_ns)
        self.at_ns.insert(place, at_ns)
        self.lasted_ns.insert(place, lasted_ns)

    def nearest_ns(self, at_ns: int) -> int:
        """Return the length that began nearest to a time, ns; the series is not empty.

        After its end the series is read backwards, then forwards again, so that a drift does not jump.
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
        minibatches: Duration of each, alone on the device, by tenant.
        changes: Time between the cause of a start (the end of the minibatch before it, a request, the end of a wait)
            and the start on the device, by kind of change.
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
        """Return the pauses at changes at the time of the clock; a kind that did not occur takes the most similar."""

        def overhead_ns(before: str | None, tenant: str, lined_up: bool) -> int:
            def unlike(kind: Change) -> tuple[bool, bool]:
                return kind[1] != tenant, kind[0] != before

            alike = [kind for kind in self.changes if kind[2] == lined_up]
            return self.changes[min(alike, key=unlike)].nearest_ns(clock.now_ns()) if alike else 0

        return overhead_ns


class Recorder:
    """A backend that records the minibatches of another; see ``MinibatchBackend``.

    Args:
        backend: Runs the minibatches. The run begins now.
    """

    def __init__(self, backend: MinibatchBackend) -> None:
        self._backend = backend
        self._begin_ns = backend.now_ns()
        self._led: tuple[str | None, int] = (None, self._begin_ns)
        """Cause of the loop's next decision: whose minibatch ended, if any, and when."""
        self._sent: dict[tuple[str, int], tuple[str | None, int]] = {}
        """Cause of each minibatch on its way, by tenant and number."""
        self._behind: dict[tuple[str, int], tuple[str, int]] = {}
        """The minibatch that each is lined up behind, by tenant and number."""
        self._ended_ns: dict[str, int] = {}
        self._ran: list[tuple[str, int, int]] = []
        self._changes: dict[Change, Series] = {}

    def recorded(self) -> RecordedRun:
        """Return the durations until now."""
        found = RecordedRun(changes=self._changes)
        for (tenant, start_ns, _), alone_ns in zip(self._ran, _alone_ns(self._ran), strict=True):
            found.minibatches.setdefault(tenant, Series()).add(start_ns - self._begin_ns, alone_ns)
        return found

    def now_ns(self) -> int:
        """Return the time of the other backend."""
        return self._backend.now_ns()

    def start(self, minibatch: Minibatch) -> None:
        """Begin a minibatch and note its cause."""
        key = (minibatch.tenant, minibatch.number)
        ahead = [each for each in self._sent if minibatch.begin_by_ns is not None or each[0] == minibatch.tenant]
        if ahead:
            self._behind[key] = ahead[-1]
        self._sent[key] = self._led
        self._backend.start(minibatch)

    def wait(self, until_ns: int | None) -> Sequence[FinishedMinibatch]:
        """Wait as the other backend does, and record the minibatches that ended."""
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
    """Return how long minibatches would have taken alone, ns: of n at once each gets 1/n of the device.

    ``SimulatedMinibatchBackend`` slows overlapping minibatches down itself.
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
