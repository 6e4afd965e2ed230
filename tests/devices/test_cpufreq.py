"""The CPU clock: set in an order the kernel accepts, verified, and put back as it was found."""

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.cpufreq import HostControl
from edgetune.errors import DeviceError
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles
from fakes.sysfs import KHZ, RK3588, add_cpufreq

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


POLICIES = [f"sys/devices/system/cpu/cpufreq/policy{number}" for number in (0, 1)]


@pytest.fixture
def two(sysfs):
    add_cpufreq(sysfs, {0: KHZ, 1: KHZ})
    return sysfs


def linked(two, *, set_to):
    """Let a write of the second policy's lower limit change the first policy, as firmware with one clock does."""

    def keep(value):
        two.put(f"{POLICIES[0]}/scaling_min_freq", set_to)
        return value

    two.answer(f"{POLICIES[1]}/scaling_min_freq", keep)


def test_a_clock_that_a_later_write_changes_is_an_error(two):
    control = HostControl(two)
    found = control.snapshot()
    linked(two, set_to=800_000)
    with pytest.raises(DeviceError, match="the CPU clock was set to 1600 MHz but reads back a range"):
        control.apply(Mode(cpu_mhz=1600), found)


def test_a_limit_that_a_later_write_changes_is_not_restored(two):
    control = HostControl(two)
    found = control.snapshot()
    control.apply(Mode(cpu_mhz=1600), found)
    linked(two, set_to=1_600_000)
    (told,) = control.restore(found)
    assert told == f"/{POLICIES[0]} is not put back to 800000 and 2400000: it reads back 1600000..2400000"


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"sys/power/state": "mem"},
        {f"{POLICIES[0]}/scaling_min_freq": "800000"},
        {f"{POLICIES[0]}/scaling_min_freq": "fast", f"{POLICIES[0]}/scaling_max_freq": "800000"},
        {"sys/policy9/scaling_min_freq": "800000", "sys/policy9/scaling_max_freq": "800000"},
    ],
)
def test_what_no_snapshot_of_it_says_is_never_written(two, found):
    told = HostControl(two).restore(found)
    assert len(told) == (1 if found else 0)
    assert two.writes == []


def test_without_cpufreq_there_is_nothing_to_set_and_nothing_to_put_back(tmp_path):
    control = HostControl(KernelFiles(tmp_path))
    assert "offers no cpufreq" in control.space.fixed["cpu_mhz"]
    with pytest.raises(DeviceError, match="host cannot set cpu_mhz: this kernel offers no cpufreq"):
        control.apply(Mode(cpu_mhz=1600), {})
    assert (control.read(), control.snapshot(), control.restore({})) == (Mode(), {}, [])


def test_what_was_found_before_cpufreq_went_away_is_told(two, tmp_path):
    told, _ = HostControl(KernelFiles(tmp_path / "other")).restore(HostControl(two).snapshot())
    assert told.startswith(f"/{POLICIES[0]} is not put back to 800000 and 2400000: this kernel offers no cpufreq")


def test_the_clock_of_a_jetson_is_left_to_the_guardian_of_the_board(tmp_path):
    kernel = make_board(tmp_path, "jetson-orin-nano-8gb")
    control, before = HostControl(kernel), kernel.settings()
    assert "--device jetson" in control.space.fixed["cpu_mhz"]
    policy = f"{POLICIES[0]}/scaling"
    assert len(control.restore({f"{policy}_min_freq": "729600", f"{policy}_max_freq": "729600"})) == 1
    assert kernel.settings() == before
