"""Temperatures of a board: zones that are off are missing, never zero degrees."""

import errno

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.sensors import open_board_thermometer
from edgetune.testing import fake_thermal
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_jetson import FakeClock

BOARDS = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def add_zones(sysfs, **zones_mc):
    for number, (name, temp) in enumerate(zones_mc.items()):
        sysfs.put(f"sys/class/thermal/thermal_zone{number}/type", name.replace("_", "-"))
        sysfs.put(f"sys/class/thermal/thermal_zone{number}/temp", temp)


def test_the_hottest_zone_counts(sysfs):
    add_zones(sysfs, CPU_therm=41_500, GPU_therm=44_250, AO_therm=39_000)
    assert open_board_thermometer(sysfs).read_c() == 44.25


@pytest.mark.parametrize("junction", ["tj_thermal", "tj_therm"])
def test_the_junction_is_preferred_to_zones_read_later(sysfs, junction):
    add_zones(sysfs, cpu_thermal=52_000, **{junction: 50_000})
    assert open_board_thermometer(sysfs).read_c() == 50.0


def test_without_the_junction_the_others_answer(sysfs):
    add_zones(sysfs, cpu_thermal=52_000, tj_thermal=50_000)
    sysfs.deny_reading("sys/class/thermal/thermal_zone1/temp", errno.EAGAIN)
    assert open_board_thermometer(sysfs).read_c() == 52.0


def test_the_power_chips_constant_is_ignored(sysfs):
    add_zones(sysfs, CPU_therm=41_500, PMIC_Die=100_000)
    thermometer = open_board_thermometer(sysfs)
    assert thermometer.read_c() == 41.5
    assert thermometer.read_all() == {"CPU-therm": 41.5}


def test_zones_of_gated_blocks_are_missing(sysfs):
    add_zones(sysfs, cpu_thermal=41_500, cv0_thermal=0, gpu_thermal=-256_000)
    sysfs.deny_reading("sys/class/thermal/thermal_zone1/temp", errno.EAGAIN)
    thermometer = open_board_thermometer(sysfs)
    assert thermometer.read_all() == {"cpu-thermal": 41.5, "cv0-thermal": None, "gpu-thermal": None}
    assert thermometer.read_c() == 41.5


def test_a_gated_zone_answers_again(sysfs):
    add_zones(sysfs, gpu_thermal=-256_000)
    thermometer = open_board_thermometer(sysfs)
    assert thermometer.read_c() is None
    sysfs.put("sys/class/thermal/thermal_zone0/temp", 60_000)
    assert thermometer.read_c() == 60.0


def test_zones_of_the_same_name_are_both_shown(sysfs):
    sysfs.put("sys/class/thermal/thermal_zone0/type", "cpu-thermal")
    sysfs.put("sys/class/thermal/thermal_zone0/temp", 40_000)
    sysfs.put("sys/class/thermal/thermal_zone3/type", "cpu-thermal")
    sysfs.put("sys/class/thermal/thermal_zone3/temp", 45_000)
    assert open_board_thermometer(sysfs).read_all() == {"cpu-thermal": 40.0, "cpu-thermal (thermal_zone3)": 45.0}


def test_no_zones_are_absent_with_a_reason(sysfs):
    add_zones(sysfs, PMIC_Die=100_000)
    assert isinstance(open_board_thermometer(sysfs), Absent)


@pytest.mark.parametrize(("name", "kernel"), BOARDS)
def test_every_board_has_a_temperature_whatever_is_gated(tmp_path, name, kernel):
    kernel = make_board(tmp_path, name, kernel=kernel, clock=FakeClock(), user="user")
    kernel.warm(57)
    thermometer = open_board_thermometer(kernel)
    assert thermometer.read_c() == pytest.approx(57, abs=1)
    gated = [zone for zone, value in thermometer.read_all().items() if value is None]
    assert set(gated) == set(fake_thermal.gated(kernel.board))
    assert "PMIC-Die" not in thermometer.read_all()
