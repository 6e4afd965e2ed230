"""Contract tests of every policy, as a test class to subclass.

    class TestMine(PolicyContract):
        policy = "mine"

runs the tests on the policy of that name, with random snapshots from Hypothesis: idle and busy, empty and overloaded,
already late, with estimates of a nanosecond and of an hour.
"""

from copy import deepcopy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetune.stages.interleave.policies import POLICIES
from edgetune.stages.interleave.policies.policy import GUARD_NS, NamedInterleavePolicy
from edgetune.stages.interleave.state import InferenceQueue, Serve, Snapshot, Train, TrainingJob, Wait

_HOUR_NS = 3_600_000_000_000
_ANY_NS = st.integers(1, _HOUR_NS) | st.integers(1, 100).map(lambda milliseconds: milliseconds * 1_000_000)
_promise = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.differing_executors])
"""The health check warns about one test in several classes; here each policy has a class of its own."""


@st.composite
def snapshots(draw: st.DrawFn, *, running: bool = True) -> Snapshot:
    """Return a possible snapshot of a loop, with or without minibatches on the device."""
    now_ns = draw(st.integers(_HOUR_NS, 3 * _HOUR_NS))
    begun_ns = st.integers(0, now_ns) if running else st.nothing()
    queues = []
    for number in range(draw(st.integers(0, 4))):
        ages_ns = draw(st.lists(st.integers(0, _HOUR_NS) | st.integers(0, 200_000_000), max_size=12))
        arrivals_ns = [now_ns - age_ns for age_ns in sorted(ages_ns, reverse=True)]
        queue = InferenceQueue(f"infer{number}", draw(st.integers(1, 8)), draw(_ANY_NS), draw(_ANY_NS), arrivals_ns)
        queue.gap_ns = draw(st.none() | st.floats(0, _HOUR_NS, allow_nan=False) | _ANY_NS.map(float))
        queue.since_ns = draw(st.none() | begun_ns)
        queue.in_flight = 0 if queue.since_ns is None else draw(st.integers(1, 2))
        queue.ended = draw(st.booleans())
        queue.least_ns = draw(st.none() | st.integers(0, queue.minibatch_ns))
        queue.served_ns = draw(st.none() | st.integers(0, now_ns))
        queue.last_ns = arrivals_ns[-1] if arrivals_ns else draw(st.none() | st.integers(0, now_ns))
        queues.append(queue)
    jobs = []
    for number in range(draw(st.integers(0, 3))):
        job = TrainingJob(f"train{number}", draw(_ANY_NS), draw(st.floats(0.01, 100)), draw(st.integers(0, _HOUR_NS)))
        job.since_ns = draw(st.none() | begun_ns)
        job.in_flight = 0 if job.since_ns is None else draw(st.integers(1, 2))
        job.resting, job.observed = draw(st.booleans()), draw(st.booleans())
        job.idle_ns, job.harmless = draw(st.integers(0, _HOUR_NS)), draw(st.integers(0, 10))
        jobs.append(job)
    return Snapshot(now_ns, queues, jobs)


def timely(queue: InferenceQueue, now_ns: int, guard_ns: int) -> int:
    """Return the number of requests that meet their deadline by at least ``guard_ns`` if served at once."""
    work_ns = queue.minibatch_ns if queue.least_ns is None else queue.least_ns
    return sum(now_ns + work_ns + guard_ns <= arrived + queue.budget_ns for arrived in queue.arrivals_ns)


