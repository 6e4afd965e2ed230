"""Opens the device named on the command line, or a board whose kernel files lie below another folder.

Reads the roofline of a device from a file.

Notes before work on this machine, and warnings after it: root, and other processes that use the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.artifacts.io import read
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.roofline import Roofline
from edgetune.devices.capabilities import Clock, MonotonicClock
from edgetune.devices.cpu import CpuLoad
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import InputError
from edgetune.stages.profiling.disturbances import contention_warning
from edgetune.workflows.reporting import Reporter

if TYPE_CHECKING:
    from edgetune.devices.device import Device


def is_fleet(name: str | None) -> bool:
    """Return whether a device is the boards of a fleet, ``fleet:ADDRESS``."""
    return (name or "").startswith("fleet:")


def open_named(name: str, root: str | None = None, *, seed: int = 0) -> Device:
    """Open a device by name.

    Args:
        name: As ``edgetune device`` lists it.
        root: The folder of the board's files; a folder made by ``edgetune.testing`` is a fake board.
        seed: Seed of a twin's noise.

    Raises:
        InputError: the device is unknown, or ``root`` is not the folder of a board.
        DeviceError: the device is absent.
    """
    if is_fleet(name):
        raise InputError("a fleet takes sweeps and searches, and no --dry-run", "edgetune help fleet")
    if root is None:
        from edgetune.devices.device import open_device

        return open_device(name, seed=seed)
    board = _board_at(name, root)
    from edgetune.testing.fake_jetson import is_fake, open_fake_jetson

    if is_fake(Path(root)):
        return open_fake_jetson(Path(root), board)
    from edgetune.devices.jetson.device import open_jetson_at

    return open_jetson_at(Path(root), board)


def guardian_of(name: str, root: str | None = None) -> tuple[str, list[str]]:
    """Return a device's resolved name and the command line of its guardian, without opening the device.

    Raises:
        InputError: ``root`` is not the folder of a board.
        DeviceError: ``auto`` finds no device.
    """
    from edgetune.devices.guardian.client import guardian_command

    if root is None:
        from edgetune.devices.device import AUTO, auto_name

        kind = (auto_name() if name == AUTO else name).partition("?")[0]
        return kind, guardian_command(kind)
    kind = _board_at(name, root).partition("?")[0]
    from edgetune.testing.fake_jetson import fake_guardian_command, is_fake

    fake = is_fake(Path(root))
    return kind, fake_guardian_command(Path(root).resolve()) if fake else guardian_command(kind, Path(root))


def recovered(device: Device) -> tuple[str, ...]:
    """Return one sentence for each setting that the guardian restored at its start after an unfinished run."""
    from edgetune.devices.guardian.client import GuardianModes

    return device.modes.recovered if isinstance(device.modes, GuardianModes) else ()


def _board_at(name: str, root: str) -> str:
    """Return the name of the board below ``root``.

    Raises:
        InputError: the board has another name, or the folder does not exist.
        DeviceError: the folder has no board.
    """
    from edgetune.devices.jetson.detect import detect_jetson
    from edgetune.devices.jetson.device import no_jetson

    board = "jetson" if name == "auto" else name
    if board.partition("?")[0] != "jetson":
        raise InputError(f"--root {root} is a board, but the device is {name}", "write jetson")
    if not Path(root).is_dir():
        raise InputError(f"--root {root}: there is no such folder", "give the folder that has the board's sys and proc")
    if detect_jetson(Sysfs(Path(root))) is None:
        raise no_jetson(Path(root))
    return board


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


def warn_of_load(device: Device, reporter: Reporter) -> None:
    """Warn of the CPU share of other processes if workloads run on this machine and the share is large."""
    if device.load is not None:
        _warn(device.load, device.clock, reporter)


def warn_of_host_load(reporter: Reporter) -> None:
    """Warn of the same before work on this machine that needs no device."""
    _warn(CpuLoad(Sysfs()), MonotonicClock(), reporter)


def _warn(reader: CpuLoad, clock: Clock, reporter: Reporter) -> None:
    if _as_root():
        reporter.info("note: edgetune runs as root, and with it the networks and scripts that it runs")
    if (quota := reader.quota) is not None and quota < 1:
        reporter.info(f"note: a CPU quota gives the time of {quota:.3g} CPUs: a thread is stopped now and then")
    load = None if reporter.quiet else reader.sample(clock)
    if load is not None and load.busy:
        cores = f"{load.cpus} core{'' if load.cpus == 1 else 's'}"
        used = f"other processes use {load.share:.0%} of them"
        reporter.info(f"note: load {load.runnable:.0f} on {cores}, {used}")


def _as_root() -> bool:
    return os.geteuid() == 0  # in a container, for instance; under sudo edgetune is the caller by now


def warn_of_contention(rows: Iterable[ProfileRow], reporter: Reporter) -> None:
    """Warn once if other processes or a CPU quota disturbed points."""
    for found in contention_warning(rows):
        reporter.warn(found)
