"""The memory clock: found where each generation has it, believed only when it holds, its cap put back."""

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.emc import find_emc
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import KernelFiles
from fakes.guardian_calls import apply_line, guard, request_line

BPMP = "sys/kernel/debug/bpmp/debug"
LOCK = f"{BPMP}/clk/emc/mrq_rate_locked"
RATE = f"{BPMP}/clk/emc/rate"
HALT = f"{BPMP}/bwmgr/bwmgr_halt"
CLK_CAP = "sys/kernel/nvpmodel_clk_cap/emc"
ISO_CAP = "sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
OVERRIDE = "sys/kernel/debug/clk/override.emc"


@pytest.mark.parametrize(
    ("board", "kernel", "files"),
    [
        ("jetson-nano", "4.9", {f"{OVERRIDE}/clk_update_rate", f"{OVERRIDE}/clk_state", ISO_CAP}),
        ("jetson-tx2", "4.9", {RATE, LOCK, f"{BPMP}/clk/emc/state", HALT, ISO_CAP}),
        ("jetson-agx-orin-64gb", "5.10", {RATE, LOCK, f"{BPMP}/clk/emc/state", HALT, ISO_CAP}),
        ("jetson-agx-orin-64gb", "6.8", {RATE, LOCK, f"{BPMP}/clk/emc/state", HALT, CLK_CAP}),
        ("jetson-agx-thor", "6.8", {f"sys/class/devfreq/bwmgr/{end}_freq" for end in ("min", "max")} | {CLK_CAP}),
    ],
)
def test_each_generation_has_its_own_files(bench, board, kernel, files):
    assert set(find_emc(bench(board, kernel=kernel).kernel).settable) == files


@pytest.mark.parametrize(
    ("board", "kernel"), [("jetson-nano", "4.9"), ("jetson-orin-nano-8gb", "5.15"), ("jetson-agx-thor", "6.8")]
)
def test_every_rate_is_held_and_read_back_in_any_order(bench, board, kernel):
    at = bench(board, kernel=kernel)
    found = at.control.snapshot()
    rates = at.control.space.knobs["mem_mhz"]
    for mhz in (*rates, *reversed(rates)):
        assert at.control.apply(Mode(mem_mhz=mhz), found).mem_mhz == mhz
    assert at.control.restore(found) == []
    assert at.control.read().mem_mhz is None
    assert at.differences() == {}


def test_where_a_lock_alone_does_not_hold_the_firmware_is_halted_and_let_go_again(bench):
    at = bench()
    found = at.control.snapshot()
    at.kernel.fail_at(2, "ignored")
    assert at.control.apply(Mode(mem_mhz=665.6), found).mem_mhz == 665.6
    assert at.kernel.writes == [(LOCK, "1"), (RATE, "665600000"), (HALT, "1"), (RATE, "665600000")]
    at.put_back(found)


def test_a_rate_that_the_firmware_ignores_is_reported_and_unlocked(bench):
    at = bench(bpmp_ignores=True)
    found = at.control.snapshot()
    with pytest.raises(DeviceError, match=r"clk/emc/rate was set to 2133000000 but .*/rate reads 204000000: ignored"):
        at.control.apply(Mode(mem_mhz=2133.0), found)
    assert at.differences() == {}


def test_a_rate_that_drifts_off_within_a_second_is_reported_and_unlocked(bench):
    at = bench(emc_drifts=True)
    found = at.control.snapshot()
    with pytest.raises(DeviceError, match=r"rate reads 204000000: it drifted off after 0\.2 s"):
        at.control.apply(Mode(mem_mhz=2133.0), found)
    assert at.kernel.read(LOCK) == "0"
    assert at.differences() == {}


@pytest.mark.parametrize(("kernel", "cap"), [("5.10", ISO_CAP), ("5.15", CLK_CAP)])
def test_beyond_the_caps_the_cap_is_raised_first_and_lowered_again(bench, kernel, cap):
    at = bench("jetson-orin-nano-8gb", kernel=kernel, super_dt=True, mode="15W")
    assert at.kernel.read(cap) == "2133000000"
    found = at.control.snapshot()
    at.control.apply(Mode(mem_mhz=3199.0), found)
    assert at.kernel.writes[:2] == [(cap, "3199000000"), (LOCK, "1")]
    at.control.apply(Mode(mem_mhz=665.6), found)
    assert at.kernel.read(cap) == "2133000000"
    at.control.apply(Mode(mem_mhz=3199.0), found)
    at.put_back(found)


def test_rates_above_the_cap_that_the_kernel_holds_are_not_on_offer(bench):
    at = bench(
        "jetson-orin-nano-8gb", kernel="5.15", super_dt=True, mode="MAXN_SUPER", int_max_caps=True, beyond_caps=False
    )
    at.kernel.put(CLK_CAP, 2133000000)
    assert at.open(caps={"mem_mhz": 3199.0}).space.knobs["mem_mhz"] == (204.0, 665.6, 2133.0)


def test_an_iso_cap_of_0_is_no_cap_and_is_put_back(bench):
    at = bench("jetson-agx-xavier", kernel="5.10", mode="MAXN", beyond_caps=False)
    assert at.control.space.knobs["mem_mhz"][-1] == 2133.0
    found = at.control.snapshot()
    assert found[ISO_CAP] == "0"
    at.kernel.write(ISO_CAP, "1600000000")  # nvpmodel, in the middle of a run
    assert at.control.restore(found) == []
    assert at.kernel.read(ISO_CAP) == "0"


