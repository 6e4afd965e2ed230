"""Gathers the minibatch times of tenants: from tables, or by measurement if no table has them.

    a a' b  a a' b  ...      each tenant changes caches and thread state for the next one

On a real device tenants are measured in alternation, as they run later. A profile, in contrast, has the times of a
network alone on the machine, whose threads spin while they wait. Here processes are set up as in a run, and every
minibatch of one tenant is followed by one of each other tenant.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.artifacts import io
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow, Task
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device, ModelSource, TableSource
from edgetune.errors import InputError
from edgetune.stages.interleave.backend import Inference, LiveTenant, Minibatch, Tenant, Training
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.profiling.options import OnState, ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stats import find_warmup, median, percentile
from edgetune.units import NS, format_si
from edgetune.workflows.interleave.tenants import TenantSpec
from edgetune.workflows.parse_options import choose_batch_sizes, parse_batch_axes
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.onnx_file import network_batch, with_batch
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload, describe_axes

INFER_SIZES = (1, 2, 4, 8, 16)
TRAIN_SIZE = 16
"""Default batch sizes: those of Fulcrum's inference (2025), and of its training."""
OUTLIER = 1.5
"""A slowest minibatch so many times the median is reported, because a plan expects it of the next."""


@dataclass(frozen=True, slots=True)
class TenantMeasurements:
    """A tenant, its workload, and its measured points.

    Args:
        asked: The requested tenant.
        workload: The network or file.
        rows: The measured points, each ``ok``.
    """

    asked: TenantSpec
    workload: Workload
    rows: tuple[ProfileRow, ...] = ()

    def live(self, tenant: Tenant) -> LiveTenant:
        """Return the tenant with its files, ready to load."""
        asked = self.asked
        files = (asked.handler, asked.checkpoint, asked.resume)
        handler, checkpoint, resume = (None if file is None else Path(file) for file in files)
        workload = with_batch(self.workload, asked.dimensions)
        return LiveTenant(tenant, workload, asked.inputs, handler, checkpoint, resume, dict(asked.dimensions))


class Measuring:
    """Measures points of tenants on an open device, each once; ``close`` restores the device.

    Args:
        device: The device to measure on.
        tenants: The tenants to measure.
        options: Returns the measuring options of a tenant.
        on_state: Called with the state of the point that is measured.
    """

    def __init__(
        self,
        device: Device,
        tenants: Sequence[TenantMeasurements],
        options: Callable[[TenantSpec], ProfileOptions],
        on_state: OnState | None = None,
    ) -> None:
        self._rows: dict[Point, ProfileRow] = {}
        self._profilers: dict[tuple[str, Task], Profiler] = {}
        with ExitStack() as stack:
            for each in tenants:
                profiler = Profiler(device, each.workload, each.asked.task, options(each.asked), on_state)
                self._profilers[each.workload.name, each.asked.task] = stack.enter_context(profiler)
            self.close = stack.pop_all().close

    def __call__(self, point: Point) -> ProfileRow:
        """Return the row of a point, which is measured at the first call."""
        if point not in self._rows:
            self._rows[point] = self._profilers[point.workload, point.task].measure(point)
        return self._rows[point]


def read_tables(tenants: Sequence[TenantSpec], files: Sequence[str], device: Device) -> list[TenantMeasurements]:
    """Return the tenants with their rows in the tables and the plan.

    Raises:
        InputError: a table is of another device, or a file is not a table.
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
    """Refuse a handler, which stacks requests along the first axis, for a network with another batch axis."""
    axes = network_batch(workload, opts.dimensions).axes
    if any(axis for _, axis in axes):
        raise InputError(
            f"a handler puts requests along the first axis, and {opts.name} takes them along {describe_axes(axes)}",
            "export the network with the batch first, or leave the handler out",
        )


def planned_row(opts: TenantSpec, workload: Workload, device: Device) -> ProfileRow | None:
    """Return the plan's row of a tenant; ``None`` if the tenant now runs with other options.

    A simulated device is measured again, because a plan lacks the scatter of times.
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
    """Return the points of a tenant that no row has and that must be measured.

    Args:
        known: The tenant.
        modes: The modes to know its times in.
        options: The measuring options.
        several: Whether there are other tenants of its task; its batch size is then the given one, or 1.

    Raises:
        InputError: the network does not accept its batch size.
    """
    opts = known.asked
    there = {row.point for row in known.rows}
    sizes: Sequence[int] = ()
    if opts.batch_size is not None or several or not known.rows:
        default = (TRAIN_SIZE,) if opts.task == "train" else (1,) if several else INFER_SIZES
        said = () if opts.batch_size is None else (opts.batch_size,)
        sizes, _ = choose_batch_sizes(
            known.workload, said, dimensions=options.dimensions, inputs=options.inputs,
            default=default,
        )  # fmt: skip
    points = [Point(known.workload.name, opts.task, size, mode) for mode in modes for size in sizes]
    return [point for point in points if point not in there]


