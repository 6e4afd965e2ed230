"""A fake board as a device: a fake kernel and its guardian, while networks really run, on the CPU of this machine."""

from __future__ import annotations

from pathlib import Path

from edgetune.devices.clock import Clock
from edgetune.devices.device import Device, LiveSource
from edgetune.devices.jetson.device import open_jetson
from edgetune.devices.jetson.device_options import parse_jetson_options
from edgetune.testing.fake_guardian import fake_guardian_command
from edgetune.testing.fake_kernel import DESCRIPTION, FakeKernel

MADE_UP = "a fake kernel: clocks, power and temperatures are made up, times are this machine's"


def is_fake(root: Path) -> bool:
    """Whether ``edgetune.testing.fake_board`` built the board below ``root``."""
    return (root / DESCRIPTION).is_file()


def open_fake_jetson(root: Path, name: str = "jetson", *, clock: Clock | None = None) -> Device:
    """Open the fake board below ``root`` as ``--device jetson --root ROOT`` does.

    Args:
        root: Where ``make_board`` built it.
        name: ``jetson``, with options.
        clock: Times everything; the system's monotonic clock by default.
    """
    return open_jetson(
        FakeKernel(root, clock=clock),
        name,
        fake_guardian_command(root.resolve(), *(["--beyond-caps"] if parse_jetson_options(name).beyond_caps else [])),
        source=LiveSource(ort_providers=("CPUExecutionProvider",), torch_device="cpu"),
        clock=clock,
        made_up=MADE_UP,
    )