@pytest.mark.parametrize("value", ["0", "-1"])
def test_0_and_minus_1_are_never_written_to_the_cap_of_jetpack_6(bench, value):
    at = bench(kernel="5.15")
    found = at.control.snapshot()
    wrong = at.control.restore(found | {CLK_CAP: value})
    assert len(wrong) == 1
    assert f"never set to {value}" in wrong[0]
    assert not [write for write in at.kernel.writes if write[0] == CLK_CAP]
    with pytest.raises(DeviceError, match=f"never set to {value}"):
        at.control.apply(Mode(mem_mhz=665.6), found | {CLK_CAP: value})


def test_a_cap_that_the_firmware_refuses_is_reported_and_everything_is_put_back(bench):
    at = bench("jetson-orin-nano-8gb", kernel="5.15", super_dt=True, mode="15W", cap_refused=True)
    at.kernel.put(CLK_CAP, 2133000000)
    at.before = at.kernel.settings()
    found = at.control.snapshot()
    with pytest.raises(DeviceError, match=r"clk_cap/emc refused 3199000000"):
        at.control.apply(Mode(mem_mhz=3199.0), found)
    at.put_back(found)


@pytest.mark.parametrize("board", ["jetson-nano", "jetson-orin-nano-8gb"])
def test_a_memory_clock_that_somebody_locked_is_locked_again_at_their_rate(bench, board):
    at = bench(board)
    low, high = at.control.space.knobs["mem_mhz"][0], at.control.space.knobs["mem_mhz"][-1]
    at.control.apply(Mode(mem_mhz=high), at.control.snapshot())  # as jetson_clocks leaves it
    at.before = at.kernel.settings()
    control = at.open()
    found = control.snapshot()
    assert control.read().mem_mhz == high
    control.apply(Mode(mem_mhz=low), found)
    assert control.restore(found) == []
    assert control.read().mem_mhz == high
    assert at.differences() == {}
    at.kernel.power_cut()
    assert at.open().restore(found) == []
    assert at.control.read().mem_mhz == high


@pytest.mark.parametrize("board", ["jetson-nano", "jetson-orin-nano-8gb", "jetson-agx-thor"])
def test_a_memory_clock_left_in_place_twice_moves_again_once_that_is_undone(bench, board):
    at = bench(board)
    low, high = at.control.space.knobs["mem_mhz"][0], at.control.space.knobs["mem_mhz"][-1]
    for mhz in (high, low):  # the second finds a locked rate, which the first did not
        lines = apply_line(1, mem_mhz=mhz), request_line(2, "keep")
        assert guard(at.open(), at.kernel.root, *lines).code == 0
        assert at.open().read().mem_mhz == mhz
    outcome = guard(at.open(), at.kernel.root, only_restore=True)
    assert (outcome.code, outcome.errors) == (0, "")
    assert at.differences() == {}


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({"debugfs": "unmounted"}, "mount -t debugfs none /sys/kernel/debug"),
        ({"debugfs": "locked"}, "operation not permitted"),
        ({"user": "user"}, "permission denied; debugfs needs root"),
    ],
)
@pytest.mark.parametrize("board", ["jetson-nano", "jetson-orin-nano-8gb"])
def test_without_debugfs_the_memory_clock_is_fixed_with_the_remedy(bench, board, behaviour, reason):
    at = bench(board, **behaviour)
    assert reason in at.control.space.fixed["mem_mhz"]
    assert at.control.read().mem_mhz is None


@pytest.mark.parametrize("listed", ["1 204000 600\n2 2133000 700", "1 204000000 600\n2 2133000000 700"])
def test_rates_of_thor_are_column_2_of_the_firmwares_table_in_khz_or_hz(bench, listed):
    at = bench("jetson-agx-thor")
    at.kernel.put(f"{BPMP}/clk/emc/dvfs", f"# rate uv\n{listed}")
    assert find_emc(at.kernel).table == (204_000_000, 2_133_000_000)


def test_an_orin_under_jetpack_7_is_held_by_the_lock_although_it_has_a_bwmgr(bench):
    at = bench("jetson-agx-orin-64gb", kernel="6.8")
    for end, hz in [("min", 204_000_000), ("max", 3_199_000_000)]:
        at.kernel.put(f"sys/class/devfreq/bwmgr/{end}_freq", hz)
    at.kernel.put("sys/class/devfreq/bwmgr/available_frequencies", "204000000 3199000000")
    assert LOCK in find_emc(at.kernel).settable


def test_a_thor_whose_memory_has_no_upper_limit_says_so_and_is_held_by_the_firmware(tmp_path):
    sysfs = KernelFiles(tmp_path)
    for name, text in {"min_freq": 665_600_000, "cur_freq": 665_600_000, "available_frequencies": ""}.items():
        sysfs.put(f"sys/class/devfreq/bwmgr/{name}", text)
    sysfs.put("sys/class/devfreq/gpu-gpc-0/available_frequencies", 315_000_000)
    assert find_emc(sysfs) == "/sys/class/devfreq/bwmgr lacks max_freq"
    folder = "sys/kernel/debug/bpmp/debug/clk/emc"
    sysfs.put(f"{folder}/dvfs_table", "vdd_core 665600000 600000\nvdd_core 4266000000 900000")
    sysfs.put(f"{folder}/rate", 665_600_000)
    sysfs.put(f"{folder}/mrq_rate_locked", 0)
    assert find_emc(sysfs).table == (665_600_000, 4_266_000_000)
