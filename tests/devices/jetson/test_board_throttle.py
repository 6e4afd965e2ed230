"""Throttling: what spoils a measurement is counted as an event, what happens all the time is a rate beside it."""

import errno

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_jetson import FakeClock

OC = "sys/class/hwmon/hwmon4"


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def add_counters(sysfs, *counts):
    sysfs.put(f"{OC}/name", "soctherm_oc")
    for number, count in enumerate(counts, start=1):
        sysfs.put(f"{OC}/oc{number}_event_cnt", count)
        sysfs.put(f"{OC}/oc{number}_throt_en", 1)


def add_cooling(sysfs, **states):
    for number, (kind, state) in enumerate(states.items()):
        sysfs.put(f"sys/class/thermal/cooling_device{number}/type", kind.replace("_", "-"))
        sysfs.put(f"sys/class/thermal/cooling_device{number}/cur_state", state)


def test_under_voltage_and_average_power_are_events(sysfs):
    add_counters(sysfs, 2, 3, 500)
    throttle = open_board_throttle(sysfs)
    assert throttle.read() == 5
    add_counters(sysfs, 3, 3, 500)
    assert throttle.read() == 6
    add_counters(sysfs, 3, 7, 500)
    assert throttle.read() == 10


def test_a_counter_that_fails_once_does_not_go_backwards(sysfs):
    add_counters(sysfs, 4, 0, 9)
    throttle = open_board_throttle(sysfs)
    before = throttle.read()
    sysfs.deny_reading(f"{OC}/oc1_event_cnt", errno.EAGAIN)
    assert throttle.read() == before
    assert throttle.counts() == {"oc2": 0, "oc3": 9}


def test_counters_of_which_none_answers_are_absent_not_a_board_that_never_throttles(sysfs):
    add_counters(sysfs, 4, 0, 9)
    for number in (1, 2, 3):
        assert not isinstance(open_board_throttle(sysfs), Absent)
        sysfs.deny_reading(f"{OC}/oc{number}_event_cnt", errno.EIO)
    assert "answer" in open_board_throttle(sysfs).reason


@pytest.mark.parametrize("kind", ["cpu_throttle_alert", "soc012_throttle_alert", "devfreq_gpu_gpc_0", "cpufreq_cpu0"])
def test_a_device_that_slows_the_board_from_one_reading_to_the_next_is_an_event(sysfs, kind):
    add_cooling(sysfs, **{kind: 0})
    throttle = open_board_throttle(sysfs)
    before = throttle.read()
    assert throttle.read() == before
    add_cooling(sysfs, **{kind: 1})
    assert throttle.active() == [kind.replace("_", "-")]
    assert throttle.read() > before
    still = throttle.read()
    assert throttle.read() > still
    add_cooling(sysfs, **{kind: 0})
    after = throttle.read()
    assert throttle.read() == after
    assert throttle.active() == []


def test_a_fan_that_turns_slows_nothing(sysfs):
    add_cooling(sysfs, pwm_fan=3, cpu_throttle_alert=0)
    throttle = open_board_throttle(sysfs)
    assert throttle.active() == []
    assert throttle.read() == 0


def test_two_devices_of_the_same_type_are_both_watched(sysfs):
    for number, state in ((0, 0), (1, 2)):
        sysfs.put(f"sys/class/thermal/cooling_device{number}/type", "gpu-throttle-alert")
        sysfs.put(f"sys/class/thermal/cooling_device{number}/cur_state", state)
    assert open_board_throttle(sysfs).active() == ["gpu-throttle-alert (cooling_device1)"]


def test_counters_of_another_driver_are_not_taken(sysfs):
    sysfs.put(f"{OC}/name", "something_else")
    sysfs.put(f"{OC}/oc1_event_cnt", 7)
    assert isinstance(open_board_throttle(sysfs), Absent)


@pytest.mark.parametrize("name", ["jetson-orin-nano-8gb", "jetson-agx-orin-64gb", "jetson-agx-thor"])
def test_over_current_of_boards_with_the_counters(tmp_path, name):
    kernel = make_board(tmp_path, name, clock=FakeClock(), user="user", shuffle_hwmon=True)
    throttle = open_board_throttle(kernel)
    before = throttle.read()
    kernel.over_current(3, events=25)
    assert (throttle.read(), throttle.slight_counts()) == (before, {"oc3": 25})
    kernel.over_current(1)
    assert throttle.read() == before + 1
