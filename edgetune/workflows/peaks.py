"""Reads the roofline of a device from a file."""

from __future__ import annotations

from edgetune.artifacts.io import read
from edgetune.artifacts.roofline import Roofline
from edgetune.errors import InputError


def read_peaks(source: str, device: str | None, *, force: bool | None) -> Roofline:
    """Return a roofline that was measured earlier.

    Args:
        source: A file, or ``-``.
        device: The device to use it for; ``None`` accepts any.
        force: Accept the roofline of another device.

    Raises:
        InputError: the roofline cannot be read, or is of another device.
    """
    found = read(Roofline, source)
    if device is not None and found.device != device and not force:
        forced = "" if force is None else ", or add --force"
        hint = f"measure them: edgetune roofline --device {device} -o FILE{forced}"
        raise InputError(f"{source} has the peaks of {found.device}, not of {device}", hint)
    return found
