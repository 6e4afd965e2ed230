"""A soak keeps a point running and shows where it settles; gaps show the first minibatch after idling."""

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read_profile
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile
from edgetune.devices.capabilities import Absent
from edgetune.errors import InputError
from edgetune.plotting.style import styled
from edgetune.stages.profiling.figures import soak_figure
from edgetune.stages.profiling.measure import measure_point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.soak import settled_from, soak_sentence
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakeModes, FakePower, FakeRunner, FakeSource, fake_device

POINT = Point("net", "infer", 1, Mode())
HOT_S = 120.0


class Hot:
    """A board that heats by 0.2 C a second, and throttles from ``HOT_S`` on: counter, thermometer and clock."""

    def __init__(self, clock):
        self.clock = clock

    @property
    def now_s(self):
        return self.clock.now_ns() / 1e9

    def read_c(self):
        return min(40 + 0.2 * self.now_s, 70.0)


class Throttle(Hot):
    def read(self):
        return 3 + 5 * (self.now_s >= HOT_S)


class Clocks(Hot):
    def read(self):
        return {"clocks_mhz": {"gpu": 1300.0 if self.now_s < HOT_S else 900.0, "unknown": None}}


class Governed(FakeRunner):
    """A runner whose first minibatch after half a second or more without work takes three times as long."""

    def run(self, minibatches):
        now_ns = self._clock.now_ns()
        if now_ns - getattr(self, "ended_ns", now_ns) >= 5e8:
            self._clock.advance_ns(0)
            slow = self._duration_ns
            self._duration_ns = lambda n: slow(n) * 3
            found = super().run(minibatches)
            self._duration_ns = slow
        else:
            found = super().run(minibatches)
        self.ended_ns = self._clock.now_ns()
        return found


def soaked(options, *, hot=True):
    clock = FakeClock()
    heat = Throttle(clock)
    device = fake_device(
        clock, FakeSource(None), modes=FakeModes(), power=FakePower(clock, lambda t: 9 * t),
        temperature=heat if hot else Absent("none"), throttle=heat if hot else Absent("none"),
    )  # fmt: skip
    if hot:
        object.__setattr__(device, "telemetry", Clocks(clock))

    def duration_ns(_):
        return 50_000_000 if heat.now_s < HOT_S or not hot else 65_000_000

    attempts = measure_point(device, lambda _: Governed(clock, duration_ns), POINT, options)
    assert len(attempts) == 1  # a soak is not repeated because it throttled: that is what it shows
    return attempts[0].row


def test_a_soak_lasts_as_long_as_asked_and_its_figures_are_of_the_settled_part():
    row = soaked(ProfileOptions(soak_s=600))
    assert sum(row.times_s) == pytest.approx(600, rel=0.02)
    assert row.minibatch_s == pytest.approx(0.065)
    assert (row.status, row.throttled) == ("throttled", True)
    said = soak_sentence(row)
    assert "50 ms at first, 65 ms at the end (+30.0%); settled after " in said
    assert "70 C; gpu 1300 to 900 MHz; throttled from 2 m" in said


def test_a_soak_that_goes_on_slowing_has_not_settled():
    assert settled_from([1 + 0.001 * n for n in range(1000)]) is None


def test_the_first_minibatch_after_idling():
    row = soaked(ProfileOptions(idle_gaps_s=(0.1, 2.0)), hot=False)
    assert row.idle_gap_s == (0.1, 2.0)
    assert row.idle_minibatch_s == (pytest.approx(0.05), pytest.approx(0.15))
    assert row.minibatch_s == pytest.approx(0.05)


def test_a_soak_is_kept_in_its_file_and_drawn(tmp_path):
    row = soaked(ProfileOptions(soak_s=600))
    table = Profile(Header.new(KIND, VERSION), (row,))
    table.save(tmp_path / "soak.parquet")
    (back,) = read_profile(tmp_path / "soak.parquet").rows
    assert back == row
    with styled():
        figure = soak_figure(table)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "minibatch (ms)",
        "power (W)",
        "temperature (°C)",
        "gpu (MHz)",
    ]
    with pytest.raises(InputError, match="no soak"):
        soak_figure(Profile(Header.new(KIND, VERSION), (soaked(ProfileOptions(), hot=False),)))
