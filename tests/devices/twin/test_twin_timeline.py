import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from twin_tables import mixed, row, table

from benchmarks.twin import total_flops
from edgetune.devices.twin.constants import Sensing, load_board
from edgetune.devices.twin.timeline import TwinPowerSensor, TwinTimeline
from edgetune.devices.twin.work import GROUPS, OperatorGroup, work_of
from edgetune.errors import InputError

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


CONSTANTS = load_board("orin-agx")[0].values
amounts = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**10)), min_size=1, max_size=20)


def test_operators_fall_into_the_group_that_runs_them():
    work = work_of(mixed())
    assert {name: len(work.flops[name]) for name in GROUPS} == {
        "conv": 2, "gemm": 1, "rnn": 1, "depthwise": 1, "saturated": 0, "stream": 2,
    }  # fmt: skip
    assert total_flops(work) == 3_992_000_000
    assert work.moved_bytes["stream"].tolist() == [8e6, 8e6]


def test_launches_count_operators_their_cudnn_calls_and_their_kernels_but_no_views():
    work = work_of(mixed())
    assert (work.operators, work.cudnn_calls, work.kernels) == (7, 4, 11)


@pytest.mark.parametrize(("task", "images", "decoded"), [("train", True, 16), ("train", False, 0), ("infer", True, 16)])
def test_images_are_decoded_in_training_and_in_inference(task, images, decoded):
    assert work_of(mixed(task=task, batch_size=16, images=images)).images == decoded


@pytest.mark.parametrize(("precision", "share"), [("fp32", 1), ("fp16", 0.5), ("int8", 0.25)])
def test_another_precision_scales_bytes_and_leaves_operations(precision, share):
    full, other = work_of(mixed()), work_of(mixed(), precision=precision)
    assert other.moved_bytes["conv"].sum() == share * full.moved_bytes["conv"].sum()
    assert total_flops(other) == total_flops(full)
    assert other.precision == precision


@pytest.mark.parametrize("operators", [mixed(precision="fp4"), table(), table(row("view", kernels=0))])
def test_what_cannot_be_simulated_is_refused(operators):
    with pytest.raises(InputError):
        work_of(operators)


def test_waste_lengthens_time_but_is_not_charged_as_energy():
    group = work_of(mixed()).groups(CONSTANTS)["conv"]
    assert group.nominal_flops == 3_040_000_000
    assert group.flops_below[-1] > group.nominal_flops


@given(amounts, st.floats(1e6, 1e14), st.floats(1e6, 1e12))
def test_a_sum_over_sorted_operators_is_the_sum_of_maxima(operators, flops_per_s, bytes_per_s):
    flops, moved = np.array(operators, dtype=float).T
    group = OperatorGroup.of(flops, moved, nominal_flops=float(flops.sum()))
    total_s, compute_s = group.roof_s(np.array([flops_per_s]), np.array([bytes_per_s]))
    compute, memory = flops / flops_per_s, moved / bytes_per_s
    assert total_s[0] == pytest.approx(np.maximum(compute, memory).sum(), rel=1e-9)
    # Which side an operator on the very corner falls is open; it weighs the same on both.
    clear = compute > memory * (1 + 1e-9)
    assert compute_s[0] >= compute[clear].sum() * (1 - 1e-6) - 1e-12
    assert compute_s[0] <= compute[compute >= memory * (1 - 1e-9)].sum() * (1 + 1e-6) + 1e-12
