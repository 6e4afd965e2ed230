"""Measures a network beneath a roof on the device, or looks it up in a table.

The result of one precision: the rooflines of a device, and a network beneath one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from edgetune.artifacts.io import read_profile
from edgetune.artifacts.layers import Layers
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, one_per_point, point_key
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.devices.device import Device
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.roofline.placement import Placement
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import PointOptions
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.option_values import dimension_words, workload_of
from edgetune.workflows.roofline.options import RooflineOptions


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of one precision: the device's rooflines, and a network beneath one of them.

    Args:
        roofline: The roofline of the device.
        roof: The roof that the network is placed beneath.
        tables, placements, rows: One per batch size, and per pass of a language model; empty without a network.
        layers: The layers of the first table, if timed.
        memory_bytes: Total memory of the device, if known.
        elsewhere: The same network in the other requested modes, if these are few.
    """

    roofline: Roofline
    roof: Roof
    tables: tuple[OpsTable, ...]
    placements: tuple[Placement, ...]
    rows: tuple[ProfileRow | None, ...]
    layers: Layers | None = None
    memory_bytes: int | None = None
    elsewhere: tuple[Placed, ...] = ()

    @property
    def measured_j(self) -> tuple[float | None, ...]:
        """Measured energy of one minibatch, J, one per placement."""
        return tuple(None if row is None else energy_per_minibatch_j(row) for row in self.rows)

    @property
    def everywhere(self) -> tuple[Placed, ...]:
        """This result and those of other modes."""
        return (self, *self.elsewhere)

    @property
    def alike(self) -> list[Roof]:
        """The roofs of the device in this precision."""
        return [roof for roof in self.roofline.roofs if roof.precision == self.roof.precision]


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
    with Profiler(device, workload_of(asked), table.task, options, on_state) as profiler:
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
