"""From the options of ``edgetune interleave`` to a run on disk or in the pipe, and its summary on the screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import typer

from edgetune.choices import choose
from edgetune.cli.interleave_report import check_figure, draw_plan
from edgetune.cli.plot import draw_kept
from edgetune.cli.screen import Screen, answer, print_lines
from edgetune.errors import DeviceError, EdgetuneError, ExitCode, InputError
from edgetune.units import format_duration, parse_power_w, parse_time_s
from edgetune.workflows.interleave.options import InterleaveJob, InterleaveOptions, InterleaveSetup
from edgetune.workflows.interleave.tenants import KIND as TENANTS
from edgetune.workflows.interleave.tenants import (
    TenantSpec,
    given,
    plain_tenant,
    tenants_of_document,
    tenants_of_options,
)
from edgetune.workflows.kept_rows import keep_rows, write_run
from edgetune.workflows.load_warning import warn_of_load
from edgetune.workflows.reporting import SimulationLabel
from edgetune.workflows.stopping import reporting_saved

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.artifacts.run import Engine, Run
    from edgetune.devices.device import Device
    from edgetune.interleave.power import Budgets
    from edgetune.profiling.options import ProfileOptions
    from edgetune.serving.arrivals import ArrivalSpec
    from edgetune.workflows.interleave.points import TenantMeasurements
    from edgetune.workflows.interleave.turns import InterleaveResult
    from edgetune.workflows.output import Target


TRIED_GRID = "grid:441"
"""Modes to try where nobody says which: as many as in Fulcrum's study (2025)."""
_UNKEPT = "nothing ran, and nothing is kept; what edgetune profile measures is, and --profile FILE takes it from there"
ENGINES = ("managed", "native", "streams", "simulated")


def run_interleave(opts: InterleaveOptions, screen: Screen) -> None:
    """Plan, run every engine in turn, write the run and say what came of it.

    Raises:
        InputError, InfeasibleError, DeviceError: see the command's help.
        typer.Exit: stopped by a signal; what ran until then is written, whatever ended it.
    """
    from edgetune.artifacts.run import RunRow
    from edgetune.workflows.interleave.points import measuring, read_tables
    from edgetune.workflows.interleave.turns import InterleaveResult

    if opts.adapt and opts.govern:
        raise InputError("--adapt and --govern both choose modes", "leave --govern out: --adapt heeds the budget too")
    plan, wanted_tenants = read_asked(opts)
    wanted_tenants = _sized(wanted_tenants, opts.dimensions)
    parse_time_s(opts.duration, what="--duration")
    check_figure(opts)
    if _budgets(opts, plan) is None and opts.govern:
        raise InputError("there is no budget to keep power within", "add --power-budget, e.g. 30W or 30W,20W@60s")
    target = _target(opts, wanted_tenants)
    device = _opened(opts, plan)
    engines = _engines(opts.engine, device)
    known = read_tables(wanted_tenants, opts.profiles, device)
    with ExitStack() as stack:
        stack.enter_context(device.exclusive())
        measured = ExitStack()
        stack.callback(measured.close)
        measure = measured.enter_context(measuring(device, known, lambda tenant: _options(opts, tenant)))
        setting = InterleaveSetup(opts, device, engines, measure, screen)
        if not (setting.simulated or opts.dry_run or opts.explain):
            warn_of_load(device, screen)
        with reporting_saved(screen, lambda: _UNKEPT):
            planned = _planned(setting, plan, known)
        if planned is None:
            return
        _report(planned, screen, json=opts.json, explain=opts.explain)
        if opts.explain:
            draw_plan(setting, planned)
            return
        if not device.simulated:
            measured.close()
        rows = keep_rows(target, lambda: run_of(setting, planned, InterleaveResult()), RunRow, screen)
        outcome = _run(setting, planned, rows)
    finish(setting, planned, outcome, target, rows)


def _sized(tenants: Sequence[TenantSpec], words: Sequence[str]) -> tuple[TenantSpec, ...]:
    """Return the tenants with the dimensions of ``--dim``, which go before those of a plan."""
    from edgetune.workflows.parse_options import parse_dimensions

    said = parse_dimensions(words)
    return tuple(replace(tenant, dimensions={**tenant.dimensions, **said}) for tenant in tenants)


