"""Processor demand: the quick test agrees with looking at every deadline."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.interleave.admission import NEVER_NS, BatchFilling, QueueDemand, counts, demanded_ns, first_miss
from edgetune.stages.interleave.replan import NS, RateTracker
from edgetune.stages.interleave.state import DurationEstimate, WaitingRequests

demands = st.lists(
    st.builds(
        lambda first, more, period, work: QueueDemand(first, first + more, period, work),
        st.integers(1, 60),
        st.integers(0, 60),
        st.integers(1, 40),
        st.integers(1, 12),
    ),
    max_size=4,
)


def test_demand_counts_from_its_due_time_on():
    demand = QueueDemand(10, 25, 20, 3)
    assert [demanded_ns([demand], by) for by in (9, 10, 24, 25, 44, 45, 65)] == [0, 3, 3, 6, 6, 9, 12]
    assert demanded_ns([demand, QueueDemand(10, NEVER_NS, NEVER_NS, 7)], 45) == 16


def test_one_minibatch_fits_to_the_nanosecond():
    once = [QueueDemand(100, NEVER_NS, NEVER_NS, 40)]
    assert first_miss(once, 60) is None
    assert first_miss(once, 61) is not None


@given(demands=demands, step=st.integers(0, 60))
def test_agrees_with_every_deadline_where_the_device_is_not_overloaded(demands, step):
    if sum(demand.work_ns / demand.period_ns for demand in demands) > 0.99:
        return
    late = [by for by in range(1, 20_000) if step + demanded_ns(demands, by) > by and demanded_ns(demands, by)]
    found = first_miss(demands, step, tries=10_000)
    assert (found is None) == (not late)
    assert found is None or found in late


@given(demands=demands, step=st.integers(0, 60), before=st.integers(1, 100))
def test_demand_after_the_horizon_does_not_count(demands, step, before):
    late = [by for by in range(1, before) if step + demanded_ns(demands, by) > by and demanded_ns(demands, by)]
    if sum(demand.work_ns / demand.period_ns for demand in demands) <= 0.99:
        assert (first_miss(demands, step, before_ns=before, tries=10_000) is None) == (not late)


@given(demands=demands, step=st.integers(0, 60))
def test_demand_during_postponed_firsts_counts_even_in_overload(demands, step):
    if not demands:
        return
    late = [d.first_ns for d in demands if step + demanded_ns(demands, d.first_ns) > d.first_ns]
    if late:
        assert first_miss(demands, step, tries=10_000) is not None


def test_undecided_counts_as_a_miss():
    nearly_full = [QueueDemand(1000, 1100, 100, 99)]
    assert first_miss(nearly_full, 901) is None
    assert first_miss(nearly_full, 901, tries=1) is not None


def test_an_overloaded_device_still_has_room_for_what_ends_before_anything_is_late():
    overloaded = [QueueDemand(1000, 1010, 10, 11)]
    assert first_miss(overloaded, 100) is None  # 100 + 11 * (1 + 10) <= 1100
    assert first_miss(overloaded, 990) is not None


def test_as_many_requests_are_waited_for_as_come_early_enough_for_every_other_queue_to_go_first():
    # 100 until due, 20 for the batch, 25 for the others: requests up to 55 after the first, 10 apart.
    fills, others = BatchFilling(8, 100, 20, 10), [BatchFilling(1, 100, 15, 1000), BatchFilling(1, 100, 10, None)]
    assert counts([fills, *others]) == [6, 1, 1]
    assert counts([BatchFilling(4, 100, 20, 10), *others]) == [4, 1, 1]
    assert counts([fills]) == [8]
    assert counts([BatchFilling(9, 100, 20, 10)]) == counts([BatchFilling(99, 100, 20, 10)]) == [9]


def test_where_nothing_leaves_time_for_the_others_the_batch_alone_counts():
    assert counts([BatchFilling(8, 100, 20, 30), BatchFilling(1, 900, 80, 1000)]) == [1, 1]
    assert counts([BatchFilling(8, 100, 20, 30), BatchFilling(1, 900, 81, 1000)]) == [3, 1]
    assert counts([BatchFilling(8, 15, 20, 50)]) == [1]


def test_batches_too_small_to_be_served_are_not_made():
    # 60 of 100 are left for waiting; after 40 for the other queue, 20: three requests, 40 of every 30.
    assert counts([BatchFilling(8, 100, 40, 10), BatchFilling(1, 900, 40, 100_000)]) == [7, 1]


def poisson_ns(rate_per_s, duration_s, seed, begin_s=0.0):
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1 / rate_per_s, int(rate_per_s * duration_s * 1.2) + 20)
    times = begin_s + np.cumsum(gaps)
    return [round(t * NS) for t in times[times < begin_s + duration_s]]


def alarms(tracker, arrivals_ns):
    found = []
    for at_ns in arrivals_ns:
        tracker.arrived(at_ns)
        rate = tracker.changed(at_ns)
        if rate is not None:
            found.append((at_ns / NS, rate))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_a_steady_rate_raises_no_alarm_in_an_hour(seed):
    assert alarms(RateTracker(60.0, 0), poisson_ns(60.0, 3600.0, seed)) == []


@pytest.mark.parametrize(("new_per_s", "within_s"), [(120.0, 4.0), (30.0, 12.0), (80.0, 30.0)])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_detected_soon_with_about_the_right_rate(new_per_s, within_s, seed):
    before, after = poisson_ns(60.0, 100.0, seed), poisson_ns(new_per_s, 60.0, seed + 50, begin_s=100.0)
    found = alarms(RateTracker(60.0, 0), before + after)
    (at_s, _), *_ = found
    assert 100.0 < at_s < 100.0 + within_s
    assert found[-1][1] == pytest.approx(new_per_s, rel=0.25)
    assert len(found) <= 3


def test_silence_is_evidence_that_the_rate_fell():
    tracker = RateTracker(60.0, 0)
    assert alarms(tracker, [round(k * NS / 60) for k in range(1, 601)]) == []
    assert tracker.changed(round(10.3 * NS)) is None
    rate = tracker.changed(12 * NS)
    assert rate is not None
    assert rate <= 2.0
    assert tracker.rate_per_s == rate


MS, S = 1_000_000, 1_000_000_000


def test_a_slow_one_counts_in_full_at_once_and_fades_by_half_in_two_seconds():
    estimate = DurationEstimate(16 * MS)
    estimate.observe(16 * MS, S)
    estimate.observe(24 * MS, S)  # the mean is 17 now, and 7 more were needed
    assert estimate.mean_ns == 17 * MS
    assert estimate.cautious_ns(S) == 24 * MS
    assert estimate.cautious_ns(3 * S) == 20.5 * MS
    assert estimate.cautious_ns(5 * S) == 18.75 * MS


def test_a_quick_one_does_not_take_the_surcharge_of_a_slow_one_away():
    estimate = DurationEstimate(16 * MS)
    estimate.observe(16 * MS, S)
    estimate.observe(24 * MS, S)
    estimate.observe(9 * MS, S)
    assert estimate.mean_ns == 16 * MS
    assert estimate.cautious_ns(S) == 23 * MS


@pytest.mark.parametrize("slow_ms", [40, 400])
def test_the_surcharge_is_of_the_slowest_still_felt(slow_ms):
    estimate = DurationEstimate(16 * MS)
    estimate.observe(16 * MS, S)
    estimate.observe(slow_ms * MS, S)
    before = estimate.cautious_ns(S)
    estimate.observe(round(estimate.mean_ns) + MS, S)
    assert before <= estimate.cautious_ns(S) <= before + MS


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 6)), max_size=60))
def test_the_queue_is_a_list_whose_later_entries_can_be_taken_first(turns):
    waiting, model, number = WaitingRequests(), [], 0
    for come, wanted, skipped in turns:
        for _ in range(come):
            waiting.append(number, 10 * number)
            model.append((number, 10 * number))
            number += 1
        count, passed = min(wanted, len(model)), min(skipped, len(model))
        later = model[passed : passed + count] if passed else []
        older = [request for request in model if request not in later][: count - len(later)]
        assert waiting.take(count, passed) == (*older, *later)
        model = [request for request in model if request not in older + later]
        arrivals = [arrived for _, arrived in model]
        assert (list(waiting), len(waiting), waiting[:]) == (arrivals, len(arrivals), arrivals)
        assert [waiting[-1 - place] for place in range(len(model))] == arrivals[::-1]
    assert waiting.take_all() == tuple(model)
    assert len(waiting) == 0
