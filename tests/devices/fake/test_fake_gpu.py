"""The fake GPU: where each release has it, and what its devfreq folder, its masks and its power switch answer."""

import errno

import pytest

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock

ORIN = "jetson-agx-orin-64gb"
ORIN_GPU = "sys/class/devfreq/17000000.ga10b"
TX2_GPU = "sys/class/devfreq/17000000.gp10b"
DEVICE = "sys/devices/platform/gpu.0"


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def limits(kernel, folder):
    return tuple(int(kernel.read(f"{folder}/{end}_freq")) for end in ("min", "max"))


PLACES = {
    ("jetson-nano", "4.9"): ["sys/class/devfreq/57000000.gpu", "sys/devices/gpu.0/devfreq/57000000.gpu"],
    ("jetson-tx2", "4.9"): [TX2_GPU, "sys/devices/17000000.gp10b/devfreq/17000000.gp10b"],
    ("jetson-agx-xavier", "4.9"): ["sys/devices/17000000.gv11b/devfreq/17000000.gv11b"],
    ("jetson-xavier-nx", "5.10"): ["sys/devices/17000000.gv11b/devfreq_dev", "sys/class/devfreq/17000000.gv11b"],
    (ORIN, "5.10"): ["sys/devices/17000000.ga10b/devfreq/17000000.ga10b", "sys/devices/17000000.ga10b/devfreq_dev"],
    (ORIN, "5.15"): [
        "sys/class/devfreq/17000000.gpu",
        "sys/devices/platform/17000000.gpu/devfreq_dev",
        "sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu",
    ],
    ("jetson-orin-nano-8gb", "6.8"): ["sys/class/devfreq/17000000.gpu"],
    ("jetson-agx-thor", "6.8"): ["sys/class/devfreq/gpu-gpc-0", "sys/class/devfreq/gpu-nvd-0"],
}  # fmt: skip


@pytest.mark.parametrize(("board", "places"), PLACES.items(), ids=str)
def test_the_gpu_is_where_each_release_has_it(as_released, board, places):
    kernel = as_released(*board)
    for place in places:
        assert kernel.read(f"{place}/available_frequencies")


@pytest.mark.parametrize("name", board_names())
@pytest.mark.parametrize("newest", [False, True])
def test_it_is_found_by_the_node_of_the_device_tree_and_offers_the_table(as_released, name, newest):
    board = load_board(name)
    kernel = as_released(name, board.kernels[-1 if newest else 0])
    named = {
        path: (kernel.root / path / "device/of_node/compatible").read_bytes()
        for path in kernel.glob("sys/class/devfreq/*")
        if "bwmgr" not in path
    }
    gpus = [path for path, text in named.items() if text == f"nvidia,{board.gpu_name}\0".encode()]
    assert len(gpus) == (2 if name == "jetson-agx-thor" else 1)
    assert len(named) == len(gpus) + 1  # and one that is none
    raw = (kernel.root / gpus[0] / "available_frequencies").read_text()
    assert raw == " ".join(str(khz * 1000) for khz in kernel.board.gpu_khz) + "\n"


def test_the_two_tables_of_an_agx_orin(tmp_path):
    old = make_board(tmp_path / "old", ORIN, kernel="5.10", gpu_table=0)
    new = make_board(tmp_path / "new", ORIN, kernel="5.10", gpu_table=1)
    assert [len(k.read(f"{ORIN_GPU}/available_frequencies").split()) for k in (old, new)] == [13, 11]
    assert (old.board.l4t, new.board.l4t) == ("35.1.0", "35.4.1")


def test_on_4_9_limits_may_not_cross_and_clamp_to_the_table(tmp_path):
    kernel = make_board(tmp_path, "jetson-tx2")
    first, last = kernel.board.gpu_khz[0] * 1000, kernel.board.gpu_khz[-1] * 1000
    kernel.write(f"{TX2_GPU}/max_freq", "675750000")
    assert error_of(kernel.write, f"{TX2_GPU}/min_freq", "675750001") == "EINVAL"
    kernel.write(f"{TX2_GPU}/min_freq", "675750000")
    assert error_of(kernel.write, f"{TX2_GPU}/max_freq", "586500000") == "EINVAL"
    kernel.write(f"{TX2_GPU}/min_freq", "1")
    kernel.write(f"{TX2_GPU}/max_freq", "9000000000")
    assert limits(kernel, TX2_GPU) == (first, last)
    kernel.write(f"{TX2_GPU}/min_freq", "0")
    assert limits(kernel, TX2_GPU) == (first, last)


def test_on_4_9_a_maximum_of_0_is_kept(tmp_path):
    kernel = make_board(tmp_path, "jetson-tx2")
    kernel.write(f"{TX2_GPU}/max_freq", "0")
    assert kernel.read(f"{TX2_GPU}/max_freq") == "0"


