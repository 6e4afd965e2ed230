"""Devices by name: the registry of kinds, the list of devices on this machine, and opening by name.

``auto`` chooses the first real accelerator, else the host, and never a simulated or recorded device.
"""

from __future__ import annotations

from pathlib import Path

from edgetune.choices import closest
from edgetune.devices.device import Device, DeviceKind, Listing
from edgetune.errors import DeviceError, InputError
from edgetune.plugins import Registry

AUTO = "auto"

DEVICES: Registry[DeviceKind] = Registry(
    "device",
    {
        "jetson": "edgetune.devices.jetson.device:KIND",
        "nvidia": "edgetune.devices.nvml.device:KIND",
        "host": "edgetune.devices.host:KIND",
        "twin": "edgetune.devices.twin:KIND",
        "recorded": "edgetune.devices.recorded:KIND",
    },
    group="edgetune.devices",
    contract=DeviceKind,
)
"""Every kind of device, by the first word of its name, in the order that ``auto`` tries them."""


def open_device(name: str, *, seed: int = 0) -> Device:
    """Open a device by name.

    Args:
        name: ``auto``, ``host``, ``recorded:FILE``, ``twin:BOARD``, ``nvidia:0`` or ``jetson``.
        seed: Seed of a twin's noise.

    Raises:
        InputError: the name is unknown.
        DeviceError: the device, its driver or its library is missing.
    """
    name = auto_name() if name == AUTO else name
    return _kind_of(name).open(name, seed)


def list_devices() -> list[Listing]:
    """Return the devices of this machine, real ones first, with the reason why one cannot be opened."""
    return [listing for kind in DEVICES.values() for listing in kind.listings()]


def auto_name() -> str:
    """Return the name of the device that ``auto`` chooses.

    Raises:
        DeviceError: no device can be opened.
    """
    for kind in DEVICES.values():
        if kind.chosen:
            for listing in kind.listings():
                if listing.available:
                    return listing.name
    raise DeviceError("no device was found", "`edgetune device` lists the devices by name")


_MEANT = {"cpu": "host", "gpu": "nvidia", "cuda": "nvidia"}
"""Words that other programs have for a device."""


def _kind_of(name: str) -> DeviceKind:
    word = name.partition(":")[0].partition("?")[0]
    if word in DEVICES:
        return DEVICES[word]
    names = [AUTO, *(kind.example for kind in DEVICES.values())]
    near = _MEANT.get(name.lower()) or closest(name, [*names, *DEVICES])
    if not near and Path(name).is_file():
        raise InputError(f"unknown device {name!r}", f"to use a file as a device write recorded:{name}")
    known = f"known: {', '.join(names)}; `edgetune device` says what each is"
    if not near:
        raise InputError(f"unknown device {name!r}", known)
    meant = DEVICES[near].example if near in DEVICES else near
    raise InputError(f"unknown device {name!r}", f"did you mean {meant}? {known}")
