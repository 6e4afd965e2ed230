import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgetune.devices.twin.constants import Sensing
from edgetune.devices.twin.timeline import TwinPowerSensor, TwinTimeline

SENSING = Sensing(
    refresh_s=1.0, settle_s=3.0, time_constant_s=0.4, lag_s=0.1, time_repeat=0.0, power_repeat=0.0, time_jitter=0.0,
    power_jitter=0.0, source="test",
)  # fmt: skip
S = 1_000_000_000


def timeline(idle_w=10.0):
    made = TwinTimeline(SENSING, idle_w)
    return made, TwinPowerSensor(made, SENSING)


def readings(pieces, idle_w=10.0):
    """Return the readings of a recording over pieces of (seconds, watts)."""
    line, sensor = timeline(idle_w)
    with sensor.record() as recording:
        for seconds, load_w in pieces:
            line.advance(line.now_ns() + round(seconds * S), load_w)
    return [reading.power_w for reading in recording.readings]


def test_readings_come_at_the_refresh_interval_counted_from_the_recording():
    line, sensor = timeline()
    line.sleep_s(0.37)
    with sensor.record() as recording:
        line.sleep_s(3.2)
    assert [reading.time_ns for reading in recording.readings] == [1_370_000_000, 2_370_000_000, 3_370_000_000]


def test_a_reading_just_after_a_step_is_low_and_its_mean_is_in_closed_form():
    """Load steps from 10 W to 50 W as the recording opens; the first reading covers -0.1 s to 0.9 s."""
    first, second, third, fourth, *rest = readings([(8.0, 50.0)])
    tau = 0.4
    assert first == pytest.approx(10 * 0.1 + 50 * 0.9 - 40 * tau * (1 - math.exp(-0.9 / tau)), abs=1e-3)
    assert second == pytest.approx(50 - 40 * tau * (math.exp(-0.9 / tau) - math.exp(-1.9 / tau)), abs=1e-3)
    assert 10 < first < second < third < fourth == 50
    assert third == pytest.approx(50, rel=0.01)
    assert rest == [50.0] * 4


def test_after_settling_a_reading_does_not_depend_on_what_ran_before():
    assert readings([(4.0, 90.0), (6.0, 50.0)])[7:] == readings([(4.0, 10.0), (6.0, 50.0)])[7:] == [50.0] * 3


def test_power_falls_back_as_slowly_as_it_rose():
    line, _ = timeline()
    line.advance(10 * S, 50.0)
    line.sleep_s(0.4)
    assert line.power_w() == pytest.approx(10 + 40 / math.e)


@given(st.lists(st.tuples(st.integers(1, 3000), st.floats(5, 80)), min_size=1, max_size=12), st.integers(1, 7))
@example([(1500, 14.0), (2900, 5.0)], 6)
def test_readings_do_not_depend_on_how_time_was_cut(pieces, cuts):
    """Pieces and cuts are whole nanoseconds: a power has settled, to a thousandth of its step, from one nanosecond on,
    here from 2.9 s, so that a piece cut to end a nanosecond earlier reads up to a thousandth of the step otherwise."""
    lengths = [(milliseconds * 1_000_000 // cuts, load_w) for milliseconds, load_w in [*pieces, (2000, 20.0)]]
    whole = readings([(cuts * cut_ns / S, load_w) for cut_ns, load_w in lengths])
    fine = readings([(cut_ns / S, load_w) for cut_ns, load_w in lengths for _ in range(cuts)])
    assert whole == pytest.approx(fine, abs=1.5e-3)  # each is rounded to milliwatts


@given(st.lists(st.tuples(st.floats(0.01, 3), st.floats(5, 80)), min_size=1, max_size=12))
def test_readings_stay_between_the_least_and_the_greatest_load(pieces):
    loads_w = [10.0, *(load_w for _, load_w in pieces)]
    assert all(min(loads_w) - 0.5 <= watts <= max(loads_w) + 0.5 for watts in readings([*pieces, (1.0, 10.0)]))


def test_history_is_bounded():
    line, _ = timeline()
    for step in range(10_000):
        line.advance(line.now_ns() + S // 100, 20.0 + step % 2)
    assert len(line._pieces) < 300
