"""The CPU clock: set in an order the kernel accepts, verified, and put back as it was found."""

import errno

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.cpufreq import HostControl
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import KernelFiles
from fakes.sysfs import RK3588, add_cpufreq

POLICY = "sys/devices/system/cpu/cpufreq/policy0"


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def limits(sysfs, policy=POLICY):
    return [int(sysfs.read(f"{policy}/scaling_{end}_freq")) for end in ("min", "max")]


def choices(sysfs):
    return HostControl(sysfs).space.knobs["cpu_mhz"]


def reason(sysfs):
    return HostControl(sysfs).space.fixed["cpu_mhz"]


def test_choices_without_a_list_are_steps_between_the_ends(sysfs):
    add_cpufreq(sysfs, {0: (750_000, 1_030_000)})
    sysfs.remove(f"{POLICY}/scaling_available_frequencies")
    assert choices(sysfs) == (750.0, 800.0, 900.0, 1000.0, 1030.0)


def test_clamped_value_is_an_error(sysfs):
    add_cpufreq(sysfs)
    cpu = HostControl(sysfs)
    sysfs.answer(f"{POLICY}/scaling_max_freq", lambda value: str(max(int(value), 1_600_000)))
    with pytest.raises(DeviceError, match="reads back"):
        cpu.apply(Mode(cpu_mhz=800), {})


def test_refused_value_names_the_reason(sysfs):
    add_cpufreq(sysfs)
    cpu = HostControl(sysfs)
    sysfs.deny_writing(f"{POLICY}/scaling_max_freq", errno.EBUSY)
    with pytest.raises(DeviceError, match="busy"):
        cpu.apply(Mode(cpu_mhz=800), {})


def test_read_only_is_a_reason(sysfs):
    add_cpufreq(sysfs)
    sysfs.deny_writing(f"{POLICY}/scaling_min_freq")
    assert "root" in reason(sysfs)


def test_foreign_content_is_a_reason(sysfs):
    add_cpufreq(sysfs)
    sysfs.put(f"{POLICY}/scaling_min_freq", "<unsupported>")
    assert "cannot be read" in reason(sysfs)


def test_a_clock_is_that_of_the_fastest_cluster_and_others_run_at_their_nearest_below(sysfs):
    add_cpufreq(sysfs, RK3588)
    cpu = HostControl(sysfs)
    assert cpu.space.knobs["cpu_mhz"] == (1200.0, 1608.0, 2400.0)
    assert "policy0 with other clocks" in cpu.space.limited["cpu_mhz"]
    slow, fast, fast_too = (f"{POLICY[:-1]}{number}" for number in RK3588)
    found = cpu.snapshot()
    for mhz, share in ((2400, 1_800_000), (1608, 1_416_000), (1200, 1_008_000)):
        assert cpu.apply(Mode(cpu_mhz=mhz), found) == Mode(cpu_mhz=mhz)
        assert limits(sysfs, fast) == limits(sysfs, fast_too) == [mhz * 1000] * 2
        assert limits(sysfs, slow) == [share] * 2
    sysfs.put(f"{slow}/scaling_max_freq", 1_800_000)
    assert cpu.read() == Mode()
    assert cpu.restore(found) == []
    assert (limits(sysfs, slow), limits(sysfs, fast)) == ([1_008_000, 1_800_000], [1_200_000, 2_400_000])


def test_an_entry_that_stands_for_boost_clocks_is_not_on_offer(sysfs):
    add_cpufreq(sysfs, boost=1)
    space = HostControl(sysfs).space
    assert space.knobs["cpu_mhz"] == (800.0, 1600.0)
    assert "2400 MHz stands for any boost clock" in space.limited["cpu_mhz"]
    assert set(space.withheld) == {"max"}
    sysfs.put("sys/devices/system/cpu/cpufreq/boost", 0)
    assert choices(sysfs) == (800.0, 1600.0, 2400.0)


@pytest.mark.parametrize(("file", "value"), [("max_perf_pct", 70), ("no_turbo", 1)])
def test_clocks_that_intel_pstate_never_runs_at_are_not_on_offer(sysfs, file, value):
    add_cpufreq(sysfs)
    sysfs.put(f"{POLICY}/base_frequency", 1_700_000)
    sysfs.put(f"sys/devices/system/cpu/intel_pstate/{file}", value)
    space = HostControl(sysfs).space
    assert space.knobs["cpu_mhz"] == (800.0, 1600.0)
    assert file in space.limited["cpu_mhz"]
