"""A Jetson's knobs: set as asked or refused with a reason, and the board put back whatever happened in between."""

import itertools
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.devices.control import BoardControl
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.control import fan_at_maximum
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import Killed

BOARDS = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]
SOME = [
    ("jetson-nano", "4.9"),
    ("jetson-tx2", "4.9"),
    ("jetson-xavier-nx", "5.10"),
    ("jetson-orin-nano-8gb", "5.15"),
    ("jetson-orin-nano-8gb", "6.8"),
    ("jetson-agx-thor", "6.8"),
]
FAULTS = ["EINVAL", "EBUSY", "EACCES", "ignored", "clamped"]


def quickly(quick, *choices):
    """Return all combinations of the choices; those that are not in ``quick`` are left to the slow tests."""
    slow = pytest.mark.slow
    return [pytest.param(*each, marks=[] if each in quick else [slow]) for each in itertools.product(*choices)]


KILLS = quickly(list(itertools.product(SOME[:4], ["kill-after"])), SOME, ["kill-before", "kill-after"])
KILLS_OF_RESTORE = quickly(
    [*itertools.product(SOME[:4], ["kill-after"]), (SOME[3], "power-cut")],
    SOME,
    ["kill-before", "kill-after", "power-cut"],
)
FAILING = quickly([*itertools.product(SOME[3:4], FAULTS), (SOME[0], "EINVAL"), (SOME[1], "clamped")], SOME, FAULTS)


def lowest(control, cores=1):
    return Mode.of({knob: values[0] for knob, values in control.space.knobs.items()} | {"cpu_cores": cores})


