"""Modes as people write them become exactly the modes that the device has."""

import contextlib
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
from edgetune.devices.modes import default_modes, highest_mode, parse_modes, select_modes
from edgetune.errors import DeviceError, EdgetuneError, InputError

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
        ("gpu_mhz=318:1300:2", _gpu(318.75, 1300.5)),
        ("gpu_mhz=318:1300:1", _gpu(1300.5)),
        ("gpu_mhz=318:1300:99", _gpu(*_GPU[1:])),
        ("gpu_mhz=318:1300", _gpu(*_GPU[1:])),
        ("gpu_mhz=200:600", _gpu(318.75, 522.75)),
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
        ("MINN", "unknown power mode 'MINN'", "MAXN, MODE_30W, grid:N, all"),
        ("", "unknown power mode ''", "known: MAXN"),
        ("grid:", "a grid needs a number of modes", "grid:441"),
        ("grid:0", "a grid needs a number of modes", "grid:441"),
        ("grid:-4", "a grid needs a number of modes", "grid:441"),
        ("grid:4.5", "a grid needs a number of modes", "grid:441"),
        ("gpu_mz=300", "unknown knob 'gpu_mz'", "did you mean gpu_mhz?"),
        ("gpu_mhz", "unknown power mode 'gpu_mhz'", "KNOB=VALUES"),
        ("MAXN,32W", "unknown power mode '32W'", "did you mean 30W?"),
        ("gpu_mhz=", "'gpu_mhz=' is not KNOB=VALUES", "e.g. gpu_mhz=318:1300:3"),
        ("gpu_mhz=318,", "'' is not KNOB=VALUES", "e.g."),
        ("gpu_mhz=1300,gpu_mhz=318", "gpu_mhz is given twice", "gpu_mhz=a|b"),
        ("gpu_mhz=620", "gpu_mhz cannot be 620 on this device", "522.75, 726.75"),
        ("gpu_mhz=1300000", "gpu_mhz cannot be 1.3e+06", "930.75, 1134.75, 1300.5"),
        ("cpu_cores=5", "cpu_cores cannot be 5", "4, 8, 12"),
        ("gpu_mhz=550:700", "no gpu_mhz between 550 and 700", "114.75, 318.75"),
        ("gpu_mhz=1300:318", "is descending", "gpu_mhz=318:1300"),
        ("gpu_mhz=1:2:3:4", "too many colons", "low:high:count"),
        ("gpu_mhz=318:1300:0", "'0' is not a count", "gpu_mhz=318:1300:3"),
        ("gpu_mhz=318:1300:x", "'x' is not a count", "gpu_mhz=318:1300:3"),
        ("gpu_mhz=1.3GHz", "'1.3GHz' is not a number", "number of MHz alone"),
        ("gpu_mhz=nan", "'nan' is not a number", "number of MHz alone"),
        ("gpu_mhz=318:", "'' is not a number", "number of MHz alone"),
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
        ("m.yaml", "[]\n", "not a list of power modes"),
        ("m.yaml", "318\n", "not a list of power modes"),
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


def test_a_grid_of_more_modes_than_can_be_planned_is_refused_before_it_is_made() -> None:
    space = ModeSpace({knob: tuple(map(float, range(1, 2000))) for knob in ("cpu_mhz", "gpu_mhz")})
    with pytest.raises(InputError, match="3,996,001 power modes, more than the limit modes"):
        parse_modes("grid:1000000000", space)
