"""A kind of device: how its devices are listed and opened by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetune.devices.device import Device


@dataclass(frozen=True, slots=True)
class Listing:
    """One device that can be named.

    Args:
        name: What to write after ``--device``.
        description: One line for people.
        available: Whether it can be opened now.
        reason: Why not; empty when it can.
    """

    name: str
    description: str
    available: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """One kind of device, under the first word of its devices' names.

    Args:
        example: A name of this kind, for messages.
        chosen: Whether ``auto`` may take it: real hardware only.
        listings: Returns the devices of this kind that can be named here.
        open: Opens a device from its whole name and a seed.
    """

    example: str
    chosen: bool
    listings: Callable[[], list[Listing]]
    open: Callable[[str, int], Device]
