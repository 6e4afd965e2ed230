"""Open a fake board as a device with its guardian: ``python -m edgetune.testing.fake_jetson FOLDER [OPTIONS]``.

Networks run on the CPU of this machine. The guardian is the same program as on a board, over the fake kernel that
``fake_board`` built in the folder, so no real setting changes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.devices.capabilities import Clock, MonotonicClock, VirtualClock
from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.guardian.program import run
from edgetune.processes.start import python_command
from edgetune.testing.fake_kernel import DESCRIPTION, FakeKernel

if TYPE_CHECKING:
    from edgetune.devices.device import Device


FakeClock = VirtualClock


def fake_guardian_command(root: Path, *options: str) -> list[str]:
    """Return the command line of the guardian of the fake board in ``root``; it acts as root for any user."""
    return python_command("edgetune.testing.fake_jetson", str(root), *options)


def open_fake(root: Path, *, beyond_caps: bool = False, hurried: bool = False) -> BoardControl:
    """Open the control of the fake board in ``root``, with the rights of root.

    Args:
        root: Folder of ``make_board``.
        beyond_caps: Also offer values above the limits of its power mode.
        hurried: Skip all waits.
    """
    clock: Clock = FakeClock() if hurried else MonotonicClock()
    kernel = FakeKernel(root, user="root", clock=clock)
    return open_jetson_control(kernel, beyond_caps=beyond_caps, sleep=clock.sleep_s)


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m edgetune.testing.fake_jetson", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beyond-caps", action="store_true")
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--hurried", action="store_true", help="let all waiting be over at once")
    asked = parser.parse_args()

    def opening(_: str, root: Path) -> BoardControl:
        return open_fake(root, beyond_caps=asked.beyond_caps, hurried=asked.hurried)

    return run("jetson", opening, asked.folder.resolve(), only_restore=asked.restore)


if __name__ == "__main__":
    sys.exit(_main())


MADE_UP = "a fake kernel: clocks, power and temperatures are made up, times are this machine's"


def is_fake(root: Path) -> bool:
    """Whether ``edgetune.testing.fake_board`` built the board below ``root``."""
    return (root / DESCRIPTION).is_file()


def open_fake_jetson(root: Path, name: str = "jetson", *, clock: Clock | None = None) -> Device:
    """Open the fake board below ``root`` as ``--device jetson --root ROOT`` does.

    What only a device needs is imported here: the guardian, a process of its own, starts faster without it.

    Args:
        root: Folder of ``make_board``.
        name: ``jetson``, with options.
        clock: Clock of the device; the system's monotonic clock by default.
    """
    from edgetune.devices.device import LiveSource
    from edgetune.devices.jetson.device import open_jetson, parse_jetson_options

    return open_jetson(
        FakeKernel(root, clock=clock),
        name,
        fake_guardian_command(root.resolve(), *(["--beyond-caps"] if parse_jetson_options(name).beyond_caps else [])),
        source=LiveSource(ort_providers=("CPUExecutionProvider",), torch_device="cpu"),
        clock=clock,
        made_up=MADE_UP,
    )