def test_later_the_maximum_wins_and_the_request_is_remembered(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10")
    kernel.write(f"{ORIN_GPU}/min_freq", "1032750000")
    kernel.write(f"{ORIN_GPU}/max_freq", "522750000")
    assert limits(kernel, ORIN_GPU) == (522_750_000, 522_750_000)
    kernel.write(f"{ORIN_GPU}/max_freq", "1300500000")
    assert limits(kernel, ORIN_GPU) == (1_032_750_000, 1_300_500_000)
    for end in ("min", "max"):
        kernel.write(f"{ORIN_GPU}/{end}_freq", "0")  # no limit
    assert limits(kernel, ORIN_GPU) == (114_750_000, 1_300_500_000)


def test_later_limits_are_kept_in_khz(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10")
    kernel.write(f"{ORIN_GPU}/min_freq", "522750001")
    kernel.write(f"{ORIN_GPU}/max_freq", "624750001")
    assert limits(kernel, ORIN_GPU) == (522_750_000, 624_751_000)


@pytest.mark.parametrize("name", ["jetson-tx2", ORIN])
def test_what_is_no_number_is_refused(tmp_path, name):
    kernel = make_board(tmp_path, name)
    folder = TX2_GPU if name == "jetson-tx2" else ORIN_GPU
    assert error_of(kernel.write, f"{folder}/max_freq", "-1") == "EINVAL"
    assert error_of(kernel.write, f"{folder}/governor", "turbo") == "EINVAL"


def test_the_clock_follows_governor_load_and_limits(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10")
    assert kernel.read(f"{ORIN_GPU}/governor") == "nvhost_podgov"
    assert kernel.read(f"{ORIN_GPU}/cur_freq") == "114750000"
    kernel.work(gpu=0.87)
    assert kernel.read(f"{ORIN_GPU}/cur_freq") == "1300500000"
    assert kernel.read(f"{DEVICE}/load") == "870"
    kernel.write(f"{ORIN_GPU}/max_freq", "624750000")
    assert kernel.read(f"{ORIN_GPU}/cur_freq") == "624750000"
    kernel.write(f"{ORIN_GPU}/min_freq", "624750000")
    kernel.work()
    assert kernel.read(f"{ORIN_GPU}/cur_freq") == "624750000"


def test_the_userspace_governor_brings_its_file(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10")
    chosen = f"{ORIN_GPU}/userspace/set_freq"
    assert error_of(kernel.write, chosen, "522750000") == "ENOENT"
    kernel.write(f"{ORIN_GPU}/governor", "userspace")
    kernel.write(chosen, "522750000")
    assert kernel.read(f"{ORIN_GPU}/cur_freq") == "522750000"
    kernel.write(f"{ORIN_GPU}/governor", "nvhost_podgov")
    assert error_of(kernel.read, chosen) == "ENOENT"


@pytest.mark.parametrize(("asleep", "reading"), [("min", "114750000"), ("zero", "0"), ("error", "EINVAL")])
def test_a_sleeping_gpu(tmp_path, asleep, reading):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", gpu_asleep=asleep)
    assert kernel.read(f"{DEVICE}/power/runtime_status") == "suspended"
    if asleep == "error":
        assert error_of(kernel.read, f"{ORIN_GPU}/cur_freq") == reading
    else:
        assert kernel.read(f"{ORIN_GPU}/cur_freq") == reading
    kernel.write(f"{DEVICE}/power/control", "on")
    assert kernel.read(f"{DEVICE}/power/runtime_status") == "active"
    assert kernel.read(f"{ORIN_GPU}/cur_freq") == "114750000"
    assert error_of(kernel.write, f"{DEVICE}/power/control", "off") == "EINVAL"


@pytest.mark.parametrize(("path", "value"), [("railgate_enable", "0"), ("power/control", "on")])
def test_a_late_node_comes_once_the_gpu_was_powered(tmp_path, path, value):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", gpu_node="late")
    assert error_of(kernel.read, f"{ORIN_GPU}/max_freq") == "ENOENT"
    kernel.write(f"{DEVICE}/{path}", value)
    assert limits(kernel, ORIN_GPU) == (114_750_000, 1_300_500_000)


def test_a_node_may_be_absent(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", gpu_node="absent")
    kernel.write(f"{DEVICE}/power/control", "on")
    assert kernel.glob("sys/class/devfreq/*") == ["sys/class/devfreq/15340000.vic"]


def test_a_platform_may_not_switch_it_off(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", railgate=False)
    kernel.write(f"{DEVICE}/railgate_enable", "0")  # nothing changes: no error
    assert error_of(kernel.write, f"{DEVICE}/railgate_enable", "1") == "EINVAL"


@pytest.mark.parametrize(
    ("name", "release", "answer"), [(ORIN, "5.10", "EBUSY"), ("jetson-agx-xavier", "4.9", "ENODEV")]
)
def test_masks_are_fixed_once_a_context_exists(tmp_path, name, release, answer):
    kernel = make_board(tmp_path, name, kernel=release, mode="MAXN")
    path = "sys/devices/gpu.0/tpc_pg_mask"
    other = {"5.10": "248", "4.9": "5"}[release]
    kernel.write(path, "0")
    assert error_of(kernel.write, path, other) == answer
    assert error_of(kernel.write, path, "7") == "EINVAL"
    assert error_of(kernel.write, path, "0xf8") == "EINVAL"
    assert kernel.read(path) == "0"


def test_masks_can_be_changed_before(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", golden_context=False)
    kernel.write(f"{DEVICE}/tpc_pg_mask", "248")
    assert kernel.read(f"{DEVICE}/tpc_pg_mask") == "248"


def test_orin_nx_has_a_second_mask_and_jetpack_7_no_3d_scaling(tmp_path):
    kernel = make_board(tmp_path / "nx", "jetson-orin-nx-16gb", kernel="6.8")
    assert kernel.read(f"{DEVICE}/fbp_pg_mask") == "2"
    assert error_of(kernel.read, f"{DEVICE}/enable_3d_scaling") == "ENOENT"
    assert make_board(tmp_path / "agx", ORIN).read(f"{DEVICE}/enable_3d_scaling") == "1"


def test_thor_has_two_domains_and_runtime_power_on_the_bus(tmp_path):
    kernel = make_board(tmp_path, "jetson-agx-thor", clock=FakeClock())
    listed = kernel.read("sys/class/devfreq/gpu-gpc-0/available_frequencies").split()
    assert (len(listed), listed[0], listed[-1]) == (170, "314000000", "1575000000")
    assert kernel.read("sys/bus/pci/devices/0000:01:00.0/power/control") == "auto"
    assert not (kernel.root / DEVICE).exists()
