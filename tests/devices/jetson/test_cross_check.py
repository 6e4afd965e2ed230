"""The board beside the catalogue."""

import pytest

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.jetson.device import differences
from edgetune.devices.jetson.knobs import find_knobs


@pytest.fixture
def orin(bench):
    """An AGX Orin as detected, and its tables."""
    kernel = bench("jetson-agx-orin-64gb", kernel="5.15").kernel
    return detect_jetson(kernel), find_knobs(kernel).tables


@pytest.mark.parametrize("name", board_names())
def test_no_board_with_published_tables_differs(bench, name):
    for release in load_board(name).kernels:
        kernel = bench(name, kernel=release).kernel
        assert differences(detect_jetson(kernel), find_knobs(kernel).tables) == []


def test_clocks_that_nobody_has_published_are_reported_with_how_many_are_new(orin):
    jetson, tables = orin
    (sentence,) = differences(jetson, {**tables, "gpu_mhz": (*tables["gpu_mhz"], 1400.0, 1500.0)})
    assert sentence == (
        "the GPU clocks are in no table published for jetson-agx-orin-64gb: there are 13, 2 of them not among the 11 "
        "of the nearest table; the board's own are used"
    )
