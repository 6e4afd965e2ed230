"""The fake memory clock: caps, locks, and firmware that ignores what it does not like while the write succeeds."""

import errno

import pytest

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock
from edgetune.testing.fake_kernel import FakeKernel

ORIN = "jetson-agx-orin-64gb"
EMC = "sys/kernel/debug/bpmp/debug/clk/emc"
HALT = "sys/kernel/debug/bpmp/debug/bwmgr/bwmgr_halt"
ISO_CAP = "sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
CLK_CAP = "sys/kernel/nvpmodel_clk_cap/emc"
T210 = "sys/kernel/debug/clk/override.emc"
BWMGR = "sys/class/devfreq/bwmgr"
RELEASES = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def hold(kernel, hz):
    kernel.write(f"{EMC}/mrq_rate_locked", "1")
    kernel.write(f"{EMC}/rate", str(hz))
    return int(kernel.read(f"{EMC}/rate"))


@pytest.mark.parametrize(("name", "release"), RELEASES)
def test_each_generation_has_its_files(as_released, name, release):
    kernel = as_released(name, release)
    newer = release in ("5.15", "6.8")
    assert kernel.writable(CLK_CAP) == newer
    assert kernel.writable(ISO_CAP) != newer
    assert kernel.writable(f"{EMC}/rate") == (name != "jetson-nano")
    assert kernel.writable(f"{T210}/clk_update_rate") == (name == "jetson-nano")
    assert (kernel.root / BWMGR / "cur_freq").exists() == (release == "6.8")
    assert kernel.writable(f"{BWMGR}/max_freq") == (name == "jetson-agx-thor")


def test_rates_are_listed_in_khz_with_a_unit(tmp_path):
    kernel = make_board(tmp_path, "jetson-orin-nano-8gb")
    assert kernel.read("sys/kernel/debug/bpmp/debug/emc/possible_rates") == "204000 665600 2133000 (kHz)"
    assert [kernel.read(f"{EMC}/{end}_rate") for end in ("min", "max")] == ["204000000", "2133000000"]


def test_thor_lists_them_in_column_2_of_another_file(tmp_path):
    kernel = make_board(tmp_path, "jetson-agx-thor")
    rows = [line.split() for line in kernel.read(f"{EMC}/dvfs").splitlines()]
    assert [row[1] for row in rows if row[0].isdecimal()] == ["665600000", "2750000000", "3200000000", "4266000000"]
    assert error_of(kernel.read, "sys/kernel/debug/bpmp/debug/emc/possible_rates") == "ENOENT"


def test_a_rate_is_held_only_under_lock(tmp_path):
    kernel = make_board(tmp_path, ORIN)
    kernel.write(f"{EMC}/rate", "665600000")
    assert kernel.read(f"{EMC}/rate") == "204000000"
    assert hold(kernel, 665_600_000) == 665_600_000
    kernel.work(gpu=1)
    assert kernel.read(f"{EMC}/rate") == "665600000"
    kernel.write(f"{EMC}/mrq_rate_locked", "0")
    assert kernel.read(f"{EMC}/rate") == "3199000000"
    kernel.work()
    assert kernel.read(f"{EMC}/rate") == "204000000"


@pytest.mark.parametrize("value", ["800000000", "665600001", "4266000000", "0", "fast", "-1"])
def test_what_the_firmware_does_not_like_succeeds_without_effect(tmp_path, value):
    kernel = make_board(tmp_path, ORIN)
    hold(kernel, 665_600_000)
    kernel.write(f"{EMC}/rate", value)
    assert kernel.read(f"{EMC}/rate") == "665600000"


