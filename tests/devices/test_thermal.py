"""Temperature and throttle counters from hwmon, thermal zones and the x86 counters."""

import errno

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.host_sensors import open_thermometer, open_throttle_events
from edgetune.testing.fake_files import KernelFiles


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def test_hottest_cpu_sensor_counts_and_a_disk_does_not(sysfs):
    sysfs.put("sys/class/hwmon/hwmon0/name", "coretemp")
    sysfs.put("sys/class/hwmon/hwmon0/temp1_input", 51_000)
    sysfs.put("sys/class/hwmon/hwmon0/temp2_input", 63_500)
    sysfs.put("sys/class/hwmon/hwmon1/name", "nvme")
    sysfs.put("sys/class/hwmon/hwmon1/temp1_input", 80_000)
    thermometer = open_thermometer(sysfs)
    assert not isinstance(thermometer, Absent)
    assert thermometer.read_c() == 63.5


def test_a_processor_whose_control_temperature_is_offset_has_that_of_its_die(sysfs):
    chip = "sys/class/hwmon/hwmon0"
    texts = {"name": "k10temp", "temp1_label": "Tctl", "temp1_input": 68_000}
    for name, text in texts.items():
        sysfs.put(f"{chip}/{name}", text)
    assert open_thermometer(sysfs).read_c() == 68.0
    sysfs.put(f"{chip}/temp2_label", "Tdie")
    sysfs.put(f"{chip}/temp2_input", 41_000)
    assert open_thermometer(sysfs).read_c() == 41.0


def test_sensors_that_are_not_known_are_shown_and_not_used(sysfs):
    sysfs.put("sys/class/hwmon/hwmon0/name", "nvme")
    sysfs.put("sys/class/hwmon/hwmon0/temp1_input", 61_850)
    assert "nvme" in open_thermometer(sysfs).reason
    sysfs.put("sys/class/hwmon/hwmon1/name", "bigcore0_thermal")
    sysfs.put("sys/class/hwmon/hwmon1/temp1_input", 43_600)
    thermometer = open_thermometer(sysfs)
    assert thermometer.read_c() == 43.6
    assert thermometer.read_all() == {"nvme temp1": 61.85, "bigcore0_thermal temp1": 43.6}


def test_a_zone_that_is_off_is_none_and_the_others_answer(sysfs):
    sysfs.put("sys/class/thermal/thermal_zone0/type", "cpu-thermal")
    sysfs.put("sys/class/thermal/thermal_zone0/temp", 48_000)
    sysfs.put("sys/class/thermal/thermal_zone1/type", "cv0-thermal")
    sysfs.put("sys/class/thermal/thermal_zone1/temp", 0)
    sysfs.deny_reading("sys/class/thermal/thermal_zone1/temp", errno.EAGAIN)
    thermometer = open_thermometer(sysfs)
    assert thermometer.read_all() == {"cpu-thermal": 48.0, "cv0-thermal": None}
    assert thermometer.read_c() == 48.0


def test_thermal_zone_where_there_is_no_cpu_sensor(sysfs):
    sysfs.put("sys/class/thermal/thermal_zone0/type", "soc-thermal")
    sysfs.put("sys/class/thermal/thermal_zone0/temp", 40_250)
    thermometer = open_thermometer(sysfs)
    assert not isinstance(thermometer, Absent)
    assert thermometer.read_c() == 40.25


def test_zone_that_stops_answering_is_none(sysfs):
    zone = "sys/class/thermal/thermal_zone0/temp"
    sysfs.put("sys/class/thermal/thermal_zone0/type", "cpu-thermal")
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
