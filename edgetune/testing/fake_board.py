"""Build a fake board below a folder: ``python -m edgetune.testing.fake_board BOARD FOLDER [--kernel 5.10]``."""

import argparse
import sys
from pathlib import Path
from typing import Any

from edgetune.devices.capabilities import Clock
from edgetune.devices.jetson.catalog import board_names
from edgetune.testing import fake_description, fake_nvpmodel
from edgetune.testing.fake_description import describe
from edgetune.testing.fake_kernel import DESCRIPTION, FakeKernel


def make_board(
    root: Path,
    board: str = "jetson-agx-orin-64gb",
    *,
    kernel: str | None = None,
    mode: str | None = None,
    clock: Clock | None = None,
    **behaviour: Any,
) -> FakeKernel:
    """Build a board below ``root`` and boot it.

    Args:
        root: An empty folder; created if missing.
        board: Name in the catalogue.
        kernel: ``4.9``, ``5.10``, ``5.15`` or ``6.8``; by default the oldest of the board's releases.
        mode: nvpmodel mode at boot; by default the one without limits, else the board's default.
        clock: Clock of the refresh of readings.
        behaviour: ``super_dt``, ``l4t``, and the other fields of ``FakeBoard``.

    Raises:
        InputError: the board, its kernel, its mode or a behaviour does not exist.
    """
    described = describe(board, kernel=kernel, mode=mode, **behaviour)
    (root / DESCRIPTION).parent.mkdir(parents=True, exist_ok=True)
    (root / DESCRIPTION).write_text(described.to_yaml(), encoding="utf-8")
    made = FakeKernel(root, clock=clock)
    fake_description.install(made, described)
    fake_nvpmodel.install(made, described)
    made.power_on()
    return made


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m edgetune.testing.fake_board", description=__doc__)
    parser.add_argument("board", choices=board_names())
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernel")
    parser.add_argument("--mode")
    asked = parser.parse_args()
    made = make_board(asked.folder, asked.board, kernel=asked.kernel, mode=asked.mode).board
    sys.stdout.write(
        f"A fake {made.catalogue.marketing} below {asked.folder}: kernel {made.kernel}, L4T {made.l4t}, "
        f"mode {made.mode}.\n{len(made.cpu_khz)} CPU, {len(made.gpu_khz)} GPU and {len(made.emc_khz)} memory clocks. "
        "No board is behind it.\n"
    )


if __name__ == "__main__":
    _main()
