"""The fan: read, and at its highest speed if a run asks for it, until everything is put back.

What a Jetson shows of itself, to root and to everybody, whatever is switched off.

Temperatures of a board: zones that are off are missing, never zero degrees.
"""

import errno
import json

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.guardian.client import GuardianModes
from edgetune.devices.guardian.controls import open_control, open_jetson_control
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.power import open_board_power
from edgetune.devices.jetson.sensors import BoardTelemetry, Fan, open_board_thermometer, read_fan
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.nvml.gpu import gpu_load
from edgetune.errors import DeviceError
from edgetune.testing import fake_thermal
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles, Killed
from edgetune.testing.fake_jetson import FakeClock
from edgetune.testing.fake_kernel import FakeKernel
from fakes.nvml import FakeGpu, FakeNvml

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
    assert read_fan(sysfs, "quiet") == Fan(rpm=1234, pwm=80, profile="quiet")


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
    assert read_fan(sysfs) == Fan(rpm=2900, pwm=255, profile="cool")


def test_a_fan_that_cannot_be_read_is_not_standing_still(sysfs):
    sysfs.put("sys/class/hwmon/hwmon2/name", "pwmfan")
    sysfs.put("sys/class/hwmon/hwmon2/pwm1", 88)
    assert read_fan(sysfs) == Fan(rpm=None, pwm=88, profile=None)
    sysfs.deny_reading("sys/class/hwmon/hwmon2/pwm1")
    assert read_fan(sysfs) is None


def test_what_the_daemon_noted_wins_over_what_it_starts_with(sysfs):
    sysfs.put("sys/class/hwmon/hwmon2/name", "pwmfan")
    sysfs.put("sys/class/hwmon/hwmon2/pwm1", 88)
    sysfs.put("etc/nvfancontrol.conf", CONF)
    sysfs.put("var/lib/nvfancontrol/status", "FAN1:FAN_PROFILE:quiet\nFAN1:FAN_GOVERNOR:cont\n")
    assert read_fan(sysfs) == Fan(rpm=None, pwm=88, profile="quiet")


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


SWITCHES = "sys/devices/system/cpu/cpu*/online"


def opened(at, kernel=None, module=()) -> BoardTelemetry:
    kernel = kernel or at.kernel
    return BoardTelemetry(
        kernel,
        GuardianModes(["false"], open_jetson_control(kernel, sleep=at.clock.sleep_s)),
        open_board_power(kernel, at.clock, kernel.board.soc),
        open_board_thermometer(kernel),
        open_board_throttle(kernel),
        gpu_load=lambda: gpu_load(module),  # ``()`` is no NVML
    )


def all_readings(found):
    return [(group, name, value) for group, values in found.items() for name, value in values.items()]


@pytest.mark.parametrize("name", board_names())
def test_every_board_shows_clocks_rails_zones_and_the_fan(bench, name):
    for release in load_board(name).kernels:
        at = bench(name, kernel=release)
        found = opened(at).read()
        assert set(found) >= {"mode", "clocks_mhz", "power_w", "temperature_c", "throttling_now", "fan"}
        assert found["mode"]["cpu_cores"] == sum(policy.startswith("cpu") for policy in online(at))
        assert all(isinstance(value, str) or value >= 0 for _, _, value in all_readings(found) if value is not None)
        assert all(0 < mhz < 10_000 for mhz in found["clocks_mhz"].values() if mhz is not None)
        memory = {found["clocks_mhz"].get(clock) for clock in ("memory", "bwmgr")} - {None}
        assert memory
        assert {round(mhz * 1000) for mhz in memory} <= set(at.kernel.board.emc_khz)
        assert at.kernel.writes == []


def online(at):
    """Return the cores that are on; the first may have no switch."""
    switches = {path.split("/")[-2]: at.kernel.read(path) for path in at.kernel.glob(SWITCHES)}
    return [core for core, switch in {"cpu0": "1", **switches}.items() if switch == "1"]


@pytest.mark.parametrize("policy", ["ebusy", "missing", "readable"])
@pytest.mark.parametrize("user", ["root", "user"])
@pytest.mark.parametrize("name", ["jetson-agx-orin-64gb", "jetson-xavier-nx", "jetson-agx-thor"])
def test_what_is_switched_off_while_it_is_watched_stops_no_reading(bench, name, user, policy):
    at = bench(name, offline_policy=policy, gpu_asleep="error")
    telemetry = opened(at, FakeKernel(at.kernel.root, user=user, clock=at.clock))
    before = telemetry.read()
    for path in at.kernel.glob(SWITCHES):
        if "cpu0/" not in path:
            at.kernel.write(path, "0")
    after = telemetry.read()
    assert after["mode"]["cpu_cores"] == 1
    assert set(after) == set(before)
    assert after["clocks_mhz"]["cpu policy0"] > 0


def test_the_load_of_the_gpu_and_of_the_memory_is_shown_where_the_kernel_shows_it(bench):
    at = bench("jetson-agx-orin-64gb", kernel="5.10")
    telemetry = opened(at)
    assert telemetry.read()["load_percent"] == {"gpu": 0.0}
    at.kernel.work(gpu=0.973)
    activity = at.kernel.root / "sys/kernel/debug/cactmon/mc_all"
    activity.parent.mkdir(parents=True)
    activity.write_text("1599500\n")  # kHz, of 3199 MHz
    assert telemetry.read()["load_percent"] == {"gpu": 97.3, "memory": 50.0}
    thor = bench("jetson-agx-thor")
    assert "load_percent" not in opened(thor).read()
    shown = FakeNvml([FakeGpu(load=0.5)])
    for telemetry, load in ((opened(thor, module=shown), 50), (opened(at, module=shown), 97.3)):
        assert telemetry.read()["load_percent"]["gpu"] == load


BOARDS = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]


def add_zones(sysfs, **zones_mc):
    for number, (name, temp) in enumerate(zones_mc.items()):
        sysfs.put(f"sys/class/thermal/thermal_zone{number}/type", name.replace("_", "-"))
        sysfs.put(f"sys/class/thermal/thermal_zone{number}/temp", temp)


@pytest.mark.parametrize("junction", ["tj_thermal", "tj_therm"])
def test_the_junction_is_preferred_to_zones_read_later(sysfs, junction):
    add_zones(sysfs, cpu_thermal=52_000, **{junction: 50_000})
    assert open_board_thermometer(sysfs).read_c() == 50.0


def test_zones_of_gated_blocks_are_missing(sysfs):
    add_zones(sysfs, cpu_thermal=41_500, cv0_thermal=0, gpu_thermal=-256_000)
    sysfs.deny_reading("sys/class/thermal/thermal_zone1/temp", errno.EAGAIN)
    thermometer = open_board_thermometer(sysfs)
    assert thermometer.read_all() == {"cpu-thermal": 41.5, "cv0-thermal": None, "gpu-thermal": None}
    assert thermometer.read_c() == 41.5


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
    assert set(gated) == set(fake_thermal.zones(kernel.board).gated)
    assert "PMIC-Die" not in thermometer.read_all()


OC = "sys/class/hwmon/hwmon4"


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
