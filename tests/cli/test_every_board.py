"""Each board of the catalogue, with each of its kernels, through each command that opens a board.

Also with files that fail, a state file that another program wrote, and on Thor a driver that does not answer.
"""

import errno
import json

import pytest
from command_line import assert_two_lines

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.errors import ExitCode
from edgetune.testing import fake_nvpmodel
from edgetune.testing.fake_board import make_board

FAILING = {
    "sys/class/thermal/thermal_zone0/temp": errno.EIO,
    "sys/class/thermal/thermal_zone1/temp": errno.EAGAIN,
    "sys/class/hwmon/hwmon*/in2_input": errno.ENODATA,
    "sys/class/hwmon/hwmon*/rpm": errno.EIO,
    "sys/class/devfreq/*/cur_freq": errno.EINVAL,
    "sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq": errno.EIO,
}


def looks(edgetune, root):
    """Run the commands that set nothing, and return the settings on offer and the readings."""
    assert edgetune("doctor", *root).code == 0
    shown = json.loads(edgetune("device", "show", "jetson", *root, "--json").out)
    readings = json.loads(edgetune("device", "watch", "jetson", *root, "--count", "1").out)
    assert edgetune("profile", "--device", "jetson", *root, "--modes", "grid:2", "--dry-run", "--", "true").code == 0
    return {knob: values for knob, values in shown["modes"]["knobs"].items() if values}, readings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel"), [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]
)
def test_every_command_on_every_board_with_every_kernel(tmp_path, edgetune, name, kernel):
    board = make_board(tmp_path, name, kernel=kernel)
    before, root = board.settings(), ("--root", str(tmp_path))
    knobs, readings = looks(edgetune, root)
    assert set(knobs) == {"cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"}
    for pattern, error in FAILING.items():
        for path in board.glob(pattern):
            board.deny_reading(path, error)
    fake_nvpmodel.choose(board, board.board, str(board.board.presets.modes[-1].id))
    still, failing = looks(edgetune, root)
    assert set(still) == set(knobs)
    lost = [readings["clocks_mhz"][name] for name, mhz in failing["clocks_mhz"].items() if mhz is None]
    assert any(lost)
    assert {None} < set(failing["temperature_c"].values())
    slowest = ",".join(f"{knob}={values[0]:g}" for knob, values in still.items())
    assert edgetune("device", "set", "jetson", slowest, *root).code == 0
    assert board.settings() != before
    assert edgetune("device", "restore", "jetson", *root).code == 0
    assert board.settings() == before


def test_a_driver_that_does_not_answer_costs_its_readings_and_the_setting_of_modes(tmp_path, edgetune):
    board = make_board(tmp_path, "jetson-agx-thor")
    before, root = board.settings(), ("--root", str(tmp_path))
    board.deny_reading("sys/class/devfreq/gpu-gpc-0/min_freq", errno.EAGAIN)
    _, readings = looks(edgetune, root)
    assert readings["clocks_mhz"]["gpu-gpc-0"]
    assert readings["power_w"]["VIN"]
    set_to = edgetune("device", "set", "jetson", "cpu_mhz=972", *root)
    assert_two_lines(set_to, ExitCode.DEVICE)
    assert edgetune("device", "restore", "jetson", *root).code == 0
    assert board.settings() == before


def test_a_container_that_hides_the_device_tree_hides_no_setting(tmp_path, edgetune):
    board = make_board(tmp_path, "jetson-orin-nano-8gb", kernel="5.15", container=True)
    root = ("--root", str(tmp_path))
    shown = looks(edgetune, root)[0]
    for path in ("proc/device-tree", "etc/nv_tegra_release"):
        board.remove(path)
    board.put(".dockerenv", "")
    for name, text in {"family": "Tegra", "soc_id": 35, "machine": "NVIDIA Jetson Orin Nano Developer Kit"}.items():
        board.put(f"sys/devices/soc0/{name}", text)
    assert looks(edgetune, root)[0] == shown
