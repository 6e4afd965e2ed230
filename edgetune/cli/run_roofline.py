"""From the options of ``edgetune roofline`` to peaks, a network placed beneath them, and words about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.beaten_peaks import without_beaten
from edgetune.cli.busy import tell_disturbed, tell_load
from edgetune.cli.kept_files import check_outputs
from edgetune.cli.output import Target
from edgetune.cli.peaks import choose_roof, kernel_precision, measured_peaks, read_peaks, roofs_beside
from edgetune.cli.request import choose_modes, parse_inputs, parse_task
from edgetune.cli.roofline_clocks import next_changes
from edgetune.cli.roofline_measuring import measured, measuring, precision_to_run, tabled
from edgetune.cli.roofline_plan import runs_planned, tell_plan
from edgetune.cli.roofline_request import AskedRoofline, Placed
from edgetune.cli.roofline_tokens import dimension_words, dimensions_asked, memory_known, what_can_run
from edgetune.cli.screen import Label, Screen
from edgetune.cli.stopping import telling_kept
from edgetune.errors import InputError
from edgetune.roofline.place import beneath

if TYPE_CHECKING:
    from edgetune.artifacts.layers import Layers
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.roofline import Roof, Roofline
    from edgetune.devices.device import Device
    from edgetune.roofline.place import Placement

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")
_STORED_AS = {"tf32": "fp32"}
"""Precisions that compute in one type what is stored in another."""


def carry_out(asked: AskedRoofline, screen: Screen) -> None:
    """Measure or read peaks, place the network, write the roofline and tell all of it.

    Raises:
        InputError: the network, the modes, the precisions, the peaks or the figure cannot be used as asked.
        DeviceError: the device is not here, or cannot run kernels.
    """
    from edgetune.cli.where import open_named

    precisions = () if asked.precision is None else parse_precisions(asked.precision)
    asked = _with_batch(asked, screen)
    target = _check_words(asked, precisions)
    device = open_named(asked.device, asked.root, seed=asked.seed)
    tables = _tables_by_roof(asked, device, precisions)
    if asked.tune is not None:
        from edgetune.cli.run_tune import carry_out as tune_network

        (kernels, (*of_network,)) = next(iter(tables.items()))
        if not of_network:
            raise InputError("--tune needs a network", "e.g. edgetune roofline zoo:resnet18 --tune 5%")
        asked = replace(asked, dimensions=dimension_words(of_network[0], asked))
        tune_network(asked, device, of_network[0], kernels, screen)
        return
    modes = highest_first(choose_modes(device, asked.modes).modes)
    kernels_in = _kernel_precisions(device, tables)
    known = None if asked.peaks is None else read_peaks(asked.peaks, device.name, force=asked.force)
    _check_device(asked, device, tables, modes if known is None else [roof.mode for roof in known.roofs])
    if asked.dry_run:
        peaks_in = modes if known is None else [roof.mode for roof in known.roofs]
        placed = (
            modes
            if asked.modes and len(modes) * len(tables) <= MOST_PLACED
            else highest_first(modes if asked.modes else peaks_in)[:1]
        )
        tell_plan(device, modes, kernels_in, asked, runs=runs_planned(asked, placed, peaks_in))
        return
    if known is not None and asked.model is not None and not (asked.no_measure or asked.profile):
        tell_load(device, screen)
    peaks = [] if known is None else [known]
    with telling_kept(screen, lambda: _keep_peaks(asked, peaks, target)):
        if not peaks:
            peaks.append(measured_peaks(device, modes, kernels_in, quick=asked.quick, screen=screen))
        found = _all_placed(asked, device, peaks[0], tables, modes=modes, screen=screen)
        if known is None and asked.profile is None:
            found = without_beaten(device, found, quick=asked.quick, screen=screen)
    _tell(asked, found, target, screen)


def _keep_peaks(asked: AskedRoofline, peaks: Sequence[Roofline], target: Target | None) -> str:
    """Write the peaks that an interrupted run has measured, and return where they are, in words."""
    if not peaks:
        return "nothing is kept: peaks are fitted when all kernels have run, and --quick runs fewer"
    if asked.peaks is not None:
        return f"the peaks are in {asked.peaks} as before, and the same command starts over"
    if target is None or target.path is None:
        return "nothing is kept; -o FILE keeps the peaks, and --peaks FILE goes on from them"
    target.write(peaks[0])
    return f"the peaks are in {target.path}: --peaks {target.path} goes on from them"


def _with_batch(asked: AskedRoofline, screen: Screen) -> AskedRoofline:
    """Return what is asked with batch sizes that the network can be given: without any, the one of its file."""
    from edgetune.cli.batch_choice import choose_batch_sizes

    if asked.model is None:
        return asked
    said = () if asked.batch_sizes is None else asked.sizes
    dimensions, task, inputs = dimensions_asked(asked)[0], parse_task(asked.task), parse_inputs(asked.inputs)
    sizes, batch = choose_batch_sizes(
        asked.workload, said, task=task, dimensions=dimensions, inputs=inputs, seed=asked.seed
    )
    if batch is not None:
        screen.say(batch)
    return replace(asked, batch_sizes=",".join(map(str, sizes)))


def _tables_by_roof(asked: AskedRoofline, device: Device, precisions: Sequence[str]) -> dict[str, tuple[OpsTable, ...]]:
    """Return the operator tables of the network in each precision asked for, by that of the roof they stand beneath.

    Without a precision they are of the network's own types; without a network there are none.
    """
    if precisions:
        return {
            kernel_precision(device, each, precisions): _tables(asked, _STORED_AS.get(each, each))
            for each in precisions
        }
    tables = _tables(asked, None)
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
    from edgetune.cli.choices import choose

    return tuple(dict.fromkeys(choose(word.strip(), PRECISIONS, what="precision") for word in text.split(",")))


def _check_words(asked: AskedRoofline, precisions: Sequence[str]) -> Target | None:
    """Refuse what no device could do, and return where the roofline is to be written."""
    from edgetune.cli.roofline_plot import check_figure

    kinds = {"-o": "roofline" if asked.tune is None else "plan"}
    check_outputs({"-o": asked.output, "--plot": asked.plot}, (asked.model, asked.peaks, asked.profile), kinds)
    check_figure(asked)
    if asked.tune is not None:
        _check_tune(asked)
    if len(precisions) > 1:
        several = ", ".join(precisions)
        if asked.tune is not None:
            raise InputError(f"--tune is for one precision, and {several} are asked", "tune for each in turn")
        if asked.profile is not None:
            raise InputError(
                f"--profile has times of one precision, and {several} are asked", "place each precision in turn"
            )
    return None if asked.output is None else Target(None if asked.output == "-" else Path(asked.output))


def _check_tune(asked: AskedRoofline) -> None:
    """Refuse what has no meaning beside --tune, which measures one network at one batch size and gives a plan.

    Raises:
        InputError: something of that kind is asked for.
    """
    options = {"--plot": asked.plot, "--profile": asked.profile, "--layers": asked.layers}
    beside = [option for option, value in {**options, "--no-measure": asked.no_measure}.items() if value]
    if beside:
        hint = "draw and place the network in a run of its own"
        raise InputError(f"--tune gives a plan of what it measures, and has no use for {beside[0]}", hint)
    if len(asked.sizes) > 1:
        raise InputError(f"--tune is for one batch size, and {len(asked.sizes)} are asked", "tune for each in turn")


def _check_device(
    asked: AskedRoofline, device: Device, tables: Mapping[str, Sequence[OpsTable]], modes: Sequence[Mode]
) -> None:
    """Refuse what this device cannot do, before anything is measured."""
    from edgetune.cli.roofline_plot import check_clocks
    from edgetune.devices.device import LiveSource

    if asked.view == "clocks":
        check_clocks(device, modes)
    first = next(iter(tables.values()))
    if asked.layers and first and asked.precision not in (None, "fp32") and isinstance(device.source, LiveSource):
        raise InputError(
            f"--layers of {first[0].precision} are for simulated devices; a real one runs the network as it is",
            "leave out --layers, or --precision",
        )


MOST_PLACED = 4
"""Roofs of different modes beneath which a network is placed, and on a real device measured: as many as a figure draws
in full. More than that is a sweep, which ``edgetune profile`` is for."""


def _all_placed(
    asked: AskedRoofline, device: Device, roofline: Roofline, tables: Mapping[str, tuple[OpsTable, ...]], *,
    modes: Sequence[Mode], screen: Screen,
) -> list[Placed]:  # fmt: skip
    """Place the network beneath the roof of each precision: in the highest of ``modes``, and in few others as well."""
    measured, asked = {roof.precision for roof in roofline.roofs}, what_can_run(asked, device, screen)
    if asked.peaks is None and len(tables) > 1:  # a precision that the device lacks leaves the others; a note says so
        tables = {precision: tables[precision] for precision in tables if precision in measured} or tables
    others = _other_modes(asked, modes, len(tables), screen)
    found: list[Placed] = []
    for precision, of_network in tables.items():
        highest = modes[0] if asked.modes else None
        roof = choose_roof(roofline, precision, highest, like=found[0].roof if found else None)
        roofs = _roofs_of(roofline, precision, others, infer=asked.peaks is not None)
        here, *elsewhere = (
            _beneath(device, asked, roofline, each, of_network=of_network, screen=screen) for each in (roof, *roofs)
        )
        layers = _layers(device, asked, of_network[0], roof) if asked.layers and of_network and not found else None
        here = replace(here, layers=layers, elsewhere=tuple(elsewhere))
        found.append(replace(here, changes=next_changes(device, asked, here, screen)))
    Label(roofline.header.simulated or device.simulated).say()
    return found


def _other_modes(asked: AskedRoofline, modes: Sequence[Mode], precisions: int, screen: Screen) -> Sequence[Mode]:
    """Return the modes besides the highest in which to place the network: all that were named, or none of many."""
    if asked.model is None or not asked.modes:
        return ()
    if len(modes) > 1 and len(modes) * precisions > MOST_PLACED:
        many = f"{len(modes)} modes" + (f" and {precisions} precisions" if precisions > 1 else "")
        screen.say(f"note: {asked.model} is placed in the highest mode alone: {many} make over {MOST_PLACED} roofs")
        return ()
    return modes[1:]


def _roofs_of(roofline: Roofline, precision: str, modes: Sequence[Mode], *, infer: bool) -> list[Roof]:
    """Return the roofs of modes: inferred where need be, or only those that came of measuring."""
    if infer:
        return [choose_roof(roofline, precision, mode) for mode in modes]
    return [roof for mode in modes for roof in roofline.roofs if (roof.mode, roof.precision) == (mode, precision)]


def _beneath(
    device: Device, asked: AskedRoofline, roofline: Roofline, roof: Roof, *,
    of_network: tuple[OpsTable, ...], screen: Screen,
) -> Placed:  # fmt: skip
    """Place the network beneath one roof, at every batch size."""
    others = roofs_beside(roofline, roof)
    networks = [_placed(device, asked, table, (roof, *others), screen) for table in of_network]
    placements, rows = tuple(each for each, _ in networks), tuple(row for _, row in networks)
    return Placed(roofline, roof, of_network, placements, rows, memory_bytes=memory_known(device, asked))


def _tell(asked: AskedRoofline, found: Sequence[Placed], target: Target | None, screen: Screen) -> None:
    """Write the roofline and the figure, and tell what was found, also where a file cannot be written."""
    from edgetune.cli.plot import draw_finished
    from edgetune.cli.roofline_plot import placed_drawing
    from edgetune.cli.roofline_report import report

    try:
        if target is not None:
            target.write(found[0].roofline)
            target.tell(screen)
        view = asked.view or "roofs"
        draw_finished(lambda: placed_drawing(found, str(asked.plot), view), asked.plot, screen, None)
    finally:  # measuring took minutes, and a full disk is no reason to keep silent
        if asked.output != "-":
            report(found, json=asked.json)


def _tables(asked: AskedRoofline, precision: str | None) -> tuple[OpsTable, ...]:
    """Return the operator table of the network at each batch size, of a language model in each pass.

    Args:
        asked: What was asked for.
        precision: See ``operator_table``.
    """
    points = dimensions_asked(asked)
    if asked.model is None:
        return ()
    from edgetune.roofline.place import require_work
    from edgetune.workloads.costs import operator_table
    from edgetune.workloads.observed import Feed

    workload, task, feed = asked.workload, parse_task(asked.task), Feed(asked.inputs, asked.seed)
    tables = tuple(
        operator_table(workload, task, size, precision=precision, dimensions=dimensions, fused=asked.fused, feed=feed)
        for size in asked.sizes
        for dimensions in points
    )
    for table in tables:
        require_work(table)
    return tables


def _placed(
    device: Device, asked: AskedRoofline, table: OpsTable, roofs: Sequence[Roof], screen: Screen
) -> tuple[Placement, ProfileRow | None]:
    """Place a network, with what was measured of it.

    Args:
        device: Where it is measured.
        asked: What was asked for.
        table: Of the network.
        roofs: That of its precision first, then those of others.
        screen: Told why there is no measured time.
    """
    from edgetune.artifacts.profile import Point
    from edgetune.errors import EdgetuneError
    from edgetune.roofline.place import place

    roof, *others = roofs
    point = Point(table.workload, table.task, table.batch_size, roof.mode)
    row, reason = None, "it was not asked for"
    if asked.profile is not None:
        row, reason = tabled(asked.profile, point), f"{asked.profile} does not have it"
    elif not asked.no_measure:
        try:
            row = measured(device, asked, table, point)
            tell_disturbed(point, row, screen)
            reason = row.reason or row.status
        except EdgetuneError as error:
            reason = error.message
    measured_s = None if row is None else row.minibatch_s
    if measured_s is None and not asked.no_measure:
        screen.say(f"note: no measured time of {point} in {table.precision}: {reason}")
    return place(table, roof, others=others, measured_s=measured_s), row


def _layers(device: Device, asked: AskedRoofline, table: OpsTable, roof: Roof) -> Layers:
    """Return the times of the network's layers at the batch size of ``table``, joined to their costs."""
    from edgetune.artifacts.profile import Point
    from edgetune.profiling.layers import layer_times
    from edgetune.roofline.layers import join

    workload = asked.workload
    options = measuring(asked, table)
    if asked.fused:
        (table, *_) = _tables(replace(asked, fused=False), precision_to_run(asked, table))
    times = layer_times(device, workload, Point(workload.name, table.task, table.batch_size, roof.mode), options)
    return join(table, times)