def _opened(opts: InterleaveOptions, plan: Plan | None) -> Device:
    """Open the device that was asked for; where none was, the one that a plan was measured on, unless a model was.

    Raises:
        InputError, DeviceError: it is not here, or another than the plan is for.
    """
    from edgetune.devices.discover import AUTO
    from edgetune.interleave.planner import refuse_other
    from edgetune.workflows.device_option import open_named

    made_for = None if plan is None or plan.header.simulated else plan.header.conditions.get("device")
    unsaid = opts.device == AUTO and opts.root is None and isinstance(made_for, str)
    try:
        device = open_named(str(made_for) if unsaid else opts.device, opts.root, seed=opts.seed)
    except DeviceError as error:
        raise DeviceError(f"the plan is for {made_for}: {error.message}", error.hint) if unsaid else error from None
    if plan is not None:
        refuse_other(plan, device=device.name)
    return device


def read_asked(opts: InterleaveOptions) -> tuple[Plan | None, tuple[TenantSpec, ...]]:
    """Return the plan, where there is one, and the tenants.

    Raises:
        InputError: an unreadable file, or a combination of options that makes no sense.
    """
    from edgetune.artifacts.files import name_of, read_source
    from edgetune.artifacts.io import from_bytes
    from edgetune.artifacts.yaml_document import load_yaml

    if opts.plan == "-" and opts.said.arrivals == "-":
        raise InputError("standard input cannot be both the plan and the requests", "give the plan as a file")
    if opts.plan is None:
        return None, tenants_of_options(opts.said, None)
    data, name = read_source(opts.plan), name_of(opts.plan)
    try:
        document = load_yaml(data.decode("utf-8-sig"), name=name)
    except UnicodeDecodeError:
        raise InputError(f"{name} is not a plan: it is no text", "give a plan, as edgetune search prints it") from None
    if isinstance(document, dict) and document.get("kind") == TENANTS:
        if options := list(given(opts.said)):
            raise InputError(f"{name} is a file of tenants, and {options[0]} is of one", f"write it into {name}")
        return None, tenants_of_document(document, name=name)
    plan = from_bytes(data, kind="plan", name=name)
    return plan, tenants_of_options(opts.said, plan)


def _target(opts: InterleaveOptions, tenants: Sequence[TenantSpec]) -> Target:
    """Return where the run goes; no file that is read is written, and none twice.

    Raises:
        InputError: one would be, or a file cannot be made.
    """
    from edgetune.workflows.output import check_outputs, choose_target

    target = choose_target(opts.output, "run.parquet", last=True, json=opts.json)
    inputs = [opts.plan, *opts.profiles]
    outputs = {"-o": target.file, "--plot": opts.plot}
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


def _options(opts: InterleaveOptions, tenant: TenantSpec) -> ProfileOptions:
    from edgetune.workflows.parse_options import profile_options

    options = profile_options(inputs=tenant.inputs, precision=tenant.precision, seed=opts.seed)
    return replace(options, dimensions=tenant.dimensions)


def _planned(setting: InterleaveSetup, plan: Plan | None, known: Sequence[TenantMeasurements]) -> InterleaveJob | None:
    """Return what is to run, measured where it was not known; ``None`` after a dry run."""
    from edgetune.serving.arrivals import parse_arrivals
    from edgetune.workflows.interleave.planning import choose_tenants
    from edgetune.workflows.interleave.points import measure_missing, wanted_points
    from edgetune.workflows.parse_options import choose_modes, mode_here

    opts, device, screen = setting.asked, setting.device, setting.screen
    specs = {k.asked.name: parse_arrivals(k.asked.arrivals) for k in known if k.asked.arrivals is not None}
    _check_input(setting, [name for name, spec in specs.items() if spec.kind == "live"])
    if plan is not None and (opts.adapt or opts.modes is None):
        modes = [mode_here(device, plan.configuration.mode)]
    else:
        modes = list(choose_modes(device, opts.modes).modes)
    counts = {task: sum(each.asked.task == task for each in known) for task in ("infer", "train")}
    several = max(counts.values()) > 1
    points = {k.asked.name: wanted_points(k, modes, _options(opts, k.asked), several=several) for k in known}
    if opts.dry_run:
        _report_dry_run(opts, known, points, specs, screen)
        return None
    SimulationLabel(setting.simulated, screen).announce()
    if plan is not None and not device.simulated and not any(points.values()):
        screen.info("minibatches take what the plan says; nothing is measured again")
    complete = measure_missing(known, points, _measure(setting, known, points), screen)
    planned = choose_tenants(
        complete, specs, modes, budgets=_budgets(opts, plan), best_effort=opts.best_effort, adapt=opts.adapt
    )
    return replace(planned, tried=_tried(opts, device)) if opts.adapt else planned


