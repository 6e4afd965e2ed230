"""Modes as people write them become exactly the modes that the device has."""

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Configuration, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.mode_grids import STUDIED_GRIDS, evenly_spaced, grid_levels, modes_of
from edgetune.devices.modes import default_modes, highest_mode, parse_modes, select_modes
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.testing.fake_board import make_board
from edgetune.workflows.device_option import open_named

_GPU = (114.75, 318.75, 522.75, 726.75, 930.75, 1134.75, 1300.5)
_MAXN = Mode(12, 2201.6, 1300.5, 3199.0)
_BOARD = ModeSpace(
    knobs={"cpu_cores": (4, 8, 12), "cpu_mhz": (729.6, 2201.6), "gpu_mhz": _GPU, "mem_mhz": (2133.0, 3199.0)},
    presets={"MAXN": _MAXN, "MODE_30W": Mode(8, 729.6, 522.75, 3199.0)},
    fixed={"power_limit_w": "the board has no power limit"},
)
_LISTED = tuple(Mode(gpu_mhz=gpu, mem_mhz=mem) for mem in (1600.0, 1866.0) for gpu in (300.0, 900.0, 1300.5))
_TABLE = ModeSpace({"gpu_mhz": (300.0, 900.0, 1300.5), "mem_mhz": (1600.0, 1866.0)}, listed=_LISTED)
_BARE = ModeSpace({}, fixed={"cpu_mhz": "cpufreq is read-only here"})


def _gpu(*values: float) -> list[Mode]:
    return [Mode(12, 2201.6, value, 3199.0) for value in values]


