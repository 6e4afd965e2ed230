"""What earlier versions had is answered by what replaces it."""

import pytest
from command_line import assert_two_lines

from edgetune.cli import removed


@pytest.fixture(params=[*removed.REPLACED, "search --drawn", "device was"])
def words(request, monkeypatch):
    """The words of a removed command or option; two of a made table, so that there is always one of each."""
    monkeypatch.setitem(removed.REPLACED, "search --drawn", "look at it")
    monkeypatch.setitem(removed.REPLACED, "device was", "look at edgetune device list")
    return request.param


def test_removed_commands_and_options_are_answered_by_their_replacement(edgetune, words):
    ended = edgetune(*words.split())
    assert_two_lines(ended, 2)
    assert f"'{words}' was removed" in ended.lines[0]
    assert ended.lines[1] == f"hint: {removed.REPLACED[words]}"


def test_a_file_of_the_name_of_a_removed_command_is_read(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(removed.REPLACED, "search was", "look at it")
    (tmp_path / "was").write_text("no table")
    ended = edgetune("search", "was")
    assert_two_lines(ended, 2)
    assert "removed" not in ended.err