def middle(control):
    return Mode.of({knob: values[len(values) // 2] for knob, values in control.space.knobs.items()})


def attempts(kernel, action):
    """Return how many writes an action makes."""
    before = len(kernel.writes)
    action()
    return len(kernel.writes) - before


def error_of(control, mode, found):
    """Return the error that setting a mode ends with, ``None`` when it is set."""
    try:
        control.apply(mode, found)
    except DeviceError as error:
        return error
    return None


@pytest.mark.parametrize(("board", "kernel"), BOARDS)
def test_random_modes_are_set_and_read_back_and_every_setting_is_put_back(bench, board, kernel):
    at = bench(board, kernel=kernel)
    control: BoardControl = at.control
    rng = random.Random(f"{board} {kernel}")
    found = control.snapshot()
    for _ in range(4):
        knobs = {knob: rng.choice(values) for knob, values in control.space.knobs.items()}
        mode = Mode.of({knob: value for knob, value in knobs.items() if rng.random() < 0.9})
        applied = control.apply(mode, found)
        assert applied.knobs() | mode.knobs() == applied.knobs()
        assert control.read() == applied
    assert at.differences()
    assert control.restore(found) == []
    assert at.differences() == {}
    assert {path for path, _ in at.kernel.writes} <= control.settable


@pytest.mark.parametrize(("board", "kernel"), BOARDS)
def test_every_knob_of_a_board_is_on_offer_from_its_own_tables(bench, board, kernel):
    at = bench(board, kernel=kernel)
    made = at.kernel.board
    assert at.control.space.fixed == {}
    knobs = at.control.space.knobs
    assert knobs["cpu_cores"] == tuple(range(1, len(made.catalogue.cpus) + 1))
    assert knobs["cpu_mhz"] == tuple(khz / 1000 for khz in made.cpu_khz)
    assert knobs["gpu_mhz"] == tuple(khz / 1000 for khz in made.gpu_khz)
    listed = made.emc_khz if made.soc != "tegra210" else (made.emc_khz[0], made.emc_khz[-1])
    assert knobs["mem_mhz"] == tuple(khz / 1000 for khz in listed)


def test_values_that_are_not_on_offer_are_refused_before_anything_is_written(bench):
    at = bench()
    found = at.control.snapshot()
    for mode, words in [
        (Mode(gpu_mhz=411.0), "offers no gpu_mhz of 411"),
        (Mode(cpu_cores=7), "offers no cpu_cores of 7"),
        (Mode(cpu_cores=0), "offers no cpu_cores of 0"),
        (Mode(power_limit_w=10.0), "power_limit_w"),
    ]:
        with pytest.raises(DeviceError, match=words):
            at.control.apply(mode, found)
    assert at.kernel.writes == []


def test_a_mode_that_is_in_place_is_not_written_again(bench):
    at = bench()
    found = at.control.snapshot()
    mode = middle(at.control)
    at.control.apply(mode, found)
    assert attempts(at.kernel, lambda: at.control.apply(mode, found)) == 0
    assert attempts(at.kernel, lambda: at.control.restore(found)) > 0
    assert attempts(at.kernel, lambda: at.control.restore(found)) == 0


def test_a_setting_that_cannot_be_read_stops_the_snapshot(bench):
    at = bench()
    for path in at.control.snapshot():
        fresh = bench()
        fresh.kernel.deny_reading(path)
        with pytest.raises(DeviceError, match=path.rsplit("/", 1)[-1]):
            fresh.control.snapshot()
        assert fresh.kernel.writes == []


@pytest.mark.parametrize(("made", "moment"), KILLS)
def test_killed_at_any_write_of_setting_a_mode_the_board_is_put_back(bench, made, moment):
    at = bench(made[0], kernel=made[1])
    found = at.control.snapshot()
    at.control.apply(middle(at.control), found)
    writes = attempts(at.kernel, lambda: at.control.apply(lowest(at.control), found))
    assert writes >= 7
    for number in range(1, writes + 1):
        at.control.apply(middle(at.control), found)
        at.kernel.fail_at(number, moment)
        with pytest.raises(Killed):
            at.control.apply(lowest(at.control), found)
        at.kernel.revive()
        at.put_back(found, at.open())


@pytest.mark.parametrize(("made", "moment"), KILLS_OF_RESTORE)
def test_killed_at_any_write_of_putting_back_a_second_attempt_completes_it(bench, made, moment):
    at = bench(made[0], kernel=made[1])
    found = at.control.snapshot()
    at.control.apply(lowest(at.control), found)
    writes = attempts(at.kernel, lambda: at.control.restore(found))
    assert writes >= 7
    for number in range(1, writes + 1):
        at.control.apply(lowest(at.control), found)
        at.kernel.fail_at(number, moment)
        with pytest.raises(Killed):
            at.control.restore(found)
        at.kernel.revive()
        at.put_back(found, at.open())


@pytest.mark.parametrize(("board", "kernel"), SOME)
def test_after_a_power_cut_the_board_is_as_found_even_where_the_boot_gives_other_values(bench, board, kernel):
    at = bench(board, kernel=kernel)
    at.control.apply(lowest(at.control, cores=2), at.control.snapshot())  # somebody's own settings, not of any preset
    at.before = at.kernel.settings()
    found = at.open().snapshot()
    at.control.apply(middle(at.control), found)
    at.kernel.power_cut()
    assert at.differences()
    at.put_back(found, at.open())


@pytest.mark.parametrize(("made", "fault"), FAILING)
def test_any_write_that_fails_is_reported_and_the_board_is_put_back(bench, made, fault):
    at = bench(made[0], kernel=made[1])
    found = at.control.snapshot()
    at.control.apply(lowest(at.control), found)
    paths = [path for path, _ in at.kernel.writes]
    at.control.restore(found)
    for number, path in enumerate(paths, start=1):
        at.kernel.fail_at(number, fault)
        error = error_of(at.control, lowest(at.control), found)
        if error is None:
            # Tried again: a busy core, an ignored rate. Or of no effect: a lower limit below the upper.
            assert path.endswith(("/online", "/emc/rate", "/clk_update_rate", "min_freq"))
            assert at.control.read() == lowest(at.control)
        else:
            assert "/sys/" in error.message
            assert error.hint
        at.put_back(found)


@pytest.mark.parametrize(("made", "fault"), FAILING)
def test_any_write_of_putting_back_may_fail_once(bench, made, fault):
    at = bench(made[0], kernel=made[1])
    found = at.control.snapshot()
    at.control.apply(lowest(at.control), found)
    writes = attempts(at.kernel, lambda: at.control.restore(found))
    for number in range(1, writes + 1):
        at.control.apply(lowest(at.control), found)
        at.kernel.fail_at(number, fault)
        at.put_back(found)


def test_what_cannot_be_put_back_is_told_in_a_sentence_each_and_the_rest_is_put_back(bench):
    at = bench(kernel="5.15")
    found = at.control.snapshot()
    at.control.apply(lowest(at.control), found)
    gpu = "sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu/max_freq"
    at.kernel.deny_writing(gpu)
    wrong = at.control.restore(found)
    assert len(wrong) == 1
    assert "17000000.gpu/max_freq reads 306000000, not 624750000 as found (" in wrong[0]
    assert "permission denied" in wrong[0]
    assert set(at.differences()) == {gpu}


def test_a_journal_of_another_board_is_not_carried_out(bench):
    found = bench("jetson-agx-xavier", kernel="5.10").control.snapshot()
    at = bench("jetson-nano")
    wrong = at.control.restore(found | {"etc/passwd": "x", "sys/class/thermal/thermal_zone0/mode": "disabled"})
    assert any("etc/passwd is not put back" in told for told in wrong)
    assert {path for path, _ in at.kernel.writes} <= at.control.settable


@pytest.mark.parametrize(("board", "kernel"), SOME)
def test_no_value_of_a_damaged_journal_is_written(bench, board, kernel):
    at = bench(board, kernel=kernel)
    found = at.control.snapshot()
    damaged = dict.fromkeys(found, "perf")
    assert len(at.control.restore(damaged)) == len(found)
    assert "perf" not in {value for _, value in at.kernel.writes}
    at.put_back(found)


def test_limits_that_heat_holds_down_are_not_noted_as_found(bench):
    at = bench()
    device = next(
        path
        for path in at.kernel.glob("sys/class/thermal/cooling_device*")
        if at.kernel.read(f"{path}/type") == "cpufreq-cpu0"
    )
    at.kernel.put(f"{device}/cur_state", 3)
    with pytest.raises(DeviceError, match=r"heat holds the clocks down now \(cpufreq-cpu0\)"):
        at.control.snapshot()
    at.kernel.put(f"{device}/cur_state", 0)
    assert at.control.snapshot()


def test_nothing_but_the_listed_files_can_be_written(bench):
    at = bench()
    assert {path for path in at.control.settable if "pwm" in path} == set(fan_at_maximum(at.kernel))  # if asked for
    forbidden = ("governor", "crit", "pg_mask", "cpu0/online", "trip_point", "disable", "railgate")
    assert not [path for path in at.control.settable if any(word in path for word in forbidden)]
    with pytest.raises(DeviceError, match="no setting of this board"):
        at.control._files.write("sys/class/thermal/thermal_zone0/mode", "disabled")
    assert at.kernel.writes == []


def test_a_knob_that_drifts_while_the_mode_is_set_is_reported(bench):
    at = bench()
    found = at.control.snapshot()
    policy = "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq"
    writes = attempts(at.kernel, lambda: at.control.apply(lowest(at.control), found))
    at.control.restore(found)
    at.kernel.fail_at(
        writes, lambda path, value: at.kernel.put("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", 729600)
    )
    with pytest.raises(DeviceError, match=r"cpu_mhz was set to 115\.2 but reads back a range"):
        at.control.apply(lowest(at.control), found)
    assert at.control.restore(found) == []
    assert at.kernel.read(policy) == found[policy]


@pytest.mark.parametrize(("board", "kernel"), [("jetson-tx2", "4.9"), ("jetson-orin-nano-8gb", "5.15")])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_sequence_of_modes_by_any_number_of_runs_ends_as_found(bench, board, kernel, data):
    preset = data.draw(st.sampled_from([mode.name for mode in load_board(board).presets[0].modes]))
    at = bench(board, kernel=kernel, mode=preset)
    space = at.control.space.knobs
    mode = st.fixed_dictionaries({}, optional={knob: st.sampled_from(values) for knob, values in space.items()})
    found = at.control.snapshot()
    for knobs in data.draw(st.lists(mode, min_size=1, max_size=5)):
        asked = Mode.of(knobs)
        applied = at.control.apply(asked, found)
        assert all(applied.knobs()[knob] == value for knob, value in asked.knobs().items())
        if data.draw(st.booleans()):
            at.control = at.open()
    at.put_back(found)
