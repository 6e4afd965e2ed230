"""What a run took, as a process in time: noted on a stage, and made into a simulation that is the run again."""

import random

import pytest

from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.backend import Inference, Training
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies.managed import Managed
from edgetune.stages.interleave.recorded import Recorder, Series
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend, resampled
from edgetune.stats import percentile

NS = 1_000_000_000
MS = 1_000_000
CAMERA = Inference("camera", 2, 0.1, 30.0, 0.005)
NIGHT = Training("night", 16, 0.007)


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


def refused(*point):
    raise AssertionError(f"{point} was recorded")


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
