"""Boards of the catalogue with their kernels: one board of each kernel in every run, the others in slow ones."""

import pytest

from edgetune.devices.jetson.catalog import board_names, load_board

ALL = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]
FIRST = {kernel: name for name, kernel in reversed(ALL)}
BOARDS = [pytest.param(*each, marks=[] if FIRST[each[1]] == each[0] else [pytest.mark.slow]) for each in ALL]
