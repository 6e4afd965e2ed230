"""The host as a device: on a fake kernel with everything, with nothing, and this machine as it is."""

import os
import subprocess
import sys

import pytest

from contracts.device_contract import DeviceContract
from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent, ModeControl
from edgetune.devices.host import host_device, open_host
from edgetune.testing.fake_files import KernelFiles
from fakes.sysfs import RK3588, add_cpufreq, add_rapl


@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    return KernelFiles(tmp_path)


class TestThisMachine(DeviceContract):
    @pytest.fixture
    def device(self):
        return open_host()


class TestMachineWithEverything(DeviceContract):
    @pytest.fixture
    def device(self, sysfs):
        add_cpufreq(sysfs, RK3588, boost=1)
        add_rapl(sysfs, ["package-0-die-0", "package-0-die-1"], memory=True, mirrored=True)
        sysfs.put("sys/class/thermal/thermal_zone0/temp", 40_000)
        sysfs.put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", 0)
        return host_device(sysfs)


def modes(device) -> ModeControl:
    assert not isinstance(device.modes, Absent)
    return device.modes


def test_bare_machine_offers_cores_and_says_what_is_missing(sysfs):
    device = host_device(sysfs)
    space = modes(device).space
    assert space.knobs == {"cpu_cores": (1.0, 2.0, 3.0, 4.0)}
    assert "cpufreq" in space.fixed["cpu_mhz"]
    assert isinstance(device.power, Absent)
    assert device.source.ort_providers == ("CPUExecutionProvider",)
    assert not device.simulated


@pytest.mark.parametrize(
    ("clusters", "mhz"), [(RK3588, 2400), ({0: (800_000, 5_400_000), 12: (800_000, 4_100_000)}, 5400)]
)
@pytest.mark.parametrize("listed", [True, False])
def test_max_is_the_highest_clock_of_the_fastest_cluster(sysfs, clusters, mhz, listed):
    add_cpufreq(sysfs, clusters)
    for path in [] if listed else sysfs.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_available_frequencies"):
        sysfs.remove(path)
    control = modes(host_device(sysfs))
    assert control.space.presets["max"] == Mode(cpu_cores=4, cpu_mhz=mhz)
    assert control.apply(control.space.presets["max"]).cpu_mhz == mhz


def test_cores_and_clock_are_set_and_put_back(sysfs):
    add_cpufreq(sysfs)
    control = modes(host_device(sysfs))
    assert control.apply(Mode(cpu_cores=2, cpu_mhz=1600)) == Mode(cpu_cores=2, cpu_mhz=1600)
    control.restore()
    assert control.apply(Mode(cpu_cores=2)) == Mode(cpu_cores=2, cpu_mhz=None)


@pytest.mark.parametrize("unreadable", [False, True])
def test_a_clock_that_cannot_be_set_is_no_knob_of_the_mode(sysfs, unreadable):
    add_cpufreq(sysfs)
    policy = "sys/devices/system/cpu/cpufreq/policy0"
    sysfs.put(f"{policy}/scaling_min_freq", "<unsupported>" if unreadable else 2_400_000)
    sysfs.deny_writing(f"{policy}/scaling_max_freq")
    control = modes(host_device(sysfs))
    assert "cpu_mhz" in control.space.fixed
    assert control.apply(Mode(cpu_cores=2)) == control.read() == Mode(cpu_cores=2)


def test_drift_is_seen_when_another_program_sets_the_clock(sysfs):
    add_cpufreq(sysfs)
    control = modes(host_device(sysfs))
    control.apply(Mode(cpu_cores=4, cpu_mhz=800))
    sysfs.put("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", 2_400_000)
    assert control.read() == Mode(cpu_cores=4, cpu_mhz=None)


def test_opening_it_imports_no_heavy_library():
    program = (
        "import sys; from edgetune.devices.host import open_host; open_host();"
        "print([m for m in ('torch', 'onnxruntime', 'onnx', 'numpy', 'pyarrow', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
