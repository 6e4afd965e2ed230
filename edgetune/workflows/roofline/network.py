"""Measures a network beneath a roof on the device, or looks it up in a table, also at the next clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from edgetune.artifacts.io import read_profile
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import one_per_point, point_key
from edgetune.devices.device import Device
from edgetune.errors import EdgetuneError, NotRestoredError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import open_profiler
from edgetune.stages.roofline.next_clocks import Change, changes, next_modes
from edgetune.units import counted
from edgetune.workflows.load_warning import warn_of_contention
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import PointOptions
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.option_values import dimension_words, is_table, workload_of
from edgetune.workflows.roofline.options import RooflineOptions
from edgetune.workflows.roofline.placed import Placed, firsts


def precision_to_run(asked: RooflineOptions, table: OpsTable) -> str | None:
    """Return the requested precision of a measurement; ``None`` runs the network in its own types."""
    return None if asked.precision is None else table.precision


def measuring(asked: RooflineOptions, table: OpsTable) -> ProfileOptions:
    """Return the measuring options of a table's network.

    Raises:
        InputError: see ``profile_options``.
    """
    dim, precision = dimension_words(table, asked), precision_to_run(asked, table)
    return profile_options(PointOptions(inputs=asked.inputs, dim=dim, precision=precision, seed=asked.seed))


@contextmanager
def measuring_in(
    device: Device, asked: RooflineOptions, table: OpsTable, reporter: Reporter
) -> Iterator[Callable[[Mode], ProfileRow]]:
    """Yield a function that measures a table's network in a mode; restore the device at the end."""
    options, on_state = measuring(asked, table), reporter.points
    with open_profiler(device, workload_of(asked), table.task, options, on_state) as profiler:
        yield lambda mode: profiler.measure(Point(table.workload, table.task, table.batch_size, mode))


def measured(device: Device, asked: RooflineOptions, table: OpsTable, point: Point, reporter: Reporter) -> ProfileRow:
    """Measure the network in the roof's mode, and restore the device."""
    bar = reporter.bar(f"measuring {table.workload}", None)
    with bar, measuring_in(device, asked, table, reporter) as measure:
        return measure(point.mode)


def tabled(source: str, point: Point) -> ProfileRow | None:
    """Return the row of a point in a table of measurements; ``None`` without one."""
    rows = one_per_point(read_profile(source).rows).rows
    return next((row for row in rows if point_key(row.point) == point_key(point)), None)


def next_changes(
    device: Device, asked: RooflineOptions, placed: Placed, reporter: Reporter
) -> dict[int, tuple[Change, ...]]:
    """Return the effects of the next clocks on the first batch size, measuring the network at unvisited ones."""
    roofs = [roof for roof in placed.roofline.roofs if roof.precision == placed.roof.precision]
    beside = [mode for _, mode in next_modes(placed.roof.mode, [roof.mode for roof in roofs])]
    found = {}
    for index in firsts(placed.placements):
        table = placed.tables[index]
        rows = {each.roof.mode: row for each in placed.everywhere if (row := each.rows[index]) is not None}
        missing = [mode for mode in beside if mode not in rows]
        if placed.placements[index].measured_s is not None and missing:
            rows |= _rows_with(device, asked, table, missing, reporter)
        found[index] = changes(table, placed.roof, roofs, rows, exact=_repeats_exactly(device))
    return found


def _rows_with(
    device: Device, asked: RooflineOptions, table: OpsTable, modes: Sequence[Mode], reporter: Reporter
) -> dict[Mode, ProfileRow]:
    """Return the network's successful rows in modes, measured now or from ``--profile``."""
    points = [Point(table.workload, table.task, table.batch_size, mode) for mode in modes]
    if asked.profile is not None:
        return {point.mode: row for point in points if (row := tabled(asked.profile, point)) is not None}
    reporter.info(f"measuring {table.workload} with the next clocks: {counted(len(modes), 'mode')}")
    rows = {}
    for point in points:
        try:
            rows[point.mode] = measured(device, asked, table, point, reporter)
        except NotRestoredError:
            raise
        except EdgetuneError as error:
            reporter.info(f"note: no measured time of {point} in {table.precision}: {error.message}")
    warn_of_contention(rows.values(), reporter)
    return rows


def _repeats_exactly(device: Device) -> bool:
    """Return whether repeated measurements are identical, as of a table and of a simulation without noise."""
    return is_table(device) or (device.simulated and not device.conditions.get("noise"))
