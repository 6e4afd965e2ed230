"""From the options of ``edgetune roofline`` to peaks, a network placed beneath them, and words about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.cli.kept_files import check_outputs
from edgetune.cli.output import Target
from edgetune.cli.peaks import kernel_precision, measured_peaks, read_peaks, roofs_in
from edgetune.cli.request import choose_modes, parse_batch_sizes, parse_dimensions, parse_task
from edgetune.cli.screen import Label, Screen
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.layers import Layers
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.artifacts.roofline import Roof, Roofline
    from edgetune.devices.device import Device
    from edgetune.roofline.place import Placement

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")


@dataclass(frozen=True, slots=True)
class AskedRoofline:
    """What was asked for, as written on the command line."""

    model: str | None
    task: str
    device: str
    root: str | None
    modes: str | None
    batch_sizes: str
    precision: str
    dimensions: tuple[str, ...]
    peaks: str | None
    profile: str | None
    output: str | None
    plot: str | None
    tune: str | None
    fused: bool
    layers: bool
    quick: bool
    force: bool
    no_measure: bool
    dry_run: bool
    json: bool
    seed: int


@dataclass(frozen=True, slots=True)
class Placed:
    """What is told: a device's rooflines, and where a network lies beneath one of them.

    ``tables`` and ``placements`` are one per batch size; empty without a network. ``layers`` are of the first size.
    """

    roofline: Roofline
    roof: Roof
    tables: tuple[OpsTable, ...]
    placements: tuple[Placement, ...]
    layers: Layers | None = None


def carry_out(asked: AskedRoofline, screen: Screen) -> None:
    """Measure or read peaks, place the network, write the roofline and tell all of it.

    Raises:
        InputError: the network, the modes, the precision or the peaks cannot be used as asked.
        DeviceError: the device is not here, or cannot run kernels.
    """
    from edgetune.cli.choices import choose
    from edgetune.cli.roofline_plot import check_format, draw_placed
    from edgetune.cli.roofline_report import report
    from edgetune.cli.where import open_named

    precision = choose(asked.precision, PRECISIONS, what="precision")
    kinds = {"-o": "roofline" if asked.tune is None else "plan"}
    check_outputs({"-o": asked.output, "--plot": asked.plot}, (asked.model, asked.peaks, asked.profile), kinds)
    target = None if asked.output is None else Target(None if asked.output == "-" else Path(asked.output))
    if asked.plot is not None:
        check_format(asked.plot)
    device = open_named(asked.device, asked.root, seed=asked.seed)
    tables = _tables(asked, "fp32" if precision == "tf32" else precision)
    kernels = kernel_precision(device, precision)
    if asked.tune is not None:
        from edgetune.cli.run_tune import carry_out as tune_network

        if not tables:
            raise InputError("--tune needs a network", "e.g. edgetune roofline zoo:resnet18 --tune 5%")
        tune_network(asked, device, tables[0], kernels, screen)
        return
    modes = choose_modes(device, asked.modes).modes
    if asked.dry_run:
        _tell_plan(device, modes, kernels, asked)
        return
    if asked.peaks is None:
        roofline = measured_peaks(device, modes, [kernels], quick=asked.quick, screen=screen)
    else:
        roofline = read_peaks(asked.peaks, device.name, force=asked.force)
    roof = choose_roof(roofline, kernels, modes[0] if asked.modes else None)
    placements = tuple(_placed(device, asked, table, roof, screen) for table in tables)
    layers = _layers(device, asked, roof) if asked.layers and tables else None
    Label(roofline.header.simulated or device.simulated).say()
    if target is not None:
        target.write(roofline)
        if target.path is not None:
            screen.say(f"wrote {target.path}")
    placed = Placed(roofline, roof, tables, placements, layers)
    if asked.plot is not None:
        draw_placed(placed, asked.plot)
        screen.say(f"wrote {asked.plot}")
    if asked.output != "-":
        report(placed, json=asked.json)


def choose_roof(roofline: Roofline, precision: str, mode: Mode | None) -> Roof:
    """Return the roof of a mode and precision; without a mode, the highest of its precision.

    Raises:
        InputError: there is none, or too few modes were measured to infer that of another.
    """
    from edgetune.roofline.clocks import infer_roofs

    alike = roofs_in(roofline, precision)
    if mode is None:
        return max(alike, key=lambda roof: roof.flops_per_s)
    same = [roof for roof in alike if roof.mode == mode]
    return same[0] if same else infer_roofs(alike, [mode]).roofs[0]


def _tables(asked: AskedRoofline, precision: str) -> tuple[OpsTable, ...]:
    """Return the operator table of the network at each batch size."""
    if asked.model is None:
        return ()
    from edgetune.workloads.costs import operator_table
    from edgetune.workloads.resolve import resolve

    workload, task = resolve(asked.model), parse_task(asked.task)
    dimensions = parse_dimensions(asked.dimensions)
    return tuple(
        operator_table(workload, task, size, precision=precision, dimensions=dimensions, fused=asked.fused)
        for size in parse_batch_sizes(asked.batch_sizes)
    )


def _placed(device: Device, asked: AskedRoofline, table: OpsTable, roof: Roof, screen: Screen) -> Placement:
    """Place a network, with its measured time where there is one."""
    from edgetune.artifacts.profile import Point
    from edgetune.errors import EdgetuneError
    from edgetune.roofline.place import place

    point = Point(table.workload, table.task, table.batch_size, roof.mode)
    measured_s, reason = None, "it was not asked for"
    if asked.profile is not None:
        measured_s, reason = _tabled_s(asked.profile, point), f"{asked.profile} does not have it"
    elif not asked.no_measure:
        try:
            row = _measured(device, asked, table, point)
            measured_s, reason = row.minibatch_s, row.reason or row.status
        except EdgetuneError as error:
            reason = error.message
    if measured_s is None and not asked.no_measure:
        screen.say(f"note: no measured time of {point}: {reason}")
    return place(table, roof, measured_s=measured_s)


def _measured(device: Device, asked: AskedRoofline, table: OpsTable, point: Point) -> ProfileRow:
    """Measure the network in the roof's mode, and put the device back."""
    from edgetune.cli.request import profile_options
    from edgetune.profiling.profiler import open_profiler
    from edgetune.workloads.resolve import resolve

    assert asked.model is not None
    options = profile_options(dimensions=asked.dimensions, precision=table.precision, seed=asked.seed)
    with open_profiler(device, resolve(asked.model), table.task, options) as profiler:
        return profiler.measure(point)


