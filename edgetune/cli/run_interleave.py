"""From the options of ``edgetune interleave`` to a run on disk or in the pipe, and its summary on the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from edgetune.cli.asked_tenants import KIND as TENANTS
from edgetune.cli.asked_tenants import AskedTenant, Options, given, tenants_of_document, tenants_of_options
from edgetune.cli.busy import tell_load
from edgetune.cli.choices import choose
from edgetune.cli.interleave_outcome import finish, run_of
from edgetune.cli.interleave_plot import check_figure, draw_plan
from edgetune.cli.kept_rows import keep_rows
from edgetune.cli.screen import Label, Screen, answer, print_lines
from edgetune.cli.stopping import telling_kept
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.units import format_duration, parse_power_w, parse_time_s

if TYPE_CHECKING:
    from edgetune.arrivals.sources import ArrivalSpec
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.artifacts.run import Engine
    from edgetune.cli.interleave_points import Known, Measuring
    from edgetune.cli.interleave_turns import Outcome
    from edgetune.cli.output import Target
    from edgetune.devices.device import Device
    from edgetune.interleave.cycle import Cycle, Wanted
    from edgetune.interleave.power import Budgets
    from edgetune.interleave.tenants import Tenant
    from edgetune.profiling.options import ProfileOptions

TRIED_GRID = "grid:441"
"""Modes to try where nobody says which: as many as in Fulcrum's study (2025)."""
_UNKEPT = "nothing ran, and nothing is kept; what edgetune profile measures is, and --profile FILE takes it from there"
ENGINES = ("managed", "native", "streams", "simulated")


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for, as written on the command line."""

    plan: str | None
    said: Options
    device: str
    root: str | None
    engine: str | None
    turns: int
    duration: str
    power_budget: str | None
    modes: str | None
    profiles: tuple[str, ...]
    dimensions: tuple[str, ...]
    output: str | None
    plot: str | None
    view: str | None
    seed: int
    adapt: bool = False
    govern: bool = False
    best_effort: bool = False
    explain: bool = False
    dry_run: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to run.

    Args:
        tenants: With their batch sizes and times.
        known: The same, with all that was measured of them.
        mode: The power mode.
        specs: How requests arrive, by tenant.
        cycle: Where one workload answers and at most one trains.
        wanted: What the cycle was planned for.
        budgets: Of power; ``None`` where there is none.
        tried: Modes that may be tried during the run.
    """

    tenants: tuple[Tenant, ...]
    known: tuple[Known, ...]
    mode: Mode
    specs: dict[str, ArrivalSpec]
    cycle: Cycle | None = None
    wanted: Wanted | None = None
    budgets: Budgets | None = None
    tried: tuple[Mode, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """What was asked for, where, how the device is to be shared, and what measures there."""

    asked: Asked
    device: Device
    engines: Sequence[Engine]
    measure: Measuring
    screen: Screen

    @property
    def simulated(self) -> bool:
        """Whether no figure will be of a device."""
        return self.device.simulated or all(engine == "simulated" for engine in self.engines)


def carry_out(asked: Asked, screen: Screen) -> None:
    """Plan, run every engine in turn, write the run and say what came of it.

    Raises:
        InputError, InfeasibleError, DeviceError: see the command's help.
        typer.Exit: stopped by a signal; what ran until then is written, whatever ended it.
    """
    from edgetune.artifacts.run import RunRow
    from edgetune.cli.interleave_points import measuring, read_tables
    from edgetune.cli.interleave_turns import Outcome

    if asked.adapt and asked.govern:
        raise InputError("--adapt and --govern both choose modes", "leave --govern out: --adapt heeds the budget too")
    plan, wanted_tenants = read_asked(asked)
    wanted_tenants = _sized(wanted_tenants, asked.dimensions)
    parse_time_s(asked.duration, what="--duration")
    check_figure(asked)
    if _budgets(asked, plan) is None and asked.govern:
        raise InputError("there is no budget to keep power within", "add --power-budget, e.g. 30W or 30W,20W@60s")
    target = _target(asked, wanted_tenants)
    device = _opened(asked, plan)
    engines = _engines(asked.engine, device)
    known = read_tables(wanted_tenants, asked.profiles, device)
    with ExitStack() as stack:
        stack.enter_context(device.exclusive())
        measured = ExitStack()
        stack.callback(measured.close)
        measure = measured.enter_context(measuring(device, known, lambda tenant: _options(asked, tenant)))
        setting = Setting(asked, device, engines, measure, screen)
        if not (setting.simulated or asked.dry_run or asked.explain):
            tell_load(device, screen)
        with telling_kept(screen, lambda: _UNKEPT):
            planned = _planned(setting, plan, known)
        if planned is None:
            return
        _tell(planned, screen, json=asked.json, explain=asked.explain)
        if asked.explain:
            draw_plan(setting, planned)
            return
        if not device.simulated:
            measured.close()
        rows = keep_rows(target, lambda: run_of(setting, planned, Outcome()), RunRow, screen)
        outcome = _run(setting, planned, rows)
    finish(setting, planned, outcome, target, rows)


def _sized(tenants: Sequence[AskedTenant], words: Sequence[str]) -> tuple[AskedTenant, ...]:
    """Return the tenants with the dimensions of ``--dim``, which go before those of a plan."""
    from edgetune.cli.request import parse_dimensions

    said = parse_dimensions(words)
    return tuple(replace(tenant, dimensions={**tenant.dimensions, **said}) for tenant in tenants)


def _opened(asked: Asked, plan: Plan | None) -> Device:
    """Open the device that was asked for; where none was, the one that a plan was measured on, unless a model was.

    Raises:
        InputError, DeviceError: it is not here, or another than the plan is for.
    """
    from edgetune.cli.where import open_named
    from edgetune.devices.discover import AUTO
    from edgetune.interleave.planner import refuse_other

    made_for = None if plan is None or plan.header.simulated else plan.header.conditions.get("device")
    unsaid = asked.device == AUTO and asked.root is None and isinstance(made_for, str)
    try:
        device = open_named(str(made_for) if unsaid else asked.device, asked.root, seed=asked.seed)
    except DeviceError as error:
        raise DeviceError(f"the plan is for {made_for}: {error.message}", error.hint) if unsaid else error from None
    if plan is not None:
        refuse_other(plan, device=device.name)
    return device


def read_asked(asked: Asked) -> tuple[Plan | None, tuple[AskedTenant, ...]]:
    """Return the plan, where there is one, and the tenants.

    Raises:
        InputError: an unreadable file, or a combination of options that makes no sense.
    """
    from edgetune.artifacts.files import name_of, read_source
    from edgetune.artifacts.io import from_bytes
    from edgetune.artifacts.yaml_document import load_yaml

    if asked.plan == "-" and asked.said.arrivals == "-":
        raise InputError("standard input cannot be both the plan and the requests", "give the plan as a file")
    if asked.plan is None:
        return None, tenants_of_options(asked.said, None)
    data, name = read_source(asked.plan), name_of(asked.plan)
    try:
        document = load_yaml(data.decode("utf-8-sig"), name=name)
    except UnicodeDecodeError:
        raise InputError(f"{name} is not a plan: it is no text", "give a plan, as edgetune search prints it") from None
    if isinstance(document, dict) and document.get("kind") == TENANTS:
        if options := list(given(asked.said)):
            raise InputError(f"{name} is a file of tenants, and {options[0]} is of one", f"write it into {name}")
        return None, tenants_of_document(document, name=name)
    plan = from_bytes(data, kind="plan", name=name)
    return plan, tenants_of_options(asked.said, plan)


def _target(asked: Asked, tenants: Sequence[AskedTenant]) -> Target:
    """Return where the run goes; no file that is read is written, and none twice.

    Raises:
        InputError: one would be, or a file cannot be made.
    """
    from edgetune.cli.kept_files import check_outputs
    from edgetune.cli.output import choose_target

    target = choose_target(asked.output, "run.parquet", last=True, json=asked.json)
    inputs = [asked.plan, *asked.profiles]
    outputs = {"-o": target.file, "--plot": asked.plot}
    kinds: dict[str, str | None] = {"-o": "run"}
    for tenant in tenants:
        inputs += [tenant.reference, tenant.handler, tenant.inputs]
        option = f"the checkpoint of {tenant.name}"
        outputs[option] = tenant.checkpoint
        kinds[option] = None if tenant.checkpoint == tenant.resume else "checkpoint"  # what resumes from it has read it
    check_outputs(outputs, inputs, kinds)
    return target


def _engines(words: str | None, device: Device) -> list[Engine]:
    """Return the engines asked for; on a device that is simulated there is but one.

    Raises:
        InputError: an unknown engine, or one that needs a device to run on.
    """
    from edgetune.devices.device import LiveSource

    live = isinstance(device.source, LiveSource)
    if words is None:
        return ["managed"] if live else ["simulated"]
    engines = [choose(word.strip(), ENGINES, what="engine") for word in words.split(",")]
    for engine in engines:
        if engine != "simulated" and not live:
            raise InputError(f"{device.name} runs nothing, so that there is no engine {engine}", "--engine simulated")
    return cast("list[Engine]", list(dict.fromkeys(engines)))


def _options(asked: Asked, tenant: AskedTenant) -> ProfileOptions:
    from edgetune.cli.request import profile_options

    options = profile_options(inputs=tenant.inputs, precision=tenant.precision, seed=asked.seed)
    return replace(options, dimensions=tenant.dimensions)


def _planned(setting: Setting, plan: Plan | None, known: Sequence[Known]) -> Planned | None:
    """Return what is to run, measured where it was not known; ``None`` after a dry run."""
    from edgetune.arrivals.words import parse_arrivals
    from edgetune.cli.interleave_plan import choose_tenants
    from edgetune.cli.interleave_points import measure_missing, wanted_points
    from edgetune.cli.request import choose_modes, mode_here

    asked, device, screen = setting.asked, setting.device, setting.screen
    specs = {k.asked.name: parse_arrivals(k.asked.arrivals) for k in known if k.asked.arrivals is not None}
    _check_input(setting, [name for name, spec in specs.items() if spec.kind == "live"])
    if plan is not None and (asked.adapt or asked.modes is None):
        modes = [mode_here(device, plan.configuration.mode)]
    else:
        modes = list(choose_modes(device, asked.modes).modes)
    counts = {task: sum(each.asked.task == task for each in known) for task in ("infer", "train")}
    several = max(counts.values()) > 1
    points = {k.asked.name: wanted_points(k, modes, _options(asked, k.asked), several=several) for k in known}
    if asked.dry_run:
        _tell_dry_run(asked, known, points, specs, screen)
        return None
    Label(setting.simulated).say()
    if plan is not None and not device.simulated and not any(points.values()):
        screen.say("minibatches take what the plan says; nothing is measured again")
    complete = measure_missing(known, points, _measure(setting, known, points), screen)
    planned = choose_tenants(
        complete, specs, modes, budgets=_budgets(asked, plan), best_effort=asked.best_effort, adapt=asked.adapt
    )
    return replace(planned, tried=_tried(asked, device)) if asked.adapt else planned


def _check_input(setting: Setting, names: Sequence[str]) -> None:
    """Refuse requests from standard input where they cannot be what was asked for: it is read once, in real time.

    Raises:
        InputError: several tenants or engines would read it, or it is the plan, or time is only computed.
    """
    asked, engines = setting.asked, setting.engines
    if not names or asked.explain or asked.dry_run:
        return
    if len(names) > 1 or asked.plan == "-":
        other = "the plan" if asked.plan == "-" else f"the requests of {names[1]}"
        raise InputError(f"standard input cannot be both the requests of {names[0]} and {other}", "name a file")
    if "simulated" in engines:
        raise InputError("requests come line by line in real time, and a simulation has none", "--arrivals trace:FILE")
    if len(engines) * asked.turns > 1:
        message = f"standard input is read once, and {len(engines) * asked.turns} turns are to answer it"
        raise InputError(message, "name one engine and one turn, or --arrivals trace:FILE")


def _tried(asked: Asked, device: Device) -> tuple[Mode, ...]:
    """Return the modes that may be tried when nothing measured serves a rate: those asked for, else a grid of all."""
    from edgetune.cli.request import choose_modes
    from edgetune.devices.device import Absent

    if isinstance(device.modes, Absent):
        return ()
    return tuple(choose_modes(device, asked.modes or TRIED_GRID).modes)


def _measure(
    setting: Setting, known: Sequence[Known], points: Mapping[str, Sequence[Point]]
) -> Callable[[AskedTenant, Point], ProfileRow]:
    """Return what measures a point: on a real device among the others, with the power it draws alone where that counts.

    Raises:
        InputError, DeviceError: see ``measure_shared``.
    """
    from edgetune.cli.interleave_shared import measure_shared
    from edgetune.devices.device import Absent, LiveSource

    asked, device = setting.asked, setting.device
    if not isinstance(device.source, LiveSource) or not any(points.values()):
        return lambda _, point: setting.measure(point)
    count = sum(map(len, points.values()))
    setting.screen.say(f"measuring {count} point{'s' * (count > 1)}, all workloads taking turns as they will")
    shared = measure_shared(device, known, points, seed=asked.seed)
    rows = {(name, row.point): row for name, several in shared.items() for row in several}
    if isinstance(device.power, Absent) or asked.power_budget is None:
        return lambda tenant, point: rows[tenant.name, point]

    def measure(tenant: AskedTenant, point: Point) -> ProfileRow:
        alone = setting.measure(point)
        return replace(rows[tenant.name, point], power_w=alone.power_w, power_source=alone.power_source)

    return measure


def _budgets(asked: Asked, plan: Plan | None) -> Budgets | None:
    """Return the power budget: ``30W``, or ``30W,20W@60s`` from a minute on; the plan's where none is said."""
    from edgetune.interleave.power import Budgets

    if asked.power_budget is None:
        watts = None if plan is None else plan.problem.power_budget_w
        return None if watts is None else Budgets(((0.0, watts),))
    steps = []
    for number, word in enumerate(asked.power_budget.split(",")):
        watts_word, at, time_word = word.partition("@")
        if bool(at) != bool(number):
            raise InputError(f"--power-budget: {asked.power_budget!r} is no course", "e.g. 30W, or 30W,20W@60s")
        from_s = parse_time_s(time_word, what="--power-budget") if at else 0.0
        steps.append((from_s, parse_power_w(watts_word, what="--power-budget")))
    if [from_s for from_s, _ in steps] != sorted({from_s for from_s, _ in steps}):
        raise InputError(f"--power-budget: the times of {asked.power_budget!r} do not rise", "e.g. 30W,20W@60s,25W@2m")
    return Budgets(tuple(steps))


def _tell_dry_run(
    asked: Asked, known: Sequence[Known], points: dict[str, Any], specs: dict[str, ArrivalSpec], screen: Screen
) -> None:
    duration_s = parse_time_s(asked.duration, what="--duration")
    engines = [] if asked.engine is None else asked.engine.split(",")
    for each in known:
        spec = specs.get(each.asked.name)
        how = f", requests {each.asked.arrivals}" if spec is not None else ""
        screen.say(f"{each.asked.name}: {each.asked.task}{how}; {len(points[each.asked.name])} points to measure first")
    whole_s = duration_s * asked.turns * max(len(engines), 1)
    screen.say(f"then {format_duration(whole_s)} of running in all")


def _tell(planned: Planned, screen: Screen, *, json: bool, explain: bool) -> None:
    """Say what is to run; as the answer where that was asked for."""
    from edgetune.cli.interleave_plan import cycle_figures, explained

    lines = explained(planned)
    if explain and json:
        answer({"cycle": cycle_figures(planned), "explanation": lines})
    elif explain:
        print_lines(*lines)
    else:
        for line in lines:
            screen.say(line)


def _run(setting: Setting, planned: Planned, rows: RowsFile | None) -> Outcome:
    from edgetune.cli.interleave_turns import Turns
    from edgetune.devices.device import Absent

    asked, device = setting.asked, setting.device
    turns = Turns(
        device, planned, setting.measure, duration_s=parse_time_s(asked.duration, what="--duration"),
        seed=asked.seed, adapt=asked.adapt, govern=asked.govern, screen=setting.screen, rows=rows,
    )  # fmt: skip
    outcome = turns.run(setting.engines, asked.turns)
    if not isinstance(device.modes, Absent):
        try:
            device.modes.restore()
        except EdgetuneError as error:
            outcome.failure = error
    return outcome
