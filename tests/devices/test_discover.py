"""Devices by name: nothing simulated is chosen silently, and what is missing says what it needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.devices import discover
from edgetune.devices.device import Device, DeviceKind, Listing
from edgetune.devices.discover import DEVICES, open_device
from edgetune.devices.nvml.device import missing_nvidia
from edgetune.errors import DeviceError, ExitCode, InputError
from edgetune.plugins import Registry


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


def test_no_gpu_is_a_device_error(tmp_path: Path) -> None:
    failure = DeviceError("nvidia-ml-py is not installed", "pip install it")
    error = missing_nvidia(failure, tmp_path)
    assert error.exit_code is ExitCode.DEVICE
    assert error.message == "no NVIDIA GPU here: its driver is not loaded"
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").touch()
    assert missing_nvidia(failure, tmp_path).message == "no NVIDIA GPU here: the driver knows none"


@pytest.mark.parametrize("name", ["nvidia:99", "jetson"])
def test_hardware_that_cannot_be_used_is_never_opened(name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        open_device(name)
    assert caught.value.exit_code is ExitCode.DEVICE
    assert caught.value.hint


def _opening(monkeypatch: pytest.MonkeyPatch, **available: bool) -> None:
    """Replace every kind by one that only says what it would open."""

    def stub(kind: str) -> DeviceKind:
        listing = Listing(kind, "", available.get(kind, True), "")
        return replace(DEVICES[kind], listings=lambda: [listing], open=_no_device(kind))

    monkeypatch.setattr(discover, "DEVICES", Registry("device", {kind: stub(kind) for kind in DEVICES}))


def _no_device(kind: str) -> object:
    def refuse(name: str, seed: int) -> Device:
        raise DeviceError(f"would open {kind}", "")

    return refuse


@pytest.mark.parametrize(
    ("available", "opened"),
    [
        ({}, "jetson"),
        ({"jetson": False}, "nvidia"),
        ({"jetson": False, "nvidia": False}, "host"),
    ],
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