def measure_missing(
    tenants: Sequence[TenantMeasurements],
    points: Mapping[str, Sequence[Point]],
    measure: Callable[[TenantSpec, Point], ProfileRow],
    reporter: Reporter,
) -> list[TenantMeasurements]:
    """Measure points, and return the tenants with the rows of these points added.

    Raises:
        InputError: no point of a tenant could be measured.
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
            hint = "try another batch size, or give its times: --profile FILE"
            raise InputError(f"{known.asked.name} could not be measured: {reason}", hint)
        complete.append(TenantMeasurements(known.asked, known.workload, tuple(rows)))
    return complete


MOST, LEAST, ENOUGH_S, LONGEST_S = 100, 20, 3.0, 10.0
"""Minibatches of a point: as many as fill these seconds within these bounds, or with those of the others ten; of 20 the
slowest is about the 95th percentile."""


def measure_shared(
    device: Device, tenants: Sequence[TenantMeasurements], points: Mapping[str, Sequence[Point]], *, seed: int
) -> dict[str, list[ProfileRow]]:
    """Return a row for each point of each tenant; the row of a point that cannot run has the reason.

    Handlers are not run, because they act on answers. Checkpoints are passed so that loading refuses a training that
    cannot save or load one; none is written.

    Args:
        device: A real device; the caller restores its mode.
        tenants: All tenants that share the device.
        points: The points to measure, by tenant.
        seed: Seed of inputs and weights.

    Raises:
        InputError, DeviceError: a tenant cannot be loaded, or the device refuses a mode.
    """
    sizes = {each.asked.name: _first_size(each, points[each.asked.name]) for each in tenants}
    live = [replace(each.live(_tenant(each, sizes[each.asked.name])), handler=None) for each in tenants]
    rows: dict[str, list[ProfileRow]] = {each.asked.name: [] for each in tenants}
    modes: list[Mode] = list(dict.fromkeys(point.mode for several in points.values() for point in several))
    backend = LiveMinibatchBackend("managed", device, live, seed=seed)
    try:
        for mode in modes:
            apply_mode(backend, device, mode)
            for each in tenants:
                name = each.asked.name
                held = sizes[name]
                for point in (point for point in points[name] if point.mode == mode):
                    rows[name].append(_row(backend, tenants, each, point, held))
                    held = point.batch_size
                    if backend.lost:  # say, out of memory at a large batch: the next point finds everyone as at first
                        backend.close()
                        backend = LiveMinibatchBackend("managed", device, live, seed=seed)
                        apply_mode(backend, device, mode)
                        held = sizes[name]
                if held != sizes[name]:
                    backend.prepare(name, sizes[name])
    finally:
        backend.close()
    return rows


def apply_mode(backend: LiveMinibatchBackend, device: Device, mode: Mode) -> None:
    """Set a mode; a device that cannot set modes accepts only one without knobs."""
    if mode.settings() or not isinstance(device.modes, Absent):
        backend.apply(mode)


def _first_size(known: TenantMeasurements, points: Sequence[Point]) -> int:
    if points:
        return points[0].batch_size
    return known.asked.batch_size or known.rows[0].batch_size


def _tenant(known: TenantMeasurements, batch_size: int) -> Tenant:
    opts = known.asked
    if not opts.answers:
        return Training(opts.name, batch_size, 0.0, task=opts.task)
    return Inference(opts.name, batch_size, opts.latency_budget_s or 0.0, None, 0.0)


def _row(
    backend: LiveMinibatchBackend,
    tenants: Sequence[TenantMeasurements],
    known: TenantMeasurements,
    point: Point,
    held: int,
) -> ProfileRow:
    """Measure a point of a loaded tenant, and return its row."""
    try:
        if point.batch_size != held:
            backend.prepare(known.asked.name, point.batch_size)
        times_s = _alternate(backend, tenants, known, point.batch_size)
    except InputError as error:
        return ProfileRow.at(point, None, status="failed", reason=error.message)
    warmups = find_warmup(times_s).length
    steady_s = times_s[warmups:]
    return ProfileRow.at(
        point, median(steady_s), minibatch_p95_s=percentile(steady_s, 95), times_s=tuple(times_s), warmups=warmups,
        minibatches=len(steady_s),
    )  # fmt: skip


def _alternate(
    backend: LiveMinibatchBackend, tenants: Sequence[TenantMeasurements], known: TenantMeasurements, batch_size: int
) -> list[float]:
    """Run minibatches of all tenants in alternation, and return the durations of one tenant's, s."""
    times_s: list[float] = []
    begun_s = time.monotonic()
    for number in range(MOST):
        for each in (*(other for other in tenants if other is not known), known):
            opts = each.asked
            count = (batch_size if each is known else 1) if opts.answers else 0
            backend.start(Minibatch(opts.name, opts.task, number, tuple(range(count))))
            (done,) = backend.wait(None)
            if done.failure is not None:
                raise InputError(f"{opts.name}: {done.failure}", "correct it, and try again")
            if each is known and number:  # the first after loading is not like the others
                times_s.append((done.end_ns - done.start_ns) / NS)
        enough = sum(times_s) >= ENOUGH_S or time.monotonic() - begun_s >= LONGEST_S
        if len(times_s) >= LEAST and enough:
            break
    return times_s