def _layers(device: Device, asked: AskedRoofline, roof: Roof) -> Layers:
    """Return the times of the network's layers at the first batch size, joined to their costs."""
    from edgetune.artifacts.profile import Point
    from edgetune.cli.request import profile_options
    from edgetune.profiling.layers import layer_times
    from edgetune.roofline.layers import join
    from edgetune.workloads.resolve import resolve

    assert asked.model is not None
    workload, options = resolve(asked.model), profile_options(dimensions=asked.dimensions, seed=asked.seed)
    (table, *_) = _tables(replace(asked, fused=False), "fp32")
    times = layer_times(device, workload, Point(workload.name, table.task, table.batch_size, roof.mode), options)
    return join(table, times)


def _tabled_s(source: str, point: Point) -> float | None:
    """Return the time of a point in a table of measurements, or ``None`` when it is not there."""
    from edgetune.artifacts.io import read_profile
    from edgetune.artifacts.repeats import one_per_point, point_key

    rows = one_per_point(read_profile(source).rows).rows
    return next((row.minibatch_s for row in rows if point_key(row.point) == point_key(point)), None)


def _tell_plan(device: Device, modes: Sequence[Mode], precision: str, asked: AskedRoofline) -> None:
    """Tell what would be measured."""
    from edgetune.cli.screen import answer
    from edgetune.roofline.kernel_plan import plan_kernels
    from edgetune.roofline.room import room_on

    room = room_on(device)
    kernels = [] if asked.peaks else plan_kernels(
        room.memory_bytes, [precision], cache_bytes=room.cache_bytes, quick=asked.quick
    )  # fmt: skip
    if asked.json:
        answer({"device": device.name, "kernels": [kernel.reference for kernel in kernels], "modes": len(modes)})
        return
    print(f"{len(kernels)} kernels in {precision} on {device.name}, their best sizes in {len(modes)} modes")
