"""What tuning starts from, of a device or of a table of measurements: modes to choose from, and their peaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.cli.peaks import measured_peaks, roofs_in
from edgetune.errors import InputError
from edgetune.workflows.parse_options import choose_modes
from edgetune.workflows.peaks import read_peaks

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.roofline import Roof, Roofline
    from edgetune.cli.roofline_request import RooflineOptions
    from edgetune.cli.screen import Screen
    from edgetune.devices.device import Device, ModeSpace

_LEVELS = {"gpu_mhz": 6, "mem_mhz": 4, "power_limit_w": 3}
"""Values of each knob of an accelerator at which peaks are measured. An AGX Orin has four memory clocks, each with
timings of its own: peaks foretold of its twin's other modes are off by 0.3 to 0.7 % in the mean, and bandwidth by 6 %
where one of the four was left out."""
_HOST_LEVELS = 3
"""Of each knob of the host, all others highest: static power goes with these, peaks of an accelerator do not."""
_MOST_MODES = 100_000


def peak_modes(space: ModeSpace) -> list[Mode]:
    """Return the modes in which to measure peaks, so that those of all others follow; the highest first."""
    from edgetune.artifacts.mode import Mode
    from edgetune.devices.grids import evenly_spaced, modes_of
    from edgetune.devices.modes import highest_mode

    top = highest_mode(space)
    grid = {knob: evenly_spaced(values, _LEVELS[knob]) for knob, values in space.knobs.items() if knob in _LEVELS}
    modes = [Mode.of({**top.knobs(), **mode.knobs()}) for mode in modes_of(grid)] if grid else []
    host = [knob for knob in space.knobs if knob not in _LEVELS]
    modes += [
        Mode.of({**top.knobs(), knob: value})
        for knob in host
        for value in evenly_spaced(space.knobs[knob], _HOST_LEVELS)
    ]
    return list(dict.fromkeys([top, *modes]))


def space_of(device: Device) -> ModeSpace:
    """Return the modes of a device that can be tuned.

    Raises:
        InputError: it has no modes, or tells no power.
    """
    from edgetune.devices.device import Absent

    if isinstance(device.modes, Absent):
        raise InputError(f"{device.name} has no modes to tune: {device.modes.reason}", "name a board, e.g. jetson")
    if isinstance(device.power, Absent) and not is_table(device):
        raise InputError(f"{device.name} does not tell power: {device.power.reason}", "energy cannot be tuned without")
    return device.modes.space


def peaks_of(asked: RooflineOptions, device: Device, precision: str, screen: Screen) -> Roofline:
    """Measure or read peaks; those of a table are of the device that it was measured on.

    Raises:
        InputError: they are of another device, or of a table and not given.
    """
    if asked.peaks is not None:
        measured_on = str(device.conditions["measured_on"]) if is_table(device) else device.name
        return read_peaks(asked.peaks, measured_on, force=asked.force)
    if is_table(device):
        raise InputError(
            f"{device.name} is a table: it tells no peaks, without which no mode can be foreseen",
            f"--peaks FILE, made by: edgetune roofline --device {device.conditions['measured_on']} --modes ... -o FILE",
        )
    return measured_peaks(device, peak_modes(space_of(device)), [precision], quick=asked.quick, screen=screen)


def roofs_of(roofline: Roofline, device: Device, table: OpsTable, precision: str) -> list[Roof]:
    """Return the roofs of the precision; a table does not say whether it is of an accelerator, its peaks do.

    Raises:
        InputError: there are none.
    """
    known = {roof.precision for roof in roofline.roofs}
    return roofs_in(roofline, table.precision if is_table(device) and precision not in known else precision)


def is_table(device: Device) -> bool:
    """Return whether measurements are looked up: they repeat exactly, and power is in them."""
    from edgetune.devices.device import TableSource

    return isinstance(device.source, TableSource)


def candidates(device: Device, table: OpsTable, text: str | None) -> Sequence[Mode]:
    """Return the modes to choose from: those asked for, else all; of a table those in which it has the network.

    Raises:
        InputError: see ``space_of``; they are too many, or the table has the network in none of them.
    """
    from edgetune.artifacts.profile import Point
    from edgetune.devices.device import TableSource

    space_of(device)
    modes = choose_modes(device, text or "all").modes
    if len(modes) > _MOST_MODES:
        raise InputError(f"{len(modes)} modes are too many to choose from", "choose fewer, e.g. --modes grid:441")
    if not isinstance(device.source, TableSource):
        return modes
    found, errors = [], []
    for mode in modes:
        try:
            found.append(device.source.lookup(Point(table.workload, table.task, table.batch_size, mode)).mode)
        except InputError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found
