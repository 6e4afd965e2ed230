"""Where to run, as named on the command line: a device, or a board whose kernel's files lie below another folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.devices.device import Device

Root = Annotated[
    str | None,
    typer.Option("--root", metavar="DIR", help="The folder with the sys and proc of the board: a mount, or a fake."),
]


def open_named(name: str, root: str | None = None, *, seed: int = 0) -> Device:
    """Open a device by name.

    Args:
        name: As ``edgetune device`` lists it.
        root: The folder that has the board's files; one that ``edgetune.testing`` made is a fake board, and says so.
        seed: Seed of a twin's noise.

    Raises:
        InputError: no such device, or ``root`` is not the folder of a board.
        DeviceError: it is not here.
    """
    if root is None:
        from edgetune.devices.discover import open_device

        return open_device(name, seed=seed)
    board = "jetson" if name == "auto" else name
    if board.partition("?")[0] != "jetson":
        raise InputError(f"--root {root} is a board, but --device is {name}", "write --device jetson")
    if not Path(root).is_dir():
        raise InputError(f"--root {root}: there is no such folder", "give the folder that has the board's sys and proc")
    from edgetune.testing.fake_jetson import is_fake, open_fake_jetson

    if is_fake(Path(root)):
        return open_fake_jetson(Path(root), board)
    from edgetune.devices.jetson.device import open_jetson_at

    return open_jetson_at(Path(root), board)
