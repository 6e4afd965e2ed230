"""RAPL: microjoules to watts, the counter's wrap-around, and why it may not be there.

Temperature and throttle counters from hwmon, thermal zones and the x86 counters.
"""

import errno

import pytest

from edgetune.devices.host import Counter, RaplMeter, open_rapl, open_thermometer, open_throttle_events
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_jetson import FakeClock
from fakes.sysfs import add_rapl

PACKAGE = "sys/class/powercap/intel-rapl:0"


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def test_package_and_memory_are_counted_and_core_is_not(sysfs):
    add_rapl(sysfs, memory=True)
    sensor = open_rapl(sysfs, FakeClock())
    assert sensor.source == "rapl:package-0+dram"


@pytest.mark.parametrize(("mirrored", "watts"), [(True, 68.0 + 60.0), (False, 68.0 + 20.0 + 60.0)])
def test_dies_that_show_the_counter_of_their_package_are_counted_once(sysfs, mirrored, watts):
    dies = ["package-0-die-0", "package-0-die-1", "package-1-die-0"]
    paths = add_rapl(sysfs, dies, mirrored=mirrored)
    for path, energy_uj in zip(paths, (1_000_000_000, 2_000_000_000, 1_000_000_100), strict=True):
        sysfs.put(f"{path}/energy_uj", energy_uj)
    clock = FakeClock()
    sensor = open_rapl(sysfs, clock)
    assert sensor.source == "rapl:" + "+".join(dies[::2] if mirrored else dies)
    with sensor.record() as recording:
        clock.sleep_s(1)
        for path, energy_uj in zip(paths, (1_068_000_000, 2_020_000_000, 1_060_000_100), strict=True):
            sysfs.put(f"{path}/energy_uj", energy_uj)
    assert sum(reading.power_w for reading in recording.readings) == pytest.approx(watts)


def test_wrap_around_loses_nothing(sysfs):
    add_rapl(sysfs, energy_uj=999_000, range_uj=1_000_000)
    clock = FakeClock()
    meter = RaplMeter(sysfs, [Counter("package-0", PACKAGE, 1_000_000)], clock)
    clock.sleep_s(0.001)
    sysfs.put(f"{PACKAGE}/energy_uj", 4_000)
    reading = meter.read()
    assert reading.power_w == pytest.approx(5_000e-6 / 0.001)


def test_counter_that_stands_still_gives_no_reading_and_loses_no_energy(sysfs):
    add_rapl(sysfs)
    clock = FakeClock()
    meter = RaplMeter(sysfs, [Counter("package-0", PACKAGE, 10**9)], clock)
    clock.sleep_s(1)
    assert meter.read() is None
    clock.sleep_s(1)
    sysfs.put(f"{PACKAGE}/energy_uj", 20_000_000)
    reading = meter.read()
    assert reading.power_w == pytest.approx(10.0)


def test_permission_denied_says_how_to_permit(sysfs):
    add_rapl(sysfs)
    sysfs.deny_reading(f"{PACKAGE}/energy_uj")
    sensor = open_rapl(sysfs, FakeClock())
    assert f"chmod a+r /{PACKAGE}/energy_uj" in sensor.reason


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


def test_throttle_events_are_summed(sysfs):
    for cpu, count in enumerate((2, 5)):
        sysfs.put(f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count", count)
    events = open_throttle_events(sysfs)
    assert events.read() == 7
