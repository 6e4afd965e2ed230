"""Finds the mode of least energy within a slowdown: predicts every mode from peaks and measures the best few."""

from collections.abc import Sequence

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, mean_minibatch_s
from edgetune.artifacts.roofline import Roofline
from edgetune.devices.capabilities import Absent, ModeSpace
from edgetune.devices.device import Device, TableSource
from edgetune.devices.mode_grids import evenly_spaced, modes_of
from edgetune.devices.modes import highest_mode
from edgetune.errors import InputError
from edgetune.stages.profiling.sweep_journal import origin_of
from edgetune.stages.roofline.clocks import infer_roofs
from edgetune.stages.roofline.slowdown_forecast import fastest_mode, forecast_modes
from edgetune.stages.roofline.tune import NOISE, TriedMode, tune, tuned_plan
from edgetune.units import format_si, parse_share
from edgetune.workflows.device_option import read_peaks
from edgetune.workflows.parse_options import choose_modes
from edgetune.workflows.reporting import Reporter, SimulationLabel, reporting_saved
from edgetune.workflows.roofline.option_values import is_table, measuring, measuring_in, workload_of
from edgetune.workflows.roofline.options import RooflineOptions
from edgetune.workflows.roofline.peaks import measured_peaks, roofs_in

_LEVELS = {"gpu_mhz": 6, "mem_mhz": 4, "power_limit_w": 3}
"""Values of each knob of an accelerator at which peaks are measured. An AGX Orin has four memory clocks, each with
timings of its own: peaks predicted for its twin's other modes are off by 0.3 to 0.7 % in the mean, and bandwidth by 6 %
where one of the four was left out."""
_HOST_LEVELS = 3
"""Of each knob of the host, all others highest: static power goes with these, peaks of an accelerator do not."""
_MOST_MODES = 100_000


def peak_modes(space: ModeSpace) -> list[Mode]:
    """Return the modes whose peaks determine those of all others, the highest first."""
    top = highest_mode(space)
    grid = {knob: evenly_spaced(values, _LEVELS[knob]) for knob, values in space.knobs.items() if knob in _LEVELS}
    modes = [Mode.of({**top.knobs(), **mode.knobs()}) for mode in modes_of(grid)] if grid else []
    host = [knob for knob in space.knobs if knob not in _LEVELS]
    modes += [
        Mode.of({**top.knobs(), knob: value})
        for knob in host
        for value in evenly_spaced(space.knobs[knob], _HOST_LEVELS)
    ]
    return list(dict.fromkeys([top, *modes]))


def space_of(device: Device) -> ModeSpace:
    """Return the modes of a device that can be tuned.

    Raises:
        InputError: the device has no modes or no power readings.
    """
    if isinstance(device.modes, Absent):
        raise InputError(f"{device.name} has no modes to tune: {device.modes.reason}", "name a board, e.g. jetson")
    if isinstance(device.power, Absent) and not is_table(device):
        raise InputError(
            f"{device.name} gives no power readings: {device.power.reason}", "tuning energy needs power readings"
        )
    return device.modes.space


def peaks_of(asked: RooflineOptions, device: Device, precision: str, reporter: Reporter) -> Roofline:
    """Measure or read peaks; a table needs the peaks of the device that it was measured on.

    Raises:
        InputError: the peaks are of another device, or are missing for a table.
    """
    if asked.peaks is not None:
        measured_on = str(device.conditions["measured_on"]) if is_table(device) else device.name
        return read_peaks(asked.peaks, measured_on, force=asked.force)
    if is_table(device):
        raise InputError(
            f"{device.name} is a table: it has no peaks, which predictions of modes need",
            f"--peaks FILE, made by: edgetune roofline --device {device.conditions['measured_on']} --modes ... -o FILE",
        )
    return measured_peaks(device, peak_modes(space_of(device)), [precision], quick=asked.quick, reporter=reporter)


def candidates(device: Device, table: OpsTable, text: str | None) -> Sequence[Mode]:
    """Return the modes to choose from: the requested ones, else all; of a table only those that have the network.

    Raises:
        InputError: see ``space_of``; there are too many modes, or the table has the network in none.
    """
    space_of(device)
    modes = choose_modes(device, text or "all").modes
    if len(modes) > _MOST_MODES:
        raise InputError(f"{len(modes)} modes are too many to choose from", "choose fewer, e.g. --modes grid:441")
    if not isinstance(device.source, TableSource):
        return modes
    found, errors = [], []
    for mode in modes:
        try:
            found.append(device.source.lookup(Point(table.workload, table.task, table.batch_size, mode)).mode)
        except InputError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found


