"""Devices by name: nothing simulated is chosen silently, and what is missing says what it needs."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.devices import device
from edgetune.devices.device import DEVICES, Device, DeviceKind, Listing, list_devices, open_device
from edgetune.devices.nvml.device import missing_nvidia
from edgetune.errors import DeviceError, ExitCode, InputError
from edgetune.plugins import Registry


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A machine with two NVIDIA GPUs, or a Jetson, as their kernels show it."""
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / bus).mkdir(parents=True)
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_bytes(b"nvidia,p3737-0000+p3701-0000\0nvidia,tegra234\0")
    (tmp_path / "proc/device-tree/model").write_bytes(b"NVIDIA Jetson AGX Orin Developer Kit\0")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("hots", "did you mean host?"),
        ("jeston", "did you mean jetson?"),
        ("nvida:0", "did you mean nvidia:0?"),
        ("twim:orin-agx", "did you mean twin:orin-agx?"),
        ("", "known: auto, jetson, nvidia:0, host, twin:orin-agx, recorded:FILE"),
        ("host:1", "write host"),
        ("jetson:0", "write jetson"),
        ("nvidia", "write nvidia:0"),
        ("nvidia:first", "write nvidia:0"),
        ("twin", "known: twin:orin-agx"),
        ("twin:orin", "did you mean twin:orin-agx?"),
        ("recorded", "recorded:profile.parquet"),
        ("recorded:", "recorded:profile.parquet"),
    ],
)
def test_an_unknown_name_is_bad_input_with_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        open_device(name)
    assert hint in caught.value.hint


def test_a_file_is_named_with_its_prefix(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("workload,task,batch_size,gpu_mhz,minibatch_s\nnet,train,16,900,0.05\n")
    with pytest.raises(InputError) as caught:
        open_device(str(tmp_path / "t.csv"))
    assert caught.value.hint == f"to use a file as a device write recorded:{tmp_path / 't.csv'}"
    assert open_device(f"recorded:{tmp_path / 't.csv'}").name == f"recorded:{tmp_path / 't.csv'}"


def test_no_gpu_is_a_device_error(tmp_path: Path) -> None:
    failure = DeviceError("nvidia-ml-py is not installed", "pip install it")
    error = missing_nvidia(failure, tmp_path)
    assert error.exit_code is ExitCode.DEVICE
    assert error.message == "no NVIDIA GPU here: its driver is not loaded"
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").touch()
    assert missing_nvidia(failure, tmp_path).message == "no NVIDIA GPU here: the driver knows none"


def test_a_gpu_that_is_here_is_not_denied(board: Path) -> None:
    failure = DeviceError("nvidia-ml-py is not installed", "pip install it")
    assert missing_nvidia(failure, board) is failure


@pytest.mark.parametrize("name", ["nvidia:99", "jetson"])
def test_hardware_that_cannot_be_used_is_never_opened(name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        open_device(name)
    assert caught.value.exit_code is ExitCode.DEVICE
    assert caught.value.hint


def test_the_list_names_every_kind_and_why_one_cannot_be_opened() -> None:
    listings = list_devices()
    assert {listing.name.partition(":")[0] for listing in listings} == set(DEVICES)
    for listing in listings:
        assert listing.description
        assert bool(listing.reason) is not listing.available


def test_the_seed_reaches_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[tuple[str, int]] = []

    def remember(name: str, *, seed: int) -> None:
        seeds.append((name, seed))

    monkeypatch.setattr("edgetune.devices.twin.device.open_twin", remember)
    open_device("twin:orin-agx?noise=on", seed=7)
    assert seeds == [("twin:orin-agx?noise=on", 7)]


def _opening(monkeypatch: pytest.MonkeyPatch, **available: bool) -> None:
    """Replace every kind by one that only says what it would open."""

    def stub(kind: str) -> DeviceKind:
        listing = Listing(kind, "", available.get(kind, True), "")
        return replace(DEVICES[kind], listings=lambda: [listing], open=_no_device(kind))

    monkeypatch.setattr(device, "DEVICES", Registry("device", {kind: stub(kind) for kind in DEVICES}))


def _no_device(kind: str) -> object:
    def refuse(name: str, seed: int) -> Device:
        raise DeviceError(f"would open {kind}", "")

    return refuse


@pytest.mark.parametrize(
    ("available", "opened"),
    [({}, "jetson"), ({"jetson": False}, "nvidia"), ({"jetson": False, "nvidia": False}, "host")],
)
def test_auto_takes_the_first_real_accelerator_else_the_host(
    monkeypatch: pytest.MonkeyPatch, available: dict[str, bool], opened: str
) -> None:
    _opening(monkeypatch, **available)
    with pytest.raises(DeviceError, match=f"would open {opened}"):
        open_device("auto")


def test_auto_never_takes_a_twin_or_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    _opening(monkeypatch, jetson=False, nvidia=False, host=False)
    with pytest.raises(DeviceError, match="no device was found"):
        open_device("auto")