def _check_input(setting: InterleaveSetup, names: Sequence[str]) -> None:
    """Refuse requests from standard input where they cannot be what was asked for: it is read once, in real time.

    Raises:
        InputError: several tenants or engines would read it, or it is the plan, or time is only computed.
    """
    opts, engines = setting.asked, setting.engines
    if not names or opts.explain or opts.dry_run:
        return
    if len(names) > 1 or opts.plan == "-":
        other = "the plan" if opts.plan == "-" else f"the requests of {names[1]}"
        raise InputError(f"standard input cannot be both the requests of {names[0]} and {other}", "name a file")
    if "simulated" in engines:
        raise InputError("requests come line by line in real time, and a simulation has none", "--arrivals trace:FILE")
    if len(engines) * opts.turns > 1:
        message = f"standard input is read once, and {len(engines) * opts.turns} turns are to answer it"
        raise InputError(message, "name one engine and one turn, or --arrivals trace:FILE")


def _tried(opts: InterleaveOptions, device: Device) -> tuple[Mode, ...]:
    """Return the modes that may be tried when nothing measured serves a rate: those asked for, else a grid of all."""
    from edgetune.devices.device import Absent
    from edgetune.workflows.parse_options import choose_modes

    if isinstance(device.modes, Absent):
        return ()
    return tuple(choose_modes(device, opts.modes or TRIED_GRID).modes)


def _measure(
    setting: InterleaveSetup, known: Sequence[TenantMeasurements], points: Mapping[str, Sequence[Point]]
) -> Callable[[TenantSpec, Point], ProfileRow]:
    """Return what measures a point: on a real device among the others, with the power it draws alone where that counts.

    Raises:
        InputError, DeviceError: see ``measure_shared``.
    """
    from edgetune.devices.device import Absent, LiveSource
    from edgetune.workflows.interleave.shared_points import measure_shared

    opts, device = setting.asked, setting.device
    if not isinstance(device.source, LiveSource) or not any(points.values()):
        return lambda _, point: setting.measure(point)
    count = sum(map(len, points.values()))
    setting.screen.info(f"measuring {count} point{'s' * (count > 1)}, all workloads taking turns as they will")
    shared = measure_shared(device, known, points, seed=opts.seed)
    rows = {(name, row.point): row for name, several in shared.items() for row in several}
    if isinstance(device.power, Absent) or opts.power_budget is None:
        return lambda tenant, point: rows[tenant.name, point]

    def measure(tenant: TenantSpec, point: Point) -> ProfileRow:
        alone = setting.measure(point)
        return replace(rows[tenant.name, point], power_w=alone.power_w, power_source=alone.power_source)

    return measure


def _budgets(opts: InterleaveOptions, plan: Plan | None) -> Budgets | None:
    """Return the power budget: ``30W``, or ``30W,20W@60s`` from a minute on; the plan's where none is said."""
    from edgetune.interleave.power import Budgets

    if opts.power_budget is None:
        watts = None if plan is None else plan.problem.power_budget_w
        return None if watts is None else Budgets(((0.0, watts),))
    steps = []
    for number, word in enumerate(opts.power_budget.split(",")):
        watts_word, at, time_word = word.partition("@")
        if bool(at) != bool(number):
            raise InputError(f"--power-budget: {opts.power_budget!r} is no course", "e.g. 30W, or 30W,20W@60s")
        from_s = parse_time_s(time_word, what="--power-budget") if at else 0.0
        steps.append((from_s, parse_power_w(watts_word, what="--power-budget")))
    if [from_s for from_s, _ in steps] != sorted({from_s for from_s, _ in steps}):
        raise InputError(f"--power-budget: the times of {opts.power_budget!r} do not rise", "e.g. 30W,20W@60s,25W@2m")
    return Budgets(tuple(steps))


def _report_dry_run(
    opts: InterleaveOptions,
    known: Sequence[TenantMeasurements],
    points: dict[str, Any],
    specs: dict[str, ArrivalSpec],
    screen: Screen,
) -> None:
    duration_s = parse_time_s(opts.duration, what="--duration")
    engines = [] if opts.engine is None else opts.engine.split(",")
    for each in known:
        spec = specs.get(each.asked.name)
        how = f", requests {each.asked.arrivals}" if spec is not None else ""
        screen.info(
            f"{each.asked.name}: {each.asked.task}{how}; {len(points[each.asked.name])} points to measure first"
        )
    whole_s = duration_s * opts.turns * max(len(engines), 1)
    screen.info(f"then {format_duration(whole_s)} of running in all")


