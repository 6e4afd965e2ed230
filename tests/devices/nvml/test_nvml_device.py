"""``nvidia:N`` as a device: what every device promises, what it says of itself, and which GPUs it refuses."""

import json
import math
import sys
from pathlib import Path

import pytest

from contracts.device_contract import DeviceContract
from edgetune.artifacts.mode import Mode
from edgetune.devices.device import Device
from edgetune.devices.nvml.device import nvidia_listings, open_nvidia, open_nvml_device
from edgetune.errors import DeviceError
from edgetune.testing.fake_jetson import FakeClock
from fakes.nvml import FakeGpu, FakeNvml, jetson_gpu, virtual_gpu


@pytest.fixture(autouse=True)
def _nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def jetson(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").write_text("# R38 (release), REVISION: 2.0, BOARD: generic\n")
    return tmp_path


def opened(*fakes: FakeGpu, index: int = 0) -> Device:
    clock = FakeClock(5_000_000_000)
    return open_nvml_device(index, FakeNvml(fakes, clock), may_set=True, clock=clock)


class TestFakeGpu(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return open_nvml_device(0, FakeNvml([FakeGpu(refresh_ns=20_000_000)]), may_set=True)


class TestFakeGpuWithoutRoot(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return open_nvml_device(0, FakeNvml([FakeGpu(refresh_ns=20_000_000, denied=True)]), may_set=False)


class TestFakeOldGpu(DeviceContract):
    """Pascal: no energy counter, no locks."""

    @pytest.fixture
    def device(self) -> Device:
        fake = FakeGpu(architecture=4, missing={"nvmlDeviceGetFieldValues"}, averaging_ns=0, refresh_ns=20_000_000)
        fake.energy_j = lambda time_s: 80 * time_s + math.sin(3 * time_s)  # a power that shows when it is renewed
        return open_nvml_device(0, FakeNvml([fake]), may_set=True)


class TestFakeVirtualGpu(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return open_nvml_device(0, FakeNvml([virtual_gpu()]), may_set=True)


def test_the_workload_is_shown_this_gpu_alone() -> None:
    """CUDA counts otherwise than NVML, and ONNX Runtime takes CUDA's first."""
    source = opened(FakeGpu(uuid="GPU-aa"), FakeGpu(uuid="GPU-bb"), index=1).source
    assert source.ort_providers == ("CUDAExecutionProvider",)
    assert source.torch_device == "cuda:0"
    assert source.environment["CUDA_VISIBLE_DEVICES"] == "GPU-bb"


def test_conditions_say_what_the_result_depends_on_and_not_which_card_it_was() -> None:
    fake = FakeGpu(limit_mw=187_654, processes=(11, 12), persistence=True)
    conditions = opened(fake).conditions
    assert conditions["power_limit_w"] == 187.654
    assert conditions["power_limit_range_w"] == [102.5, 251.0]
    assert conditions["cuda_driver"] == "12.4"
    assert conditions["pci_device"] == "10de:0000"
    assert conditions["compute_processes"] == 2
    assert (conditions["persistence_mode"], conditions["mig"]) == (True, False)
    assert "not the host" in conditions["power_covers"]
    assert fake.uuid not in json.dumps(dict(conditions))


PRESENT_LIMIT = ("nvmlDeviceSetPowerManagementLimit", (230_000,))


def test_opening_and_reading_change_nothing() -> None:
    fake = FakeGpu()
    device = opened(fake)
    device.modes.apply(Mode())
    device.modes.restore()
    assert fake.calls == [PRESENT_LIMIT]  # written to learn whether it can be


def test_modes_of_an_installed_library_are_the_guardians_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeGpu(refresh_ns=20_000_000)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([fake]))  # type: ignore[arg-type]
    modes = open_nvml_device(0, may_set=True).modes
    assert "nvidia:0" in modes.command
    assert set(modes.space.knobs) == {"gpu_mhz", "mem_mhz", "power_limit_w"}
    assert modes.read() == Mode(power_limit_w=230)
    assert fake.calls == [PRESENT_LIMIT]


def test_a_jetsons_own_gpu_is_refused_by_its_name() -> None:
    nvml = FakeNvml([jetson_gpu()])
    (listing,) = nvidia_listings(nvml)
    assert not listing.available
    assert listing.reason.endswith("use the device jetson")
    with pytest.raises(DeviceError, match="which NVML cannot measure"):
        open_nvidia("nvidia:0", nvml)


def test_a_jetsons_gpu_with_another_name_is_refused_where_it_tells_no_power(jetson: Path) -> None:
    thor = virtual_gpu()
    thor.name = "Thor"
    (listing,) = nvidia_listings(FakeNvml([thor]), jetson)
    assert "Thor is the GPU of a Jetson" in listing.reason


def test_a_card_in_the_slot_of_a_jetson_is_a_card(jetson: Path) -> None:
    first, second = nvidia_listings(FakeNvml([jetson_gpu(), FakeGpu()]), jetson)
    assert (first.available, second.available) == (False, True)


def test_every_gpu_is_listed_with_its_own_reason() -> None:
    listings = nvidia_listings(FakeNvml([FakeGpu(name="first"), FakeGpu(lost=True), virtual_gpu()]))
    assert [listing.name for listing in listings] == ["nvidia:0", "nvidia:1", "nvidia:2"]
    assert [listing.available for listing in listings] == [True, False, True]
    assert listings[0].description == "first"
    assert "the GPU is lost" in listings[1].reason


@pytest.mark.parametrize(
    ("shown", "available"),
    [("0", [True, False]), ("1, 0", [True, True]), ("GPU-b", [False, True]), ("", [False, False])],
)
def test_a_gpu_hidden_from_cuda_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, shown: str, available: list[bool]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    listings = nvidia_listings(FakeNvml([FakeGpu(uuid="GPU-aa"), FakeGpu(uuid="GPU-bb")]))
    assert [listing.available for listing in listings] == available
    assert all("CUDA_VISIBLE_DEVICES" in listing.reason for listing in listings if not listing.available)


def test_the_power_of_a_gpu_in_instances_is_told_as_that_of_all_and_the_chosen_one_is_kept(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-41b34780-0000")
    device = opened(FakeGpu(mig=True))
    assert "all MIG instances" in device.power.source
    assert "all MIG instances" in str(device.conditions["power_covers"])
    assert device.source.environment["CUDA_VISIBLE_DEVICES"] == "MIG-41b34780-0000"
