"""What a run took, as a process in time: noted on a stage, and made into a simulation that is the run again."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.backend import Minibatch
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.recorded import RecordedRun, Recorder, Series
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend, resampled
from edgetune.stages.interleave.tenants import Inference, Training
from edgetune.stats import percentile

NS = 1_000_000_000
MS = 1_000_000
CAMERA = Inference("camera", 2, 0.1, 30.0, 0.005)
NIGHT = Training("night", 16, 0.007)


def refused(*point):
    raise AssertionError(f"{point} was recorded")


def series(*points):
    found = Series()
    for at_ns, lasted_ns in points:
        found.add(at_ns, lasted_ns)
    return found


@pytest.mark.parametrize(
    ("at_ns", "lasted_ns"),
    [
        (0, 5),
        (10, 5),
        (15, 5),
        (16, 7),
        (29, 7),
        (31, 9),
        (40, 9),
        (49, 9),
        (51, 7),
        (64, 7),
        (66, 5),
        (94, 5),
        (96, 7),
    ],
)
def test_the_nearest_in_time_and_backwards_after_the_last(at_ns, lasted_ns):
    # those at 10, 20 and 40 come again at 60 and 70; from 80 on all of it again
    assert series((20, 7), (10, 5), (40, 9)).nearest_ns(at_ns) == lasted_ns


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1), st.integers(0, 1000))
def test_the_nearest_recorded_duration_is_found(points, at_ns):
    found = series(*points)
    lasted_ns = found.nearest_ns(at_ns)
    if at_ns <= max(found.at_ns):
        least = min(abs(at - at_ns) for at, _ in points)
        assert lasted_ns in {lasted for at, lasted in points if abs(at - at_ns) == least}
    assert lasted_ns in found.lasted_ns


def recorder_of(clock, **options):
    times_ms = {"camera": 5, "night": 7}
    return Recorder(
        SimulatedMinibatchBackend(
            clock, (CAMERA, NIGHT), SimulatedDevice(lambda tenant, *_: times_ms[tenant] * MS, **options)
        )
    )


def test_changes_are_distinguished_by_who_ran_and_whether_it_was_lined_up():
    changes_ms = {(None, "night", False): 4, ("night", "night", True): 1, ("night", "camera", False): 2}
    clock = EventClock(3 * NS)
    stage = recorder_of(clock, overhead_ns=lambda *change: changes_ms[change] * MS)
    stage.start(Minibatch("night", "train", 0))
    stage.start(Minibatch("night", "train", 1))  # 4 to 11 and 12 to 19 ms
    while not any(done.minibatch.number for done in stage.wait(None)):
        pass
    stage.start(Minibatch("camera", "infer", 0, (0,)))  # 21 to 26 ms
    stage.wait(None)
    stage.wait(3 * NS + 40 * MS)
    stage.start(Minibatch("night", "train", 2))  # 44 to 51 ms
    stage.wait(None)
    assert stage.recorded() == RecordedRun(
        {"night": series((4 * MS, 7 * MS), (12 * MS, 7 * MS), (44 * MS, 7 * MS)), "camera": series((21 * MS, 5 * MS))},
        {
            (None, "night", False): series((0, 4 * MS), (40 * MS, 4 * MS)),
            ("night", "night", True): series((11 * MS, 1 * MS)),
            ("night", "camera", False): series((19 * MS, 2 * MS)),
        },
    )


def test_concurrent_minibatches_are_recorded_with_their_times_alone():
    stage = recorder_of(EventClock())
    stage.start(Minibatch("night", "train", 0))
    stage.wait(3 * MS)
    stage.start(Minibatch("camera", "infer", 0, (0,)))  # 4 ms each are left of 7, and of 5: to 11 ms, then 1 ms alone
    ends_ms = [done.end_ns / MS for _ in range(2) for done in stage.wait(None)]
    assert ends_ms == [11, 12]
    taken = stage.recorded().minibatches
    assert (taken["night"].lasted_ns, taken["camera"].lasted_ns) == ([7 * MS], [5 * MS])


def test_a_change_that_did_not_occur_is_as_the_one_most_like_it():
    changes = {("a", "b", False): series((0, 1)), (None, "c", False): series((0, 2)), ("a", "a", True): series((0, 3))}
    overhead_ns = RecordedRun(changes=changes).overhead(EventClock())
    assert [overhead_ns(None, "b", False), overhead_ns("b", "c", False), overhead_ns("a", "d", False)] == [1, 2, 1]
    assert overhead_ns("b", "b", True) == 3
    assert RecordedRun().overhead(EventClock())(None, "b", False) == 0


# ---- with the loop and the policy


def run(stage, clock, shift_ns=0):
    begin_ns, end_ns = clock.now_ns(), clock.now_ns() + 20 * NS
    sources = {"camera": ArrivalSpec("uniform", (30.0,)).source(begin_ns + shift_ns, end_ns)}
    loop = InterleaveLoop(EngineTurn("simulated", end_ns), stage, Managed(guard_ns=0), (CAMERA, NIGHT), sources)
    loop.run()
    return loop.rows


def device(clock, seed):
    """A stage on which everything takes three times as long in one second of eight, and some more at random."""
    draw = random.Random(seed)
    times_ms = {"camera": 5, "night": 7}

    def slow():
        return (3 if clock.now_ns() // NS % 8 == 5 else 1) * draw.uniform(0.9, 1.2)

    return SimulatedMinibatchBackend(
        clock,
        (CAMERA, NIGHT),
        SimulatedDevice(
            lambda tenant, *_: round(times_ms[tenant] * MS * slow()),
            overhead_ns=lambda before, tenant, lined_up: round((0.1 if lined_up else 0.4) * MS * slow()),
        ),
    )


def replayed(recorded, shift_ns=0):
    clock = EventClock()
    durations, overhead = recorded.durations(clock, refused), recorded.overhead(clock)
    return run(
        SimulatedMinibatchBackend(clock, (CAMERA, NIGHT), SimulatedDevice(durations, overhead_ns=overhead)),
        clock,
        shift_ns,
    )


def latency_p99_s(rows):
    return percentile([row.finished_s - row.arrived_s for row in rows if row.event == "request"], 99)


def steps(rows):
    return sum(row.event == "train" for row in rows)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_simulated_from_its_own_record_is_that_run(seed):
    clock = EventClock(7 * NS)
    recorder = Recorder(device(clock, seed))
    rows = run(recorder, clock)
    assert steps(rows) > 1000
    assert replayed(recorder.recorded()) == rows


def test_bursts_are_kept_where_single_draws_lose_them():
    # requests that come 5 ms later shift every start: nothing is looked up where it was recorded
    clock = EventClock()
    recorder = Recorder(device(clock, 2))
    rows, recorded = run(recorder, clock), recorder.recorded()
    again = replayed(recorded, shift_ns=5 * MS)
    assert again != rows
    assert latency_p99_s(again) == pytest.approx(latency_p99_s(rows), rel=0.05)
    assert steps(again) == pytest.approx(steps(rows), rel=0.005)
    clock, bag = EventClock(), resampled(lambda tenant, *_: recorded.minibatches[tenant].lasted_ns, 1)
    drawn = run(
        SimulatedMinibatchBackend(clock, (CAMERA, NIGHT), SimulatedDevice(bag, overhead_ns=recorded.overhead(clock))),
        clock,
    )
    assert latency_p99_s(drawn) < 0.9 * latency_p99_s(rows)
