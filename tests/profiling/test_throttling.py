"""What a watch over the throttle counters tells, and that a row says it without failing."""

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.stages.profiling.disturbances import ThrottleWatch
from edgetune.stages.profiling.measure import measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakeModes, FakePower, FakeRunner, FakeSource, FakeThermometer, FakeThrottle, fake_device

POINT = Point("net", "infer", 1, Mode())


class Counters:
    """Serious events that never come, and slight ones at a steady rate."""

    def __init__(self, clock, per_s):
        self.clock, self.per_s = clock, per_s

    def read(self):
        return 7

    def counts(self):
        return self.slight_counts()

    def slight_counts(self):
        return {name: int(rate * self.clock.now_ns() / 1e9) for name, rate in self.per_s.items()}


def watched(per_s, seconds=10):
    clock = FakeClock()
    watch = ThrottleWatch(fake_device(clock, FakeSource(None), throttle=Counters(clock, per_s)))
    clock.sleep_s(seconds)
    return watch


@pytest.mark.parametrize(("rate", "told"), [(12.3, "10/s"), (29.0, "30/s"), (1.5, "2/s"), (0.1, "0.1/s")])
def test_rates_of_slight_events_are_reported_to_one_digit(rate, told):
    watch = watched({"oc3": rate})
    assert watch.slight() == f"slight throttling while measured: oc3 {told}"
    assert watch.throttled() is False


def measured(**scripted):
    clock = FakeClock()
    scripted = {name: make(clock) for name, make in scripted.items()}
    device = fake_device(clock, FakeSource(None), modes=FakeModes(), **scripted)
    (attempt,) = measure_point(device, lambda _: FakeRunner(clock, lambda _: 50_000_000), POINT, ProfileOptions())
    return attempt.row


def test_a_point_with_slight_throttling_is_ok_and_says_so():
    row = measured(
        throttle=lambda clock: Counters(clock, {"oc3": 20.0}), power=lambda clock: FakePower(clock, lambda t: 9 * t)
    )
    assert (row.status, row.throttled, row.power_w) == ("ok", False, pytest.approx(9.0))
    assert row.reason == "slight throttling while measured: oc3 20/s"


class Serious(Counters):
    """A mode that draws too much current each time."""

    def read(self):
        return sum(self.counts().values())

    def counts(self):
        return {"oc1": 0, "oc2": int(self.clock.now_ns() / 1e9)}


def test_after_over_current_a_point_is_measured_again_once_and_heat_as_often_as_asked():
    clock = FakeClock()
    for throttle, tries in ((Serious(clock, {}), 2), (FakeThrottle(list(range(1000))), 5)):
        device = fake_device(clock, FakeSource(None), modes=FakeModes(), throttle=throttle)
        attempts = measure_point(
            device, lambda _: FakeRunner(clock, lambda _: 500_000_000), POINT, ProfileOptions(retries=4)
        )
        assert [attempt.row.status for attempt in attempts] == ["throttled"] * tries
        assert [attempt.over_current for attempt in attempts] == [tries == 2] * tries
    assert "over-current" not in attempts[-1].row.reason


class Passing:
    """A device that is slowed for two seconds, which it shows only then; counts the looks that saw it."""

    def __init__(self, clock):
        self.clock, self.seen = clock, 0

    def read(self):
        self.seen += 1 <= self.clock.now_ns() / 1e9 < 3
        return self.seen


def test_throttling_in_the_middle_of_a_point_is_seen():
    clock = FakeClock()
    temperature = FakeThermometer([40.0])
    device = fake_device(clock, FakeSource(None), modes=FakeModes(), throttle=Passing(clock), temperature=temperature)
    options = ProfileOptions(minibatches=100, retries=0)
    (attempt,) = measure_point(device, lambda _: FakeRunner(clock, lambda _: 50_000_000), POINT, options)
    assert attempt.row.duration_s >= 5
    assert (attempt.row.status, attempt.row.throttled) == ("throttled", True)
