"""``edgetune roofline MODEL --tune 5%``: the mode of least energy within a slowdown, foreseen and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen
from edgetune.cli.search_report import give
from edgetune.cli.tune_start import candidates, is_table, peak_modes, peaks_of, roofs_of, space_of
from edgetune.units import format_si, parse_share
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.stopping import reporting_saved

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.cli.roofline_request import RooflineOptions
    from edgetune.devices.device import Device
    from edgetune.profiling.options import ProfileOptions
    from edgetune.roofline.tune import TriedMode
    from edgetune.workloads.workload import Workload

_START = "peaks kept in a file (edgetune roofline -o FILE) spare most of the time: --peaks FILE"


def run_tune(opts: RooflineOptions, device: Device, table: OpsTable, precision: str, screen: Screen) -> None:
    """Measure or read peaks, foresee every mode, measure the few best and give the plan.

    Raises:
        InputError: the slowdown is none, the device has no modes or no power, or nothing was measured properly.
    """
    from edgetune.cli.roofline_plan import report_plan
    from edgetune.profiling.origin import origin_of
    from edgetune.roofline.clocks import infer_roofs
    from edgetune.roofline.slowdown_forecast import fastest_mode, forecast_modes
    from edgetune.roofline.tune import NOISE, tune
    from edgetune.roofline.tuned_plan import tuned_plan

    allowed = parse_share(opts.tune or "", what="--tune")
    modes = candidates(device, table, opts.modes)
    if opts.dry_run:
        if opts.peaks is not None or is_table(device):
            peaks_of(opts, device, precision, screen)
        peaks_in = () if opts.peaks is not None else peak_modes(space_of(device))
        report_plan(device, peaks_in, [precision], opts, tuned=len(modes))
        return
    with reporting_saved(screen, lambda: "nothing is kept: peaks are fitted when all kernels have run"):
        roofline = peaks_of(opts, device, precision, screen)
    inferred = infer_roofs(roofs_of(roofline, device, table, precision), modes)
    roofs, data_warnings = inferred.roofs, (*inferred.data_warnings, *device.conditions.get("cautions", ()))
    for data_warning in data_warnings:
        screen.info(f"{data_warning.code}: {data_warning.advice}")
    reference = fastest_mode(table, roofs)
    SimulationLabel(device.simulated or roofline.header.simulated, screen).announce()
    told_kept = f"the modes tried are told above; {_START if opts.peaks is None else 'the same command starts over'}"
    with reporting_saved(screen, lambda: told_kept), _opened(opts, device, table) as measure:
        row = measure(reference)
        screen.info(f"reference: {reference}: {_figures(row)}")
        forecast = forecast_modes(table, roofs, reference, row=row)

        def tell(each: TriedMode) -> None:
            screen.info(f"{each.verdict}: {each.candidate.mode}: {_figures(each.row)}; {each.candidate.why}")

        repeats = device.simulated or is_table(device)
        tuned = tune(forecast, measure, row, allowed, noise=0.0 if repeats else NOISE, on_try=tell)
    known = {name: value for name, value in device.conditions.items() if name != "cautions"}  # warnings of the plan
    conditions = {**known, "device": device.name, "simulated": device.simulated}
    inputs = {"workload": {**origin_of(*_subject(opts, table)), "task": table.task}}
    plan = tuned_plan(tuned, inputs=inputs, conditions=conditions, warnings=data_warnings, seed=opts.seed)
    give(plan, opts.output, screen, json=opts.json)
    saving, slower = tuned.saving_share, tuned.slowdown_share
    counted = f"{tuned.measurements} {'points of the table' if is_table(device) else 'measurements'}"
    screen.info(f"saves {saving:.1%} of the energy at {slower:.1%} slowdown, as measured; {counted}")


@contextmanager
def _opened(opts: RooflineOptions, device: Device, table: OpsTable) -> Iterator[Callable[[Mode], ProfileRow]]:
    """Return what measures the network in a mode; the device is put back in the end."""
    from edgetune.artifacts.profile import Point
    from edgetune.profiling.profiler import open_profiler

    workload, options = _subject(opts, table)
    with open_profiler(device, workload, table.task, options) as profiler:
        yield lambda mode: profiler.measure(Point(table.workload, table.task, table.batch_size, mode))


def _subject(opts: RooflineOptions, table: OpsTable) -> tuple[Workload, ProfileOptions]:
    """Return the network that is tuned, and how it is measured."""
    from edgetune.workflows.parse_options import profile_options

    precision = None if opts.precision is None else table.precision
    return opts.workload, profile_options(
        inputs=opts.inputs, dimensions=opts.dimensions, precision=precision, seed=opts.seed
    )


def _figures(row: ProfileRow) -> str:
    """Return a measured row in a few words."""
    if row.minibatch_s is None or row.power_w is None:
        return f"{row.status}: {row.reason}"
    energy_j = row.energy_j if row.energy_j is not None else row.minibatch_s * row.power_w
    return f"{format_si(row.minibatch_s, 's')}, {format_si(energy_j, 'J')} a minibatch"
