"""Measures or reads the peaks of a device and places a network beneath them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.layers import Layers
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import mean_minibatch_s
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.profiling.supervisor import layer_times
from edgetune.stages.roofline.layers import join
from edgetune.stages.roofline.placement import NOTABLY, Placement, place
from edgetune.workflows.device_option import read_peaks, warn_of_contention, warn_of_load
from edgetune.workflows.output import Target
from edgetune.workflows.reporting import Reporter, SimulationLabel, reporting_saved
from edgetune.workflows.roofline.option_values import (
    Placed,
    measured,
    measuring,
    memory_known,
    precision_to_run,
    tabled,
    what_can_run,
    workload_of,
)
from edgetune.workflows.roofline.options import RooflineOptions
from edgetune.workflows.roofline.peaks import choose_roof, measured_peaks, roofs_beside
from edgetune.workflows.roofline.request import Request, RooflineEstimate, estimate, network_tables, request_of
from edgetune.workflows.roofline.tune import tune_network, tuning_modes


def roofline(opts: RooflineOptions, reporter: Reporter) -> tuple[list[Placed], Target | None]:
    """Measure or read peaks and place the network; return the result of each precision and the roofline's target.

    Raises:
        InputError: See ``request_of``; or the peaks are unusable.
        DeviceError: The device is absent, or cannot run kernels.
    """
    request = request_of(opts, reporter)
    opts, device, modes = request.opts, request.device, request.modes
    known = _known_peaks(request)
    if known is not None and opts.model is not None and not (opts.no_measure or opts.profile):
        warn_of_load(device, reporter)
    peaks = [] if known is None else [known]
    with reporting_saved(reporter, lambda: _keep_peaks(opts, peaks, request.target)):
        if not peaks:
            peaks.append(measured_peaks(device, modes, request.kernel_precisions, quick=opts.quick, reporter=reporter))
        found = _all_placed(request, peaks[0], reporter)
        if known is None and opts.profile is None:
            found = _warned(found)
    return found, request.target


def _warned(found: list[Placed]) -> list[Placed]:
    """Return the results with a warning in the roofline if the network is notably faster than its roof."""
    placements = [placement for one in found for each in one.everywhere for placement in each.placements]
    excess = max((each.layers_s / each.measured_s for each in placements if each.measured_s), default=0.0)
    if excess <= NOTABLY:
        return found
    advice = (
        f"{placements[0].workload} is faster than its roof: its data stay in caches, its layers are fused, or the "
        "machine was busy while the peaks were measured; measure them again, or do not read its distance to the roof"
    )
    warning, known = DataWarning("peaks-beaten", advice, {"times_the_roof": excess}), found[0].roofline
    header = replace(known.header, warnings=(*known.header.warnings, warning))
    return [replace(one, roofline=replace(known, header=header)) for one in found]


def tune(opts: RooflineOptions, reporter: Reporter) -> tuple[Plan, str]:
    """Return the plan of least energy within the slowdown of ``--tune``, and a sentence on its savings.

    Raises:
        InputError, DeviceError: See ``request_of`` and ``tune_network``.
    """
    request = request_of(opts, reporter)
    precision, table = request.tuned
    return tune_network(request.opts, request.device, table, precision, reporter)


def plan_roofline(opts: RooflineOptions, reporter: Reporter) -> RooflineEstimate:
    """Return the measurements that the options plan, including those of ``--tune``.

    Raises:
        InputError, DeviceError: See ``roofline`` and ``tune``.
    """
    request = request_of(opts, reporter)
    opts, device = request.opts, request.device
    if opts.tune is not None:
        precision, table = request.tuned
        peaks_in, count = tuning_modes(opts, device, table, precision, reporter)
        return estimate(opts, device, peaks_in, [precision], tuned_modes=count)
    _known_peaks(request)
    modes, placed = request.modes, None
    if opts.model is not None and not (opts.no_measure or opts.profile):
        placed = len(modes) if opts.modes and len(modes) * len(request.tables) <= MOST_PLACED else 1
    return estimate(opts, device, modes, request.kernel_precisions, network_modes=placed)


def _known_peaks(request: Request) -> Roofline | None:
    """Check that the device can run the request, and return the roofline of ``--peaks``."""
    opts = request.opts
    known = None if opts.peaks is None else read_peaks(opts.peaks, request.device.name, force=opts.force)
    first = next(iter(request.tables.values()))
    if opts.layers and first and opts.precision not in (None, "fp32") and isinstance(request.device.source, LiveSource):
        raise InputError(
            f"--layers of {first[0].precision} are for simulated devices; a real one runs the network as it is",
            "leave out --layers, or --precision",
        )
    return known


def _keep_peaks(opts: RooflineOptions, peaks: Sequence[Roofline], target: Target | None) -> str:
    """Write the peaks measured by an interrupted run, and return a sentence that names their file."""
    if not peaks:
        fewer = "" if opts.quick else ", and --quick runs fewer"
        return f"nothing is kept: peaks are fitted when all kernels have run{fewer}"
    if opts.peaks is not None:
        return f"the peaks are in {opts.peaks} as before, and the same command starts over"
    if target is None or target.path is None:
        return "nothing is kept; -o FILE keeps the peaks, and --peaks FILE goes on from them"
    target.write(peaks[0])
    return f"the peaks are in {target.path}: --peaks {target.path} goes on from them"


MOST_PLACED = 4
"""Roofs of different modes beneath which a network is placed, and on a real device measured: as many as a figure draws
in full. More than that is a sweep, which ``edgetune profile`` is for."""


def _all_placed(request: Request, roofline: Roofline, reporter: Reporter) -> list[Placed]:
    """Place the network beneath the roof of each precision: in the highest mode, and in others if these are few."""
    device, tables, modes = request.device, request.tables, request.modes
    measured, opts = {roof.precision for roof in roofline.roofs}, what_can_run(request.opts, device, reporter)
    if opts.peaks is None and len(tables) > 1:  # a precision that the device lacks leaves the others; a note says so
        tables = {precision: tables[precision] for precision in tables if precision in measured} or tables
    others = _other_modes(opts, modes, len(tables), reporter)
    found: list[Placed] = []
    for precision, of_network in tables.items():
        highest = modes[0] if opts.modes else None
        roof = choose_roof(roofline, precision, highest, like=found[0].roof if found else None)
        known = [(roof.mode, roof.precision) for roof in roofline.roofs]
        placed_in = [mode for mode in others if opts.peaks is not None or (mode, precision) in known]
        roofs = [choose_roof(roofline, precision, mode) for mode in placed_in]
        here, *elsewhere = (
            _beneath(device, opts, roofline, each, of_network=of_network, reporter=reporter) for each in (roof, *roofs)
        )
        layers = None
        if opts.layers and of_network and not found:
            with reporter.bar(f"measuring {of_network[0].workload}", 2) as advance:
                told = (lambda words: advance(1, words)) if advance is not None else (lambda _: None)
                layers = _layers(device, opts, of_network[0], roof, told)
        found.append(replace(here, layers=layers, elsewhere=tuple(elsewhere)))
    SimulationLabel(roofline.header.simulated or device.simulated, reporter).announce()
    return found


def _other_modes(opts: RooflineOptions, modes: Sequence[Mode], precisions: int, reporter: Reporter) -> Sequence[Mode]:
    """Return the modes besides the highest to place the network in: all named modes, or none if they are many."""
    if opts.model is None or not opts.modes:
        return ()
    if len(modes) > 1 and len(modes) * precisions > MOST_PLACED:
        many = f"{len(modes)} modes" + (f" and {precisions} precisions" if precisions > 1 else "")
        reporter.info(f"note: {opts.model} is placed in the highest mode alone: {many} make over {MOST_PLACED} roofs")
        return ()
    return modes[1:]


def _beneath(
    device: Device, opts: RooflineOptions, roofline: Roofline, roof: Roof, *,
    of_network: tuple[OpsTable, ...], reporter: Reporter,
) -> Placed:  # fmt: skip
    """Place the network beneath one roof, at every batch size."""
    others = roofs_beside(roofline, roof)
    networks = [_placed(device, opts, table, (roof, *others), reporter) for table in of_network]
    placements, rows = tuple(each for each, _ in networks), tuple(row for _, row in networks)
    return Placed(roofline, roof, of_network, placements, rows, memory_bytes=memory_known(device, opts))


def _placed(
    device: Device, opts: RooflineOptions, table: OpsTable, roofs: Sequence[Roof], reporter: Reporter
) -> tuple[Placement, ProfileRow | None]:
    """Place a network with its measurements.

    Args:
        device: Where it is measured.
        opts: What was asked for.
        table: Of the network.
        roofs: That of its precision first, then those of others.
        reporter: Receives the reason for a missing measured time.
    """
    roof, *others = roofs
    point = Point(table.workload, table.task, table.batch_size, roof.mode)
    row, reason = None, "it was not asked for"
    if opts.profile is not None:
        row = tabled(opts.profile, point)
        reason = f"{opts.profile} does not have it"
    elif not opts.no_measure:
        try:
            row = measured(device, opts, table, point, reporter)
            warn_of_contention([row], reporter)
            reason = row.reason or row.status
        except EdgetuneError as error:
            reason = error.message
    measured_s = None if row is None else mean_minibatch_s(row)
    if measured_s is None and not opts.no_measure:
        reporter.info(f"note: no measured time of {point} in {table.precision}: {reason}")
    return place(table, roof, others=others, measured_s=measured_s), row


def _layers(
    device: Device, opts: RooflineOptions, table: OpsTable, roof: Roof, on_phase: Callable[[str], None]
) -> Layers:
    """Return the times of the network's layers at the batch size of ``table``, joined to their costs."""
    workload = workload_of(opts)
    options = measuring(opts, table)
    if opts.fused:
        (table, *_) = network_tables(replace(opts, fused=False), precision_to_run(opts, table))
    point = Point(workload.name, table.task, table.batch_size, roof.mode)
    times = layer_times(device, workload, point, options, on_phase=on_phase)
    return join(table, times)
