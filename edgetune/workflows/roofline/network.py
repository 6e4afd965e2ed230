"""Measures a network beneath a roof on the device, or looks it up in a table, also at the next clocks.

The result of one precision: the rooflines of a device, and a network beneath one of them.

``edgetune roofline --plot``: a network and its layers beneath the roofs of a device, as a figure or a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from edgetune.artifacts.io import read_profile
from edgetune.artifacts.layers import Layers
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, one_per_point, point_key
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.devices.device import Device
from edgetune.errors import EdgetuneError, NotRestoredError
from edgetune.plotting.page import Page, is_page
from edgetune.plotting.style import Figure
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.roofline.balance import sentences, statements
from edgetune.stages.roofline.figures import PlacedNetwork, roof_figure, write_rooflines
from edgetune.stages.roofline.next_clocks import Change, changes, next_modes
from edgetune.stages.roofline.placement import Placement
from edgetune.units import counted
from edgetune.workflows.device_option import warn_of_contention
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import PointOptions
from edgetune.workflows.reporting import Reporter
from edgetune.workflows.roofline.option_values import dimension_words, is_table, workload_of
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
        changes: The effects of the next clocks, by the index of the table.
    """

    roofline: Roofline
    roof: Roof
    tables: tuple[OpsTable, ...]
    placements: tuple[Placement, ...]
    rows: tuple[ProfileRow | None, ...]
    layers: Layers | None = None
    memory_bytes: int | None = None
    elsewhere: tuple[Placed, ...] = ()
    changes: Mapping[int, tuple[Change, ...]] = field(default_factory=dict)

    @property
    def measured_j(self) -> tuple[float | None, ...]:
        """Measured energy of one minibatch, J, one per placement."""
        return tuple(None if row is None else energy_per_minibatch_j(row) for row in self.rows)

    @property
    def everywhere(self) -> tuple[Placed, ...]:
        """This result and those of other modes."""
        return (self, *self.elsewhere)


def firsts(placements: Sequence[Placement]) -> list[int]:
    """Return the indices of the tables to detail: the first, or for a language model the first of each phase."""
    phases = [None if each.point is None else each.point.phase for each in placements]
    return [phases.index(phase) for phase in dict.fromkeys(phases)]


def statements_of(found: Sequence[Placed]) -> list[str]:
    """Return sentences that hold in all modes of the roofline; none without energy."""
    told = []
    for placed in found:
        alike = [roof for roof in placed.roofline.roofs if roof.precision == placed.roof.precision]
        intensities = [each.flop_per_byte for each in placed.placements if each.flop_per_byte is not None]
        holds = statements(alike, intensities) if len(alike) > 1 else None
        told += [_of(placed, sentence, found) for sentence in (() if holds is None else sentences(holds))]
    return told


def _of(placed: Placed, sentence: str, found: Sequence[Placed]) -> str:
    """Return a sentence, prefixed by its precision if there are several."""
    return sentence if len(found) == 1 else f"{placed.roof.precision}: {sentence}"


def placed_drawing(found: Sequence[Placed], target: str) -> Figure | bytes:
    """Return the figure or page of the network at every precision and batch size, with its layers if timed.

    Args:
        found: The results, one per precision.
        target: The file.

    Raises:
        InputError: there is nothing to draw.
        DeviceError: matplotlib is missing.
    """
    if is_page(target):
        roofline, networks = found[0].roofline, _networks(found)
        page, simulated = Page(f"Roofline: {roofline.device}"), roofline.header.simulated
        write_rooflines(
            page.section("Network beneath the roofs", simulated=simulated), _roofs(found), networks,
            layers_of=_layered(networks), device=roofline.device, simulated=simulated, notes=statements_of(found),
        )  # fmt: skip
        return page.data()
    roofline, networks = found[0].roofline, _networks(found)
    return roof_figure(
        _roofs(found), networks, layers_of=_layered(networks), device=roofline.device,
        simulated=roofline.header.simulated,
    )  # fmt: skip


def _networks(found: Sequence[Placed]) -> list[PlacedNetwork]:

    return [
        PlacedNetwork(placement, None if index else each.layers, measured_j)
        for one in found
        for each in one.everywhere
        for index, (placement, measured_j) in enumerate(zip(each.placements, each.measured_j, strict=True))
    ]


def _layered(networks: Sequence[PlacedNetwork]) -> PlacedNetwork | None:
    return next((network for network in networks if network.layers is not None), None)


def _roofs(found: Sequence[Placed]) -> list[Roof]:
    """Return all roofs: those in the file, and those inferred for the network."""
    return list(dict.fromkeys([*found[0].roofline.roofs, *(each.roof for one in found for each in one.everywhere)]))


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
