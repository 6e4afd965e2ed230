"""What any device shows of itself: its own telemetry, else what its capabilities answer."""

from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Minibatches
from edgetune.devices.telemetry import present_mode, read_telemetry
from edgetune.errors import DeviceError
from edgetune.testing.fake_jetson import FakeClock
from fakes.device import FakeModes, FakeSource, FakeThermometer, FakeThrottle, fake_device


class Reader(FakeModes):
    """Modes that read ``now``, or fail to."""

    now: Mode | DeviceError = Mode(gpu_mhz=600.0)

    def read(self):
        if isinstance(self.now, DeviceError):
            raise self.now
        return self.now


class Setter:
    """Modes that cannot be read."""

    space = FakeModes().space

    def apply(self, mode):
        return mode

    def restore(self):
        pass


@pytest.fixture
def device():
    return fake_device(FakeClock(), FakeSource(lambda ops: Minibatches([], [])))


def test_a_device_with_telemetry_of_its_own_shows_that(device):
    class Own:
        def read(self):
            return {"clocks_mhz": {"gpu": 1.0}}

    assert read_telemetry(replace(device, telemetry=Own())) == {"clocks_mhz": {"gpu": 1.0}}


def test_a_device_that_can_do_nothing_shows_nothing(device):
    assert read_telemetry(device) == {}


def test_capabilities_are_shown_with_the_unit_in_the_name_of_the_group(device):
    able = replace(device, modes=Reader(), temperature=FakeThermometer([41.5, None]), throttle=FakeThrottle([2, 3]))
    assert read_telemetry(able) == {
        "mode": {"gpu_mhz": 600.0},
        "temperature_c": {"hottest": 41.5},
        "throttling_events": {"since boot": 2},
    }
    assert read_telemetry(able)["temperature_c"] == {"hottest": None}
    assert read_telemetry(able)["throttling_events"] == {"since boot": 3}


def test_a_clock_that_is_not_pinned_has_no_value():
    modes = Reader()
    modes.now = Mode()
    assert present_mode(modes) == {"gpu_mhz": None}


def test_a_knob_that_cannot_be_set_is_shown_where_it_can_be_read():
    modes = Reader()
    modes.now = Mode(cpu_cores=4, gpu_mhz=300.0)
    assert present_mode(modes) == {"gpu_mhz": 300.0, "cpu_cores": 4}


def test_modes_that_are_absent_cannot_be_read_or_fail_now_are_left_out():
    failing = Reader()
    failing.now = DeviceError("/sys/x cannot be read", "try later")
    assert present_mode(Absent("no knobs")) == present_mode(Setter()) == present_mode(failing) == {}
