"""Processor demand: the quick test agrees with looking at every deadline."""

from hypothesis import given
from hypothesis import strategies as st

from edgetune.stages.interleave.demand import NEVER_NS, BatchFilling, QueueDemand, counts, demanded_ns, first_miss

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


def test_a_queue_of_unknown_rate_is_waited_for_until_it_is_full():
    assert counts([BatchFilling(8, 100, 20, None), BatchFilling(8, 100, 20, 0.0)]) == [8, 8]


def test_where_nothing_leaves_time_for_the_others_the_batch_alone_counts():
    assert counts([BatchFilling(8, 100, 20, 30), BatchFilling(1, 900, 80, 1000)]) == [1, 1]
    assert counts([BatchFilling(8, 100, 20, 30), BatchFilling(1, 900, 81, 1000)]) == [3, 1]
    assert counts([BatchFilling(8, 15, 20, 50)]) == [1]


def test_batches_too_small_to_be_served_are_not_made():
    # 60 of 100 are left for waiting; after 40 for the other queue, 20: three requests, 40 of every 30.
    assert counts([BatchFilling(8, 100, 40, 10), BatchFilling(1, 900, 40, 100_000)]) == [7, 1]
