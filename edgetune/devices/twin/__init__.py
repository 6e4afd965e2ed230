"""Digital twins: a board's time and power from a physical model, calibrated on published measurements.

    open_twin("twin:orin-agx")                    a device on a virtual clock
    calibration.check(tables, NAME)               each published figure with the twin's value
    calibration.calibrate(tables, NAME)           the constants, fitted to another set of operator tables

``tables`` is ``(network, task, batch_size) -> OpsTable``: this layer computes no costs of networks. NumPy, SciPy and
PyYAML are imported on first use.
"""

from __future__ import annotations

import difflib

from edgetune.devices.device import Device, DeviceKind, Listing
from edgetune.errors import InputError


def list_boards() -> tuple[str, ...]:
    """Return the boards that have a twin."""
    from edgetune.devices.twin import constants

    return constants.list_boards()


def open_twin(name: str, *, seed: int = 0, noise: bool = False) -> Device:
    """Open a twin; see ``edgetune.devices.twin.device``."""
    from edgetune.devices.twin import device

    return device.open_twin(name, seed=seed, noise=noise)


def _listings() -> list[Listing]:
    return [Listing(f"twin:{board}", "digital twin of the board (simulated)") for board in list_boards()]


def _open(name: str, seed: int) -> Device:
    board = name.removeprefix("twin").removeprefix(":").partition("?")[0]
    boards = list_boards()
    if board not in boards:
        near = difflib.get_close_matches(board, boards, n=1)
        known = f"known: {', '.join(f'twin:{b}' for b in boards)}"
        hint = f"did you mean twin:{near[0]}? {known}" if near else known
        raise InputError(f"there is no twin of {board!r}" if board else f"{name!r} names no board", hint)
    return open_twin(name, seed=seed)


KIND = DeviceKind("twin:orin-agx", False, _listings, _open)
