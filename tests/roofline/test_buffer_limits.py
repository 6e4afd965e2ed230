"""How much memory a network can be in: the card's own, the host's, a simulated board's by its name, or nobody says."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.devices.device import Device, open_device
from edgetune.devices.sysfs import Sysfs
from edgetune.stages.roofline.measure import memory_of


def changed(device: Device, **conditions: object) -> Device:
    return replace(device, conditions={**device.conditions, **conditions})


def test_a_host_has_what_its_kernel_says_and_a_card_its_own(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       16000000 kB\nMemAvailable:    9000000 kB\n")
    host = open_device("host")
    assert memory_of(host, Sysfs(tmp_path)) == 16000000 << 10
    assert memory_of(changed(host, gpu_memory_bytes=80 << 30), Sysfs(tmp_path)) == 80 << 30


@pytest.mark.parametrize("text", [None, "", "MemTotal:\n", "MemTotal: many kB\n"])
def test_a_kernel_that_does_not_say_leaves_it_unknown(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(text)
    assert memory_of(open_device("host"), Sysfs(tmp_path)) is None


def test_a_simulated_board_has_what_its_name_says() -> None:
    twin = open_device("twin:orin-agx")
    assert memory_of(twin) == 64 << 30
    assert memory_of(changed(twin, board="jetson-nano")) is None
