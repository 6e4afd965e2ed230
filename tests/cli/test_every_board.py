"""Each board of the catalogue, with each of its kernels, through each command that opens a board."""

import json

import pytest

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing.fake_board import make_board


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel"), [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]
)
def test_every_command_on_every_board_with_every_kernel(tmp_path, edgetune, name, kernel):
    board = make_board(tmp_path, name, kernel=kernel)
    before, root = board.settings(), ("--root", str(tmp_path))
    assert edgetune("doctor", *root).code == 0
    shown = json.loads(edgetune("device", "show", "jetson", *root, "--json").out)
    knobs = {knob: values for knob, values in shown["modes"]["knobs"].items() if values}
    assert knobs
    readings = json.loads(edgetune("device", "watch", "jetson", *root, "--count", "1").out)
    assert readings["clocks_mhz"]
    slowest = ",".join(f"{knob}={values[0]:g}" for knob, values in knobs.items())
    assert edgetune("device", "set", "jetson", slowest, *root).code == 0
    assert board.settings() != before
    assert edgetune("device", "restore", "jetson", *root).code == 0
    assert board.settings() == before
