"""The fake nvpmodel and identity: the configuration's oddities, modes, the prompt, and what the board says it is."""

import re
import subprocess
import sys

import pytest

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.errors import InputError
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock
from edgetune.testing.fake_kernel import FakeKernel
from edgetune.testing.fake_nvpmodel import active

ORIN = "jetson-agx-orin-64gb"
RELEASES = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]
HIGH = "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"


def conf(kernel):
    return (kernel.root / "etc/nvpmodel.conf").read_text()


@pytest.mark.parametrize(("name", "release"), RELEASES)
def test_the_configuration_names_every_mode_and_paths_that_exist(as_released, name, release):
    kernel = as_released(name, release)
    text = conf(kernel)
    file = kernel.board.presets
    models = re.findall(r"< POWER_MODEL ID=(\d+) NAME=(\S+) >", text)
    assert models == [(str(preset.id), preset.name) for preset in file.modes]
    assert f"< PM_CONFIG DEFAULT={file.default_id} >" in text
    params = re.split(r"<\s?PARAM TYPE=\w+ NAME=", text.split("POWER_MODEL DEFINITIONS")[0])[1:]
    for param in params:
        paths = re.findall(r"^\w+ /(\S+)", param, re.MULTILINE)
        assert paths
        missing = param.startswith("VDDIN_OC_LIMIT") and release == "4.9"  # its driver is another there
        assert missing or any((kernel.root / path).exists() for path in paths), param


def test_every_value_of_the_configuration_belongs_to_a_parameter(tmp_path):
    kernel = make_board(tmp_path, "jetson-orin-nx-16gb", kernel="5.15", super_dt=True)
    names = set(re.findall(r"<\s?PARAM TYPE=\w+ NAME=(\w+)", conf(kernel)))
    used = re.findall(r"^(\w+)\s+\w+\s+(?:-?\d+|on|auto)", conf(kernel).split("POWER_MODEL DEF")[1], re.MULTILINE)
    assert used
    assert set(used) == names
    assert "CPU_A78_7" in names  # one clock for each core


@pytest.mark.parametrize(
    "oddity",
    [
        r"^<PARAM ",
        r"^< PARAM ",
        r"^GPU\tMIN_FREQ 0$",
        r"^GPU MAX_FREQ -1 # 1300500000\[Hz\]$",
        r"^\S+ TPC_PG_MASK  248$",
        r"^MAX_FREQ_KNEXT ",
    ],
)
def test_the_oddities_of_the_real_files(tmp_path, oddity):
    assert re.search(oddity, conf(make_board(tmp_path, ORIN)), re.MULTILINE)


def test_no_cap_is_0_until_jetpack_5_and_minus_one_later(tmp_path):
    old, new = (conf(make_board(tmp_path / kernel, ORIN, kernel=kernel)) for kernel in ("5.10", "5.15"))
    assert "EMC MAX_FREQ 0" in old
    assert "EMC MAX_FREQ -1" in new
    assert "EMC MAX_FREQ -1" not in old


def test_a_tx2_has_no_line_for_core_0_and_an_nx_has_current_limits(tmp_path):
    tx2 = conf(make_board(tmp_path / "tx2", "jetson-tx2"))
    assert "CPU_ONLINE CORE_0" not in tx2
    assert "CPU_ONLINE CORE_5 1" in tx2
    nx = make_board(tmp_path / "nx", "jetson-xavier-nx", kernel="5.10", mode="MODE_20W_6CORE")
    assert "WARN /sys/devices/platform/c250000.i2c/i2c-7/7-0040/hwmon curr1_max" in conf(nx)
    (limit,) = nx.glob("sys/devices/platform/c250000.i2c/i2c-7/7-0040/hwmon/hwmon*/curr1_max")
    assert nx.read(limit) == "4000"


def test_a_configuration_of_ones_own(tmp_path):
    kernel = make_board(tmp_path, ORIN, nvpmodel_conf="/sys/power/state 1")
    assert conf(kernel) == "/sys/power/state 1\n"


def test_the_status_file(tmp_path):
    new = make_board(tmp_path / "new", ORIN, mode="MODE_30W")
    assert (new.root / "var/lib/nvpmodel/status").read_text().strip() == "pmode:0002"
    old = make_board(tmp_path / "old", "jetson-nano", mode="5W")
    assert (old.root / "var/lib/nvpmodel/status").read_text().strip() == "pmode:0001 fmode:quiet"


def test_setting_a_mode_and_asking_for_it(tmp_path):
    kernel = make_board(tmp_path, ORIN, mode="MAXN", clock=FakeClock())
    assert kernel.nvpmodel("-m", "3") == (0, "")
    assert kernel.read(HIGH) == "1497600"
    assert kernel.read("sys/class/devfreq/17000000.ga10b/max_freq") == "828750000"
    assert kernel.nvpmodel("-q") == (0, "NVPM WARN: fan mode is not set!\nNV Power Mode: MODE_50W\n3\n")
    assert kernel.nvpmodel("-m", "9")[0] != 0
    kernel.power_cut()
    assert kernel.read(HIGH) == "1497600"  # the mode lies on the disk


