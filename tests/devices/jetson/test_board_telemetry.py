"""What a Jetson shows of itself, to root and to everybody, whatever is switched off."""

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.guardian.client import GuardianModes
from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.power import open_board_power
from edgetune.devices.jetson.sensors import BoardTelemetry, open_board_thermometer
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.nvml.gpu import gpu_load
from edgetune.testing.fake_kernel import FakeKernel
from fakes.nvml import FakeGpu, FakeNvml

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


def test_a_mode_shows_in_the_mode_and_in_the_clocks(bench):
    at = bench("jetson-agx-orin-64gb", kernel="5.10")
    telemetry = opened(at)
    assert telemetry.read()["mode"] == {"cpu_cores": 12, "cpu_mhz": None, "gpu_mhz": None, "mem_mhz": None}
    knobs = {"cpu_cores": 8, "cpu_mhz": 1190.4, "gpu_mhz": 522.75, "mem_mhz": 2133.0}
    at.control.apply(type(at.control.read()).of(knobs), at.control.snapshot())
    found = telemetry.read()
    assert found["mode"] == knobs
    assert found["clocks_mhz"]["17000000.ga10b"] == 522.75
    assert found["clocks_mhz"]["memory"] == 2133.0
    assert found["clocks_mhz"]["cpu policy0"] == 1190.4


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


def test_what_the_board_lacks_is_left_out(bench):
    at = bench("jetson-nano")
    absent = Absent("not here")
    found = BoardTelemetry(at.kernel, absent, absent, absent, absent).read()
    assert set(found) == {"clocks_mhz", "load_percent", "fan"}


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


def test_throttling_shows_as_events_and_as_what_slows_the_board_now(bench):
    at = bench("jetson-agx-orin-64gb", kernel="5.10")
    telemetry = opened(at)
    before = telemetry.read()
    assert before["throttling_now"] == {"devices": "none"}
    at.kernel.over_current(3, events=7)
    assert telemetry.read()["throttling_events"]["oc3"] == before["throttling_events"]["oc3"] + 7
    at.kernel.put("sys/class/thermal/cooling_device0/cur_state", "1")
    slowing = at.kernel.read("sys/class/thermal/cooling_device0/type")
    assert telemetry.read()["throttling_now"] == {"devices": slowing}
