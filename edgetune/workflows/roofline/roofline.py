"""Measures or reads the peaks of a device and places a network beneath them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.artifacts.layers import Layers
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.choices import choose
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.profiling.layers import layer_times
from edgetune.stages.roofline.clocks import HOST_KNOBS
from edgetune.stages.roofline.layers import join
from edgetune.stages.roofline.placement import Placement, beneath, place, require_work
from edgetune.workflows.device_option import open_named
from edgetune.workflows.load_warning import warn_of_contention, warn_of_load
from edgetune.workflows.output import Target, check_outputs
from edgetune.workflows.parse_options import choose_batch_sizes, choose_modes, parse_inputs
from edgetune.workflows.peaks import read_peaks
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.roofline.drawing import check_clocks, check_figure
from edgetune.workflows.roofline.estimate import RooflineEstimate, estimate, runs_planned
from edgetune.workflows.roofline.network import measured, measuring, next_changes, precision_to_run, tabled
from edgetune.workflows.roofline.options import RooflineOptions
from edgetune.workflows.roofline.peaks import (
    choose_roof,
    kernel_precision,
    measured_peaks,
    roofs_beside,
    without_beaten,
)
from edgetune.workflows.roofline.request import (
    Placed,
    dimension_words,
    dimensions_asked,
    memory_known,
    sizes_of,
    task_of,
    what_can_run,
    workload_of,
)
from edgetune.workflows.roofline.tune import TunedNetwork, tune_network, tuning_modes
from edgetune.workflows.stopping import reporting_saved
from edgetune.workloads.costs import operator_table
from edgetune.workloads.observed import Feed

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")
_STORED_AS = {"tf32": "fp32"}
"""Precisions that compute in one type what is stored in another."""


@dataclass(frozen=True, slots=True)
class Request:
    """The measurements of ``edgetune roofline``, with options checked against the device.

    Args:
        opts: The options, with the task and the batch sizes settled.
        device: The device that runs kernels and the network.
        tables: Operator tables of the network by the precision of their roof.
        target: The output of the roofline; ``None`` for none.
        modes: The modes to measure peaks in, the highest first; none for ``--tune``, which chooses its own.
    """

    opts: RooflineOptions
    device: Device
    tables: Mapping[str, tuple[OpsTable, ...]]
    target: Target | None
    modes: tuple[Mode, ...]

    @property
    def kernel_precisions(self) -> list[str]:
        """The precisions to measure peaks in."""
        return _kernel_precisions(self.device, self.tables)

    @property
    def tuned(self) -> tuple[str, OpsTable]:
        """The precision of the roof and the operator table of the network to tune.

        Raises:
            InputError: There is no network.
        """
        precision, tables = next(iter(self.tables.items()))
        if not tables:
            raise InputError("--tune needs a network", "e.g. edgetune roofline zoo:resnet18 --tune 5%")
        return precision, tables[0]


def request_of(opts: RooflineOptions, reporter: Reporter) -> Request:
    """Check the options, open the device and compute the network's cost, without measuring.

    Raises:
        InputError: The network, the modes, the precisions or the figure are invalid.
        DeviceError: The device is absent.
    """
    precisions = () if opts.precision is None else parse_precisions(opts.precision)
    opts = _settled(opts, reporter)
    target = _check_words(opts, precisions)
    device = open_named(opts.device or "auto", opts.root, seed=opts.seed)
    tables = _tables_by_roof(opts, device, precisions)
    modes = () if opts.tune is not None else highest_first(choose_modes(device, opts.modes).modes)
    request = Request(opts, device, tables, target, modes)
    if opts.tune is None:
        return request
    return replace(request, opts=replace(opts, dim=dimension_words(request.tuned[1], opts)))


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
            found = without_beaten(device, found, quick=opts.quick, reporter=reporter)
    return found, request.target


def tune(opts: RooflineOptions, reporter: Reporter) -> TunedNetwork:
    """Return the plan of least energy within the slowdown of ``--tune``.

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
        return estimate(opts, device, peaks_in, [precision], tuned=count)
    modes, known = request.modes, _known_peaks(request)
    peaks_in = modes if known is None else [roof.mode for roof in known.roofs]
    if opts.modes and len(modes) * len(request.tables) <= MOST_PLACED:
        placed = modes
    else:
        placed = highest_first(modes if opts.modes else peaks_in)[:1]
    return estimate(opts, device, modes, request.kernel_precisions, runs=runs_planned(opts, placed, peaks_in))


