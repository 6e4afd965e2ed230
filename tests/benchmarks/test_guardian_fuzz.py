"""A short flood of whatever for the guardian of two boards; the command sends 100,000 requests."""

import shutil
import tempfile
from pathlib import Path

import pytest
from guardian_fuzz import fuzz
from guardian_matrix import MEMORY


@pytest.mark.parametrize(("board", "seed"), [("jetson-nano", 1), ("jetson-agx-orin-64gb", 2)])
def test_a_flood_writes_nothing_but_values_of_the_tables_and_ends_as_found(board, seed):
    folder = tempfile.mkdtemp(dir=MEMORY)
    try:
        told = fuzz(Path(folder) / "root", board, 1500, seed)
    finally:
        shutil.rmtree(folder)
    assert told["carried out"] > 50
    assert told["InputError"] > 500
    assert told["DeviceError"] > 50
    assert told["writes"] > 100
