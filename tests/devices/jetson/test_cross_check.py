"""The board beside the catalogue."""

from dataclasses import replace

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


def test_one_sentence_for_each_clock_and_for_the_cores(orin):
    jetson, tables = orin
    found = differences(
        jetson, {"cpu_mhz": (1.0,), "gpu_mhz": (2.0, 3.0, 4.0), "mem_mhz": (5.0,), "cpu_cores": (1.0, 2.0)}
    )
    assert [sentence.split(" clocks")[0] for sentence in found[:3]] == ["the CPU", "the GPU", "the memory"]
    assert found[3] == "jetson-agx-orin-64gb has 12 cores as published, this board has 2"
    assert differences(jetson, tables) == []


def test_a_clock_that_cannot_be_set_is_no_difference(orin):
    jetson, tables = orin
    assert differences(jetson, {knob: values for knob, values in tables.items() if knob != "mem_mhz"}) == []


@pytest.mark.parametrize("module", [None, "p9999-0000"])
def test_a_module_that_the_catalogue_lacks_is_compared_with_nothing(orin, module):
    jetson, _ = orin
    assert differences(replace(jetson, module=module), {"cpu_mhz": (1.0,), "cpu_cores": (1.0,)}) == []


@pytest.mark.parametrize("name", ["jetson-orin-nx-8gb", "jetson-agx-orin-32gb"])
def test_where_no_table_is_published_none_is_missed(bench, name):
    kernel = bench(name).kernel
    assert differences(detect_jetson(kernel), {"gpu_mhz": (1.0, 2.0, 3.0)}) == []
