"""``edgetune schedule kernels energy`` on a GPU: fakes of CUDA's driver, of a power sensor and of power modes.

No figure is of hardware: power is a function of time that the test writes down.
"""

import json
from functools import partial

import pytest
from command_line import assert_two_lines
from gpu_tasks import SOURCE, TASKS

from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LiveSource
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.testing.fake_clock import FakeClock
from edgetune.workflows.kernels import energy as workflow
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu
from fakes.cuda_state import ticking
from fakes.device import FakeModes, FakePower, FakeThrottle

ENERGY = (
    "schedule", "kernels", "energy", "tasks.yaml", "--device", "nvidia:0", "--room", "100%", "--duration", "30ms",
    "--policy", "elastic",
)  # fmt: skip
WATTS = {None: 20.0, 300.0: 10.0, 600.0: 15.0, 900.0: 30.0}
"""Power by GPU clock, MHz; without one, that of the clocks as found."""


class Machine:
    """A GPU, its sensor and its modes, on one clock."""

    def __init__(self) -> None:
        self.clock, self.modes, self.throttle = FakeClock(), FakeModes(), FakeThrottle([0])
        self.cuda = FakeCuda([FakeCudaGpu(sm_count=2, threads_per_sm=256)], self.clock, other_ns=4000)
        self.power: FakePower | Absent = FakePower(self.clock, self._energy_j, refresh_s=0.002)
        self.root, self.opened = True, 0

    def _energy_j(self, time_s: float) -> float:
        return WATTS[self.modes.applied[-1].gpu_mhz if self.modes.applied else None] * time_s

    def device(self, name: str) -> Device:
        return Device(
            name, "a fake", simulated=False, source=LiveSource((), "cuda:0"), clock=self.clock, power=self.power,
            modes=self.modes if self.root else Absent("it takes root"), temperature=Absent("not scripted"),
            throttle=self.throttle,
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tasks.yaml").write_text(TASKS)
    (tmp_path / "scale.cu").write_text(SOURCE)
    made, real = Machine(), gpu_session.open_gpu_session
    opened = partial(real, now_ns=ticking(made.clock), sleep_s=made.clock.sleep_s)

    def open_session(index, **options):
        made.opened += 1
        return opened(index, **{**options, "module": made.cuda})

    monkeypatch.setattr(gpu_session, "open_gpu_session", open_session)
    monkeypatch.setattr(workflow, "open_device", made.device)
    return made


def test_the_least_energy_is_measured_and_the_board_put_back(edgetune, machine, tmp_path):
    ended = edgetune(*ENERGY, "--modes", "all")
    assert ended.code == 0, ended.err
    assert "SIMULATED" not in ended.out + ended.err
    assert "3 combinations, of which some are run, for 30 ms each" in ended.err
    assert " run on nvidia:0)" in ended.out.replace("\n", " ")
    document = json.loads((tmp_path / "energy.json").read_text())
    assert (document["simulated"], document["power_source"], document["duration_s"]) == (False, "fake", 0.03)
    best = document["best"]
    assert (best["gpu_mhz"], best["runs"]) == (300.0, 2)
    assert best["power_w"] == pytest.approx(10.0)
    assert best["energy_j"] == pytest.approx(best["power_w"] / best["normal_per_s"])
    assert {each["runs"] for each in document["tried"] if each != best} == {1}
    assert {each["gpu_mhz"]: each["power_w"] for each in document["tried"]} == {
        mhz: pytest.approx(watts) for mhz, watts in WATTS.items() if mhz
    }
    assert len(machine.modes.applied) == machine.opened, "the GPU is opened anew in each mode"
    assert machine.modes.restored == 1
    assert machine.cuda.leaked() == []


def test_a_gpu_whose_clocks_cannot_be_set_is_measured_as_it_is(edgetune, machine, tmp_path):
    machine.root = False
    ended = edgetune(*ENERGY, "--json", "--quiet")
    assert ended.code == 0, ended.err
    best = json.loads(ended.out)["best"]
    assert (best["gpu_mhz"], best["power_w"]) == (None, pytest.approx(20.0))
    assert machine.opened == 1


def test_a_device_that_throttled_counts_as_none(edgetune, machine):
    machine.throttle.counts = list(range(100))
    ended = edgetune(*ENERGY, "--quiet")
    assert_two_lines(ended, 3)
    assert "the nearest has the device throttled" in ended.err
    assert machine.modes.restored == 1


def test_a_stop_keeps_what_was_tried_and_puts_the_board_back(edgetune, machine, monkeypatch, tmp_path):
    real, tried = workflow.MeasuredTrials.__call__, []

    def counting(self, mode, policy, room):
        tried.append(mode)
        if len(tried) == 2:
            raise KeyboardInterrupt
        return real(self, mode, policy, room)

    monkeypatch.setattr(workflow.MeasuredTrials, "__call__", counting)
    ended = edgetune(*ENERGY, "--modes", "all")
    assert ended.code == 130, ended.err
    assert "stopped; 1 of 3 combinations were tried" in ended.err
    assert len(json.loads((tmp_path / "energy.json").read_text())["tried"]) == 1
    assert machine.modes.restored == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--duration", "10ms"), "--duration 10 ms is too short for a mean of fake"),
        (("--device", "host"), "do not run on 'host'"),
        (("--modes", "gpu_mhz=5"), "gpu_mhz"),
    ],
)
def test_what_cannot_be_measured_is_refused(edgetune, machine, words, said):
    ended = edgetune(*ENERGY, *words, "--quiet")
    assert_two_lines(ended, 2)
    assert said in ended.err
    assert machine.opened == 0


def test_no_power_readings(edgetune, machine):
    machine.power = Absent("no sensor")
    ended = edgetune(*ENERGY, "--quiet")
    assert_two_lines(ended, 2)
    assert "nvidia:0 gives no power readings: no sensor" in ended.err


def test_tasks_without_source_are_refused(edgetune, machine, tmp_path):
    (tmp_path / "tasks.yaml").write_text(TASKS.replace("    source: scale.cu\n", ""))
    ended = edgetune(*ENERGY, "--quiet")
    assert_two_lines(ended, 2)
    assert "has no source" in ended.err


def test_a_sensor_that_falls_silent_is_an_error(edgetune, machine):
    machine.power.limit = 3
    ended = edgetune(*ENERGY, "--quiet")
    assert ended.code == 1
    assert "no power: too few power samples" in ended.err
    assert machine.modes.restored == 1
