"""A command with subcommands beside it."""

from pathlib import Path

import pytest
from command_line import assert_two_lines

TABLE = str(Path(__file__).parents[2] / "examples/resnet18-train-twin.csv")


@pytest.mark.parametrize("argv", [(TABLE, "--power-budget", "30W"), ("--power-budget", "30W", TABLE)])
def test_arguments_without_a_subcommand_go_to_the_command_itself(edgetune, argv):
    ended = edgetune("search", *argv)
    assert ended.code == 0
    assert ended.out.startswith("kind: plan")


def test_a_misspelt_subcommand_is_told_from_a_missing_file(edgetune):
    ended = edgetune("search", "evalute", TABLE)
    assert_two_lines(ended, 2)


def test_a_file_that_is_nearly_called_like_a_subcommand_is_a_file(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("evaluat").write_bytes(Path(TABLE).read_bytes())
    assert edgetune("search", "evaluat", "--power-budget", "30W").code == 0
