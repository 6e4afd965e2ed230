"""When ``managed`` serves, trains and waits: each rule with the numbers at which it turns over."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from simulated_run import MS, NS, evenly, of, simulated

from edgetune.serving.requests import ScheduledArrivals
from edgetune.stages.interleave.admission import NEVER_NS, admit
from edgetune.stages.interleave.backend import Inference, Training
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.state import InferenceQueue, Serve, Snapshot, Train, TrainingJob, Wait

NOW = 1 << 40
"""The beginning of a window that is open to every job, ns."""


def queue(name="a", ages=(), *, batch=4, budget=100, work=10, gap=None, due_in=None, **more):
    """A queue in milliseconds; ``ages`` of the requests that wait, or ``due_in`` of a single one."""
    ages = (budget - due_in,) if due_in is not None else ages
    arrivals = [NOW - age * MS for age in ages]
    return InferenceQueue(name, batch, budget * MS, work * MS, arrivals, None if gap is None else gap * MS, **more)


def decide(queues=(), jobs=(), *, guard=0, at=0):
    return Managed(guard_ns=guard).decide(Snapshot(NOW + at, list(queues), list(jobs)))


def wait(milliseconds):
    return Wait(NOW + milliseconds * MS)


def test_a_full_batch_is_served_at_once_and_one_batch_only():
    assert decide([queue(ages=[3, 2, 1, 0])]) == Serve("a", 4)
    assert decide([queue(ages=[5, 4, 3, 2, 1, 0])]) == Serve("a", 4)


def test_a_batch_that_is_not_full_waits_exactly_until_its_oldest_would_be_late():
    waiting = queue(ages=[30, 10], budget=100, work=20)  # due in 70 ms, takes 20
    assert decide([waiting]) == wait(50)
    assert decide([waiting], at=50 * MS - 1) == wait(50)
    assert decide([waiting], at=50 * MS) == Serve("a", 2)
    assert decide([waiting], guard=3 * MS) == wait(47)
    assert decide([waiting], guard=3 * MS, at=47 * MS) == Serve("a", 2)


def test_more_requests_than_come_in_good_time_are_not_waited_for():
    # Of 100 ms 10 are for the batch and 30 for the other queue: in 60 come three more, 20 ms apart.
    other = queue("other", budget=900, work=30, gap=1000)
    assert decide([queue(ages=[60, 40, 20, 0], batch=5, gap=20), other]) == Serve("a", 4)
    assert decide([queue(ages=[40, 20, 0], batch=5, gap=20), other]) == wait(50)
    assert decide([queue(ages=[40, 20, 0], batch=5, gap=20), other], guard=1) == Serve("a", 3)
    assert decide([queue(ages=[60, 40, 20, 0], batch=5, gap=20)]) == wait(30)


def test_full_batches_go_earliest_deadline_first_and_late_ones_after_them():
    lax, urgent = queue("lax", [1], batch=1, budget=200), queue("urgent", [1], batch=1, budget=50)
    late = queue("late", [90, 80], batch=1, budget=60)
    assert decide([lax, urgent]) == decide([lax, urgent, late]) == Serve("urgent", 1)
    assert decide([lax, late]) == Serve("lax", 1)
    assert decide([late]) == Serve("late", 1)


def test_batches_that_cannot_both_wait_to_the_last_start_early_enough_for_both():
    first, second = queue("first", due_in=50, work=10), queue("second", due_in=52, work=20)
    assert decide([first, second]) == wait(22)  # 52 - 10 - 20
    assert decide([second, first], at=22 * MS) == Serve("first", 1)


def test_a_full_batch_goes_before_one_that_fills_unless_that_would_be_late_behind_it():
    full = queue("full", [0], batch=1, budget=100, work=30)
    assert decide([full, queue("fills", due_in=40, work=10)]) == Serve("full", 1)
    assert decide([full, queue("fills", due_in=39, work=10)]) == Serve("fills", 1)
    two = [queue("fills", due_in=40, work=10), queue("too", due_in=59, work=20)]  # in time themselves, but not both
    assert decide([full, *two]) == Serve("fills", 1)


def test_a_batch_leaves_time_for_those_to_be_expected_before_it_is_due():
    fills = queue("fills", due_in=50, work=10)
    often = queue("often", batch=1, budget=8, work=5, gap=10)  # due 8, 18, 28, 38, 48 ms from now at the earliest
    assert decide([fills, often]) == wait(50 - 10 - 5 * 5)


def test_a_step_starts_only_if_the_batch_that_fills_is_still_in_time():
    filling = queue(due_in=60, work=20)
    assert decide([filling], [TrainingJob("t", 40 * MS)]) == Train("t")
    assert decide([filling], [TrainingJob("t", 40 * MS + 1)]) == wait(40)  # the batch's own latest start
    assert decide([filling], [TrainingJob("t", 40 * MS)], guard=1) == Wait(NOW + 40 * MS - 1)


def test_a_request_may_come_right_after_a_step_began():
    assert decide([queue(budget=50, work=20)], [TrainingJob("t", 30 * MS)]) == Train("t")
    assert decide([queue(budget=50, work=20)], [TrainingJob("t", 30 * MS + 1)]) == wait(100)  # tried again
    two = [queue("a", budget=30, work=10), queue("b", budget=40, work=15)]
    assert decide(two, [TrainingJob("t", 15 * MS)]) == Train("t")
    assert decide(two, [TrainingJob("t", 15 * MS + 1)]) == wait(100)


def test_nothing_more_comes_to_a_queue_that_has_ended():
    assert decide([queue(ages=[1], ended=True)]) == Serve("a", 1)
    assert decide([queue(budget=20, work=10, ended=True)], [TrainingJob("t", 500 * MS)]) == Train("t")


def test_a_step_leaves_time_for_every_batch_to_be_expected_not_only_for_the_next():
    often = queue("often", batch=1, budget=30, work=6, gap=10)  # due in 30, 40, 50, ...
    fills = queue("fills", due_in=40, work=8)
    assert decide([often, fills], [TrainingJob("t", 20 * MS)]) == Train("t")  # 20 + 6 + 6 + 8 = 40
    assert decide([often, fills], [TrainingJob("t", 20 * MS + 1)]) == wait(40 - 8 - 6 - 6)


def test_the_next_batch_is_expected_a_gap_after_the_last_request_of_this_one():
    # Two of three wait, the third comes in 20 ms, the first of the next batch in 40: due 90 and 140 ms from now.
    tight = queue(ages=[10, 0], batch=3, budget=100, work=55, gap=20)
    assert decide([tight], [TrainingJob("t", 30 * MS)]) == Train("t")  # 30 + 2 * 55 = 140, and 30 + 55 <= 90
    assert decide([tight], [TrainingJob("t", 30 * MS + 1)]) == wait(35)


def test_a_shorter_job_may_pass_one_that_does_not_fit():
    jobs = [TrainingJob("short", 10 * MS, served_ns=5 * MS), TrainingJob("long", 90 * MS)]
    assert decide([queue(due_in=60, work=20)], jobs) == Train("short")


def test_a_job_far_behind_has_one_window_in_four_to_itself():
    # Two periods of the slowest queue are 200 ms, and 12.5 make up for a step of 10, 20 of 100 being taken: windows are
    # 2**28 ns long.
    queues = [
        queue("fills", due_in=10_000, work=20, budget=10_100, gap=25, batch=4),
        queue("often", batch=1, budget=90_000, work=0, gap=1),
        queue("live", budget=90_000, work=0),
    ]
    window = 1 << 28
    short = TrainingJob("short", 10 * MS, served_ns=(20_000 + 5) * MS + 1)
    long = TrainingJob(
        "long", 20_000 * MS, weight=2.0, served_ns=10 * MS
    )  # behind by 20 s by weight, that is two of its steps
    for place, expected in enumerate([Train("short")] * 3 + [Wait(NOW + 3 * window + 100 * MS)]):
        assert decide(queues, [short, long], at=place * window) == expected
    last_ns = 4 * window - 1
    assert decide(queues, [short, long], at=last_ns) == Wait(NOW + 4 * window)
    assert decide(queues, [short, long], at=last_ns + 1) == Train("short")
    short.served_ns -= 1
    assert decide(queues, [short, long], at=last_ns) == Train("short")


def test_a_window_is_long_enough_for_a_delay_to_be_made_up_for():
    # Half of the device is idle: a step of 130 ms is made up for in 260; two periods of 10 more are over 2**28 ns.
    queues = [queue(batch=1, budget=90_000, work=5, gap=10)]
    jobs = [TrainingJob("short", 130 * MS, served_ns=10**15), TrainingJob("long", 90_000 * MS)]
    assert decide(queues, jobs, at=3 << 28) == Train("short")
    assert decide(queues, jobs, at=(4 << 29) - 1) == Wait(NOW + (4 << 29))


def test_a_fitting_job_delays_no_request():
    jobs = [TrainingJob("short", 10 * MS, served_ns=900 * MS), TrainingJob("long", 30 * MS)]
    assert decide([queue(gap=25)], jobs, at=3 << 28) == Train("long")
    jobs[1].served_ns = 900 * MS + 1
    assert decide([queue(gap=25)], jobs, at=3 << 28) == Train("short")


@pytest.mark.parametrize(
    ("due_in", "since", "expected"),
    [
        (50, 5, wait(30)),  # would be over in 15 ms; if not, the batch must start in 30
        (30, 5, wait(15)),  # the batch must start in 10 ms: wait for the end that is to be expected
        (20, 5, wait(15)),  # it should have started already
        (30, 25, wait(10)),  # overdue by 5 ms, but the batch need not start yet
        (20, 20, Serve("a", 1)),  # overdue, and the batch must start
        (20, 19, wait(1)),
    ],
)
def test_a_step_that_overruns_does_not_hold_up_a_batch_for_ever(due_in, since, expected):
    job = TrainingJob("t", 20 * MS, since_ns=NOW - since * MS, in_flight=1)
    assert decide([queue(due_in=due_in, work=20)], [job]) == expected


@pytest.mark.parametrize(
    ("due_in", "step", "others", "expected"),
    [
        (56, 20, [], "t"),  # 15 ms left, 20 for the next, 20 for the batch: 55
        (54, 20, [], None),
        (500, 31, [], None),  # no short step: starting it costs next to nothing
        (500, 20, [TrainingJob("other", 20 * MS, served_ns=19 * MS)], "other"),  # whose turn it is after this step
        (500, 20, [TrainingJob("other", 20 * MS, served_ns=21 * MS)], "t"),
        (56, 20, [TrainingJob("other", 21 * MS, served_ns=19 * MS)], "other"),
        (56, 20, [TrainingJob("other", 22 * MS, served_ns=19 * MS)], None),
    ],
)
def test_a_short_step_is_sent_while_the_one_before_it_runs_where_both_fit(due_in, step, others, expected):
    job = TrainingJob("t", step * MS, since_ns=NOW - 5 * MS, in_flight=1)
    decision = decide([queue(due_in=due_in, budget=600, work=20)], [job, *others])
    assert decision == Train(expected, NEVER_NS) if expected else isinstance(decision, Wait)


def test_a_short_step_is_sent_behind_a_batch_where_one_that_begins_now_is_still_in_time():
    running = queue(budget=55, work=20, since_ns=NOW - 5 * MS, in_flight=1)  # 15 ms left, 20 for a batch
    assert decide([running], [TrainingJob("t", 20 * MS)]) == Train("t", NEVER_NS)
    assert decide([running], [TrainingJob("t", 20 * MS + 1)]) == Wait(None)
    running.since_ns = NOW - 20 * MS
    assert decide([running], [TrainingJob("t", MS)]) == Wait(None)  # it overruns: who knows for how long


def test_nothing_is_lined_up_behind_two_or_behind_an_overrun_or_before_a_full_batch():
    short = TrainingJob("t", 20 * MS, since_ns=NOW - 5 * MS, in_flight=2)
    filling, full = queue(budget=600, ages=[0]), queue(budget=600, ages=[0, 0, 0, 0])
    assert decide([filling], [short]) == wait(590)
    assert decide([full], [short]) == wait(590)
    full.since_ns, full.in_flight = NOW, 1
    short.in_flight = 1
    assert decide([full], [short]) == Wait(None)
    assert decide([filling, queue("b", since_ns=NOW, in_flight=2)], [TrainingJob("t", MS)]) == Wait(None)
    short.since_ns = NOW - 21 * MS
    assert decide([filling], [short]) == wait(590)


def test_a_full_batch_is_sent_while_a_step_runs_to_begin_beside_it_when_it_must():
    job = TrainingJob("t", 20 * MS, since_ns=NOW - 5 * MS, in_flight=1)
    assert decide([queue(ages=[3, 2, 1, 0])], [job]) == Serve("a", 4, begin_by_ns=NOW + 87 * MS)
    assert decide([queue(ages=[3, 2, 1, 0], budget=28)], [job]) == Serve("a", 4, begin_by_ns=NOW + 15 * MS)
    assert decide([queue(ages=[3, 2, 1, 0], budget=27)], [job]) == wait(15)  # 15 + 10 of 24 ms: late as it is
    assert decide([queue(ages=[0], batch=2, ended=True)], [job]) == Serve("a", 1, begin_by_ns=NOW + 90 * MS)


def test_a_batch_that_may_still_grow_is_not_sent_while_something_runs():
    job = TrainingJob("t", 20 * MS, since_ns=NOW - 5 * MS, in_flight=1)
    growing = queue(ages=[60, 0], batch=4, gap=60)
    assert decide([growing]) == Serve("a", 2)
    assert decide([growing], [job]) == wait(30)


def test_a_full_batch_is_sent_behind_another_where_what_may_come_meanwhile_is_still_in_time():
    running = queue("running", budget=90, work=20, since_ns=NOW - 5 * MS, in_flight=1)
    full = queue("full", [0], batch=1, work=50, budget=900)
    assert decide([full]) == Serve("full", 1)
    assert decide([running, full]) == Serve("full", 1, begin_by_ns=NEVER_NS)  # 15 + 50, and 20 for one that comes
    running.budget_ns -= 6 * MS
    assert decide([running, full]) == Wait(None)
    own = queue("own", [0], batch=1, since_ns=NOW - 5 * MS, in_flight=1)
    assert decide([own]) == Serve("own", 1, begin_by_ns=NEVER_NS)


def test_requests_behind_a_step_count_batch_by_batch():
    backlog = queue("backlog", [70, 68], batch=1, budget=100, work=10, gap=1000)  # due in 30 and in 32 ms
    job = TrainingJob("t", MS, since_ns=NOW - 2 * MS, in_flight=1)
    assert decide([backlog, queue("b", due_in=35, work=10)], [job]) == wait(35 - 3 * 10)
    assert decide([backlog, queue("b", due_in=31, work=10)], [job]) == wait(31 - 2 * 10)


def simulate(tenants, duration_s=60):
    """Rows of a run with requests evenly spaced and minibatches that take what they are said to."""
    sources = {t.name: evenly(t.rate_per_s, duration_s) for t in tenants if isinstance(t, Inference)}
    return simulated(tenants, sources, duration_s, Managed()).rows


def device_s(rows, name):
    spans = {(row.started_s, row.finished_s) for row in rows if row.tenant == name}
    return sum(finished - started for started, finished in spans)


def test_four_tenants_share_without_a_late_answer_and_by_weight():
    tenants = [
        Inference("camera", 1, 0.080, 20.0, 0.008),
        Inference("text", 8, 0.500, 30.0, 0.060),
        Training("heavy", 16, 0.020, weight=3.0),
        Training("light", 16, 0.011, weight=1.0),
    ]
    assert admit(tenants).admitted
    rows = simulate(tenants)
    requests = [row for row in rows if row.event == "request"]
    assert len(requests) == 60 * (20 + 30) - 2  # each begins a gap after the run
    assert all(row.met for row in requests)
    spans = sorted({(row.started_s, row.finished_s) for row in rows})
    assert all(next_start >= end - 1e-9 for (_, end), (next_start, _) in pairwise(spans))
    assert device_s(rows, "heavy") == pytest.approx(3 * device_s(rows, "light"), rel=0.02)
    idle_s = 60 - sum(device_s(rows, tenant.name) for tenant in tenants)
    assert abs(idle_s) < 0.1  # what began before the end runs over it


def test_steps_longer_than_the_idle_gap_leave_a_busy_queue_stable():
    # 9 of 10 ms are taken; a step of 5 ms puts the queue back by 4, which it makes up for in four gaps.
    rows = simulate([Inference("busy", 1, 0.030, 100.0, 0.009), Training("train", 16, 0.005)], duration_s=20)
    assert all(row.met for row in rows if row.event == "request")
    assert device_s(rows, "train") == pytest.approx(0.1 * 20, rel=0.01)


def test_a_long_job_that_fits_only_just_after_a_batch_is_not_starved_by_a_short_one():
    # Every 160 ms 40 are taken; of 400 ms latency, 300 are left when a batch was just served.
    tenants = [Inference("infer", 8, 0.400, 50.0, 0.040)]
    jobs = [Training("long", 16, 0.300), Training("short", 16, 0.007)]
    alone = device_s(simulate([*tenants, jobs[0]]), "long")
    rows = simulate([*tenants, *jobs])
    assert all(row.met for row in rows if row.event == "request")
    assert device_s(rows, "long") > 0.1 * alone > 0
    assert device_s(rows, "short") > 0.5 * (60 * 0.75 - device_s(rows, "long"))


def test_the_less_demanding_queue_goes_first_if_one_of_two_batches_must_be_late():
    greedy = queue("greedy", due_in=10, work=10, batch=1, gap=5)
    modest = queue("modest", due_in=25, work=20, batch=1, gap=200)
    assert decide([greedy, modest]) == Serve("modest", 1)
    assert decide([greedy, queue("modest", due_in=30, work=20, batch=1, gap=200)]) == Serve("greedy", 1)


def test_a_batch_takes_those_that_can_be_in_time_and_late_ones_where_there_is_room():
    assert decide([queue(ages=[95, 93, 30, 20, 10], batch=4, work=10, ended=True)]) == Serve("a", 4, 2)
    assert decide([queue(ages=[95, 3, 2, 1, 0], batch=4, work=10)]) == Serve("a", 4, 1)
    assert decide([queue(ages=[90, 3, 2, 1, 0], batch=4, work=10)]) == Serve("a", 4)  # just in time


def test_how_long_a_minibatch_takes_that_was_not_seen_makes_no_request_late():
    full = queue("full", [0], batch=1, budget=200, work=30)
    assert decide([queue(due_in=5, work=50, least_ns=0), full]) == Serve("a", 1)
    assert decide([queue(due_in=5, work=50), full]) == Serve("full", 1)


def test_nothing_trains_in_one_window_of_four_while_late_requests_wait_that_do_not_fit():
    # The next request is overdue, and would be late behind 60 ms; windows are 2**29 ns long: two periods are 400 ms.
    decisions = []
    for place in range(4):
        at = place << 29
        line = queue(ages=[200], batch=4, budget=100, work=60, gap=200, last_ns=NOW + at - 400 * MS)
        decisions.append(decide([line], [TrainingJob("t", 10 * MS)], at=at))
    assert decisions == [Train("t")] * 3 + [Wait(NOW + (3 << 29) + 100 * MS)]


class Starved:
    """A run on a simulated device whose training was planned with another time than it takes."""

    def __init__(self, planned_ms, takes_ms, *, end_s=20, budget_ms=100, batch=4):
        tenants = [Inference("a", batch, budget_ms / 1e3, 10.0 * batch, 0.02), Training("t", 16, planned_ms / 1e3)]
        times = {"a": 20 * MS, "t": takes_ms * MS}
        sources = {"a": evenly(10.0 * batch, end_s)}
        self.loop = simulated(tenants, sources, end_s, Managed(), duration_ns=lambda name, *_: times[name])
        self.steps = of(self.loop, "train")
        self.probes = [row for row in self.steps if row.reason is not None]
        self.late = [row for row in of(self.loop, "request") if not row.met]


def test_a_step_planned_with_a_time_that_never_fits_is_tried_once_and_fits_from_then_on():
    run = Starved(planned_ms=500, takes_ms=30)
    assert len(run.probes) == 1
    assert run.probes[0] is run.steps[0]
    assert run.probes[0].started_s == pytest.approx(2.7, abs=0.2)  # two windows of 1.07 s of idle time, which is 80 %
    assert len(run.steps) > 300
    assert run.late == []
    assert run.loop.probed == {"t": [0.03]}


def test_a_step_that_never_fits_runs_in_two_percent_of_the_idle_time():
    run = Starved(planned_ms=90, takes_ms=90)
    assert run.steps[:-1] == run.probes  # the last one began when no request was to come any more
    assert len(run.probes) == 1 + int((20 * 0.8 - 1) / (0.09 * 50))
    assert 0 < len(run.late) <= 4 * len(run.probes)  # those of the batch behind each


def test_steps_that_might_make_answers_late_and_never_do_run_ever_more_often():
    # Requests come 100 ms apart and are due in 60: a step of 70 fits after each answer, which no plan can promise.
    run = Starved(planned_ms=70, takes_ms=70, budget_ms=60, batch=1)
    assert run.late == []
    assert len([row for row in run.steps if 15 < row.finished_s < 20]) == 50


def test_a_step_that_is_slow_for_a_while_is_not_given_up_for_good():
    # Three slow ones raise the mean so far that none fits any more; the next, a probe, is fast again.
    count = [0]

    def takes(name, *_):
        count[0] += name == "t"
        return 20 * MS if name == "a" else (200 if 100 < count[0] <= 103 else 30) * MS

    tenants = [Inference("a", 4, 0.1, 40.0, 0.02), Training("t", 16, 0.03)]
    loop = simulated(tenants, {"a": evenly(40.0, 60)}, 60, Managed(), duration_ns=takes)
    assert max(row.finished_s for row in of(loop, "train")) > 59
    assert len(of(loop, "train")) > 400


class Overloaded:
    """A run in which ``over_per_s`` requests come to a tenant until ``until_s``, and ``then_per_s`` from then on."""

    def __init__(self, tenant, over_per_s, until_s, then_per_s, end_s, *, beside=(), job_s=None):
        arrivals_s = {tenant.name: [*spread(over_per_s, 0.0, until_s), *spread(then_per_s, until_s, end_s)]}
        arrivals_s |= {other.name: list(spread(other.rate_per_s, 0.0, end_s)) for other in beside}
        tenants = [tenant, *beside, *([] if job_s is None else [Training("job", 16, job_s)])]
        sources = {
            name: ScheduledArrivals(iter([round(at_s * NS) for at_s in each])) for name, each in arrivals_s.items()
        }
        loop = simulated(tenants, sources, end_s)
        self.expected = {name: len(each) for name, each in arrivals_s.items()}
        self.rows, self.trained = loop.rows, of(loop, "train")

    def requests(self, name="a"):
        return sorted((r for r in self.rows if r.event == "request" and r.tenant == name), key=lambda r: r.arrived_s)

    def late(self, name="a"):
        return [row for row in self.requests(name) if not row.met]


def spread(rate_per_s, from_s, to_s):
    gaps = int((to_s - from_s) * rate_per_s * (1 - 1e-9))
    return (from_s + number / rate_per_s for number in range(1, gaps + 1))


def test_late_requests_are_answered_in_the_gaps_the_oldest_first_and_before_any_training():
    # 200/s come for 2 s where 100/s can be served; then 50/s do. A late answer fits in each gap of 10 ms in 20, so that
    # 191 of them take 3.8 s.
    run = Overloaded(Inference("a", 1, 0.1, 200.0, 0.01), 200.0, 2.0, 50.0, 12.0, job_s=0.005)
    late = run.late()
    assert len(late) == pytest.approx(191, abs=2)
    assert max(row.arrived_s for row in late) <= 2.0
    ends_s = [row.finished_s for row in late]
    assert all(before < after for before, after in pairwise(ends_s))
    assert ends_s[-1] == pytest.approx(2.1 + len(late) * 0.02, rel=0.02)
    assert not [row for row in run.trained if 0.02 < row.finished_s < ends_s[-1]]
    assert len([row for row in run.trained if row.finished_s > ends_s[-1]]) == pytest.approx(
        (12 - ends_s[-1]) * 100, rel=0.01
    )


def test_a_tenant_that_keeps_to_its_rate_is_not_late_for_another_that_does_not():
    other = Inference("b", 1, 0.2, 5.0, 0.06)
    run = Overloaded(Inference("a", 1, 0.1, 200.0, 0.01), 200.0, 2.0, 40.0, 12.0, beside=[other])
    assert run.late("b") == []
    assert max(row.arrived_s for row in run.late()) <= 2.0


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
