"""What ``native`` starts: everything that its tenant alone would."""

import pytest

from contracts.policy_contract import PolicyContract
from edgetune.stages.interleave.cycle import HEADROOM
from edgetune.stages.interleave.policies import POLICIES
from edgetune.stages.interleave.policies.policy import GUARD_NS, GUARD_SHARE, Native, NativeFull, guard_ns
from edgetune.stages.interleave.state import InferenceQueue, Serve, Snapshot, Train, TrainingJob, Wait

MS = 1_000_000
NOW = 10_000 * MS


def queue(name, ages, *, batch=2, budget=100, work=10, **more):
    return InferenceQueue(name, batch, budget * MS, work * MS, [NOW - age * MS for age in ages], **more)


def decide(queues=(), jobs=(), guard=0):
    return Native(guard_ns=guard).decide(Snapshot(NOW, list(queues), list(jobs)))


def test_serves_what_is_full_whatever_runs_beside_it():
    running = TrainingJob("train", 50 * MS, since_ns=NOW - MS, in_flight=2)
    assert decide([queue("a", [3, 2, 1]), queue("b", [], since_ns=NOW)], [running]) == Serve("a", 2)


def test_earliest_deadline_first_among_what_is_ripe():
    assert decide([queue("lax", [1, 1], budget=50), queue("urgent", [9, 9], budget=50)]) == Serve("urgent", 2)


@pytest.mark.parametrize(("age", "expected"), [(89, Wait(NOW + MS)), (90, Serve("a", 1)), (200, Serve("a", 1))])
def test_a_partial_batch_starts_when_it_would_otherwise_be_late(age, expected):
    assert decide([queue("a", [age]), queue("b", [0])]) == expected


@pytest.mark.parametrize(("in_flight", "expected"), [(0, Train("t")), (1, Train("t")), (2, Wait(NOW + 80 * MS))])
def test_a_job_has_two_steps_on_their_way(in_flight, expected):
    assert decide([queue("a", [10])], [TrainingJob("t", 500 * MS, in_flight=in_flight)]) == expected


def test_native_full_waits_for_a_full_batch_until_its_oldest_is_late():
    waiting = InferenceQueue("a", 4, 100 * MS, 20 * MS, [NOW - 90 * MS, NOW])
    assert Native().decide(Snapshot(NOW, [waiting], [])) == Serve("a", 2)
    assert NativeFull().decide(Snapshot(NOW, [waiting], [])) == Wait(NOW + 10 * MS)
    assert NativeFull().decide(Snapshot(NOW + 10 * MS, [waiting], [])) == Serve("a", 2)
    waiting.arrivals_ns = [NOW] * 4
    assert NativeFull().decide(Snapshot(NOW, [waiting], [])) == Serve("a", 4)


class TestManaged(PolicyContract):
    policy = "managed"
    steps_in_flight = 2


class TestNative(PolicyContract):
    policy = "native"
    steps_in_flight = 2
    first_come_first_served = True


class TestNativeFull(PolicyContract):
    policy = "native-full"
    steps_in_flight = 2
    first_come_first_served = True


def test_every_policy_of_the_table_is_under_contract():
    assert {kind.policy for kind in PolicyContract.__subclasses__()} == set(POLICIES)


def test_a_share_of_the_shortest_budget_but_never_less_than_a_late_wake_up():
    assert guard_ns([0.4, 0.1]) == round(GUARD_SHARE * 0.1e9)
    assert guard_ns([0.001]) == GUARD_NS
    assert guard_ns([]) == GUARD_NS


def test_a_plan_leaves_more_free_than_the_policy_keeps():
    assert GUARD_SHARE < HEADROOM
