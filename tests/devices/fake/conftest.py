"""Boards built once, for tests that only read them."""

import pytest

from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock


@pytest.fixture(scope="session")
def as_released(tmp_path_factory):
    """Return the board of a name and kernel, as it boots."""
    built = {}

    def board(name, kernel):
        if (name, kernel) not in built:
            built[name, kernel] = make_board(tmp_path_factory.mktemp("board"), name, kernel=kernel, clock=FakeClock())
        return built[name, kernel]

    return board