def _report(planned: InterleaveJob, screen: Screen, *, json: bool, explain: bool) -> None:
    """Say what is to run; as the answer where that was asked for."""
    from edgetune.workflows.interleave.planning import cycle_figures, explained

    lines = explained(planned)
    if explain and json:
        answer({"cycle": cycle_figures(planned), "explanation": lines})
    elif explain:
        print_lines(*lines)
    else:
        for line in lines:
            screen.info(line)


def _run(setting: InterleaveSetup, planned: InterleaveJob, rows: RowsFile | None) -> InterleaveResult:
    from edgetune.devices.device import Absent
    from edgetune.workflows.interleave.turns import Turns

    opts, device = setting.asked, setting.device
    turns = Turns(
        device, planned, setting.measure, duration_s=parse_time_s(opts.duration, what="--duration"),
        seed=opts.seed, adapt=opts.adapt, govern=opts.govern, screen=setting.screen, rows=rows,
    )  # fmt: skip
    outcome = turns.run(setting.engines, opts.turns)
    if not isinstance(device.modes, Absent):
        try:
            device.modes.restore()
        except EdgetuneError as error:
            outcome.failure = error
    return outcome


def finish(
    setting: InterleaveSetup, planned: InterleaveJob, outcome: InterleaveResult, target: Target, rows: RowsFile | None
) -> None:
    """Write the run, draw it and say what came of it.

    Raises:
        BaseException: what ended the run before its time, now that the rows so far are written.
    """
    opts, device, screen = setting.asked, setting.device, setting.screen
    from edgetune.cli.interleave_report import report_answer, show_run
    from edgetune.cli.screen import answer
    from edgetune.workflows.device_option import recovered

    for sentence in recovered(device):
        screen.info(f"note: {sentence}")
    if outcome.failure is not None and not outcome.rows:
        if rows is not None:
            rows.discard()
        raise outcome.failure
    run = run_of(setting, planned, outcome)
    try:
        write_run(target, run, rows, screen)
    except (EdgetuneError, OSError) as error:  # a full disk: the figures at least are told
        outcome.failure = error
    for note in outcome.notes:
        screen.info(note)
    if opts.json:
        answer(report_answer(run))
    elif not screen.quiet:
        show_run(run, stream=sys.stderr if target.path is None else None)
    draw_kept(run, opts.plot, screen, view=opts.view, file=target.file)
    if outcome.failure is not None:
        raise outcome.failure
    if outcome.stopped_by is not None:
        raise typer.Exit(128 + outcome.stopped_by)
    if outcome.lost:
        raise typer.Exit(ExitCode.PARTIAL)


def run_of(setting: InterleaveSetup, planned: InterleaveJob, outcome: InterleaveResult) -> Run:
    """Return what came of all turns, with what ran under which conditions."""
    from edgetune.artifacts import run as runs
    from edgetune.artifacts.header import DataWarning, Header

    opts, device, tenants = setting.asked, setting.device, []
    ran = {row.engine for row in outcome.rows}
    for known, tenant in zip(planned.known, planned.tenants, strict=True):
        path = known.workload.path
        described = {**plain_tenant(known.asked), "sha256": known.workload.sha256}
        described |= {} if path is None else {"path": str(path.resolve())}
        tenants.append({**described, "batch_size": tenant.batch_size, "minibatch_s": tenant.minibatch_s})
    conditions = {
        **device.conditions,
        "device": device.name,
        "simulated": setting.simulated or ran == {"simulated"},
        "duration_s": parse_time_s(opts.duration, what="--duration"),
        "mode": dict(planned.mode.settings()),
        "seed": opts.seed,
        "overhead": outcome.overhead,
        "turns": opts.turns,
        "options": [name for name in ("adapt", "govern", "best_effort") if getattr(opts, name)],
    }
    lost = DataWarning("tenant-lost", f"{', '.join(sorted(outcome.lost))} could not go on; see the reason in its rows")
    header = Header.new(
        runs.KIND,
        runs.VERSION,
        inputs={"tenants": tenants},
        conditions=conditions,
        warnings=(lost,) if outcome.lost else (),
    )
    return runs.Run(header, tuple(outcome.rows))