class PolicyContract:
    """The contract tests of a policy. Subclass it in a test module and set ``policy``."""

    policy: str
    """The policy's name in ``POLICIES``."""

    steps_in_flight: int = 1
    """Largest number of minibatches of one job in flight."""

    first_come_first_served: bool = False
    """Whether late requests keep their turn; otherwise requests that can meet their deadline go first."""

    def make(self) -> NamedInterleavePolicy:
        """Return a new instance of the policy."""
        return POLICIES.find(self.policy)()

    def test_is_in_the_table_under_its_name(self) -> None:
        assert POLICIES[self.policy].name == self.policy

    @_promise
    @given(snapshot=snapshots(), other=snapshots(), later_ns=st.integers(0, _HOUR_NS))
    def test_a_decision_keeps_what_every_policy_promises(
        self, snapshot: Snapshot, other: Snapshot, later_ns: int
    ) -> None:
        policy, before = self.make(), deepcopy(snapshot)
        decision = policy.decide(snapshot)
        assert snapshot == before
        policy.decide(other)
        assert policy.decide(snapshot) == self.make().decide(snapshot) == decision, "it depends on more than it sees"
        if isinstance(decision, Serve):
            self.check_served(decision, snapshot)
        if isinstance(decision, Serve | Train) and decision.begin_by_ns is not None:  # it lines up behind one at most
            assert decision.begin_by_ns > snapshot.now_ns
            in_flight = [queue.in_flight for queue in snapshot.queues] + [job.in_flight for job in snapshot.jobs]
            assert sum(in_flight) == 1
        if isinstance(decision, Train):
            job = next(job for job in snapshot.jobs if job.name == decision.tenant)
            assert job.in_flight < self.steps_in_flight
            assert not job.resting
        if isinstance(decision, Wait) and decision.until_ns is not None:
            assert type(decision.until_ns) is int
            assert decision.until_ns > snapshot.now_ns
        self.check_clock(snapshot, later_ns)

    def check_served(self, decision: Serve, snapshot: Snapshot) -> None:
        """Check that it is at most a batch of those that wait, and passes over those alone that cannot be in time."""
        queue = next(queue for queue in snapshot.queues if queue.name == decision.tenant)
        assert decision.count == min(queue.batch_size, len(queue.arrivals_ns)) > 0
        assert queue.in_flight == 0 or (queue.in_flight == 1 and decision.begin_by_ns is not None)
        can_be = timely(queue, snapshot.now_ns, GUARD_NS)
        if self.first_come_first_served:
            assert decision.passed == 0
        elif can_be:
            assert len(queue.arrivals_ns) - timely(queue, snapshot.now_ns, 0) <= decision.passed
            assert len(queue.arrivals_ns) - decision.passed >= can_be

    def check_clock(self, snapshot: Snapshot, later_ns: int) -> None:
        """Check that it makes no difference to batches what the clock shows at first."""
        shifted = deepcopy(snapshot)
        shifted.jobs, snapshot.jobs = [], []
        shifted.now_ns += later_ns
        for queue in shifted.queues:
            queue.arrivals_ns = [arrived_ns + later_ns for arrived_ns in queue.arrivals_ns]
            queue.since_ns = None if queue.since_ns is None else queue.since_ns + later_ns
            queue.last_ns = None if queue.last_ns is None else queue.last_ns + later_ns
        decision, later = self.make().decide(snapshot), self.make().decide(shifted)
        if isinstance(decision, Wait) and decision.until_ns is not None:
            decision = Wait(decision.until_ns + later_ns)
        assert decision == later

    @_promise
    @given(snapshot=snapshots(running=False))
    def test_what_waits_is_served_at_some_time_and_a_full_batch_on_an_idle_device_at_once(
        self, snapshot: Snapshot
    ) -> None:
        if any(timely(queue, snapshot.now_ns, GUARD_NS) >= queue.batch_size for queue in snapshot.queues):
            assert isinstance(self.make().decide(snapshot), Serve)
        policy, snapshot.jobs = self.make(), []
        for _ in range(1000):
            decision = policy.decide(snapshot)
            if not isinstance(decision, Wait):
                break
            if decision.until_ns is None:
                assert not any(queue.arrivals_ns for queue in snapshot.queues)
                return
            snapshot.now_ns = decision.until_ns
        assert isinstance(decision, Serve)