@pytest.mark.parametrize("text", ["30W", "30w", "MODE_30W", "mode_30w", " MODE_30W "])
def test_a_preset_by_any_of_its_names(text: str) -> None:
    assert parse_modes(text, _BOARD) == [_BOARD.presets["MODE_30W"]]


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("gpu_mhz=1300.5", _gpu(1300.5)),
        ("gpu_mhz=1300", _gpu(1300.5)),
        ("gpu_mhz=318:1300:3", _gpu(318.75, 726.75, 1300.5)),
        ("gpu_mhz=318:1300:1", _gpu(1300.5)),
        ("gpu_mhz=318:1300:99", _gpu(*_GPU[1:])),
        ("gpu_mhz=318:1300", _gpu(*_GPU[1:])),
        ("gpu_mhz=0:1e9", _gpu(*_GPU)),
        ("gpu_mhz=930|318", _gpu(930.75, 318.75)),
        ("gpu_mhz=930|930.75", _gpu(930.75)),
        ("gpu_mhz=318:1300:2,mem_mhz=2133", [Mode(12, 2201.6, g, 2133.0) for g in (318.75, 1300.5)]),
        (" mem_mhz = 2133 , gpu_mhz = 318 : 1300 : 2 ", [Mode(12, 2201.6, g, 2133.0) for g in (318.75, 1300.5)]),
        ("cpu_cores=4:8", [Mode(cores, 2201.6, 1300.5, 3199.0) for cores in (4, 8)]),
    ],
)
def test_a_pattern_takes_values_of_the_table_and_the_highest_of_the_rest(text: str, modes: list[Mode]) -> None:
    assert parse_modes(text, _BOARD) == modes


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("31W", "unknown power mode '31W'", "did you mean 30W?"),
        ("", "unknown power mode ''", "known: MAXN"),
        ("grid:", "a grid needs a number of modes", "grid:441"),
        ("grid:0", "a grid needs a number of modes", "grid:441"),
        ("gpu_mz=300", "unknown knob 'gpu_mz'", "did you mean gpu_mhz?"),
        ("MAXN,32W", "unknown power mode '32W'", "did you mean 30W?"),
        ("gpu_mhz=", "'gpu_mhz=' is not KNOB=VALUES", "e.g. gpu_mhz=318:1300:3"),
        ("gpu_mhz=1300,gpu_mhz=318", "gpu_mhz is given twice", "gpu_mhz=a|b"),
        ("gpu_mhz=620", "gpu_mhz cannot be 620 on this device", "522.75, 726.75"),
        ("cpu_cores=5", "cpu_cores cannot be 5", "4, 8, 12"),
        ("gpu_mhz=550:700", "no gpu_mhz between 550 and 700", "114.75, 318.75"),
        ("gpu_mhz=1300:318", "is descending", "gpu_mhz=318:1300"),
        ("gpu_mhz=1:2:3:4", "too many colons", "low:high:count"),
        ("gpu_mhz=318:1300:0", "'0' is not a count", "gpu_mhz=318:1300:3"),
        ("gpu_mhz=1.3GHz", "'1.3GHz' is not a number", "number of MHz alone"),
        ("gpu_mhz=nan", "'nan' is not a number", "number of MHz alone"),
        ("missing.csv", "missing.csv does not exist", "check the path"),
    ],
)
def test_a_mistake_is_named_and_mended(text: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_modes(text, _BOARD)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_a_fixed_knob_says_why_it_is_fixed() -> None:
    with pytest.raises(DeviceError, match="power_limit_w cannot be set here: the board has no power limit"):
        parse_modes("power_limit_w=30", _BOARD)
    with pytest.raises(DeviceError, match="cpufreq is read-only here"):
        parse_modes("cpu_mhz=1000", _BARE)


def test_a_grid_in_full_says_nothing_and_a_smaller_one_says_so() -> None:
    assert select_modes("grid:16", _BOARD).notes == ()
    assert len(parse_modes("grid:16", _BOARD)) == 16
    selection = select_modes("grid:1000", _BOARD)
    assert len(selection.modes) == 3 * 2 * 7 * 2
    (note,) = selection.notes
    assert (note.code, dict(note.numbers)) == ("grid-smaller", {"asked": 1000, "modes": 84})
    assert "no more" in note.advice
    (note,) = select_modes("grid:17", _BOARD).notes
    assert dict(note.numbers) == {"asked": 17, "modes": 16}


def test_all_is_every_combination() -> None:
    modes = parse_modes("all", _BOARD)
    assert len(modes) == len(set(modes)) == 3 * 2 * 7 * 2
    assert modes[0] == Mode(4, 729.6, 114.75, 2133.0)
    assert modes[-1] == _MAXN


def test_all_of_too_many_is_refused() -> None:
    values = tuple(float(v) for v in range(1, 400))
    with pytest.raises(InputError, match="this device has 63,521,199 power modes"):
        parse_modes("all", ModeSpace({"cpu_mhz": values, "gpu_mhz": values, "mem_mhz": values}))


def test_the_highest_mode_is_maxn_completed() -> None:
    assert highest_mode(_BOARD) == _MAXN
    assert highest_mode(ModeSpace({"gpu_mhz": (1.0, 2.0), "mem_mhz": (3.0,)}, {"MAXN": Mode(gpu_mhz=1.0)})) == Mode(
        gpu_mhz=1.0, mem_mhz=3.0
    )
    assert highest_mode(_BARE) == Mode()


def test_the_default_is_the_highest_mode_or_the_whole_table() -> None:
    assert default_modes(_BOARD) == [_MAXN]
    assert default_modes(_BARE) == [Mode()]
    assert default_modes(_TABLE) == list(_LISTED)


@pytest.mark.parametrize("text", ["as-found", "all", "grid:7"])
def test_a_device_without_knobs_runs_as_found(text: str) -> None:
    assert parse_modes(text, _BARE) == [Mode()]


def test_a_table_offers_what_it_lists() -> None:
    assert parse_modes("all", _TABLE) == list(_LISTED)
    assert parse_modes("gpu_mhz=900", _TABLE) == [_LISTED[1], _LISTED[4]]
    assert parse_modes("gpu_mhz=300:1300:2,mem_mhz=1866", _TABLE) == [_LISTED[3], _LISTED[5]]
    assert set(parse_modes("grid:4", _TABLE)) == {_LISTED[0], _LISTED[2], _LISTED[3], _LISTED[5]}
    assert parse_modes("grid:6", _TABLE) == parse_modes("grid:99", _TABLE) == list(_LISTED)
    with pytest.raises(InputError, match="listed modes only"):
        parse_modes("as-found", _TABLE)


def test_a_table_with_holes_still_gives_a_grid_of_that_size() -> None:
    holed = ModeSpace(_TABLE.knobs, listed=(_LISTED[0], _LISTED[4], _LISTED[5]))
    assert parse_modes("grid:2", holed) == [_LISTED[0], _LISTED[5]]
    assert parse_modes("grid:1", holed) == [_LISTED[5]]
    with pytest.raises(InputError, match="no listed mode fits"):
        parse_modes("gpu_mhz=300,mem_mhz=1866", holed)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "gpu_mhz,mem_mhz,mood\n318,2133,good\n1300.5,,\n318.75,2133,again\n"),
        ("m.yaml", "- {gpu_mhz: 318, mem_mhz: 2133}\n- gpu_mhz: 1300.5\n"),
        ("m.json", '[{"gpu_mhz": 318.75, "mem_mhz": 2133}, {"gpu_mhz": 1300.5}]'),
        ("modes", "- {gpu_mhz: 318, mem_mhz: 2133}\n- gpu_mhz: 1300.5\n"),
    ],
)
def test_modes_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert parse_modes(str(tmp_path / name), _BOARD) == [Mode(12, 2201.6, 318.75, 2133.0), _MAXN]


