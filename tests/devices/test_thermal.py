"""Temperature and throttle counters from hwmon, thermal zones and the x86 counters."""

import errno

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.host_sensors import open_thermometer, open_throttle_events
from fakes.sysfs import FakeSysfs


@pytest.fixture
def sysfs(tmp_path):
    return FakeSysfs(tmp_path)


def test_hottest_cpu_sensor_counts_and_a_disk_does_not(sysfs):
    sysfs.put("sys/class/hwmon/hwmon0/name", "coretemp")
    sysfs.put("sys/class/hwmon/hwmon0/temp1_input", 51_000)
    sysfs.put("sys/class/hwmon/hwmon0/temp2_input", 63_500)
    sysfs.put("sys/class/hwmon/hwmon1/name", "nvme")
    sysfs.put("sys/class/hwmon/hwmon1/temp1_input", 80_000)
    thermometer = open_thermometer(sysfs)
    assert not isinstance(thermometer, Absent)
    assert thermometer.read_c() == 63.5


def test_thermal_zone_where_there_is_no_cpu_sensor(sysfs):
    sysfs.put("sys/class/thermal/thermal_zone0/temp", 40_250)
    thermometer = open_thermometer(sysfs)
    assert not isinstance(thermometer, Absent)
    assert thermometer.read_c() == 40.25


def test_zone_that_stops_answering_is_none(sysfs):
    zone = "sys/class/thermal/thermal_zone0/temp"
    sysfs.put(zone, 40_000)
    thermometer = open_thermometer(sysfs)
    sysfs.deny_reading(zone, errno.EAGAIN)
    assert not isinstance(thermometer, Absent)
    assert thermometer.read_c() is None


def test_no_sensor_is_absent(sysfs):
    assert isinstance(open_thermometer(sysfs), Absent)


def test_throttle_events_are_summed(sysfs):
    for cpu, count in enumerate((2, 5)):
        sysfs.put(f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count", count)
    events = open_throttle_events(sysfs)
    assert not isinstance(events, Absent)
    assert events.read() == 7


def test_no_counters_is_absent(sysfs):
    assert isinstance(open_throttle_events(sysfs), Absent)
