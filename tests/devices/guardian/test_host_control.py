"""The host's clock under the guardian: on a fake kernel that refuses limits that cross."""

import errno

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.cpufreq import HostControl
from edgetune.errors import DeviceError
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles
from fakes.sysfs import KHZ, add_cpufreq

POLICIES = [f"sys/devices/system/cpu/cpufreq/policy{number}" for number in (0, 1)]


@pytest.fixture
def sysfs(tmp_path):
    fake = KernelFiles(tmp_path)
    add_cpufreq(fake, {0: KHZ, 1: KHZ})
    return fake


def limits(sysfs):
    return [sysfs.read(f"{policy}/scaling_{end}_freq") for policy in POLICIES for end in ("min", "max")]


def test_every_limit_is_in_the_snapshot(sysfs):
    assert HostControl(sysfs).snapshot() == {
        f"{policy}/scaling_{end}_freq": khz
        for policy in POLICIES
        for end, khz in (("min", "800000"), ("max", "2400000"))
    }


def test_a_clock_is_set_read_back_and_put_back(sysfs):
    control = HostControl(sysfs)
    found = control.snapshot()
    assert control.read() == Mode()
    assert control.apply(Mode(cpu_mhz=1600), found) == Mode(cpu_mhz=1600)
    assert control.apply(Mode(), found) == Mode()
    assert control.apply(Mode(cpu_mhz=800), found) == Mode(cpu_mhz=800)
    assert control.restore(found) == []
    assert control.restore(found) == []
    assert limits(sysfs) == ["800000", "2400000"] * 2


def test_what_cannot_be_put_back_is_reported(sysfs):
    control = HostControl(sysfs)
    found = control.snapshot()
    control.apply(Mode(cpu_mhz=1600), found)
    sysfs.deny_writing(f"{POLICIES[1]}/scaling_max_freq", errno.EBUSY)
    (told,) = control.restore(found)
    assert f"{POLICIES[1]}/scaling_max_freq refused 2400000: the device is busy" in told


def linked(sysfs, *, set_to):
    """Let a write of the second policy's lower limit change the first policy, as firmware with one clock does."""

    def keep(value):
        sysfs.put(f"{POLICIES[0]}/scaling_min_freq", set_to)
        return value

    sysfs.answer(f"{POLICIES[1]}/scaling_min_freq", keep)


def test_a_clock_that_a_later_write_changes_is_an_error(sysfs):
    control = HostControl(sysfs)
    found = control.snapshot()
    linked(sysfs, set_to=800_000)
    with pytest.raises(DeviceError, match="the CPU clock was set to 1600 MHz but reads back a range"):
        control.apply(Mode(cpu_mhz=1600), found)


def test_a_limit_that_a_later_write_changes_is_not_restored(sysfs):
    control = HostControl(sysfs)
    found = control.snapshot()
    control.apply(Mode(cpu_mhz=1600), found)
    linked(sysfs, set_to=1_600_000)
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
def test_what_no_snapshot_of_it_says_is_never_written(sysfs, found):
    told = HostControl(sysfs).restore(found)
    assert len(told) == (1 if found else 0)
    assert sysfs.writes == []


def test_without_cpufreq_there_is_nothing_to_set_and_nothing_to_put_back(tmp_path):
    control = HostControl(KernelFiles(tmp_path))
    assert "offers no cpufreq" in control.space.fixed["cpu_mhz"]
    with pytest.raises(DeviceError, match="host cannot set cpu_mhz: this kernel offers no cpufreq"):
        control.apply(Mode(cpu_mhz=1600), {})
    assert (control.read(), control.snapshot(), control.restore({})) == (Mode(), {}, [])


def test_what_was_found_before_cpufreq_went_away_is_told(sysfs, tmp_path):
    told, _ = HostControl(KernelFiles(tmp_path / "other")).restore(HostControl(sysfs).snapshot())
    assert told.startswith(f"/{POLICIES[0]} is not put back to 800000 and 2400000: this kernel offers no cpufreq")


def test_the_clock_of_a_jetson_is_left_to_the_guardian_of_the_board(tmp_path):
    kernel = make_board(tmp_path, "jetson-orin-nano-8gb")
    control, before = HostControl(kernel), kernel.settings()
    assert "--device jetson" in control.space.fixed["cpu_mhz"]
    policy = f"{POLICIES[0]}/scaling"
    assert len(control.restore({f"{policy}_min_freq": "729600", f"{policy}_max_freq": "729600"})) == 1
    assert kernel.settings() == before
