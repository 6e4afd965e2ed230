import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from twin_tables import LOW, MAXN, mixed

from contracts.device_contract import DeviceContract
from edgetune.artifacts.mode import Mode
from edgetune.devices.device import Device
from edgetune.devices.mode_grids import studied_grid
from edgetune.devices.twin.constants import load_board
from edgetune.devices.twin.device import open_twin
from edgetune.devices.twin.physics import Clocks, predict
from edgetune.devices.twin.work import work_of
from edgetune.errors import InputError

NAME = "twin:orin-agx"
NOISY = f"{NAME}?noise=on&seed=3"
TWIN = load_board("orin-agx")[0]


class TestExactTwin(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return open_twin(NAME)


class TestNoisyTwin(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return open_twin(NOISY)


def times_s(device, ops, minibatches=40):
    ran = device.source.open(ops).run(minibatches)
    return np.diff([ran.start_ns[0], *ran.end_ns]) / 1e9


def predicted(ops, mode=MAXN):
    result = predict(TWIN.values, work_of(ops), Clocks.of([mode]))
    return float(result.minibatch_s[0]), float(result.power_w[0])


def settled_w(device, ops):
    """Return the mean of the readings taken once power has settled."""
    runner = device.source.open(ops)
    with device.power.record() as recording:
        while len(recording.readings) < 12:
            runner.run(200)
    return float(np.mean([reading.power_w for reading in recording.readings[3:]]))


def test_the_published_board_has_its_18096_modes():
    space = open_twin(NAME).modes.space
    assert {knob: len(values) for knob, values in space.knobs.items()} == {
        "cpu_cores": 12, "cpu_mhz": 29, "gpu_mhz": 13, "mem_mhz": 4,
    }  # fmt: skip
    assert np.prod([len(values) for values in space.knobs.values()]) == 18_096
    assert len(list(product(*studied_grid(space, 441).values()))) == 441
    assert set(space.presets) == {"MAXN", "MODE_15W", "MODE_30W", "MODE_50W"}
    assert space.presets["MAXN"] == MAXN


def test_minibatches_follow_each_other_on_the_virtual_clock():
    device = open_twin(NAME)
    device.clock.sleep_s(0.5)
    runner = device.source.open(mixed())
    ran = runner.run(3)
    assert ran.start_ns[0] == 500_000_000
    assert list(ran.start_ns[1:]) == list(ran.end_ns[:-1])
    assert ran.end_ns[-1] == device.clock.now_ns()
    assert runner.run(1).start_ns[0] == ran.end_ns[-1]
    assert all(type(value) is int for value in (*ran.start_ns, *ran.end_ns))
    assert list(runner.run(0).start_ns) == []


def test_work_without_end_is_refused_before_its_power_readings_fill_the_memory():
    device = open_twin(NAME)
    ops = mixed()
    endless = replace(ops, rows=tuple(replace(row, bytes_read=row.bytes_read * 10**15) for row in ops.rows))
    with pytest.raises(InputError, match="would take"):
        device.source.open(endless).run(1)
    assert device.clock.now_ns() == 0


@pytest.mark.parametrize("mode", [MAXN, LOW, Mode(8, 1344.0, 726.75, 2133.0)])
def test_without_noise_it_gives_exactly_what_the_equations_give(mode):
    device = open_twin(NAME)
    device.modes.apply(mode)
    minibatch_s, power_w = predicted(mixed(), mode)
    assert times_s(device, mixed()) == pytest.approx(minibatch_s, abs=2e-9)
    assert settled_w(device, mixed()) == pytest.approx(power_w, abs=1e-3)


def test_an_idle_board_draws_the_static_power_of_its_mode():
    device = open_twin(NAME)
    device.modes.apply(LOW)
    device.clock.sleep_s(5)
    with device.power.record() as recording:
        device.clock.sleep_s(2)
    assert [reading.power_w for reading in recording.readings] == pytest.approx([12.1] * 2, rel=0.05)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("twin:", "names no board"),
        ("twin:nano", "no twin of 'nano'"),
        (f"{NAME}?noise=2%25", "on or off"),
        (f"{NAME}?seed=x", "not an integer"),
        (f"{NAME}?speed=2", "unknown option speed"),
        (f"{NAME}?noise", "on or off"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(name, says):
    with pytest.raises(InputError, match=says) as error:
        open_twin(name)
    assert "\n" not in error.value.message + error.value.hint


def test_noise_is_within_what_it_says_and_has_mean_one():
    exact_s, exact_w = predicted(mixed())
    devices = [open_twin(f"{NAME}?noise=on", seed=seed) for seed in range(300)]
    ratios = np.array([np.median(times_s(device, mixed())) / exact_s for device in devices])
    assert ratios.mean() == pytest.approx(1, abs=0.004)
    assert ratios.std() == pytest.approx(0.015, rel=0.2)
    watts = np.array([settled_w(device, mixed()) / exact_w for device in devices[:100]])
    assert watts.mean() == pytest.approx(1, abs=0.01)
    assert watts.std() == pytest.approx(0.025, rel=0.3)


def test_noise_does_not_depend_on_the_order_of_points_or_on_how_a_run_was_cut():
    forward, backward = open_twin(NOISY), open_twin(NOISY)
    modes = [MAXN, LOW, Mode(8, 1344.0, 726.75, 2133.0)]

    def measure(device, order):
        found = {}
        for mode in order:
            device.modes.apply(mode)
            found[mode] = times_s(device, mixed(), 7).tolist()
        return found

    one, other = measure(forward, modes), measure(backward, modes[::-1])
    for mode in modes:
        assert one[mode] == pytest.approx(other[mode], abs=2e-9)
    runner = (cut := open_twin(NOISY)).source.open(mixed())
    pieces = [runner.run(n) for n in (1, 3, 2, 1)]
    ends_ns = [end for piece in pieces for end in piece.end_ns]
    assert np.diff([0, *ends_ns]) / 1e9 == pytest.approx(measure(open_twin(NOISY), [MAXN])[MAXN], abs=2e-9)
    assert cut.clock.now_ns() == ends_ns[-1]


def test_two_processes_agree_to_the_nanosecond():
    here = Path(__file__).parent
    program = (
        f"import sys; sys.path.insert(0, {str(here)!r})\n"
        "from twin_tables import mixed\nfrom edgetune.devices.twin.device import open_twin\n"
        f"print(open_twin({NOISY!r}).source.open(mixed()).run(50).end_ns)"
    )
    printed = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
               for _ in range(2)}  # fmt: skip
    assert printed == {f"{open_twin(NOISY).source.open(mixed()).run(50).end_ns}\n"}


def test_opening_the_package_costs_no_heavy_import():
    program = (
        "import sys, edgetune.devices.twin\n"
        "print([m for m in ('numpy', 'scipy', 'pydantic', 'yaml') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
