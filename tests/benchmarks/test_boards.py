"""The command that sets and puts back random modes of every board: quickly, and that it would see what goes wrong."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import boards
import pytest
from boards import Build, builds, examine, run

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing.fake_board import make_board


@pytest.mark.parametrize("board", board_names())
def test_every_board_is_found_listed_set_and_put_back(board):
    made = list(builds(board))
    assert {build.kernel for build in made} == set(load_board(board).kernels)
    for build in {build.kernel: build for build in made}.values():
        found = examine(build, modes=3)
        assert found.wrong == []
        assert found.tried == 3
        assert set(found.offered) == {"cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"}


def test_every_published_table_has_its_build():
    made = {build.tables for build in builds("jetson-orin-nano-8gb")}
    assert made == {(cpu, gpu, emc) for cpu in (0, 1) for gpu in (0, 1) for emc in (0, 1)}
    assert {build.super_dt for build in builds("jetson-orin-nano-8gb")} == {False, True}


def test_an_agx_orin_of_jetpack_5_has_18096_modes():
    found = examine(Build("jetson-agx-orin-64gb", "5.10", (0, 0, 0)), modes=0)
    assert found.offered == {"cpu_cores": 12, "cpu_mhz": 29, "gpu_mhz": 13, "mem_mhz": 4}
    assert found.modes == 12 * 29 * 13 * 4 == 18096


def test_the_command_says_that_it_is_a_fake_and_counts():
    command = [sys.executable, str(Path(boards.__file__)), "jetson-nano", "--modes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("FAKE boards")
    assert "4 cores x 15 CPU x 12 GPU x 2 memory = 1440 modes; 2 set and put back, 0 differences" in lines[1]
    assert lines[-1] == "boards: 1, builds: 2, modes set and put back: 4, differences: 0"


def test_a_board_that_is_not_put_back_is_reported_and_ends_with_1(monkeypatch, capsys):
    def only_set(control, mode):
        control.apply(mode, control.snapshot())
        return []

    monkeypatch.setattr(boards, "set_and_put_back", only_set)
    assert run(["jetson-nano"], modes=1) == 1
    told = capsys.readouterr().out
    assert re.search(r"^  WRONG \d cores?, CPU .*: /sys/\S+ was '.+', is '.+'$", told, re.MULTILINE)
    assert "differences: 0" not in told


def test_a_mode_that_does_not_take_effect_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(boards, "make_board", functools.partial(make_board, bpmp_ignores=True))
    assert run(["jetson-agx-xavier"], modes=3) == 1
    assert re.search(r"^  WRONG 1?\d cores?, .*: /sys/kernel/debug/bpmp/.*emc", capsys.readouterr().out, re.MULTILINE)
