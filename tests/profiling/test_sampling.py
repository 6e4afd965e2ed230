"""How long a point is run: until sure, until the sensor has settled, and never beyond its bounds."""

from contextlib import nullcontext

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.stages.profiling.disturbances import DeviceWatch
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sampling import Samples, collect, typical_sampling_s
from edgetune.testing.fake_clock import FakeClock
from fakes.device import FakeModes, FakePower, FakeRunner, FakeSource, fake_device

MS = 1_000_000


def sampled(duration_ns, *, options=None, gap_ns=0, power=None, modes=None):
    clock = FakeClock()
    runner = FakeRunner(clock, duration_ns, gap_ns=gap_ns)
    scripted = {"power": power(clock)} if power else {}
    if modes:
        scripted["modes"] = modes
    device = fake_device(clock, FakeSource(lambda _: runner), **scripted)
    recorder = nullcontext(Silent()) if power is None else device.power.record()
    with recorder as recording:
        return collect(device, runner, options or ProfileOptions(), recording, DeviceWatch(device, Mode())), runner


class Silent:
    """The recording of a device without a power sensor."""

    readings = ()
    failure = None


def test_steady_minibatches_take_one_call():
    samples, runner = sampled(lambda _: 30 * MS)
    assert runner.calls == [10]
    assert samples.times_s == [0.03] * 10


def test_later_calls_are_long_enough_to_hide_their_cost():
    _, runner = sampled(lambda n: 1000 + 500 * (n % 2))
    assert all(call * 1250 >= 0.019e9 for call in runner.calls[1:])


def test_sampling_time_is_bounded():
    drifting = sampled(lambda n: (100 + 10 * n) * MS, options=ProfileOptions(max_sampling_s=5.0))[0]
    assert drifting.elapsed_s < 7.0
    assert len(drifting.times_s) >= 10


def test_slow_minibatches_still_get_the_minimum():
    samples, _ = sampled(lambda _: 20_000 * MS, options=ProfileOptions(max_sampling_s=30.0))
    assert len(samples.times_s) == 10


def test_work_goes_on_until_the_sensor_has_settled_and_read_five_times():
    samples, _ = sampled(lambda _: 50 * MS, power=lambda clock: FakePower(clock, lambda t: 9 * t, 1.0, settle_s=2.0))
    assert samples.elapsed_s == pytest.approx(2.0 + 7 * 1.0)


def test_waiting_for_the_sensor_is_bounded_too():
    samples, _ = sampled(
        lambda _: 50 * MS,
        options=ProfileOptions(max_sampling_s=3.0),
        power=lambda clock: FakePower(clock, lambda t: 9 * t, 60.0),
    )
    assert samples.elapsed_s <= 3.1


def test_gaps_between_calls_are_overhead():
    samples, runner = sampled(lambda n: 10 * MS if n > 2 else 40 * MS, gap_ns=5 * MS)
    gaps = len(runner.calls) - 1
    assert gaps >= 1
    busy = sum(samples.times_s)
    assert samples.overhead == pytest.approx(gaps * 0.005 / (busy + gaps * 0.005))


def test_power_window_starts_after_warmup_and_settling():
    samples = Samples([100 * i for i in range(5)], [100 * (i + 1) for i in range(5)])
    assert samples.power_window_start_ns(2, 0.0) == 200
    assert samples.power_window_start_ns(0, 350e-9) == 350


def test_a_device_to_look_after_is_looked_at_about_once_a_second_without_changing_what_is_sampled():
    plain, runner = sampled(lambda _: 50 * MS, options=ProfileOptions(minibatches=100))
    watched, calls = sampled(
        lambda _: 50 * MS, options=ProfileOptions(minibatches=100), modes=FakeModes(applied=[Mode()])
    )
    assert runner.calls == [100]
    assert calls.calls == [10, 20, 20, 20, 20, 10]
    assert watched.times_s == plain.times_s


def test_a_sensor_that_falls_silent_is_not_waited_for():
    samples, _ = sampled(
        lambda _: 50 * MS, power=lambda clock: FakePower(clock, lambda t: t * t, refresh_s=1.0, limit=4)
    )
    assert samples.elapsed_s == pytest.approx(2.0 + 7.0)


def test_work_goes_on_until_five_readings_of_settled_power():
    # 2 W for six seconds, then 20 W: the seven readings after the settling time are not enough.
    samples, _ = sampled(
        lambda _: 50 * MS,
        power=lambda clock: FakePower(clock, lambda t: 2 * min(t, 6) + 20 * max(t - 6, 0), refresh_s=1.0),
    )
    assert 11.0 <= samples.elapsed_s <= 20.0


def test_typical_sampling_time():
    options = ProfileOptions()
    assert typical_sampling_s(Absent("none"), 0.1, options) == pytest.approx(1.5)
    assert typical_sampling_s(Absent("none"), 0.1, ProfileOptions(minibatches=40)) == pytest.approx(4.0)
    slow = FakePower(FakeClock(), lambda t: t, refresh_s=1.0, settle_s=2.0)
    assert typical_sampling_s(slow, 0.001, options) == pytest.approx(9.0)
