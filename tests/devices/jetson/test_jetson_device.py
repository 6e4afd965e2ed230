"""A Jetson put together: what every device promises, on boards of each kernel, with a real guardian; its options."""

import contextlib
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.device_contract import DeviceContract
from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, LiveSource
from edgetune.devices.guardian.client import guardian_command
from edgetune.devices.jetson.device import JetsonOptions, open_jetson, open_jetson_at, parse_jetson_options
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError, InputError
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


class TestThorOfJetpack7(BoardContract):
    board = ("jetson-agx-thor", "6.8")


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
        assert modes.command == guardian_command(asked, root)


def test_a_machine_that_is_no_jetson_is_named_as_such(tmp_path):
    with pytest.raises(DeviceError, match=f"{tmp_path} has no files of a Jetson"):
        open_jetson_at(tmp_path)
    with pytest.raises(DeviceError, match="this machine is not a Jetson"):
        open_jetson(Sysfs(Path("/")), "jetson", [])
    assert not is_fake(tmp_path)


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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jetson?rail=VDD_IN", "unknown option 'rail'"),
        ("jetson?beyond-caps", "on or off, not ''"),
        ("jetson?beyond-caps=yes", "on or off, not 'yes'"),
        ("jetson?beyond-caps=on&beyond-caps=off", "gives beyond-caps twice"),
        ("jetson?rails=", "none are named"),
        ("jetson?source=jtop&rails=VDD_IN", "jtop chooses its own"),
        ("jetson?source=tegrastats", "board or jtop, not 'tegrastats'"),
        ("jetson:0", "unknown device 'jetson:0'"),
        ("orin", "unknown device 'orin'"),
    ],
)
def test_what_is_no_option_is_refused_with_an_example(name, words):
    with pytest.raises(InputError, match=words.replace("?", r"\?")) as refused:
        parse_jetson_options(name)
    assert "jetson" in refused.value.hint


@given(st.text(min_size=1), st.booleans())
def test_any_name_of_a_rail_survives_quoting(rails, beyond):
    text = f"jetson?rails={quote(rails, safe='+')}&beyond-caps={'on' if beyond else 'off'}"
    assert parse_jetson_options(text) == JetsonOptions(beyond, rails)


@given(st.text(max_size=40))
def test_anything_else_is_choices_or_an_input_error(text):
    with contextlib.suppress(InputError):
        assert isinstance(parse_jetson_options(f"jetson?{text}"), JetsonOptions)
