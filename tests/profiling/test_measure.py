"""One point, from mode to row, on a scripted device."""

from contextlib import nullcontext
from itertools import pairwise

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.errors import DeviceError, InputError, NotRestoredError
from edgetune.stages.profiling.disturbances import DeviceWatch
from edgetune.stages.profiling.measure import measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sampling import collect
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakeModes, FakePower, FakeRunner, FakeSource, FakeThermometer, FakeThrottle, fake_device

MS = 1_000_000
POINT = Point("net", "infer", 4, Mode(gpu_mhz=600))


class Bench:
    """A scripted device and everything that was opened on it."""

    def __init__(self, duration_ns=lambda _: 50 * MS, *, fails_with=None, **scripted):
        self.clock = FakeClock()
        self.runners = []
        self.duration_ns, self.fails_with = duration_ns, fails_with
        self.modes = scripted.setdefault("modes", FakeModes())
        if "power" in scripted:
            scripted["power"] = scripted["power"](self.clock)
        self.device = fake_device(self.clock, FakeSource(lambda _: self.open(POINT)), **scripted)

    def open(self, point):
        self.runners.append(FakeRunner(self.clock, self.duration_ns, fails_with=self.fails_with))
        return self.runners[-1]

    def measure_cooling(self, on_cooling, **options):
        return measure_point(self.device, self.open, POINT, ProfileOptions(**options), on_cooling)

    def measure(self, point=POINT, **options):
        return measure_point(self.device, self.open, point, ProfileOptions(**options))


def only_row(attempts):
    assert len(attempts) == 1
    return attempts[0].row


def test_steady_point():
    row = only_row(Bench().measure())
    assert (row.workload, row.task, row.batch_size, row.gpu_mhz) == ("net", "infer", 4, 600)
    assert row.status == "ok"
    assert row.minibatch_s == row.minibatch_p95_s == row.minibatch_ci95_low_s == 0.05
    assert (row.minibatches, row.warmups, len(row.times_s)) == (10, 0, 10)
    assert row.duration_s == pytest.approx(0.5)
    assert row.device == "fake"
    assert row.started.endswith("Z")


def test_warmup_is_recorded_and_left_out():
    row = only_row(Bench(lambda n: 500 * MS if n == 0 else 50 * MS).measure())
    assert row.warmups == 1
    assert row.times_s[0] == 0.5
    assert row.minibatch_s == row.minibatch_p95_s == 0.05
    assert row.minibatches == len(row.times_s) - 1


def test_energy_of_a_known_waveform_is_exact():
    # 5 W at rest and while the sensor settles, 25 W from the second second on, 50 ms minibatches back to back.
    bench = Bench(power=lambda clock: FakePower(clock, lambda t: 5 * min(t, 1) + 25 * max(t - 1, 0), 0.1, settle_s=1.0))
    row = only_row(bench.measure())
    assert row.power_w == pytest.approx(25.0)
    assert row.energy_j == pytest.approx(25.0 * 0.05)
    assert row.power_peak_w == pytest.approx(25.0)
    assert row.power_samples >= 5
    assert row.power_source == "fake"
    assert row.power_trace[0].power_w == pytest.approx(5.0)
    assert row.reason is None


def test_transient_that_outlasts_the_settling_time_is_measured_through():
    # Power rises for 0.6 s, and the sensor owns up to 0.2 s.
    bench = Bench(power=lambda clock: FakePower(clock, lambda t: 5 * min(t, 0.6) + 25 * max(t - 0.6, 0), 0.1))
    row = only_row(bench.measure())
    assert (row.power_w, row.power_peak_w) == pytest.approx((25.0, 25.0))
    assert row.energy_j == pytest.approx(25.0 * 0.05)
    assert row.power_from_s == pytest.approx(0.6)
    assert row.power_samples >= 5
    counted = [sample for sample in row.power_trace if sample.time_s > row.power_from_s + 1e-6][: row.power_samples]
    assert [sample.power_w for sample in counted] == pytest.approx([25.0] * row.power_samples)


def test_power_that_never_settles_ends_at_the_bound_and_says_so():
    bench = Bench(power=lambda clock: FakePower(clock, lambda t: 2 * t * t, 0.1))
    row = only_row(bench.measure(max_sampling_s=5.0))
    assert sum(row.times_s) == pytest.approx(5.0, abs=0.2)
    assert row.power_w is not None
    assert "power had not settled" in row.reason


