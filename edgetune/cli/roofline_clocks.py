"""What the next clocks change for a network beneath a roof, and which modes are measured for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.cli.roofline_request import Placed, RooflineOptions
    from edgetune.cli.screen import Screen
    from edgetune.devices.device import Device
    from edgetune.roofline.next_clocks import Change


def next_changes(
    device: Device, asked: RooflineOptions, placed: Placed, screen: Screen
) -> dict[int, tuple[Change, ...]]:
    """Return what the next clocks change for the first batch size, measuring the network with those not yet visited."""
    from edgetune.cli.roofline_tokens import firsts
    from edgetune.roofline.next_clocks import changes, next_modes

    roofs = [roof for roof in placed.roofline.roofs if roof.precision == placed.roof.precision]
    beside = [mode for _, mode in next_modes(placed.roof.mode, [roof.mode for roof in roofs])]
    found = {}
    for index in firsts(placed.placements):
        table = placed.tables[index]
        rows = {each.roof.mode: row for each in placed.everywhere if (row := each.rows[index]) is not None}
        missing = [mode for mode in beside if mode not in rows]
        if placed.placements[index].measured_s is not None and missing:
            rows |= _rows_with(device, asked, table, missing, screen)
        found[index] = changes(table, placed.roof, roofs, rows, exact=_repeats_exactly(device))
    return found


def _rows_with(
    device: Device, asked: RooflineOptions, table: OpsTable, modes: Sequence[Mode], screen: Screen
) -> dict[Mode, ProfileRow]:
    """Return what is measured of a network in modes, or what ``--profile`` has of them; without failures."""
    from edgetune.artifacts.profile import Point
    from edgetune.cli.roofline_measuring import measured, tabled
    from edgetune.cli.roofline_plan import counted
    from edgetune.errors import EdgetuneError, NotRestoredError
    from edgetune.workflows.load_warning import warn_of_contention

    points = [Point(table.workload, table.task, table.batch_size, mode) for mode in modes]
    if asked.profile is not None:
        return {point.mode: row for point in points if (row := tabled(asked.profile, point)) is not None}
    screen.info(f"measuring {table.workload} with the next clocks: {counted(len(modes), 'mode')}")
    rows = {}
    for point in points:
        try:
            rows[point.mode] = measured(device, asked, table, point)
            warn_of_contention(point, rows[point.mode], screen)
        except NotRestoredError:
            raise
        except EdgetuneError as error:
            screen.info(f"note: no measured time of {point} in {table.precision}: {error.message}")
    return rows


def _repeats_exactly(device: Device) -> bool:
    """Return whether a mode measured twice gives the same figures: a table, and a simulation without noise."""
    from edgetune.cli.tune_start import is_table

    return is_table(device) or (device.simulated and not device.conditions.get("noise"))
