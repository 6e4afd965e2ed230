"""Digital twins: a board's time and power from a physical model, calibrated on published measurements.

``device.open_twin("twin:orin-agx")`` is a device on a virtual clock. It takes operator tables: this layer computes no
costs of networks. NumPy and PyYAML are imported on first use. ``tests/benchmarks/twin.py`` compares the twin with the
published figures, and fits the constants.
"""

from edgetune.devices.device import Device, DeviceKind, Listing
from edgetune.devices.twin.constants import list_boards


def _listings() -> list[Listing]:
    return [Listing(f"twin:{board}", "digital twin of the board (simulated)") for board in list_boards()]


def _open(name: str, seed: int) -> Device:
    from edgetune.devices.twin.device import open_twin  # NumPy

    return open_twin(name, seed=seed)


KIND = DeviceKind("twin:orin-agx", False, _listings, _open)