_START = "peaks kept in a file (edgetune roofline -o FILE) spare most of the time: --peaks FILE"


def tuning_modes(
    opts: RooflineOptions, device: Device, table: OpsTable, precision: str, reporter: Reporter
) -> tuple[Sequence[Mode], int]:
    """Return the modes to measure peaks in, and the number of modes to choose from.

    Raises:
        InputError: See ``tune_network``.
    """
    parse_share(opts.tune or "", what="--tune")
    modes = candidates(device, table, opts.modes)
    if opts.peaks is not None or is_table(device):
        peaks_of(opts, device, precision, reporter)
    return () if opts.peaks is not None else peak_modes(space_of(device)), len(modes)


def tune_network(
    opts: RooflineOptions, device: Device, table: OpsTable, precision: str, reporter: Reporter
) -> tuple[Plan, str]:
    """Measure or read peaks, predict every mode, measure the best few; return the plan and a sentence on its savings.

    Raises:
        InputError: The slowdown is invalid, the device has no modes or no power, or all measurements failed.
    """
    allowed = parse_share(opts.tune or "", what="--tune")
    modes = candidates(device, table, opts.modes)
    with reporting_saved(reporter, lambda: "nothing is kept: peaks are fitted when all kernels have run"):
        roofline = peaks_of(opts, device, precision, reporter)
    if is_table(device) and all(roof.precision != precision for roof in roofline.roofs):
        precision = table.precision  # the peaks show whether the device of the table is an accelerator
    inferred = infer_roofs(roofs_in(roofline, precision), modes)
    roofs, data_warnings = inferred.roofs, (*inferred.data_warnings, *device.conditions.get("cautions", ()))
    for data_warning in data_warnings:
        reporter.warn(data_warning)
    reference = fastest_mode(table, roofs)
    SimulationLabel(device.simulated or roofline.header.simulated, reporter).announce()
    told_kept = f"the modes tried are told above; {_START if opts.peaks is None else 'the same command starts over'}"
    with (
        reporting_saved(reporter, lambda: told_kept),
        reporter.bar("measuring modes", None),
        measuring_in(device, opts, table, reporter) as measure,
    ):
        row = measure(reference)
        reporter.info(f"reference: {reference}: {_figures(row)}")
        forecast = forecast_modes(table, roofs, reference, row)

        def report(each: TriedMode) -> None:
            reporter.info(f"{each.verdict}: {each.candidate.mode}: {_figures(each.row)}; {each.candidate.why}")

        noise = 0.0 if device.simulated or is_table(device) else NOISE
        error = (device.conditions.get("claim", {}).get("slowdown_points") or 0.0) / 100
        if error:
            most = max(allowed - error, 0.0)
            reporter.info(f"note: up to {most:.1%} slower is within, since this model's slowdowns err by {error:.1%}")
        tuned = tune(forecast, measure, row, allowed, noise=noise, model_error=error, on_try=report)
    known = {name: value for name, value in device.conditions.items() if name != "cautions"}  # warnings of the plan
    conditions = {**known, "device": device.name, "simulated": device.simulated}
    inputs = {"workload": {**origin_of(workload_of(opts), measuring(opts, table)), "task": table.task}}
    plan = tuned_plan(tuned, inputs=inputs, conditions=conditions, warnings=data_warnings, seed=opts.seed)
    saving, slower = tuned.saving_share, tuned.slowdown_share
    count = f"{tuned.measurements} {'points of the table' if is_table(device) else 'measurements'}"
    return plan, (f"saves {saving:.1%} of the energy at {slower:.1%} slowdown, as measured; {count}")


def _figures(row: ProfileRow) -> str:
    """Return a short description of a measured row."""
    time_s, energy_j = mean_minibatch_s(row), energy_per_minibatch_j(row)
    if time_s is None or energy_j is None:
        return f"{row.status}: {row.reason}"
    return f"{format_si(time_s, 's')}, {format_si(energy_j, 'J')} a minibatch"
