"""How long the tenants' minibatches take: from tables, and measured now where no table says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts import io
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.devices.device import Device, ModelSource, TableSource
from edgetune.errors import InputError
from edgetune.interleave.live_tenants import LiveTenant
from edgetune.interleave.tenants import Tenant
from edgetune.profiling.options import ProfileOptions
from edgetune.profiling.profiler import Profiler, open_profiler
from edgetune.units import format_si
from edgetune.workflows.batch_choice import choose_batch_sizes, parse_batch_axes
from edgetune.workflows.interleave.tenants import TenantSpec
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.batch import describe_axes
from edgetune.workloads.onnx_file import network_batch
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

INFER_SIZES = (1, 2, 4, 8, 16)
TRAIN_SIZE = 16
"""Batch sizes to choose from where nobody says: those of Fulcrum's inference (2025), and of its training."""
OUTLIER = 1.5
"""A slowest minibatch so many times the median is told: it is what a plan expects of the next."""


@dataclass(frozen=True, slots=True)
class TenantMeasurements:
    """A tenant, what it runs, and what has been measured of it.

    Args:
        asked: As asked for.
        workload: What it runs.
        rows: Points measured, each ``ok``.
    """

    asked: TenantSpec
    workload: Workload
    rows: tuple[ProfileRow, ...] = ()

    def live(self, tenant: Tenant) -> LiveTenant:
        """Return what it takes to load it."""
        asked = self.asked
        files = (asked.handler, asked.checkpoint, asked.resume)
        handler, checkpoint, resume = (None if file is None else Path(file) for file in files)
        return LiveTenant(tenant, self.workload, asked.inputs, handler, checkpoint, resume, dict(asked.dimensions))


class Measuring:
    """Holds a device and tenants ready and measures points of them, each once; ``close`` puts the device back.

    Args:
        device: Where.
        tenants: What.
        options: Returns how a tenant is measured.
    """

    def __init__(
        self, device: Device, tenants: Sequence[TenantMeasurements], options: Callable[[TenantSpec], ProfileOptions]
    ) -> None:
        self._rows: dict[Point, ProfileRow] = {}
        self._profilers: dict[tuple[str, Task], Profiler] = {}
        with ExitStack() as stack:
            for each in tenants:
                profiler = open_profiler(device, each.workload, each.asked.task, options(each.asked))
                self._profilers[each.workload.name, each.asked.task] = stack.enter_context(profiler)
            self.close = stack.pop_all().close

    def __call__(self, point: Point) -> ProfileRow:
        """Return the row of a point, measured now if it was not before."""
        if point not in self._rows:
            self._rows[point] = self._profilers[point.workload, point.task].measure(point)
        return self._rows[point]


def read_tables(tenants: Sequence[TenantSpec], files: Sequence[str], device: Device) -> list[TenantMeasurements]:
    """Return the tenants with the rows that tables and the plan have of them.

    Raises:
        InputError: a table of another device, a file that is none, or two tenants whose rows could not be told apart.
    """
    rows: list[ProfileRow] = []
    for file in files:
        table = io.read_profile(file)
        where = table.header.conditions.get("device")
        if where is not None and where.partition("?")[0] != device.name.partition("?")[0]:
            raise InputError(f"{file} was measured on {where}, and this is {device.name}", "name another table")
        rows += table.rows
    if isinstance(device.source, TableSource):
        rows += device.source.rows
    known = []
    for opts in tenants:
        workload = resolve(opts.reference, parse_batch_axes(() if opts.batch_axis is None else [opts.batch_axis]))
        if opts.handler is not None and workload.has_graph:
            _require_first_axis(workload, opts)
        own = [row for row in rows if (row.workload, row.task, row.status) == (workload.name, opts.task, "ok")]
        found = [row for row in own if row.minibatch_s is not None]
        planned = planned_row(opts, workload, device)
        if planned is not None and planned.point not in {row.point for row in found}:
            found.append(planned)
        known.append(TenantMeasurements(opts, workload, tuple(found)))
    return known


def _require_first_axis(workload: Workload, opts: TenantSpec) -> None:
    """Refuse a handler, which puts requests along the first axis, where a network takes them along another."""
    axes = network_batch(workload, opts.dimensions).axes
    if any(axis for _, axis in axes):
        raise InputError(
            f"a handler puts requests along the first axis, and {opts.name} takes them along {describe_axes(axes)}",
            "export the network with the batch first, or leave the handler out",
        )


def planned_row(opts: TenantSpec, workload: Workload, device: Device) -> ProfileRow | None:
    """Return what a plan says was measured of a tenant; ``None`` where it is run in another way than it was then.

    A model of a device is not measured: it is asked again, and tells the spread of times too, which a plan does not.
    """
    planned = opts.planned
    if planned is None or (isinstance(device.source, ModelSource) and not planned.by_table):
        return None
    same_inputs = opts.task == "train" or _resolved(opts.inputs) == _resolved(planned.inputs)
    same_sizes = dict(opts.dimensions) == dict(planned.dimensions) and opts.batch_axis == planned.batch_axis
    return planned.row(workload) if same_inputs and same_sizes else None


def _resolved(file: str | None) -> Path | None:
    return None if file is None else Path(file).resolve()


def wanted_points(
    known: TenantMeasurements, modes: Sequence[Mode], options: ProfileOptions, *, several: bool
) -> list[Point]:
    """Return the points that must be measured of a tenant, for no row tells of them.

    Args:
        known: The tenant.
        modes: Modes to know it in.
        options: How it is measured.
        several: Whether there are other tenants of its task: then it runs at the batch size it is given, or 1.

    Raises:
        InputError: the network cannot be given its batch size.
    """
    opts = known.asked
    there = {row.point for row in known.rows}
    sizes: Sequence[int] = ()
    if opts.batch_size is not None or several or not known.rows:
        default = (TRAIN_SIZE,) if opts.task == "train" else (1,) if several else INFER_SIZES
        said = () if opts.batch_size is None else (opts.batch_size,)
        sizes, _ = choose_batch_sizes(
            known.workload, said, task=opts.task, dimensions=options.dimensions, inputs=options.inputs,
            seed=options.seed, default=default,
        )  # fmt: skip
    points = [Point(known.workload.name, opts.task, size, mode) for mode in modes for size in sizes]
    return [point for point in points if point not in there]


def measure_missing(
    tenants: Sequence[TenantMeasurements],
    points: Mapping[str, Sequence[Point]],
    measure: Callable[[TenantSpec, Point], ProfileRow],
    reporter: Reporter,
) -> list[TenantMeasurements]:
    """Return the tenants with the rows of these points too, which are measured now.

    Raises:
        InputError: a tenant has no point that could be measured.
    """
    complete = []
    for known in tenants:
        rows = list(known.rows)
        reason = "nothing was measured"
        for point in points[known.asked.name]:
            row = measure(known.asked, point)
            if row.status != "ok" or row.minibatch_s is None:
                reason = row.reason or row.status
                reporter.info(f"{point}: {reason}")
                continue
            rows.append(row)
            if len(points[known.asked.name]) <= len(INFER_SIZES):
                slowest_s = max((row.times_s or ())[row.warmups or 0 :], default=0.0)
                outlier = f", the slowest {format_si(slowest_s, 's')}" if slowest_s > OUTLIER * row.minibatch_s else ""
                reporter.info(f"measured {point}: {format_si(row.minibatch_s, 's')} a minibatch{outlier}")
        if not rows:
            raise InputError(f"{known.asked.name} could not be measured: {reason}", "try another batch size")
        complete.append(TenantMeasurements(known.asked, known.workload, tuple(rows)))
    return complete
