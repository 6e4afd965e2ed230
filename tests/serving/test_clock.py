"""The event clock: order, ties, and time that has passed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.serving.clock import EventClock
from edgetune.serving.requests import steps_per_batch


def test_events_happen_in_order_of_time_and_ties_in_the_order_asked_for():
    clock, seen = EventClock(), []
    for time_ns, name in ((5, "c"), (3, "a"), (3, "b")):
        clock.at(time_ns, lambda name=name: seen.append((clock.now_ns(), name)))
    clock.run_until(4)
    assert (seen, clock.now_ns(), clock.next_ns()) == ([(3, "a"), (3, "b")], 4, 5)
    clock.step()
    assert (seen[-1], clock.next_ns()) == ((5, "c"), None)
    clock.step()
    assert clock.now_ns() == 5


def test_an_event_may_ask_for_another_at_the_same_time():
    clock, seen = EventClock(), []
    clock.at(2, lambda: clock.at(2, lambda: seen.append(clock.now_ns())))
    clock.run_until(2)
    assert seen == [2]


def test_what_has_passed_cannot_happen():
    clock = EventClock(10)
    with pytest.raises(ValueError, match="passed"):
        clock.at(9, lambda: None)


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
