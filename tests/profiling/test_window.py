"""Figures of a window are closed-form answers on a device whose clock and power are scripted."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.device import LiveSource
from edgetune.stages.profiling.window import Meter, Window
from edgetune.testing.fake_clock import FakeClock
from fakes.device import FakePower, FakeSource, fake_device


def device(clock, power):
    return replace(fake_device(clock, FakeSource(clock)), source=LiveSource((), "cpu"), simulated=False, power=power)


@contextmanager
def measured_window(on):
    with Meter(on) as meter, meter.whole() as window:
        yield window


def test_energy_is_the_mean_power_times_the_time():
    clock = FakeClock(start_ns=7)
    with measured_window(device(clock, FakePower(clock, energy_j=lambda t_s: 5 * t_s))) as window:
        clock.sleep_s(2.0)
    assert window.time_s == pytest.approx(2.0)
    assert window.power_w == pytest.approx(5.0)
    assert window.energy_j == pytest.approx(10.0)
    assert window.power_samples == 20
    assert window.power_source == "fake"


def test_a_burst_counts_as_it_is():
    clock = FakeClock()
    burst = FakePower(clock, energy_j=lambda t_s: 2 * t_s + 8 * min(max(t_s - 0.5, 0), 0.5))
    with measured_window(device(clock, burst)) as window:
        clock.sleep_s(2.0)
    assert window.energy_j == pytest.approx(8.0)
    assert window.power_peak_w == pytest.approx(10.0)


def test_too_few_readings_give_no_energy_and_the_reason():
    clock = FakeClock()
    with measured_window(device(clock, FakePower(clock, energy_j=lambda t_s: 5 * t_s))) as window:
        clock.sleep_s(0.3)
    assert window.energy_j is None
    assert window.power_w is None
    assert "too few power samples" in window.reason


def test_inner_windows_share_the_recording_and_say_so():
    clock = FakeClock()
    power = FakePower(clock, energy_j=lambda t_s: 5 * t_s)
    with Meter(device(clock, power)) as meter, meter.whole("all") as outer:
        clock.sleep_s(1.0)
        inner = Window(meter, "part")
        meter.begin(inner)
        assert inner.time_s is None
        clock.sleep_s(1.0)
        meter.end(inner)
    assert (outer.time_s, inner.time_s) == (pytest.approx(2.0), pytest.approx(1.0))
    assert inner.energy_j == pytest.approx(5.0)
    assert inner.overlapped
    assert "whole board" in inner.reason
    assert (inner.memory_bytes, inner.throttled) == (None, None)


def test_windows_one_after_the_other_do_not_overlap():
    clock = FakeClock()
    with Meter(device(clock, Absent("none"))) as meter:
        windows = [Window(meter), Window(meter)]
        for window in windows:
            meter.begin(window)
            clock.sleep_s(1.0)
            meter.end(window)
    assert [window.overlapped for window in windows] == [False, False]