def test_a_rate_above_the_cap_is_ignored(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10")
    kernel.write(ISO_CAP, "2133000000")
    assert hold(kernel, 3_199_000_000) == 204_000_000
    kernel.write(ISO_CAP, "0")
    assert hold(kernel, 3_199_000_000) == 3_199_000_000


def test_firmware_that_ignores_everything(tmp_path):
    kernel = make_board(tmp_path, ORIN, bpmp_ignores=True)
    assert hold(kernel, 2_133_000_000) == 204_000_000


def test_firmware_that_wants_its_manager_halted(tmp_path):
    kernel = make_board(tmp_path, ORIN, bpmp_wants_halt=True)
    assert hold(kernel, 2_133_000_000) == 204_000_000
    kernel.write(HALT, "1")
    assert hold(kernel, 2_133_000_000) == 2_133_000_000


def test_a_rate_may_drift_off(tmp_path):
    clock = FakeClock()
    kernel = make_board(tmp_path, ORIN, clock=clock, emc_drifts=True)
    assert hold(kernel, 2_133_000_000) == 2_133_000_000
    clock.sleep_s(0.2)
    assert kernel.read(f"{EMC}/rate") == "2133000000"
    clock.sleep_s(0.2)
    assert kernel.read(f"{EMC}/rate") == "204000000"


def test_the_old_cap_keeps_what_is_written_and_0_is_none(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10")
    kernel.work(gpu=1)
    for value, rate in (("1500000000", "665600000"), ("0", "3199000000"), ("204000000", "204000000")):
        kernel.write(ISO_CAP, value)
        assert kernel.read(ISO_CAP) == value
        assert kernel.read(f"{EMC}/rate") == rate
    assert error_of(kernel.write, ISO_CAP, "max") == "EINVAL"


@pytest.mark.parametrize(
    ("value", "cap"),
    [
        ("3199000000", "3199000000"),
        ("2500000000", "2133000000"),
        ("2147483647", "2133000000"),
        (hex(665_600_000), "665600000"),
        ("9000000000", "3199000000"),
        ("0", "204000000"),
    ],
)
def test_the_new_cap_rounds_and_0_is_the_lowest_rate(tmp_path, value, cap):
    kernel = make_board(tmp_path, ORIN, kernel="5.15")
    kernel.work(gpu=1)
    kernel.write(CLK_CAP, value)
    assert kernel.read(CLK_CAP) == cap
    assert kernel.read(f"{EMC}/rate") == cap


@pytest.mark.parametrize("value", ["-1", "max", ""])
def test_the_new_cap_refuses_what_is_no_rate(tmp_path, value):
    kernel = make_board(tmp_path, ORIN, kernel="5.15")
    assert error_of(kernel.write, CLK_CAP, value) == "EINVAL"
    assert kernel.read(CLK_CAP) == "3199000000"


def test_firmware_may_refuse_a_cap_and_the_one_before_stays(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.15", cap_refused=True)
    assert error_of(kernel.write, CLK_CAP, "2133000000") == "EINVAL"
    assert kernel.read(CLK_CAP) == "3199000000"


def test_the_cap_may_be_missing(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.15", emc_cap=False)
    assert error_of(kernel.read, CLK_CAP) == "ENOENT"
    assert hold(kernel, 3_199_000_000) == 3_199_000_000


def test_a_board_may_boot_with_the_cap_that_minus_one_becomes(tmp_path):
    kernel = make_board(tmp_path, "jetson-orin-nano-8gb", kernel="5.15", super_dt=True, int_max_caps=True)
    assert kernel.board.mode == "MAXN_SUPER"
    assert kernel.read(CLK_CAP) == "2133000000"


def test_debugfs_may_not_be_mounted_or_locked(tmp_path):
    absent = make_board(tmp_path / "absent", ORIN, debugfs="unmounted")
    assert absent.glob("sys/kernel/debug/*") == []
    locked = make_board(tmp_path / "locked", ORIN, debugfs="locked")
    assert error_of(locked.read, f"{EMC}/rate") == "EPERM"
    assert error_of(locked.write, f"{EMC}/mrq_rate_locked", "1") == "EPERM"
    assert error_of(FakeKernel(locked.root).read, f"{EMC}/rate") == "EPERM"


def test_a_nano_overrides_its_clock(tmp_path):
    kernel = make_board(tmp_path, "jetson-nano")
    kernel.write(f"{T210}/clk_state", "1")
    kernel.write(f"{T210}/clk_update_rate", "1600000000")
    assert kernel.read(f"{T210}/clk_rate") == kernel.read("sys/kernel/debug/clk/emc/clk_rate") == "1600000000"
    kernel.write(f"{T210}/clk_state", "0")
    assert kernel.read(f"{T210}/clk_rate") == "204000000"
    assert [kernel.read(f"sys/kernel/debug/tegra_bwmgr/emc_{end}_rate") for end in ("min", "max")] == [
        "204000000", "1600000000",
    ]  # fmt: skip


def test_thor_bounds_its_memory_through_devfreq(tmp_path):
    kernel = make_board(tmp_path, "jetson-agx-thor")
    kernel.write(f"{BWMGR}/min_freq", "3200000000")
    kernel.write(f"{BWMGR}/max_freq", "3200000000")
    assert kernel.read(f"{BWMGR}/cur_freq") == kernel.read(f"{EMC}/rate") == "3200000000"
    kernel.write(f"{BWMGR}/min_freq", "0")
    assert kernel.read(f"{BWMGR}/cur_freq") == "665600000"
