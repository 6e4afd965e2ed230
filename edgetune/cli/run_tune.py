"""``edgetune roofline MODEL --tune 5%``: the mode of least energy within a slowdown, foreseen and measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgetune.cli.peaks import measured_peaks, read_peaks, roofs_in
from edgetune.cli.request import choose_modes
from edgetune.cli.screen import Label, Screen
from edgetune.cli.search_report import give
from edgetune.errors import InputError
from edgetune.units import format_si, parse_share

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.ops import OpsTable
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.roofline import Roofline
    from edgetune.cli.run_roofline import AskedRoofline
    from edgetune.devices.device import Device, ModeSpace
    from edgetune.roofline.tune import Try

_LEVELS = {"gpu_mhz": 6, "mem_mhz": 4, "power_limit_w": 3}
"""Values of each knob of an accelerator at which peaks are measured. An AGX Orin has four memory clocks, each with
timings of its own: peaks foretold of its twin's other modes are off by 0.3 to 0.7 % in the mean, and bandwidth by 6 %
where one of the four was left out."""
_HOST_LEVELS = 3
"""Of each knob of the host, all others highest: static power goes with these, peaks of an accelerator do not."""
_MOST_MODES = 100_000


def carry_out(asked: AskedRoofline, device: Device, table: OpsTable, precision: str, screen: Screen) -> None:
    """Measure or read peaks, foresee every mode, measure the few best and give the plan.

    Raises:
        InputError: the slowdown is none, the device has no modes or no power, or nothing was measured properly.
    """
    from edgetune.roofline.clocks import infer_roofs
    from edgetune.roofline.slowdown import fastest_mode, foresee
    from edgetune.roofline.tune import NOISE, tune
    from edgetune.roofline.tuned_plan import tuned_plan

    allowed = parse_share(asked.tune or "", what="--tune")
    space = _space(device)
    roofline = _peaks(asked, device, space, precision, screen)
    roofs = infer_roofs(roofs_in(roofline, precision), _candidates(device, asked.modes)).roofs
    reference = fastest_mode(table, roofs)
    Label(device.simulated or roofline.header.simulated).say()
    with _opened(asked, device, table) as measure:
        row = measure(reference)
        screen.say(f"reference: {reference}: {_figures(row)}")
        forecast = foresee(table, roofs, reference, row=row)

        def tell(each: Try) -> None:
            screen.say(f"{each.verdict}: {each.candidate.mode}: {_figures(each.row)}; {each.candidate.why}")

        tuned = tune(forecast, measure, row, allowed, noise=0.0 if device.simulated else NOISE, on_try=tell)
    conditions = {**device.conditions, "device": device.name, "simulated": device.simulated}
    dimensions = table.header.conditions.get("dimensions")
    workload = {"name": table.workload, "task": table.task} | ({"dimensions": dimensions} if dimensions else {})
    plan = tuned_plan(tuned, inputs={"workload": workload}, conditions=conditions, seed=asked.seed)
    give(plan, asked.output, screen, json=asked.json)
    saving, slower = tuned.saving_share, tuned.slowdown_share
    screen.say(
        f"saves {saving:.1%} of the energy at {slower:.1%} slowdown, as measured; {tuned.measurements} measurements"
    )


def peak_modes(space: ModeSpace) -> list[Mode]:
    """Return the modes in which to measure peaks, so that those of all others follow; the highest first."""
    from edgetune.artifacts.mode import Mode
    from edgetune.devices.grids import modes_of, spread
    from edgetune.devices.modes import highest_mode

    top = highest_mode(space)
    grid = {knob: spread(values, _LEVELS[knob]) for knob, values in space.knobs.items() if knob in _LEVELS}
    modes = [Mode.of({**top.knobs(), **mode.knobs()}) for mode in modes_of(grid)] if grid else []
    host = [knob for knob in space.knobs if knob not in _LEVELS]
    modes += [
        Mode.of({**top.knobs(), knob: value}) for knob in host for value in spread(space.knobs[knob], _HOST_LEVELS)
    ]
    return list(dict.fromkeys([top, *modes]))


def _space(device: Device) -> ModeSpace:
    from edgetune.devices.device import Absent

    if isinstance(device.modes, Absent):
        raise InputError(f"{device.name} has no modes to tune: {device.modes.reason}", "name a board, e.g. jetson")
    if isinstance(device.power, Absent):
        raise InputError(f"{device.name} does not tell power: {device.power.reason}", "energy cannot be tuned without")
    return device.modes.space


def _peaks(asked: AskedRoofline, device: Device, space: ModeSpace, precision: str, screen: Screen) -> Roofline:
    if asked.peaks is not None:
        return read_peaks(asked.peaks, device.name, force=asked.force)
    return measured_peaks(device, peak_modes(space), [precision], quick=asked.quick, screen=screen)


def _candidates(device: Device, text: str | None) -> Sequence[Mode]:
    """Return the modes to choose from: those asked for, else all."""
    modes = choose_modes(device, text or "all").modes
    if len(modes) > _MOST_MODES:
        raise InputError(f"{len(modes)} modes are too many to choose from", "choose fewer, e.g. --modes grid:441")
    return modes


@contextmanager
def _opened(asked: AskedRoofline, device: Device, table: OpsTable) -> Iterator[Callable[[Mode], ProfileRow]]:
    """Return what measures the network in a mode; the device is put back in the end."""
    from edgetune.artifacts.profile import Point
    from edgetune.cli.request import profile_options
    from edgetune.profiling.profiler import open_profiler
    from edgetune.workloads.resolve import resolve

    assert asked.model is not None
    options = profile_options(dimensions=asked.dimensions, precision=table.precision, seed=asked.seed)
    with open_profiler(device, resolve(asked.model), table.task, options) as profiler:
        yield lambda mode: profiler.measure(Point(table.workload, table.task, table.batch_size, mode))


def _figures(row: ProfileRow) -> str:
    """Return a measured row in a few words."""
    if row.minibatch_s is None or row.power_w is None:
        return f"{row.status}: {row.reason}"
    energy_j = row.energy_j if row.energy_j is not None else row.minibatch_s * row.power_w
    return f"{format_si(row.minibatch_s, 's')}, {format_si(energy_j, 'J')} a minibatch"