def _known_peaks(request: Request) -> Roofline | None:
    """Check that the device can run the request, and return the roofline of ``--peaks``."""
    opts = request.opts
    known = None if opts.peaks is None else read_peaks(opts.peaks, request.device.name, force=opts.force)
    _check_device(request, request.modes if known is None else [roof.mode for roof in known.roofs])
    return known


def _keep_peaks(opts: RooflineOptions, peaks: Sequence[Roofline], target: Target | None) -> str:
    """Write the peaks measured by an interrupted run, and return a sentence that names their file."""
    if not peaks:
        return "nothing is kept: peaks are fitted when all kernels have run, and --quick runs fewer"
    if opts.peaks is not None:
        return f"the peaks are in {opts.peaks} as before, and the same command starts over"
    if target is None or target.path is None:
        return "nothing is kept; -o FILE keeps the peaks, and --peaks FILE goes on from them"
    target.write(peaks[0])
    return f"the peaks are in {target.path}: --peaks {target.path} goes on from them"


def _settled(opts: RooflineOptions, reporter: Reporter) -> RooflineOptions:
    """Return the options completed by the task and by valid batch sizes, by default that of the file."""
    task = task_of(opts)
    if opts.model is None:
        return replace(opts, task=task)
    sizes, batch = choose_batch_sizes(
        workload_of(opts), () if opts.batch_sizes is None else sizes_of(opts), task=task,
        dimensions=dimensions_asked(opts)[0], inputs=parse_inputs(opts.inputs), seed=opts.seed,
    )  # fmt: skip
    if batch is not None:
        reporter.info(batch)
    return replace(opts, task=task, batch_sizes=sizes)


def _tables_by_roof(
    opts: RooflineOptions, device: Device, precisions: Sequence[str]
) -> dict[str, tuple[OpsTable, ...]]:
    """Return the operator tables of the network in each requested precision, by the precision of their roof.

    Without a precision, the network keeps its own types; without a network, there are none.
    """
    if precisions:
        return {
            kernel_precision(device, each, precisions): _tables(opts, _STORED_AS.get(each, each)) for each in precisions
        }
    tables = _tables(opts, None)
    return {kernel_precision(device, beneath(tables[0].precision) if tables else "fp32"): tables}


def _kernel_precisions(device: Device, tables: Mapping[str, Sequence[OpsTable]]) -> list[str]:
    """Return the precisions to measure peaks in: those of the roofs and those of operators."""
    found = dict.fromkeys(tables)
    covered = {beneath(each) for each in found}
    for table in (table for of_network in tables.values() for table in of_network):
        for each in map(beneath, table.precisions[1:]):
            if each not in covered:
                covered.add(each)
                found[kernel_precision(device, each)] = None
    return list(found)


def highest_first(modes: Sequence[Mode]) -> tuple[Mode, ...]:
    """Return modes from the highest to the lowest: by the sum of their knobs, each as a share of its highest value.

    A mode with no knob below another's never comes after it. Knobs of the host only break ties, because they do not
    affect peaks of an accelerator; an unset knob counts as its highest value.
    """
    tops: dict[str, float] = {}
    for mode in modes:
        tops |= {knob: max(value, tops.get(knob, value)) for knob, value in mode.knobs().items()}

    def height(mode: Mode) -> tuple[float, float]:
        shares = {knob: mode.knobs().get(knob, top) / top for knob, top in tops.items()}
        of_host = sum(share for knob, share in shares.items() if knob in HOST_KNOBS)
        return sum(shares.values()) - of_host, of_host

    return tuple(sorted(modes, key=height, reverse=True))


def parse_precisions(text: str) -> tuple[str, ...]:
    """Return the precisions in ``fp32,fp16``, in that order, each once.

    Raises:
        InputError: a precision is unknown.
    """
    return tuple(dict.fromkeys(choose(word.strip(), PRECISIONS, what="precision") for word in text.split(",")))


def _check_words(opts: RooflineOptions, precisions: Sequence[str]) -> Target | None:
    """Refuse options that are invalid on every device, and return the roofline's target."""
    kinds = {"-o": "roofline" if opts.tune is None else "plan"}
    check_outputs({"-o": opts.output, "--plot": opts.plot}, (opts.model, opts.peaks, opts.profile), kinds)
    check_figure(opts)
    if opts.tune is not None:
        _check_tune(opts)
    if len(precisions) > 1:
        several = ", ".join(precisions)
        if opts.tune is not None:
            raise InputError(f"--tune is for one precision, and {several} are asked", "tune for each in turn")
        if opts.profile is not None:
            raise InputError(
                f"--profile has times of one precision, and {several} are asked", "place each precision in turn"
            )
    return None if opts.output is None else Target(None if opts.output == "-" else Path(opts.output))


