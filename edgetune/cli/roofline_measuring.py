"""The measured time of a network beneath a roof: from the device, or from a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.cli.roofline_tokens import dimension_words

if TYPE_CHECKING:
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.cli.roofline_request import RooflineOptions
    from edgetune.devices.device import Device
    from edgetune.profiling.options import ProfileOptions


def precision_to_run(asked: RooflineOptions, table: OpsTable) -> str | None:
    """Return the precision that a measurement is asked for: none where none was, and the network runs as it is."""
    return None if asked.precision is None else table.precision


def measuring(asked: RooflineOptions, table: OpsTable) -> ProfileOptions:
    """Return how the network of a table is measured.

    Raises:
        InputError: see ``profile_options``.
    """
    from edgetune.workflows.parse_options import profile_options

    return profile_options(
        inputs=asked.inputs,
        dimensions=dimension_words(table, asked),
        precision=precision_to_run(asked, table),
        seed=asked.seed,
    )


def measured(device: Device, asked: RooflineOptions, table: OpsTable, point: Point) -> ProfileRow:
    """Measure the network in the roof's mode, and put the device back."""
    from edgetune.profiling.profiler import open_profiler

    with open_profiler(device, asked.workload, table.task, measuring(asked, table)) as profiler:
        return profiler.measure(point)


def tabled(source: str, point: Point) -> ProfileRow | None:
    """Return the row of a point in a table of measurements, or ``None`` when it is not there."""
    from edgetune.artifacts.io import read_profile
    from edgetune.artifacts.repeats import one_per_point, point_key

    rows = one_per_point(read_profile(source).rows).rows
    return next((row for row in rows if point_key(row.point) == point_key(point)), None)
