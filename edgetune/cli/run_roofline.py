"""From the options of ``edgetune roofline`` to peaks, a network placed beneath them, and words about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.exceeded_peaks import without_beaten
from edgetune.cli.peaks import choose_roof, kernel_precision, measured_peaks, roofs_beside
from edgetune.cli.roofline_clocks import next_changes
from edgetune.cli.roofline_measuring import measured, measuring, precision_to_run, tabled
from edgetune.cli.roofline_plan import report_plan, runs_planned
from edgetune.cli.roofline_request import Placed, RooflineOptions
from edgetune.cli.roofline_tokens import dimension_words, dimensions_asked, memory_known, what_can_run
from edgetune.cli.screen import Screen
from edgetune.errors import InputError
from edgetune.roofline.placement import beneath
from edgetune.workflows.load_warning import warn_of_contention, warn_of_load
from edgetune.workflows.output import Target, check_outputs
from edgetune.workflows.parse_options import choose_modes, parse_inputs, parse_task
from edgetune.workflows.peaks import read_peaks
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.stopping import reporting_saved

if TYPE_CHECKING:
    from edgetune.artifacts.layers import Layers
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.roofline import Roof, Roofline
    from edgetune.devices.device import Device
    from edgetune.roofline.placement import Placement

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")
_STORED_AS = {"tf32": "fp32"}
"""Precisions that compute in one type what is stored in another."""


def run_roofline(opts: RooflineOptions, screen: Screen) -> None:
    """Measure or read peaks, place the network, write the roofline and tell all of it.

    Raises:
        InputError: the network, the modes, the precisions, the peaks or the figure cannot be used as asked.
        DeviceError: the device is not here, or cannot run kernels.
    """
    from edgetune.workflows.device_option import open_named

    precisions = () if opts.precision is None else parse_precisions(opts.precision)
    opts = _with_batch(opts, screen)
    target = _check_words(opts, precisions)
    device = open_named(opts.device, opts.root, seed=opts.seed)
    tables = _tables_by_roof(opts, device, precisions)
    if opts.tune is not None:
        from edgetune.cli.run_tune import run_tune as tune_network

        (kernels, (*of_network,)) = next(iter(tables.items()))
        if not of_network:
            raise InputError("--tune needs a network", "e.g. edgetune roofline zoo:resnet18 --tune 5%")
        opts = replace(opts, dimensions=dimension_words(of_network[0], opts))
        tune_network(opts, device, of_network[0], kernels, screen)
        return
    modes = highest_first(choose_modes(device, opts.modes).modes)
    kernels_in = _kernel_precisions(device, tables)
    known = None if opts.peaks is None else read_peaks(opts.peaks, device.name, force=opts.force)
    _check_device(opts, device, tables, modes if known is None else [roof.mode for roof in known.roofs])
    if opts.dry_run:
        peaks_in = modes if known is None else [roof.mode for roof in known.roofs]
        placed = (
            modes
            if opts.modes and len(modes) * len(tables) <= MOST_PLACED
            else highest_first(modes if opts.modes else peaks_in)[:1]
        )
        report_plan(device, modes, kernels_in, opts, runs=runs_planned(opts, placed, peaks_in))
        return
    if known is not None and opts.model is not None and not (opts.no_measure or opts.profile):
        warn_of_load(device, screen)
    peaks = [] if known is None else [known]
    with reporting_saved(screen, lambda: _keep_peaks(opts, peaks, target)):
        if not peaks:
            peaks.append(measured_peaks(device, modes, kernels_in, quick=opts.quick, screen=screen))
        found = _all_placed(opts, device, peaks[0], tables, modes=modes, screen=screen)
        if known is None and opts.profile is None:
            found = without_beaten(device, found, quick=opts.quick, screen=screen)
    _report(opts, found, target, screen)


def _keep_peaks(opts: RooflineOptions, peaks: Sequence[Roofline], target: Target | None) -> str:
    """Write the peaks that an interrupted run has measured, and return where they are, in words."""
    if not peaks:
        return "nothing is kept: peaks are fitted when all kernels have run, and --quick runs fewer"
    if opts.peaks is not None:
        return f"the peaks are in {opts.peaks} as before, and the same command starts over"
    if target is None or target.path is None:
        return "nothing is kept; -o FILE keeps the peaks, and --peaks FILE goes on from them"
    target.write(peaks[0])
    return f"the peaks are in {target.path}: --peaks {target.path} goes on from them"


def _with_batch(opts: RooflineOptions, screen: Screen) -> RooflineOptions:
    """Return what is asked with batch sizes that the network can be given: without any, the one of its file."""
    from edgetune.workflows.batch_choice import choose_batch_sizes

    if opts.model is None:
        return opts
    said = () if opts.batch_sizes is None else opts.sizes
    dimensions, task, inputs = dimensions_asked(opts)[0], parse_task(opts.task), parse_inputs(opts.inputs)
    sizes, batch = choose_batch_sizes(
        opts.workload, said, task=task, dimensions=dimensions, inputs=inputs, seed=opts.seed
    )
    if batch is not None:
        screen.info(batch)
    return replace(opts, batch_sizes=",".join(map(str, sizes)))


def _tables_by_roof(
    opts: RooflineOptions, device: Device, precisions: Sequence[str]
) -> dict[str, tuple[OpsTable, ...]]:
    """Return the operator tables of the network in each precision asked for, by that of the roof they stand beneath.

    Without a precision they are of the network's own types; without a network there are none.
    """
    if precisions:
        return {
            kernel_precision(device, each, precisions): _tables(opts, _STORED_AS.get(each, each)) for each in precisions
        }
    tables = _tables(opts, None)
    return {kernel_precision(device, beneath(tables[0].precision) if tables else "fp32"): tables}


def _kernel_precisions(device: Device, tables: Mapping[str, Sequence[OpsTable]]) -> list[str]:
    """Return the precisions to measure peaks in: those of the roofs, and those that some operators compute in."""
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

    A mode with no knob below another's never comes after it. Knobs of the host count only between modes that are alike
    otherwise, for peaks of an accelerator do not go with them; one that is left alone holds nothing back.
    """
    from edgetune.roofline.clocks import HOST_KNOBS

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
        InputError: one is unknown.
    """
    from edgetune.choices import choose

    return tuple(dict.fromkeys(choose(word.strip(), PRECISIONS, what="precision") for word in text.split(",")))


def _check_words(opts: RooflineOptions, precisions: Sequence[str]) -> Target | None:
    """Refuse what no device could do, and return where the roofline is to be written."""
    from edgetune.cli.roofline_plot import check_figure

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
    """Refuse what has no meaning beside --tune, which measures one network at one batch size and gives a plan.

    Raises:
        InputError: something of that kind is asked for.
    """
    options = {"--plot": opts.plot, "--profile": opts.profile, "--layers": opts.layers}
    beside = [option for option, value in {**options, "--no-measure": opts.no_measure}.items() if value]
    if beside:
        hint = "draw and place the network in a run of its own"
        raise InputError(f"--tune gives a plan of what it measures, and has no use for {beside[0]}", hint)
    if len(opts.sizes) > 1:
        raise InputError(f"--tune is for one batch size, and {len(opts.sizes)} are asked", "tune for each in turn")


def _check_device(
    opts: RooflineOptions, device: Device, tables: Mapping[str, Sequence[OpsTable]], modes: Sequence[Mode]
) -> None:
    """Refuse what this device cannot do, before anything is measured."""
    from edgetune.cli.roofline_plot import check_clocks
    from edgetune.devices.device import LiveSource

    if opts.view == "clocks":
        check_clocks(device, modes)
    first = next(iter(tables.values()))
    if opts.layers and first and opts.precision not in (None, "fp32") and isinstance(device.source, LiveSource):
        raise InputError(
            f"--layers of {first[0].precision} are for simulated devices; a real one runs the network as it is",
            "leave out --layers, or --precision",
        )


MOST_PLACED = 4
"""Roofs of different modes beneath which a network is placed, and on a real device measured: as many as a figure draws
in full. More than that is a sweep, which ``edgetune profile`` is for."""


def _all_placed(
    opts: RooflineOptions, device: Device, roofline: Roofline, tables: Mapping[str, tuple[OpsTable, ...]], *,
    modes: Sequence[Mode], screen: Screen,
) -> list[Placed]:  # fmt: skip
    """Place the network beneath the roof of each precision: in the highest of ``modes``, and in few others as well."""
    measured, opts = {roof.precision for roof in roofline.roofs}, what_can_run(opts, device, screen)
    if opts.peaks is None and len(tables) > 1:  # a precision that the device lacks leaves the others; a note says so
        tables = {precision: tables[precision] for precision in tables if precision in measured} or tables
    others = _other_modes(opts, modes, len(tables), screen)
    found: list[Placed] = []
    for precision, of_network in tables.items():
        highest = modes[0] if opts.modes else None
        roof = choose_roof(roofline, precision, highest, like=found[0].roof if found else None)
        roofs = _roofs_of(roofline, precision, others, infer=opts.peaks is not None)
        here, *elsewhere = (
            _beneath(device, opts, roofline, each, of_network=of_network, screen=screen) for each in (roof, *roofs)
        )
        layers = _layers(device, opts, of_network[0], roof) if opts.layers and of_network and not found else None
        here = replace(here, layers=layers, elsewhere=tuple(elsewhere))
        found.append(replace(here, changes=next_changes(device, opts, here, screen)))
    SimulationLabel(roofline.header.simulated or device.simulated, screen).announce()
    return found


def _other_modes(opts: RooflineOptions, modes: Sequence[Mode], precisions: int, screen: Screen) -> Sequence[Mode]:
    """Return the modes besides the highest in which to place the network: all that were named, or none of many."""
    if opts.model is None or not opts.modes:
        return ()
    if len(modes) > 1 and len(modes) * precisions > MOST_PLACED:
        many = f"{len(modes)} modes" + (f" and {precisions} precisions" if precisions > 1 else "")
        screen.info(f"note: {opts.model} is placed in the highest mode alone: {many} make over {MOST_PLACED} roofs")
        return ()
    return modes[1:]


def _roofs_of(roofline: Roofline, precision: str, modes: Sequence[Mode], *, infer: bool) -> list[Roof]:
    """Return the roofs of modes: inferred where need be, or only those that came of measuring."""
    if infer:
        return [choose_roof(roofline, precision, mode) for mode in modes]
    return [roof for mode in modes for roof in roofline.roofs if (roof.mode, roof.precision) == (mode, precision)]


def _beneath(
    device: Device, opts: RooflineOptions, roofline: Roofline, roof: Roof, *,
    of_network: tuple[OpsTable, ...], screen: Screen,
) -> Placed:  # fmt: skip
    """Place the network beneath one roof, at every batch size."""
    others = roofs_beside(roofline, roof)
    networks = [_placed(device, opts, table, (roof, *others), screen) for table in of_network]
    placements, rows = tuple(each for each, _ in networks), tuple(row for _, row in networks)
    return Placed(roofline, roof, of_network, placements, rows, memory_bytes=memory_known(device, opts))


def _report(opts: RooflineOptions, found: Sequence[Placed], target: Target | None, screen: Screen) -> None:
    """Write the roofline and the figure, and tell what was found, also where a file cannot be written."""
    from edgetune.cli.plot import draw_finished
    from edgetune.cli.roofline_plot import placed_drawing
    from edgetune.cli.roofline_report import report

    try:
        if target is not None:
            target.write(found[0].roofline)
            target.report(screen)
        view = opts.view or "roofs"
        draw_finished(lambda: placed_drawing(found, str(opts.plot), view), opts.plot, screen, None)
    finally:  # measuring took minutes, and a full disk is no reason to keep silent
        if opts.output != "-":
            report(found, json=opts.json)


def _tables(opts: RooflineOptions, precision: str | None) -> tuple[OpsTable, ...]:
    """Return the operator table of the network at each batch size, of a language model in each pass.

    Args:
        opts: What was asked for.
        precision: See ``operator_table``.
    """
    points = dimensions_asked(opts)
    if opts.model is None:
        return ()
    from edgetune.roofline.placement import require_work
    from edgetune.workloads.costs import operator_table
    from edgetune.workloads.observed import Feed

    workload, task, feed = opts.workload, parse_task(opts.task), Feed(opts.inputs, opts.seed)
    tables = tuple(
        operator_table(workload, task, size, precision=precision, dimensions=dimensions, fused=opts.fused, feed=feed)
        for size in opts.sizes
        for dimensions in points
    )
    for table in tables:
        require_work(table)
    return tables


def _placed(
    device: Device, opts: RooflineOptions, table: OpsTable, roofs: Sequence[Roof], screen: Screen
) -> tuple[Placement, ProfileRow | None]:
    """Place a network, with what was measured of it.

    Args:
        device: Where it is measured.
        opts: What was asked for.
        table: Of the network.
        roofs: That of its precision first, then those of others.
        screen: Told why there is no measured time.
    """
    from edgetune.artifacts.profile import Point
    from edgetune.errors import EdgetuneError
    from edgetune.roofline.placement import place

    roof, *others = roofs
    point = Point(table.workload, table.task, table.batch_size, roof.mode)
    row, reason = None, "it was not asked for"
    if opts.profile is not None:
        row, reason = tabled(opts.profile, point), f"{opts.profile} does not have it"
    elif not opts.no_measure:
        try:
            row = measured(device, opts, table, point)
            warn_of_contention(point, row, screen)
            reason = row.reason or row.status
        except EdgetuneError as error:
            reason = error.message
    measured_s = None if row is None else row.minibatch_s
    if measured_s is None and not opts.no_measure:
        screen.info(f"note: no measured time of {point} in {table.precision}: {reason}")
    return place(table, roof, others=others, measured_s=measured_s), row


def _layers(device: Device, opts: RooflineOptions, table: OpsTable, roof: Roof) -> Layers:
    """Return the times of the network's layers at the batch size of ``table``, joined to their costs."""
    from edgetune.artifacts.profile import Point
    from edgetune.profiling.layers import layer_times
    from edgetune.roofline.layers import join

    workload = opts.workload
    options = measuring(opts, table)
    if opts.fused:
        (table, *_) = _tables(replace(opts, fused=False), precision_to_run(opts, table))
    times = layer_times(device, workload, Point(workload.name, table.task, table.batch_size, roof.mode), options)
    return join(table, times)
