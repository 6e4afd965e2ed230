"""What becomes of requests: arrivals, deadlines, one after another, failures that stay alone, and a clean stop."""

import tracemalloc

import pytest
from schedule_builder import MS, FirstCome, batch, chain, ends_ms, loop_of, run

from edgetune.errors import InputError
from edgetune.serving.clock import EventClock
from edgetune.stages.schedule.requests import DependentRequests, Request

ONE = chain("one", {"weights": 100, "output": 10, "load_ms": 10, "execute_ms": 20})
TWO = chain("two", *[{"weights": 100, "output": 10, "scratch": 1, "load_ms": 10, "execute_ms": 20}] * 2, input_bytes=3)


def failing(**wanted):
    """A fault of every task that has all of these."""

    def fault(task):
        return "storage broke" if all(getattr(task, key) == value for key, value in wanted.items()) else None

    return fault


def test_requests_are_answered_as_they_arrive_and_deadlines_are_kept_or_missed():
    requests = [Request(0, "one", 0, 30 * MS), Request(1, "one", 5 * MS, 49 * MS), Request(2, "one", 100 * MS)]
    loop = run([ONE], requests)
    assert ends_ms(loop) == {0: ("ok", 30.0), 1: ("ok", 50.0), 2: ("ok", 120.0)}
    assert [(each.met, each.response_ns // MS) for each in loop.requests] == [(True, 30), (False, 45), (None, 20)]


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([Request(0, "one", 5), Request(1, "one", 4)], "request 1 .* is listed behind request 0"),
        ([Request(1, "one", 0), Request(1, "one", 0)], "out of order: request 1"),
        ([Request(0, "none", 0)], "request 0 is for network 'none'"),
        ([Request(0, "one", 0, after=(3,))], "request 0 comes after request 3, which does not exist"),
        ([Request(0, "one", 0, after=(0,))], "in a circle: 0"),
        (
            [
                Request(0, "one", 0),
                Request(1, "one", 0, after=(2,), job="b"),
                Request(2, "one", 0, after=(0, 1), job="c"),
            ],
            r"in a circle: 1 \(job b\), 2 \(job c\)",
        ),
    ],
)
def test_requests_that_contradict_each_other_are_refused(requests, message):
    with pytest.raises(InputError, match=message):
        loop_of([ONE], requests)


def test_a_failed_load_of_shared_weights_fails_only_the_requests_that_need_them():
    requests = [*batch("two", "one", "two"), Request(3, "two", 200 * MS)]
    broken = [True]

    def fault(task):
        if (task.kind, task.network, task.layer) == ("load", "two", 1) and broken:
            return broken.pop() and "storage broke"
        return None

    loop = run([ONE, TWO], requests, fault=fault)
    assert {number: outcome for number, (outcome, _) in ends_ms(loop).items()} == {
        0: "failed", 1: "ok", 2: "failed", 3: "ok",
    }  # fmt: skip
    failures = {each.request.number: each.failure for each in loop.requests}
    assert failures[0] == failures[2] == "loading layer two1 of two failed: storage broke"
    assert [task.failure for task in loop.tasks if task.failure] == ["storage broke"]


@pytest.mark.parametrize("shares_weights", [True, False])
def test_a_request_fails_while_another_layer_of_it_is_executed(shares_weights):
    long_load = {"weights": 100, "load_ms": 10, "execute_ms": 20}
    network = chain("net", {"output": 10, "execute_ms": 50}, long_load)
    fault = failing(kind="load", layer=1)
    released = []
    loop, backend = loop_of(
        [network], batch("net"), fault=fault, workers=2, policy=FirstCome(shares_weights=shares_weights)
    )  # fmt: skip
    backend.drop = lambda request, drop=backend.drop: (released.append(backend.now_ns() / MS), drop(request))
    loop.run()
    assert ends_ms(loop) == {0: ("failed", 50.0)}, "its memory cannot be returned before"
    assert released == [50.0]
    assert backend.memory.settled
    assert loop.requests[0].failure == "loading layer net1 of net failed: storage broke"


def test_thousands_after_thousands_take_no_more_than_they_are():
    """A set for each of 2000 that waits for 2000 others would take a hundred megabytes."""
    first = [Request(number, "one", 0) for number in range(2000)]
    after = tuple(range(2000))
    waiting = DependentRequests()
    tracemalloc.start()
    for request in [*first, *(Request(number, "one", 0, after=after) for number in range(2000, 4000))]:
        waiting.admit(request)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 10_000_000
    assert (len(waiting), waiting.waits(1999), waiting.waits(2000)) == (2000, False, True)
    assert [waiting.answered(number) for number in range(1999)] == [[]] * 1999
    assert [request.number for request in waiting.answered(1999)] == list(range(2000, 4000))
    assert len(waiting) == 0


def test_a_stop_finishes_what_runs_and_abandons_the_rest():
    clock = EventClock()
    requests = [*batch("two", "one"), Request(2, "one", 0, after=(1,)), Request(3, "one", 900 * MS)]
    loop, backend = loop_of([ONE, TWO], requests, clock=clock, stopped=lambda: clock.now_ns() >= 15 * MS)
    loop.run()
    assert ends_ms(loop) == {2: ("abandoned", 30.0), 0: ("abandoned", 30.0), 1: ("abandoned", 30.0)}
    assert [task.end_ns / MS for task in loop.tasks] == [10.0, 30.0, 30.0], "a load, an execution, an unload"
    assert backend.memory.settled
    assert {each.failure for each in loop.requests} == {"the run was stopped"}


def test_where_the_machine_breaks_down_requests_are_written_down():
    loop, backend = loop_of([TWO], batch("two", "two"))

    def broken(until_ns):
        raise OSError("the process ended")

    backend.wait = broken
    with pytest.raises(OSError, match="the process ended"):
        loop.run()
    assert ends_ms(loop) == {0: ("abandoned", 0.0), 1: ("abandoned", 0.0)}
    assert {each.failure for each in loop.requests} == {"the run broke down"}
