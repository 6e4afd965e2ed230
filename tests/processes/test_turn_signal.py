"""The turn signal: who waits for a turn goes on when it has ended, and for nothing else."""

import threading
import time

import pytest

from edgetune.processes.turn_signal import TurnSignal, new_turn_signal


@pytest.fixture
def turn_signal():
    made = new_turn_signal(3)
    yield made
    made.close()


def soon_ns(seconds=60):
    return time.monotonic_ns() + round(seconds * 1e9)


def test_a_waiting_process_continues_when_the_turn_has_ended_and_not_before(turn_signal):
    log = []

    def follow(own):
        TurnSignal(turn_signal.descriptors).wait(own, 0, 7, soon_ns())
        log.append("begun")

    followers = [threading.Thread(target=follow, args=(own,)) for own in (1, 2)]
    for follower in followers:
        follower.start()
    turn_signal.end(0, 6)
    turn_signal.end(1, 7)
    turn_signal.end(2, 8)
    time.sleep(0.02)
    log.append("ended")
    turn_signal.end(0, 7)
    for follower in followers:
        follower.join()
    assert log == ["ended", "begun", "begun"]


def test_an_ended_turn_needs_no_waiting_and_may_be_ended_twice(turn_signal):
    for turn in (7, 7, 8, 7):
        turn_signal.end(0, turn)
    begun_ns = time.monotonic_ns()
    turn_signal.wait(1, 0, 7, soon_ns())
    turn_signal.wait(1, 0, 8, soon_ns())
    assert time.monotonic_ns() - begun_ns < 60_000_000_000


def test_a_wait_ends_at_its_deadline(turn_signal):
    until_ns = soon_ns(0.02)
    turn_signal.wait(1, 0, 7, until_ns)
    assert time.monotonic_ns() >= until_ns
    turn_signal.wait(1, 0, 7, until_ns)


def test_an_unread_bell_never_blocks_the_process_that_rings_it(turn_signal):
    for turn in range(70_000):  # more than a pipe holds
        turn_signal.end(0, turn)
    begun_ns = time.monotonic_ns()
    turn_signal.wait(1, 0, 69_999, soon_ns())
    follower = threading.Thread(target=turn_signal.wait, args=(1, 0, 70_000, soon_ns()))
    follower.start()
    turn_signal.end(0, 70_000)
    follower.join()
    assert time.monotonic_ns() - begun_ns < 60_000_000_000


def test_closing_twice_is_harmless():
    turn_signal = new_turn_signal(2)
    turn_signal.close()
    turn_signal.close()
