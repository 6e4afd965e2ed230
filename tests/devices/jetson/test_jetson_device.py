"""A Jetson put together: what every device promises, on boards of each kernel, with the guardian as a real process.

The board beside the catalogue.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.device_contract import DeviceContract
from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LiveSource
from edgetune.devices.guardian.client import GuardianModes, guardian_command
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.jetson.device import differences, open_jetson, open_jetson_at
from edgetune.devices.jetson.knobs import find_knobs
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError
from edgetune.testing.fake_jetson import is_fake, open_fake_jetson

GUARDIAN = """
import sys
from pathlib import Path
from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.guardian.program import run
from edgetune.testing.fake_jetson import FakeClock
from edgetune.testing.fake_kernel import FakeKernel

clock = FakeClock(10**18)
def open_board(device, root):
    return open_jetson_control(FakeKernel(root, user="root", clock=clock), sleep=clock.sleep_s)
sys.exit(run("jetson", open_board, Path(sys.argv[1])))
"""
"""The guardian of a fake board, with a clock that moves only when it sleeps: settling takes no time."""


def opened(at, name="jetson", **options) -> Device:
    command = [sys.executable, "-c", GUARDIAN, str(at.kernel.root)]
    return open_jetson(at.kernel, name, command, clock=at.clock, made_up="a fake", **options)


class BoardContract(DeviceContract):
    board = ("", "")

    @pytest.fixture
    def at(self, bench):
        made = bench(self.board[0], kernel=self.board[1])
        yield made
        assert made.differences() == {}
        assert not (made.kernel.root / "var/lib/edgetune/jetson.run.json").exists()

    @pytest.fixture
    def device(self, at) -> Device:
        return opened(at)

    def test_nothing_is_absent_and_no_knob_is_fixed(self, device):
        for part in (device.power, device.modes, device.temperature, device.throttle):
            assert not isinstance(part, Absent)
        assert device.modes.space.fixed == {}


class TestAgxOrinOfJetpack5(BoardContract):
    board = ("jetson-agx-orin-64gb", "5.10")


@pytest.mark.slow
class TestOrinNanoOfJetpack6(BoardContract):
    board = ("jetson-orin-nano-8gb", "5.15")


@pytest.mark.slow
class TestXavierNxOfJetpack4(BoardContract):
    board = ("jetson-xavier-nx", "4.9")


class TestThorOfJetpack7(BoardContract):
    board = ("jetson-agx-thor", "6.8")


def test_power_is_recorded_while_time_passes(bench):
    at = bench("jetson-agx-orin-64gb", kernel="5.10")
    device = open_fake_jetson(at.kernel.root)
    with device.power.record() as recording:
        device.clock.sleep_s(3 * device.power.refresh_s)
    assert len(recording.readings) >= 2
    assert recording.failure is None
    assert device.power.source == "ina3221:VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0"


def test_a_fake_says_so_wherever_its_figures_go(bench):
    device = open_fake_jetson(bench("jetson-nano").kernel.root)
    assert device.simulated
    assert device.conditions["simulated"] is True
    assert "fake kernel" in device.conditions["made_up"]
    assert "fake kernel" in device.description
    assert device.source == LiveSource(("CPUExecutionProvider",), "cpu")


def test_a_board_that_is_not_said_to_be_fake_runs_networks_on_its_gpu(bench):
    at = bench("jetson-orin-nano-8gb", kernel="5.15")
    device = open_jetson(at.kernel, "jetson", ["false"])
    assert not device.simulated
    assert "simulated" not in device.conditions
    assert device.description == "NVIDIA Jetson Orin Nano Developer Kit, JetPack 6, L4T 36.4.3, kernel 5.15"
    assert device.source.torch_device == "cuda:0"
    assert device.source.ort_providers[0] == "CUDAExecutionProvider"


def test_opening_a_board_writes_nothing_and_starts_no_guardian(bench):
    at = bench("jetson-orin-nano-8gb", kernel="5.10")
    device = open_jetson(at.kernel, "jetson", ["/no/such/program"], clock=at.clock)
    assert device.modes.read() == Mode(cpu_cores=6)
    device.telemetry.read()
    assert at.kernel.writes == []


def test_a_guardian_that_cannot_be_started_is_an_error_of_the_device(bench):
    device = open_jetson(bench("jetson-nano").kernel, "jetson", ["/no/such/program"])
    with pytest.raises(DeviceError, match=r"guardian.*cannot be started.*/no/such/program"):
        device.modes.apply(Mode(cpu_cores=1))
    device.modes.restore()


def test_beyond_caps_offers_more_and_says_so_in_the_results(bench):
    at = bench("jetson-agx-orin-64gb", kernel="5.15", mode="MODE_30W")
    within, beyond = opened(at), opened(at, "jetson?beyond-caps=on")
    ends = [device.modes.space.knobs["gpu_mhz"][-1] for device in (within, beyond)]
    assert ends[0] < ends[1] == 1300.5
    assert (within.conditions["beyond_caps"], beyond.conditions["beyond_caps"]) == (False, True)
    assert within.name == beyond.name == "jetson"


def test_the_guardian_of_a_board_elsewhere_is_told_the_folder_and_what_goes_beyond_the_caps(bench):
    root = bench("jetson-nano").kernel.root
    for name, asked in {"jetson": "jetson", "jetson?beyond-caps=on&rails=POM_5V_IN": "jetson?beyond-caps=on"}.items():
        modes = open_jetson_at(root, name).modes
        assert isinstance(modes, GuardianModes)
        assert modes.command == guardian_command(asked, root)


def test_a_machine_that_is_no_jetson_is_named_as_such(tmp_path):
    with pytest.raises(DeviceError, match=f"{tmp_path} has no files of a Jetson"):
        open_jetson_at(tmp_path)
    with pytest.raises(DeviceError, match="this machine is not a Jetson"):
        open_jetson(Sysfs(Path("/")), "jetson", [])
    assert not is_fake(tmp_path)


def test_without_privilege_nothing_can_be_set_and_everything_else_is_there(bench):
    at = bench("jetson-orin-nano-8gb", kernel="5.15", user="user")
    device = open_jetson(at.kernel, "jetson", ["/no/such/program"], ask=True, clock=at.clock)
    assert device.modes.space.knobs == {}
    assert all("root" in why for why in device.modes.space.fixed.values())
    assert device.temperature.read_c() > 0
    assert not isinstance(device.power, Absent)


def test_without_privilege_the_guardian_tells_what_can_be_set(bench):
    at = bench("jetson-orin-nano-8gb", kernel="5.15", user="user")
    device = opened(at, ask=True)
    assert set(device.modes.space.knobs) == {"cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"}
    applied = device.modes.apply(Mode(cpu_cores=2))
    assert applied.cpu_cores == 2
    device.modes.restore()
    assert at.differences() == {}


def test_without_a_known_power_mode_nothing_above_the_limits_in_force_is_offered(tmp_path):
    from edgetune.devices.guardian.controls import open_jetson_control
    from edgetune.testing.fake_board import make_board

    kernel = make_board(tmp_path, "jetson-agx-orin-64gb", kernel="5.10", mode="MODE_50W")
    (tmp_path / "var/lib/nvpmodel/status").unlink()
    space = open_jetson_control(kernel).space
    assert (space.knobs["cpu_mhz"][-1], space.knobs["gpu_mhz"][-1]) == (1497.6, 828.75)
    assert set(space.limited) == {"cpu_mhz", "gpu_mhz"}
    (tmp_path / "etc/nvpmodel.conf").unlink()
    assert open_jetson_control(kernel).space.knobs["gpu_mhz"][-1] == 828.75
    assert open_jetson_control(kernel, beyond_caps=True).space.knobs["gpu_mhz"][-1] == 1300.5


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