def test_another_mask_needs_a_reboot(tmp_path):
    kernel = make_board(tmp_path, ORIN, mode="MAXN", clock=FakeClock())
    before = kernel.settings()
    code, text = kernel.nvpmodel("-m", "1", typed="no")
    assert code == 234
    assert "Reboot required for changing to this power mode: 1" in text
    assert kernel.settings() == before
    assert active(kernel, kernel.board).name == "MAXN"
    assert kernel.nvpmodel("-m", "1", typed="YES")[0] == 0
    assert kernel.read(HIGH) == "1113600"
    assert kernel.read("sys/devices/gpu.0/tpc_pg_mask") == "248"
    assert kernel.read("sys/devices/system/cpu/online") == "0-3"


def test_in_a_container_it_pretends(tmp_path):
    kernel = make_board(tmp_path, ORIN, mode="MAXN", container=True, clock=FakeClock())
    before = kernel.settings()
    assert kernel.nvpmodel("-m", "3") == (0, "NVPM WARN: Running in chroot, ignoring request\n")
    assert kernel.settings() == before
    assert "MODE_50W" in kernel.nvpmodel("-q")[1]


def test_a_user_may_ask_but_not_set(tmp_path):
    kernel = make_board(tmp_path, ORIN, user="user")
    assert kernel.nvpmodel("-q")[0] == 0
    assert kernel.nvpmodel("-m", "3")[0] != 0
    assert FakeKernel(kernel.root).read(HIGH) == "2201600"


def test_the_command_is_there_too(tmp_path):
    kernel = make_board(tmp_path, ORIN, mode="MODE_30W")
    command = str(kernel.root / "usr/sbin/nvpmodel")
    asked = subprocess.run([command, "-q"], capture_output=True, text=True, check=True)
    assert asked.stdout.endswith("NV Power Mode: MODE_30W\n2\n")
    refused = subprocess.run([command, "-m", "0"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert refused.returncode == 234


JETPACKS = {"4.9": 4, "5.10": 5, "5.15": 6, "6.8": 7}


@pytest.mark.parametrize(("name", "release"), RELEASES)
def test_every_board_says_what_it_is(as_released, name, release):
    kernel = as_released(name, release)
    raw = (kernel.root / "proc/device-tree/model").read_bytes()
    assert raw.endswith(b"\0")
    assert b"\n" not in raw
    found = detect_jetson(kernel)
    assert found is not None
    assert found.model == load_board(name).models[0]
    assert found.jetpack == JETPACKS[release]
    compatible = (kernel.root / "proc/device-tree/compatible").read_bytes().split(b"\0")
    assert f"nvidia,{load_board(name).soc}".encode() in compatible
    assert any(load_board(name).module_ids[0].encode() in text for text in compatible)


def test_a_super_board_says_so(tmp_path):
    kernel = make_board(tmp_path, "jetson-orin-nano-8gb", kernel="5.15", super_dt=True)
    assert b"-super\0" in (kernel.root / "proc/device-tree/compatible").read_bytes()
    assert kernel.read("proc/device-tree/model").rstrip("\0").endswith("Super")
    assert kernel.board.gpu_khz[-1] == 1_020_000
    assert kernel.board.cpu_khz[-1] == 1_728_000
    assert kernel.board.emc_khz[-1] == 3_199_000


def test_from_r36_on_the_release_file_names_the_kernel_variant(tmp_path):
    old, new = (make_board(tmp_path / kernel, ORIN, kernel=kernel) for kernel in ("5.10", "5.15"))
    old, new = (kernel.read("etc/nv_tegra_release") for kernel in (old, new))
    assert new.splitlines()[1] == "# KERNEL_VARIANT: oot"
    assert len(old.splitlines()) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"board": "jetson-tk1"}, "no board 'jetson-tk1'"),
        ({"kernel": "4.9"}, "no kernel of jetson-agx-orin-64gb '4.9'"),
        ({"mode": "MAXQ"}, "no mode of jetson-agx-orin-64gb 'MAXQ'"),
        ({"noise": 1}, "no behaviour of a fake board 'noise'"),
    ],
)
def test_what_does_not_exist_is_refused(tmp_path, wrong, message):
    with pytest.raises(InputError, match=message):
        make_board(tmp_path, **{"board": ORIN, **wrong})


def test_the_module_builds_a_board_and_says_that_it_is_a_fake(tmp_path):
    command = [sys.executable, "-m", "edgetune.testing.fake_board", ORIN, str(tmp_path), "--kernel", "5.15"]
    made = subprocess.run([*command, "--mode", "MODE_30W"], capture_output=True, text=True, check=True)
    assert made.stdout.startswith("A fake Jetson AGX Orin 64GB")
    assert "No board is behind it." in made.stdout
    assert FakeKernel(tmp_path).read(HIGH) == "1728000"


def test_the_configuration_may_have_no_link(tmp_path):
    kernel = make_board(tmp_path, ORIN, conf_link=False)
    assert not (kernel.root / "etc/nvpmodel.conf").exists()
    named = kernel.read("var/lib/nvpmodel/conf_file_path")
    assert named == "/etc/nvpmodel/nvpmodel_p3701_0000.conf"
    assert "POWER_MODEL" in kernel.read(named[1:])