def test_energy_counts_the_pauses_between_minibatches():
    bench = Bench(power=lambda clock: FakePower(clock, lambda t: 10 * t, 0.1))
    bench.open = lambda point: FakeRunner(bench.clock, lambda n: (50 + 20 * (n % 2)) * MS, gap_ns=100 * MS)
    row = only_row(bench.measure())
    assert row.energy_j > 10.0 * sum(row.times_s) / len(row.times_s)


def test_throttled_point_is_kept_and_measured_again():
    attempts = Bench(throttle=FakeThrottle([0, 3, 3, 3])).measure()
    assert [attempt.row.status for attempt in attempts] == ["throttled", "ok"]
    assert [attempt.row.throttled for attempt in attempts] == [True, False]
    assert attempts[0].row.minibatch_s == 0.05


def test_drifted_mode_is_marked_and_measured_again():
    bench = Bench(modes=FakeModes(drift=[Mode(gpu_mhz=300)]))
    attempts = bench.measure()
    assert [attempt.row.status for attempt in attempts] == ["drifted", "ok"]
    assert "gpu_mhz is 300, not 600" in attempts[0].row.reason


def test_drift_is_noticed_within_about_a_second_and_the_attempt_given_up():
    bench = Bench(modes=FakeModes(drift=[Mode(gpu_mhz=300)]))
    drifted, good = bench.measure(minibatches=400)
    assert sum(drifted.row.times_s) < 3.0
    assert len(good.row.times_s) == 400


def test_the_mode_is_read_at_most_once_a_second():
    reads = []

    class Counting(FakeModes):
        def read(self):
            reads.append(bench.clock.now_ns())
            return super().read()

    bench = Bench(modes=Counting())
    bench.measure(minibatches=400)
    assert len(reads) >= 20 * 0.8
    assert all(later - earlier >= 1_000_000_000 for earlier, later in pairwise(reads[:-1]))


def test_temperatures_at_the_start_and_at_most_are_kept_and_silence_is_ignored():
    row = only_row(Bench(temperature=FakeThermometer([50.0, None, 61.5, 40.0])).measure(minibatches=100))
    assert (row.temp_start_c, row.temp_max_c) == (50.0, 61.5)
    blind = only_row(Bench(temperature=FakeThermometer([None])).measure())
    assert (blind.temp_start_c, blind.temp_max_c) == (None, None)
    assert only_row(Bench().measure()).temp_start_c is None


def test_every_attempt_waits_until_the_device_is_cool():
    thermometer = FakeThermometer([61.0, 55.0, 50.0, 49.0, 70.0, 72.0, 48.0])
    bench = Bench(temperature=thermometer, throttle=FakeThrottle([0, 3, 3, 3]))
    told = []
    attempts = bench.measure_cooling(told.append, cool_to_c=50.0)
    assert [attempt.row.status for attempt in attempts] == ["throttled", "ok"]
    waits = [state for state in told if state.startswith("cooling")]
    assert waits == [f"cooling: {now_c} C, to 50 C" for now_c in (61, 55, 72)]
    assert attempts[0].row.temp_start_c == 49.0
    assert all(attempt.cooled for attempt in attempts)
    assert attempts[0].row.duration_s == pytest.approx(2.5), "the wait is part of what the point cost"


def test_mode_that_reads_back_otherwise_is_a_failed_point():
    attempt = Bench(modes=FakeModes(answer=lambda _: Mode(gpu_mhz=300))).measure()[0]
    assert attempt.row.status == "failed"
    assert "did not take the mode" in attempt.row.reason
    assert isinstance(attempt.error, DeviceError)
    assert attempt.failed_at == "mode"


def test_failing_workload_costs_the_point_and_is_not_tried_again():
    bench = Bench(fails_with=InputError("step() raised", "mend it"))
    attempt = bench.measure()[0]
    assert attempt.row.status == "failed"
    assert attempt.row.reason == "step() raised"
    assert attempt.row.minibatch_s is None
    assert attempt.failed_at == "run"
    assert len(bench.runners) == 1


def test_device_that_cannot_be_restored_is_not_a_failed_point():
    def refuse(_):
        raise NotRestoredError("stuck", "write it by hand")

    with pytest.raises(NotRestoredError):
        Bench(modes=FakeModes(answer=refuse)).measure()


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
