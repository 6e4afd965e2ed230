"""``edgetune device units``: what an administrator installs, printed or put into a folder."""

import json

import pytest
from command_line import assert_two_lines

NAMES = [
    "edgetune-restore-nvidia-0.service",
    "edgetune-guardian-nvidia-0.socket",
    "edgetune-guardian-nvidia-0@.service",
]


def test_the_units_are_printed_written_and_told_in_json_alike(edgetune, tmp_path):
    units = json.loads(edgetune("device", "units", "nvidia:0", "--json").out)["units"]
    assert list(units) == NAMES
    printed = edgetune("device", "units", "nvidia:0").out
    assert all(f"# /etc/systemd/system/{name}\n{text}" in printed for name, text in units.items())
    assert edgetune("device", "units", "nvidia:0", "--write", str(tmp_path / "units")).code == 0
    assert {path.name: path.read_text() for path in (tmp_path / "units").iterdir()} == units
    assert edgetune("device", "units", "nvidia:0", "--write", str(tmp_path / "units")).code == 0


def test_another_file_of_that_name_is_kept(edgetune, tmp_path):
    (tmp_path / NAMES[1]).write_text("mine")
    assert_two_lines(edgetune("device", "units", "nvidia:0", "--write", str(tmp_path)), 2)
    assert [path.name for path in tmp_path.iterdir()] == [NAMES[1]]


@pytest.mark.parametrize(
    "name", ["toaster", "jetson?beyond-caps=on", "nvidia:x", "nvidia:٣", "twin:orin-agx", "host\nExecStart=/x"]
)
def test_a_device_without_a_guardian_has_no_units(edgetune, name):
    assert_two_lines(edgetune("device", "units", name), 2)
