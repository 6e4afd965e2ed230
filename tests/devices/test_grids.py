"""A grid covers every knob evenly and never has more modes than asked for."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.devices.mode_grids import STUDIED_GRIDS, evenly_spaced, grid_levels, modes_of
from edgetune.devices.modes import parse_modes
from edgetune.testing.fake_board import make_board
from edgetune.workflows.device_option import open_named

_KNOBS = ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz")


def _knobs(*sizes: int) -> dict[str, tuple[float, ...]]:
    return {knob: tuple(float(v) for v in range(1, size + 1)) for knob, size in zip(_KNOBS, sizes, strict=False)}


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, (9,)), (2, (1, 9)), (3, (1, 5, 9)), (4, (1, 4, 6, 9)), (9, tuple(range(1, 10))), (50, tuple(range(1, 10)))],
)
def test_a_spread_is_even_and_includes_the_ends(count: int, expected: tuple[int, ...]) -> None:
    assert evenly_spaced(range(1, 10), count) == expected


@pytest.mark.parametrize(
    ("sizes", "count", "levels"),
    [
        ((12, 29, 13, 4), 441, (7, 7, 3, 3)),  # 441 = 3 x 3 x 7 x 7, each knob at least 2
        ((12, 29, 13, 4), 16, (2, 2, 2, 2)),
        ((12, 29, 13, 4), 29, (3, 2, 2, 2)),  # 29 itself would leave three knobs at one level
        ((12, 29, 13, 4), 1, (1, 1, 1, 1)),
        ((4, 12), 48, (4, 12)),
        ((4, 12), 47, (4, 11)),
        ((5,), 3, (3,)),
        ((1, 6), 6, (1, 6)),
    ],
)
def test_levels_come_as_close_as_they_can(sizes: tuple[int, ...], count: int, levels: tuple[int, ...]) -> None:
    assert tuple(map(len, grid_levels(_knobs(*sizes), count).values())) == levels


@settings(deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(1, 600))
def test_a_grid_is_within_its_number_and_complete_where_it_can_be(sizes: list[int], count: int) -> None:
    knobs = _knobs(*sizes)
    grid = grid_levels(knobs, count)
    modes = modes_of(grid)
    assert len(set(modes)) == len(modes) == math.prod(map(len, grid.values())) <= count
    assert len(modes) == math.prod(sizes) or count < math.prod(sizes)
    for knob, values in grid.items():
        assert values[-1] == knobs[knob][-1]
        assert len(values) == 1 or values[0] == knobs[knob][0]
        if count >= 2 ** len(sizes):
            assert len(values) >= min(2, len(knobs[knob]))


@settings(deadline=None)
@given(st.integers(1, 800))
def test_no_choice_of_at_least_as_many_levels_would_be_closer(count: int) -> None:
    sizes = (5, 9, 4)
    chosen = [len(values) for values in grid_levels(_knobs(*sizes), count).values()]
    least = min(2 if count >= 8 else 1, *chosen) if count < 64 else max(2, min(chosen))
    products = [
        a * b * c
        for a in range(min(least, sizes[0]), sizes[0] + 1)
        for b in range(min(least, sizes[1]), sizes[1] + 1)
        for c in range(min(least, sizes[2]), sizes[2] + 1)
        if a * b * c <= count
    ]
    assert math.prod(chosen) == max(products)


@pytest.mark.parametrize("kernel", [None, "5.10", "5.15", "6.8"])
def test_every_agx_orin_has_the_grids_of_the_studies(kernel: str | None, tmp_path: Path) -> None:
    """Fake boards of each kernel, whose tables of GPU clocks differ, and the twin."""
    if kernel is not None:
        make_board(tmp_path, "jetson-agx-orin-64gb", kernel=kernel)
    device = open_named("twin:orin-agx" if kernel is None else "jetson", None if kernel is None else tmp_path)
    space = device.modes.space
    for count, grid in STUDIED_GRIDS.items():
        modes = parse_modes(f"grid:{count}", space)
        assert len(modes) == count
        levels = {knob: sorted({mode.knobs()[knob] for mode in modes}) for knob in _KNOBS}
        assert {knob: len(values) for knob, values in levels.items()} == {k: len(v) for k, v in grid.items()}
        assert all(set(levels[knob]) == set(grid[knob]) for knob in _KNOBS if knob != "gpu_mhz")
        if kernel in (None, "5.10"):
            assert tuple(levels["gpu_mhz"]) == grid["gpu_mhz"]
        else:
            assert levels["gpu_mhz"][0] == 306.0


@pytest.mark.parametrize("count", [12, 60, 441])
def test_a_grid_of_another_board_begins_where_those_of_the_studies_do(count: int, tmp_path: Path) -> None:
    make_board(tmp_path, "jetson-orin-nano-8gb", kernel="5.15")
    space = open_named("jetson", tmp_path).modes.space
    levels = {knob: {mode.knobs()[knob] for mode in parse_modes(f"grid:{count}", space)} for knob in space.knobs}
    for knob, values in levels.items():
        assert max(values) == space.knobs[knob][-1]
    assert min(levels["cpu_cores"]) == 2
    assert min(levels["gpu_mhz"]) == space.knobs["gpu_mhz"][0]
    assert min(levels["cpu_mhz"]) >= 0.19 * max(levels["cpu_mhz"]) > 2 * space.knobs["cpu_mhz"][0]
    everything = math.prod(map(len, space.knobs.values()))
    assert len(parse_modes(f"grid:{everything}", space)) == everything