def _check_tune(opts: RooflineOptions) -> None:
    """Refuse options that contradict --tune, which measures one network at one batch size and returns a plan.

    Raises:
        InputError: such an option is given.
    """
    options = {"--plot": opts.plot, "--profile": opts.profile, "--layers": opts.layers}
    beside = [option for option, value in {**options, "--no-measure": opts.no_measure}.items() if value]
    if beside:
        hint = "draw and place the network in a run of its own"
        raise InputError(f"--tune gives a plan of what it measures, and has no use for {beside[0]}", hint)
    if len(sizes_of(opts)) > 1:
        raise InputError(f"--tune is for one batch size, and {len(sizes_of(opts))} are asked", "tune for each in turn")


def _check_device(request: Request, modes: Sequence[Mode]) -> None:
    """Check before a measurement that this device supports the request."""
    opts, device = request.opts, request.device
    if opts.view == "clocks":
        check_clocks(device, modes)
    first = next(iter(request.tables.values()))
    if opts.layers and first and opts.precision not in (None, "fp32") and isinstance(device.source, LiveSource):
        raise InputError(
            f"--layers of {first[0].precision} are for simulated devices; a real one runs the network as it is",
            "leave out --layers, or --precision",
        )


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
        roofs = _roofs_of(roofline, precision, others, infer=opts.peaks is not None)
        here, *elsewhere = (
            _beneath(device, opts, roofline, each, of_network=of_network, reporter=reporter) for each in (roof, *roofs)
        )
        layers = _layers(device, opts, of_network[0], roof) if opts.layers and of_network and not found else None
        here = replace(here, layers=layers, elsewhere=tuple(elsewhere))
        found.append(replace(here, changes=next_changes(device, opts, here, reporter)))
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


def _roofs_of(roofline: Roofline, precision: str, modes: Sequence[Mode], *, infer: bool) -> list[Roof]:
    """Return the roofs of modes: with ``infer`` all, otherwise only the measured ones."""
    if infer:
        return [choose_roof(roofline, precision, mode) for mode in modes]
    return [roof for mode in modes for roof in roofline.roofs if (roof.mode, roof.precision) == (mode, precision)]


def _beneath(
    device: Device, opts: RooflineOptions, roofline: Roofline, roof: Roof, *,
    of_network: tuple[OpsTable, ...], reporter: Reporter,
) -> Placed:  # fmt: skip
    """Place the network beneath one roof, at every batch size."""
    others = roofs_beside(roofline, roof)
    networks = [_placed(device, opts, table, (roof, *others), reporter) for table in of_network]
    placements, rows = tuple(each for each, _ in networks), tuple(row for _, row in networks)
    return Placed(roofline, roof, of_network, placements, rows, memory_bytes=memory_known(device, opts))


def _tables(opts: RooflineOptions, precision: str | None) -> tuple[OpsTable, ...]:
    """Return the operator table of the network at each batch size, and for a language model in each pass.

    Args:
        opts: What was asked for.
        precision: See ``operator_table``.
    """
    points = dimensions_asked(opts)
    if opts.model is None:
        return ()

    workload, task, feed = workload_of(opts), task_of(opts), Feed(opts.inputs, opts.seed)
    tables = tuple(
        operator_table(workload, task, size, precision=precision, dimensions=dimensions, fused=opts.fused, feed=feed)
        for size in sizes_of(opts)
        for dimensions in points
    )
    for table in tables:
        require_work(table)
    return tables


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
        row, reason = tabled(opts.profile, point), f"{opts.profile} does not have it"
    elif not opts.no_measure:
        try:
            row = measured(device, opts, table, point)
            warn_of_contention(point, row, reporter)
            reason = row.reason or row.status
        except EdgetuneError as error:
            reason = error.message
    measured_s = None if row is None else row.minibatch_s
    if measured_s is None and not opts.no_measure:
        reporter.info(f"note: no measured time of {point} in {table.precision}: {reason}")
    return place(table, roof, others=others, measured_s=measured_s), row


def _layers(device: Device, opts: RooflineOptions, table: OpsTable, roof: Roof) -> Layers:
    """Return the times of the network's layers at the batch size of ``table``, joined to their costs."""
    workload = workload_of(opts)
    options = measuring(opts, table)
    if opts.fused:
        (table, *_) = _tables(replace(opts, fused=False), precision_to_run(opts, table))
    times = layer_times(device, workload, Point(workload.name, table.task, table.batch_size, roof.mode), options)
    return join(table, times)
