"""The fan: read, and at its highest speed if a run asks for it, until everything is put back."""

import json

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.guardian.controls import open_control
from edgetune.devices.jetson.sensors import Fan, read_fan
from edgetune.errors import DeviceError
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles, Killed

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


OLD = {"sys/devices/pwm-fan/temp_control": "0", "sys/devices/pwm-fan/target_pwm": "255"}


@pytest.mark.parametrize(
    ("board", "found"),
    [("jetson-nano", "auto"), ("jetson-orin-nano-8gb", "1"), pytest.param("jetson-agx-thor", "0", id="thor, fan off")],
)
def test_killed_at_any_write_the_fan_is_put_back_from_the_journal(bench, board, found):
    at = bench(board)
    paths = {path: "255" if path.endswith("pwm1") else "1" for path in at.kernel.glob("sys/class/hwmon/hwmon*/pwm1*")}
    fan = paths or OLD
    for path in fan:
        if path.endswith("_enable"):
            at.put(path, found)
    journal = {}

    def run(stop=None):
        control = at.open()
        control.learnt = lambda snapshot: journal.update(text=json.dumps(snapshot))
        settings = control.snapshot()
        if stop is not None:
            at.kernel.fail_at(stop, "kill-after")
        control.fan_to_maximum(settings)
        control.apply(Mode(), settings)
        control.fan_to_maximum(settings)  # with each mode
        if stop is None:
            assert {path: at.kernel.read(path) for path in fan} == fan
            assert control.restore(settings) == []
            assert at.differences() == {}

    before = len(at.kernel.writes)
    run()
    assert set(fan) >= {path for path, _ in at.kernel.writes[before:]}
    for number in range(1, 1 + sum(at.kernel.read(path) != value for path, value in fan.items())):
        with pytest.raises(Killed):
            run(stop=number)
        at.kernel.revive()
        assert at.differences()
        assert at.open().restore(json.loads(journal["text"])) == []
        assert at.differences() == {}


def test_a_fan_that_cannot_be_set_is_an_error_before_anything_is_written(bench):
    at = bench("jetson-orin-nano-8gb")
    at.kernel.put("proc/812/comm", "nvfancontrol")
    at.kernel.forget_writes()
    found = at.control.snapshot()
    with pytest.raises(DeviceError, match="nvfancontrol sets the fan") as caught:
        at.control.fan_to_maximum(found)
    assert "systemctl stop nvfancontrol" in caught.value.hint
    for path in at.kernel.glob("sys/class/hwmon/hwmon*/pwm1"):
        (at.kernel.root / path).unlink()
    for control in (at.open(), open_control("host", at.kernel.root)):
        with pytest.raises(DeviceError, match=r"no fan of (jetson|host) that"):
            control.fan_to_maximum(found)
    assert at.kernel.writes == []
