"""``--shard 2/8``: the share of one board in a sweep over several, for ``edgetune merge``."""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts.profile import Point
from edgetune.devices.board_files import read_text
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.stages.profiling.boards import choose_anchors, share_of
from edgetune.workflows.profile.options import ProfileCommandOptions

_SERIAL = "proc/device-tree/serial-number"


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one board.

    Args:
        points: What it measures, the anchors included.
        anchors: What every board measures, first and again at the end.
        board: Its name.
        suffix: Of the default name of the table.
    """

    points: list[Point]
    anchors: tuple[Point, ...] = ()
    board: str | None = None
    suffix: str = ""


def share_asked(opts: ProfileCommandOptions, device: Device, points: Sequence[Point]) -> Share:
    """Return the share of this board: all points without ``--shard``.

    Raises:
        InputError: ``--shard`` is not I/N, or a shard would be empty.
    """
    if opts.shard is None:
        return Share(list(points), board=opts.board)
    words = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", opts.shard)
    number, count = (int(word) for word in words.groups()) if words else (0, 0)
    if not 1 <= number <= count:
        raise InputError(f"--shard: {opts.shard!r} is not a share of all boards", "e.g. --shard 2/8")
    modes = len({point.mode for point in points})
    if count > modes:
        raise InputError(f"--shard: {modes} modes have no {count} shares", "give more modes, or fewer shares")
    anchors = tuple(choose_anchors(points, opts.anchors)) if opts.anchors else ()
    own = [*anchors, *share_of(points, number, count)]
    board = opts.board or board_name(device, opts.root)
    return Share(list(dict.fromkeys(own)), anchors, board, f"-{number}-of-{count}")


def board_name(device: Device, root: str | None = None) -> str:
    """Return the serial number of a Jetson, else the names of the host and the device."""
    serial = read_text(Path(root or "/"), _SERIAL) if device.name == "jetson" else None
    return re.sub(r"\W", "", serial or "") or f"{socket.gethostname()} {device.name}"
