"""Open the control that sets a device's knobs, by device name; the guardian and its client use it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.journal import STATES, Journals
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError, EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.devices.jetson.control import JetsonControl


BEYOND_CAPS = "jetson?beyond-caps=on"
"""A Jetson of which values above the limits of its power mode are offered too."""


def is_guarded(device: str) -> bool:
    """Return whether a guardian sets the modes of devices with this name; the device need not exist."""
    kind, _, index = device.partition(":")
    return device in ("jetson", "host") or (kind == "nvidia" and index.isascii() and index.isdecimal())


def open_control(device: str, root: Path) -> BoardControl:
    """Open the control of a device's knobs.

    Args:
        device: Device name, e.g. ``jetson``, ``jetson?beyond-caps=on``, ``nvidia:0`` or ``host``.
        root: Root of the file system.

    Raises:
        InputError: no device with this name has a guardian.
        DeviceError: the device is missing.
    """
    kind, _, index = device.partition(":")
    if device in ("jetson", BEYOND_CAPS):
        return open_jetson_control(Sysfs(root), beyond_caps=device == BEYOND_CAPS)
    if kind == "nvidia" and index.isdecimal():
        return _open_nvidia(int(index), root)
    if device == "host":
        from edgetune.devices.cpufreq import HostControl

        return HostControl(Sysfs(root))
    raise InputError(f"the guardian sets no modes of {device!r}", "known: jetson, nvidia:0, host")


def open_jetson_control(
    sysfs: Sysfs, *, beyond_caps: bool = False, sleep: Callable[[float], None] = time.sleep
) -> JetsonControl:
    """Open the control of a Jetson's knobs, within the limits of its active power mode.

    Args:
        sysfs: The board's files.
        beyond_caps: Also offer values above these limits.
        sleep: Waits for seconds.

    Raises:
        DeviceError: this machine is no Jetson, or the kernel does not list its cores.
    """
    from edgetune.devices.jetson.control import JetsonControl
    from edgetune.devices.jetson.detect import detect_jetson
    from edgetune.devices.jetson.knobs import caps_of, find_knobs, limits_in_force, presets_of
    from edgetune.devices.jetson.nvpmodel import present_masks
    from edgetune.devices.jetson.restore import nvpmodel_in_force

    if detect_jetson(sysfs) is None:
        raise DeviceError("this machine is not a Jetson", "the device twin:orin-agx simulates one")
    knobs = find_knobs(sysfs)
    nvpmodel = nvpmodel_in_force(sysfs, _found_before(sysfs), knobs)
    presets, caps = None, limits_in_force(knobs, sysfs)
    if not isinstance(nvpmodel, str):
        presets = presets_of(nvpmodel, knobs.tables, present_masks(sysfs, nvpmodel))
        caps = caps if nvpmodel.active_model is None else caps_of(nvpmodel, knobs.tables)
    return JetsonControl(sysfs, knobs=knobs, presets=presets, caps=caps, beyond_caps=beyond_caps, sleep=sleep)


def _found_before(sysfs: Sysfs) -> dict[str, str]:
    """Return the settings as edgetune found them, where it has changed some since the machine was started."""
    journals = Journals("jetson", sysfs.root)
    found: dict[str, str] = {}
    for state in STATES:  # the latest first
        with suppress(EdgetuneError, OSError):
            entry = journals.read(state)
            if entry is not None and not journals.restarted_since(entry):
                found |= entry.snapshot
    return found


def _open_nvidia(index: int, root: Path) -> BoardControl:
    from edgetune.devices.jetson.detect import detect_jetson
    from edgetune.devices.nvml.control import NvmlControl
    from edgetune.devices.nvml.gpu import Gpu, load_nvml, unusable

    gpu = Gpu(load_nvml(), index)
    # ignore CUDA_VISIBLE_DEVICES of the caller: the guardian must be able to restore a hidden GPU
    if refused := unusable(gpu, on_jetson=detect_jetson(Sysfs(root)) is not None, environment={}):
        raise refused
    return NvmlControl(gpu, may_set=os.geteuid() == 0)
