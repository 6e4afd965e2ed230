"""The fan, which is only ever read."""

import pytest

from edgetune.devices.jetson.sensors import Fan, read_fan
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles

CONF = (
    "POLLING_INTERVAL 2\n<FAN 1>\n\tTMARGIN ENABLED\n\tFAN_PROFILE cool {\n\t\t#TEMP HYST PWM RPM\n\t}\n"
    "FAN_DEFAULT_CONTROL open_loop\nFAN_DEFAULT_PROFILE cool\nFAN_DEFAULT_GOVERNOR pid"
)


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def test_a_board_without_a_fan_has_none(sysfs):
    sysfs.put("etc/nvfancontrol.conf", CONF)  # the daemon is there, nothing for it to drive
    sysfs.put("sys/class/hwmon/hwmon0/name", "ina3221")
    assert read_fan(sysfs) is None


def test_jetpack_4_shows_it_in_one_folder(sysfs):
    for name, value in (("cur_pwm", 80), ("target_pwm", 90), ("rpm_measured", 1234), ("temp_control", 1)):
        sysfs.put(f"sys/devices/pwm-fan/{name}", value)
    assert read_fan(sysfs, "quiet") == Fan(rpm=1234, pwm=80, profile="quiet", governor=None, control=None)


@pytest.mark.parametrize(
    ("tachometer", "file"), [("pwm_tach", "rpm"), ("pwm_tach", "fan1_input"), ("pwmfan", "fan1_input")]
)
def test_later_releases_show_it_among_numbered_sensors(sysfs, tachometer, file):
    sysfs.put("etc/nvfancontrol.conf", CONF)
    sysfs.put("sys/class/hwmon/hwmon1/name", "ina3221")
    sysfs.put("sys/class/hwmon/hwmon1/fan1_input", 1)
    sysfs.put("sys/class/hwmon/hwmon2/name", "pwmfan")
    sysfs.put("sys/class/hwmon/hwmon2/pwm1", 255)
    number = 2 if tachometer == "pwmfan" else 10
    sysfs.put(f"sys/class/hwmon/hwmon{number}/name", tachometer)
    sysfs.put(f"sys/class/hwmon/hwmon{number}/{file}", 2900)
    assert read_fan(sysfs) == Fan(rpm=2900, pwm=255, profile="cool", governor="pid", control="open_loop")


def test_a_fan_that_cannot_be_read_is_not_standing_still(sysfs):
    sysfs.put("sys/class/hwmon/hwmon2/name", "pwmfan")
    sysfs.put("sys/class/hwmon/hwmon2/pwm1", 88)
    assert read_fan(sysfs) == Fan(rpm=None, pwm=88, profile=None, governor=None, control=None)
    sysfs.deny_reading("sys/class/hwmon/hwmon2/pwm1")
    assert read_fan(sysfs) is None


def test_a_fan_that_stands_still_says_zero(sysfs):
    sysfs.put("sys/class/hwmon/hwmon2/name", "pwmfan")
    sysfs.put("sys/class/hwmon/hwmon2/pwm1", 0)
    sysfs.put("sys/class/hwmon/hwmon2/fan1_input", 0)
    assert (read_fan(sysfs).rpm, read_fan(sysfs).pwm) == (0, 0)


def test_what_the_daemon_noted_wins_over_what_it_starts_with(sysfs):
    sysfs.put("sys/class/hwmon/hwmon2/name", "pwmfan")
    sysfs.put("sys/class/hwmon/hwmon2/pwm1", 88)
    sysfs.put("etc/nvfancontrol.conf", CONF)
    sysfs.put("var/lib/nvfancontrol/status", "FAN1:FAN_PROFILE:quiet\nFAN1:FAN_GOVERNOR:cont\n")
    assert read_fan(sysfs) == Fan(rpm=None, pwm=88, profile="quiet", governor="cont", control="open_loop")


@pytest.mark.parametrize("kernel", ["5.10", "5.15", "6.8"])
def test_the_fan_of_a_whole_board(tmp_path, kernel):
    fan = read_fan(make_board(tmp_path, kernel=kernel, shuffle_hwmon=True, seed=3))
    assert fan is not None
    assert (fan.pwm, fan.profile, fan.governor, fan.control) == (88, "quiet", "cont", "close_loop")
    assert fan.rpm is not None
