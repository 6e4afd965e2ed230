"""More requests than can be served, for a while: those that can be in time are, and the others are answered later."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgetune.serving.clock import EventClock
from edgetune.serving.sources import ScheduledArrivals
from edgetune.stages.interleave.admission import admit
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.policies.native import Native
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend
from edgetune.stages.interleave.tenants import Inference, Training

NS = 1_000_000_000


class Overloaded:
    """A run in which ``over_per_s`` requests come to a tenant until ``until_s``, and ``then_per_s`` from then on."""

    def __init__(self, tenant, over_per_s, until_s, then_per_s, end_s, *, beside=(), job_s=None, policy=Managed):
        arrivals_s = {tenant.name: [*evenly(over_per_s, 0.0, until_s), *evenly(then_per_s, until_s, end_s)]}
        arrivals_s |= {other.name: list(evenly(other.rate_per_s, 0.0, end_s)) for other in beside}
        tenants = [tenant, *beside, *([] if job_s is None else [Training("job", 16, job_s)])]
        times_ns = {each.name: round(each.minibatch_s * NS) for each in tenants}
        sources = {
            name: ScheduledArrivals(iter([round(at_s * NS) for at_s in each])) for name, each in arrivals_s.items()
        }
        stage = SimulatedMinibatchBackend(EventClock(), tenants, SimulatedDevice(lambda name, *_: times_ns[name]))
        loop = InterleaveLoop(EngineTurn("simulated", round(end_s * NS)), stage, policy(guard_ns=0), tenants, sources)
        loop.run()
        self.expected = {name: len(each) for name, each in arrivals_s.items()}
        self.rows, self.until_s = loop.rows, until_s
        self.trained = [row for row in loop.rows if row.event == "train"]

    def requests(self, name="a"):
        return sorted((r for r in self.rows if r.event == "request" and r.tenant == name), key=lambda r: r.arrived_s)

    def late(self, name="a"):
        return [row for row in self.requests(name) if not row.met]


def evenly(rate_per_s, from_s, to_s):
    gaps = int((to_s - from_s) * rate_per_s * (1 - 1e-9))
    return (from_s + number / rate_per_s for number in range(1, gaps + 1))


def test_feasible_requests_are_served_in_time_after_an_overload():
    # 200/s come for 2 s where 100/s can be served; then 50/s do.
    run = Overloaded(Inference("a", 1, 0.1, 200.0, 0.01), 200.0, 2.0, 50.0, 12.0)
    late = run.late()
    assert len(run.requests()) - len(late) == pytest.approx(2.0 * 100 + 0.09 * 100 + 10 * 50, abs=2)
    assert max(row.arrived_s for row in late) <= 2.0
    assert {row.status for row in late} == {"ok"}


def test_first_come_first_served_would_be_late_for_long():
    late = Overloaded(Inference("a", 1, 0.1, 200.0, 0.01), 200.0, 2.0, 50.0, 12.0, policy=Native).late()
    assert max(row.arrived_s for row in late) == pytest.approx(5.8, abs=0.2)  # 200 wait at 2 s, 50/s more are answered


def test_late_requests_are_answered_in_the_gaps_the_oldest_first_and_before_any_training():
    # At 50/s there is a gap of 10 ms in 20: a late answer fits in each, so that 191 of them take 3.8 s.
    run = Overloaded(Inference("a", 1, 0.1, 200.0, 0.01), 200.0, 2.0, 50.0, 12.0, job_s=0.005)
    late = run.late()
    assert len(late) == pytest.approx(191, abs=2)
    ends_s = [row.finished_s for row in late]
    assert all(before < after for before, after in pairwise(ends_s))
    assert ends_s[-1] == pytest.approx(2.1 + len(late) * 0.02, rel=0.02)
    assert not [row for row in run.trained if 0.02 < row.finished_s < ends_s[-1]]
    assert len([row for row in run.trained if row.finished_s > ends_s[-1]]) == pytest.approx(
        (12 - ends_s[-1]) * 100, rel=0.01
    )


def test_late_requests_take_the_places_left_in_batches():
    # A batch of 8 takes 60 ms; of 100 ms, 40 are for waiting, in which 2 more come at 50/s: 5 places are left.
    run = Overloaded(Inference("a", 8, 0.1, 400.0, 0.06), 400.0, 1.0, 50.0, 20.0)
    shared = {row.minibatch for row in run.requests() if row.met} & {row.minibatch for row in run.late()}
    assert len(shared) > 10
    assert all(row.status == "ok" and row.finished_s < 20.0 for row in run.late())


def test_a_tenant_that_keeps_to_its_rate_is_not_late_for_another_that_does_not():
    other = Inference("b", 1, 0.2, 5.0, 0.06)
    run = Overloaded(Inference("a", 1, 0.1, 200.0, 0.01), 200.0, 2.0, 40.0, 12.0, beside=[other])
    assert run.late("b") == []
    assert max(row.arrived_s for row in run.late()) <= 2.0


def test_a_minibatch_longer_than_half_of_its_budget_is_run_for_late_requests_where_the_next_is_not_near():
    # 60 ms of 100: right after one began, another would be late; 200 ms apart they are not.
    run = Overloaded(Inference("a", 1, 0.1, 5.0, 0.06), 50.0, 1.0, 5.0, 20.0)
    late = run.late()
    assert len(late) > 25
    assert max(row.arrived_s for row in late) <= 1.0
    assert max(row.finished_s for row in late) < 20.0


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 8),
    work_ms=st.integers(2, 60),
    over=st.floats(1.2, 3.0),
    load=st.floats(0.2, 0.8),
    room=st.floats(1.15, 4.0),
    step_ms=st.none() | st.integers(1, 200),
)
def test_only_what_comes_in_an_overload_is_late_and_all_of_it_is_answered(batch, work_ms, over, load, room, step_ms):  # noqa: PLR0917
    work_s = work_ms / 1e3
    then_per_s = load * batch / work_s
    budget_s = room * ((batch - 1) / then_per_s + work_s)
    over_per_s = over * batch / work_s
    until_s, end_s = 20 * work_s, 20 * work_s * (2 + over) + 40 * budget_s
    tenant = Inference("a", batch, budget_s, over_per_s, work_s)
    if step_ms is not None:  # what fits into no gap runs now and then, and requests are late for it
        assume(admit([replace(tenant, rate_per_s=then_per_s), Training("job", 16, step_ms / 1e3)], guard_ns=0).admitted)
    run = Overloaded(tenant, over_per_s, until_s, then_per_s, end_s, job_s=None if step_ms is None else step_ms / 1e3)
    assert len(run.requests()) == run.expected["a"]
    assert {row.status for row in run.requests()} == {"ok"}
    # What came just before the end is served at the last moment, in a batch that the next may miss.
    assert all(row.arrived_s <= until_s + work_s + 1e-6 for row in run.late())
    assert sum(row.met for row in run.requests()) >= until_s / (work_s + 1 / over_per_s) - 2
