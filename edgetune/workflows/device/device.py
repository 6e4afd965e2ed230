"""Sets a device's mode, permanently or for one command, and restores it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.devices.guardian.client import GuardianModes, left_behind, restore_through_guardian
from edgetune.devices.guardian.controls import is_guarded
from edgetune.devices.guardian.lock import hold_to_restore
from edgetune.errors import DeviceError, InputError
from edgetune.processes.file_lock import Holder
from edgetune.workflows.device.foreground import run_command
from edgetune.workflows.device.options import RestoreOptions, SetOptions
from edgetune.workflows.device_option import guardian_of, open_named
from edgetune.workflows.parse_options import choose_modes
from edgetune.workflows.reporting import Reporter, SimulationLabel


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A mode change, done or planned.

    Args:
        device: Its name.
        mode: The requested mode, or the mode read back.
        found: The mode before the change; ``None`` where nothing was set.
        code: Exit code of the command that ran in the mode; ``None`` without a command.
    """

    device: str
    mode: Mode
    found: Mode | None = None
    code: int | None = None


def set_mode(opts: SetOptions, reporter: Reporter) -> ModeChange:
    """Set one mode: until ``restore``, or while the given command runs.

    Raises:
        InputError: the device is unknown, or the words name no mode or several.
        DeviceError: the device cannot set modes, or none that would outlast this process.
    """
    device = open_named(opts.name, opts.root)
    chosen = _one_mode(device, opts.mode)
    if opts.dry_run:
        return ModeChange(device.name, chosen)
    modes = _guarded(device)
    with device.exclusive():
        try:
            found, applied = modes.read(), modes.apply(chosen)
            SimulationLabel(device.simulated, reporter).announce()
            if opts.command:
                reporter.info(f"set {applied}; running {opts.command[0]}")
                return ModeChange(device.name, applied, found, run_command(opts.command))
            modes.keep()
            return ModeChange(device.name, applied, found)
        finally:
            try:
                modes.restore()
            finally:
                for sentence in modes.recovered:
                    reporter.info(f"note: {sentence}")


def _one_mode(device: Device, text: str) -> Mode:
    """Return the one mode that ``text`` names.

    Raises:
        InputError: the text names several modes, or no mode of the device.
    """
    chosen = choose_modes(device, text).modes
    if len(chosen) != 1:
        raise InputError(
            f"{text!r} is {len(chosen)} modes, and one can be set", f"see edgetune device modes {device.name}"
        )
    return chosen[0]


def _guarded(device: Device) -> GuardianModes:
    """Return the device's modes if a guardian sets them.

    Raises:
        DeviceError: the device cannot set modes, or none that would outlast this process.
    """
    if isinstance(device.modes, GuardianModes):
        return device.modes
    if isinstance(device.modes, Absent):
        raise DeviceError(f"{device.name} cannot set modes: {device.modes.reason}", "see edgetune doctor")
    raise DeviceError(f"a mode of {device.name} lasts only while edgetune runs on it", "name a board, e.g. jetson")


def restore(
    opts: RestoreOptions, reporter: Reporter, agreed: Callable[[str], bool] = lambda _: False
) -> tuple[str, list[str]]:
    """Restore the settings that a killed run, a power cut or ``set_mode`` left changed.

    Args:
        opts: The device, and what to do beside it.
        reporter: Receives a note where another process uses the device.
        agreed: Asks a question, which ``opts.yes`` answers.

    Returns:
        The device's name, and a sentence for each setting restored, or to be restored by a dry run.

    Raises:
        InputError: the options exclude each other, or no device with this name has settings to restore.
        NotRestoredError: a setting could not be restored.
        DeviceError: the guardian cannot be started.
    """
    for option in ("--forget",) * opts.forget + ("--force",) * opts.force:
        if opts.dry_run:
            raise InputError(f"--dry-run changes nothing and {option} does", "leave one of them out")
    if opts.yes and not opts.force:
        raise InputError("--yes answers the question of --force, which is not given", "add --force, or leave --yes out")
    kind, guardian = guardian_of(opts.name, opts.root)
    if not is_guarded(kind):
        raise InputError(f"the guardian sets no modes of {kind!r}", "known: jetson, nvidia:0, host")
    if opts.dry_run:
        return kind, list(left_behind(guardian))

    def ends(holder: Holder) -> bool:
        return opts.force and (opts.yes or agreed(f"{kind} is in use: end {holder.description}?"))

    with hold_to_restore(kind, Path(opts.root or "/"), ends=ends) as in_use:
        if in_use:
            reporter.info(f"note: {in_use}; {kind} is put back all the same")
        return kind, list(restore_through_guardian(guardian, forget=opts.forget))
