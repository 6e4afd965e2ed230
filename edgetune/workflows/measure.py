"""Measures a part of a Python program on a device, in a requested power mode, and restores the mode found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgetune.devices.capabilities import Absent
from edgetune.errors import InputError
from edgetune.stages.profiling.measure import apply_mode
from edgetune.stages.profiling.window import Window, measured_window
from edgetune.workflows.device_option import open_named
from edgetune.workflows.parse_options import choose_modes


@contextmanager
def measure(device: str = "auto", *, mode: str | None = None, root: str | None = None) -> Iterator[Window]:
    """Measure the body of the ``with`` statement.

    Args:
        device: As ``edgetune device`` lists it; a real device, neither a twin nor a table.
        mode: A power mode to set meanwhile, as ``--modes`` names one; ``None`` keeps the mode found.
        root: The folder of the board's files, as ``--root``.

    Raises:
        InputError: the device or mode is unknown, or there are several modes.
        DeviceError: the device is absent, cannot run workloads, or cannot set the mode.
    """
    opened = open_named(device, root)
    with opened.exclusive():
        modes = () if mode is None else choose_modes(opened, mode).modes
        if len(modes) > 1:
            raise InputError(f"{mode} names {len(modes)} modes, and a window has one", "name one, e.g. MAXN")
        try:
            for each in modes:
                apply_mode(opened, each)
            with measured_window(opened) as window:
                yield window
        finally:
            if modes and not isinstance(opened.modes, Absent):
                opened.modes.restore()
