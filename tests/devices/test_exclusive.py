"""A device that one process at a time may have: entered as often as need be, given up with the last exit."""

import multiprocessing
import os

import pytest

from edgetune.devices.guardian.lock import Exclusive, hold
from edgetune.errors import DeviceError


@pytest.fixture
def root(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path


def free(root, device="jetson"):
    """Whether nobody has the device."""
    try:
        with hold(device, root):
            return True
    except DeviceError:
        return False


def test_it_is_held_from_the_first_entry_until_the_last_exit(root):
    exclusive = Exclusive("jetson", root)
    assert free(root)
    with exclusive():
        with exclusive():
            with exclusive():
                assert not free(root)
            assert not free(root)
        assert not free(root)
    assert free(root)


def test_it_can_be_entered_again(root):
    exclusive = Exclusive("jetson", root)
    for _ in range(3):
        with exclusive():
            assert not free(root)
        assert free(root)


def test_an_error_inside_gives_it_up_too(root):
    exclusive = Exclusive("jetson", root)
    with exclusive():
        with pytest.raises(ZeroDivisionError), exclusive():
            1 / 0  # noqa: B018
        assert not free(root)
    with pytest.raises(ZeroDivisionError), exclusive():
        1 / 0  # noqa: B018
    assert free(root)


def test_who_has_it_is_reported_and_a_refused_entry_leaves_nothing_behind(root):
    mine, other = Exclusive("jetson", root), Exclusive("jetson", root)
    with mine():
        for _ in range(2):
            with pytest.raises(DeviceError, match=f"process {os.getpid()} ") as refused, other():
                pytest.fail("two have it")
            assert f"kill {os.getpid()}" in refused.value.hint
        assert not free(root)
    with other():
        assert not free(root)
    assert free(root)


def test_other_devices_and_other_boards_are_free(root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "run").mkdir(parents=True)
    with Exclusive("nvidia:0", root)():
        assert free(root, "nvidia:1")
        assert free(root, "jetson")
        assert free(elsewhere, "nvidia:0")
        assert not free(root, "nvidia:0")


def _enter(root, answers):
    try:
        with Exclusive("jetson", root)():
            answers.put("entered")
    except DeviceError as error:
        answers.put(error.message)


def test_another_process_is_kept_out_until_then(root):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()

    def ask():
        process = context.Process(target=_enter, args=(root, answers))
        process.start()
        answer = answers.get(timeout=60)
        process.join()
        return answer

    exclusive = Exclusive("jetson", root)
    with exclusive(), exclusive():
        assert f"in use by another edgetune: process {os.getpid()} " in ask()
    assert ask() == "entered"
