"""``edgetune device export``: the mode of a plan for nvpmodel and sh, tried on a fake board."""

import os
import subprocess
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.control import JetsonControl
from edgetune.devices.jetson.knobs import find_knobs, presets_of
from edgetune.devices.jetson.nvpmodel import read_nvpmodel
from edgetune.devices.sysfs import Sysfs
from edgetune.testing.fake_board import make_board

PLAN = (Path(__file__).parents[1] / "golden/plan-v1.yaml").read_text(encoding="utf-8")
MODE = Mode(8, 1344, 726.75, 2133)


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    return str(tmp_path / "plan.yaml")


@pytest.mark.parametrize("at_hand", [True, False])
def test_the_nvpmodel_block_parses_back_to_the_mode(edgetune, plan, tmp_path, at_hand):
    board = tmp_path / "board"
    make_board(board)
    block = edgetune("device", "export", plan, "--format", "nvpmodel", *(["--root", str(board)] if at_hand else []))
    assert "SIMULATED" in block.out
    conf = next((board / "etc/nvpmodel").iterdir())
    conf.write_text("\n".join([conf.read_text(encoding="utf-8"), block.out]), encoding="utf-8")
    sysfs = Sysfs(board)
    found = read_nvpmodel(sysfs)
    assert presets_of(found, find_knobs(sysfs).tables, {}).modes["EDGETUNE"] == MODE
    assert found.notes == ()
    assert all(line.startswith("#") or "#" not in line for line in block.out.splitlines()), "as in NVIDIA's files"


def test_the_shell_script_sets_the_mode_and_restores_it(edgetune, plan, tmp_path):
    board = tmp_path / "board"
    kernel = make_board(board)
    before = kernel.settings()
    script = str(tmp_path / "mode.sh")
    assert edgetune("device", "export", plan, "--format", "shell", "--root", str(board), "-o", script).code == 0

    def run(*words):
        return subprocess.run(["sh", script, *words], env={**os.environ, "ROOT": str(board)}, check=False).returncode

    assert run("set") == 0
    assert JetsonControl(Sysfs(board)).read(measured=False) == MODE
    assert run("set") == 1
    assert run("restore") == 0
    assert kernel.settings() == before
    assert run("run", "sh", "-c", "exit 3") == 3
    assert kernel.settings() == before
    (board / "sys/devices/system/cpu/cpu9/online").unlink()
    (board / "sys/devices/system/cpu/cpu9/online").mkdir()
    assert run("set") == 1


def test_a_plan_without_a_mode_or_with_a_knob_that_the_device_lacks_is_refused(edgetune, plan, tmp_path):
    mode = "cpu_cores: 8, cpu_mhz: 1344, gpu_mhz: 726.75, mem_mhz: 2133"
    for wrong in ("", "power_limit_w: 30", "gpu_mhz: 727"):
        Path(plan).write_text(PLAN.replace(mode, wrong), encoding="utf-8")
        assert_two_lines(edgetune("device", "export", plan, "--format", "nvpmodel"), 2)
