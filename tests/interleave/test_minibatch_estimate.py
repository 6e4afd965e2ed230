"""What the next minibatch may take: raised at once by a slow one, lowered with time."""

import pytest

from edgetune.stages.interleave.tenant_state import DurationEstimate

MS, S = 1_000_000, 1_000_000_000


def test_the_mean_follows_by_an_eighth():
    estimate = DurationEstimate(16 * MS)
    estimate.observe(16 * MS, S)
    estimate.observe(8 * MS, S)
    assert estimate.mean_ns == 15 * MS


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
