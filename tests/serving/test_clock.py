"""The event clock: order, ties, and time that has passed."""

import pytest

from edgetune.serving.clock import EventClock


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
