"""Background steps per batch, beside cases that can be worked by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.serving.background_steps import steps_per_batch


def test_without_time_to_spare_whole_steps_fit_between_two_batches():
    assert steps_per_batch(0.2, 0.04, 0.1, 0.0) == math.floor(0.16 / 0.1)
    assert steps_per_batch(0.2, 0.04, 0.17, 0.0) == 0.0


def test_with_as_much_time_to_spare_as_a_step_takes_none_is_lost():
    assert steps_per_batch(0.2, 0.04, 0.1, 0.1) == pytest.approx(1.6)
    assert steps_per_batch(0.2, 0.04, 0.1, math.inf) == pytest.approx(1.6)
    assert steps_per_batch(0.2, 0.2, 0.1, math.inf) == 0.0


def test_a_step_that_delays_a_batch_leaves_too_little_for_one_behind_it():
    # 0.14 free and 0.09 to spare hold one of 0.2, which delays the next batch by 0.06; 0.17 are left behind that.
    assert steps_per_batch(0.2, 0.06, 0.2, 0.09) == 0.5


@given(st.floats(0.01, 1.0), st.floats(0.0, 0.95), st.floats(0.001, 2.0), st.floats(0.0, 2.0))
def test_it_is_between_the_whole_number_and_the_free_time(period_s, load, step_s, spare_s):
    steps, free = steps_per_batch(period_s, load * period_s, step_s, spare_s), (1 - load) * period_s / step_s
    assert math.floor(free + 1e-9) - 0.02 * free <= steps <= free * 1.06 + 1e-9