def test_modes_of_a_profile_and_of_a_plan(tmp_path: Path) -> None:
    rows = [ProfileRow("net", "train", size, 0.1, gpu_mhz=gpu) for gpu in (318.75, 1300.5) for size in (1, 2)]
    io.write(Profile(Header.new("profile", 1), tuple(rows)), tmp_path / "p.parquet")
    assert parse_modes(str(tmp_path / "p.parquet"), _BOARD) == _gpu(318.75, 1300.5)
    mode = Mode(8, 729.6, 318.75, 2133.0)
    plan = Plan(
        Header.new("plan", 1), Problem("train"), Configuration(mode, 1), PlanFigures(0.1), SearchSummary("gmd", 1, 0)
    )
    io.write(plan, tmp_path / "plan.yaml")
    assert parse_modes(str(tmp_path / "plan.yaml"), _BOARD) == [mode]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.csv", "mood\ngood\n", "no knob column"),
        ("m.csv", "gpu_mhz\nfast\n", "row 1: gpu_mhz is 'fast'"),
        ("m.csv", "gpu_mhz\n318\n-1\n", "row 2: gpu_mhz is '-1'"),
        ("m.csv", "gpu_mhz\n600\n", "gpu_mhz cannot be 600"),
        ("m.csv", "", "is empty"),
        ("m.yaml", "- {gpu_mz: 318}\n", "unknown knob 'gpu_mz'"),
        ("m.yaml", "- {gpu_mhz: true}\n", "mode 1: gpu_mhz is True"),
        ("m.yaml", "- 318\n", "not a list of power modes"),
        ("m.yaml", "kind: profile\n", "it is a profile, not a plan"),
    ],
)
def test_a_file_without_modes_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        parse_modes(str(tmp_path / name), _BOARD)
    assert message in caught.value.message.replace(str(tmp_path / name), "it")


def is_no_input(text: str) -> bool:
    return text.strip() != "-"  # the standard input


@settings(deadline=None, max_examples=200)
@given((st.text("gpu_mhz=:,|0123456789.ecors-", max_size=24) | st.text(max_size=12)).filter(is_no_input))
def test_any_text_gives_modes_of_the_device_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(EdgetuneError):
        modes = parse_modes(text, _BOARD)
        assert len(modes) == len(set(modes)) > 0
        for mode in modes:
            assert all(value in _BOARD.knobs[knob] for knob, value in mode.knobs().items())


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
