"""Runs tenants that share a device: from the options of ``edgetune interleave`` to a written run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields, replace

from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.io import from_bytes
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.run import KIND, VERSION, Run, RunRow
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import AUTO, Device, LiveSource
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.serving.arrivals import parse_arrivals
from edgetune.stages.interleave.backend import ENGINES, Engine
from edgetune.stages.interleave.planner import refuse_other
from edgetune.stages.interleave.policies import POLICIES
from edgetune.stages.interleave.power import Budgets
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.units import parse_power_w, parse_time_s
from edgetune.workflows.device_option import open_named, recovered, warn_of_load
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.interleave.planning import InterleaveJob, InterleaveRequest, choose_tenants, explained
from edgetune.workflows.interleave.points import (
    Measuring,
    measure_missing,
    measure_shared,
    read_tables,
    wanted_points,
)  # fmt: skip
from edgetune.workflows.interleave.tenants import KIND as TENANTS
from edgetune.workflows.interleave.tenants import (
    TenantSpec,
    given,
    tenants_of_document,
    tenants_of_options,
)  # fmt: skip
from edgetune.workflows.interleave.turns import InterleaveResult, Turns
from edgetune.workflows.output import FinishedRun, Target, check_outputs, choose_target, keep_rows, write_run
from edgetune.workflows.parse_options import choose_modes, mode_here, parse_dimensions, profile_options
from edgetune.workflows.profile.options import PointOptions
from edgetune.workflows.profile.subject import check_command
from edgetune.workflows.reporting import Reporter, SimulationLabel, reporting_saved
from edgetune.workloads.paced_script import OTHERWISE

_UNKEPT = "its measurements are lost. To keep them: edgetune profile MODEL -o FILE, then --profile FILE"


def interleave(opts: InterleaveOptions, reporter: Reporter) -> FinishedRun[Run]:
    """Plan, run every engine in turn and write the run, also after an error or a signal.

    Raises:
        InputError: options contradict each other, or a file cannot be read or written.
        InfeasibleError: the tenants cannot be served; the message names the nearest feasible rate.
        DeviceError: the device is absent, or lacks a requested capability.
    """
    with requested(opts, reporter) as request:
        device = request.device
        _check_input(request)
        if not request.simulated:
            warn_of_load(device, reporter)
        planned = plan_of(request)
        for line in explained(planned):
            reporter.info(line)
        if not device.simulated:
            request.measure.close()
        rows = keep_rows(request.target, lambda: _run_of(planned, InterleaveResult()), RunRow, reporter)
        result = Turns(planned, rows).run()
        if not isinstance(device.modes, Absent):
            try:
                device.modes.restore()
            except EdgetuneError as error:
                result.failure = error
    for sentence in recovered(device):
        reporter.info(f"note: {sentence}")
    if result.failure is not None and not result.rows:
        if rows is not None:
            rows.discard()
        raise result.failure
    run = _run_of(planned, result)
    try:
        write_run(request.target, run, rows, reporter)
    except (EdgetuneError, OSError) as error:  # a full disk: the figures at least are reported
        result.failure = error
    for note in result.notes:
        reporter.info(note)
    return FinishedRun(run, request.target, result.lost, result.stopped_by, result.failure)


@contextmanager
def requested(opts: InterleaveOptions, reporter: Reporter) -> Iterator[InterleaveRequest]:
    """Open the device and read the tables, without measuring.

    Raises:
        InputError, DeviceError: see ``interleave``.
    """
    plan, tenants = _read_tenants(opts)
    parse_time_s(opts.duration, what="--duration")
    budgets = _budgets(opts, plan)
    target = _target(opts, tenants, reporter)
    device = _opened(opts, plan)
    engines = _engines(opts, device)
    known = read_tables(tenants, opts.profile, device)
    with ExitStack() as stack:
        stack.enter_context(device.exclusive())
        measure = Measuring(device, known, lambda tenant: _profile_options(opts, tenant), reporter.points)
        stack.callback(measure.close)
        arrivals = {each.asked.name: each.asked.arrivals for each in known}
        specs = {name: parse_arrivals(words) for name, words in arrivals.items() if words is not None}
        if plan is not None and opts.modes is None:
            modes: Sequence[Mode] = [mode_here(device, plan.configuration.mode)]
        else:
            modes = choose_modes(device, opts.modes).modes
        answering = [each.asked.answers for each in known]
        several = max(answering.count(True), answering.count(False)) > 1
        if opts.adapt and any(each.asked.task == "infer" and not each.asked.answers for each in known):
            raise InputError("--adapt plans for one network beside a training, not beside an inference", "leave it out")
        points = {
            each.asked.name: wanted_points(each, modes, _profile_options(opts, each.asked), several=several)
            for each in known
        }
        request = InterleaveRequest(
            opts, reporter, device, engines, measure, plan, target, budgets, known, specs, modes, points
        )
        _check_commands(request)
        yield request


def _check_commands(request: InterleaveRequest) -> None:
    """Check that trainings by a command, a script, can be paused where they are to run.

    Raises:
        InputError: the device runs no commands, or an engine has all tenants in one process.
    """
    for each in (each for each in request.known if each.workload.kind == "command"):
        sizes = [point.batch_size for point in request.points[each.asked.name]]
        if sizes or not request.simulated:
            check_command(request.device, each.workload, sizes, _profile_options(request.opts, each.asked))
        if shared := [engine.name for engine in request.engines if engine.one_process]:
            raise InputError(
                f"engine {shared[0]} has all workloads in one process, and {each.asked.name} is a script with its own",
                f"--engine managed or native, or {OTHERWISE}",
            )


def plan_of(request: InterleaveRequest) -> InterleaveJob:
    """Measure the points that no table has, and return the planned job.

    Raises:
        InputError, InfeasibleError, DeviceError: see ``interleave``.
    """
    device, reporter, points = request.device, request.reporter, request.points
    with reporting_saved(reporter, lambda: _UNKEPT, "stopped before the run"):
        SimulationLabel(request.simulated, reporter, device.conditions.get("runtime")).announce()
        if request.plan is not None and not device.simulated and not any(points.values()):
            reporter.info("minibatch times are those of the plan; nothing is measured again")
        with reporter.timing("measuring the workloads", None) if any(points.values()) else nullcontext():
            complete = measure_missing(request.known, points, _measure(request), reporter)
        return choose_tenants(request, complete)


def _read_tenants(opts: InterleaveOptions) -> tuple[Plan | None, Sequence[TenantSpec]]:
    """Return the plan, if one is given, and the tenants with the dimensions of ``--dim``.

    Raises:
        InputError: a file is unreadable, or options contradict each other.
    """
    if opts.plan == "-" and opts.arrivals == "-":
        raise InputError("standard input cannot be both the plan and the requests", "give the plan as a file")
    plan, tenants = (None, tenants_of_options(opts, None)) if opts.plan is None else _tenants_of_file(opts, opts.plan)
    sizes = parse_dimensions(opts.dim)
    return plan, [replace(tenant, dimensions={**tenant.dimensions, **sizes}) for tenant in tenants]


def _tenants_of_file(opts: InterleaveOptions, source: str) -> tuple[Plan | None, Sequence[TenantSpec]]:
    data, name = read_source(source), name_of(source)
    try:
        document = load_yaml(data.decode("utf-8-sig"), name=name)
    except UnicodeDecodeError:
        raise InputError(f"{name} is not a plan: it is not text", "give a plan, as edgetune search prints it") from None
    if isinstance(document, dict) and document.get("kind") == TENANTS:
        if options := list(given(opts)):
            raise InputError(
                f"{name} is a file of tenants, and {options[0]} describes a single tenant", f"write it into {name}"
            )
        return None, tenants_of_document(document, name=name)
    plan = from_bytes(data, kind="plan", name=name)
    return plan, tenants_of_options(opts, plan)


def _target(opts: InterleaveOptions, tenants: Sequence[TenantSpec], reporter: Reporter) -> Target:
    """Return the output of the run, checked to be no input and distinct from other outputs.

    Raises:
        InputError: an output is an input or is named twice, or a file cannot be created.
    """
    target = choose_target(opts.output, "run.parquet", last=True, stdout=reporter.stdout)
    inputs = [opts.plan, *opts.profile]
    outputs = {"-o": target.file, "--plot": opts.plot}
    kinds: dict[str, str | None] = {"-o": "run"}
    for tenant in tenants:
        inputs += [tenant.reference, tenant.handler, tenant.inputs]
        option = f"the checkpoint of {tenant.name}"
        outputs[option] = tenant.checkpoint
        kinds[option] = None if tenant.checkpoint == tenant.resume else "checkpoint"  # what resumes from it has read it
    check_outputs(outputs, inputs, kinds)
    return target


def _opened(opts: InterleaveOptions, plan: Plan | None) -> Device:
    """Open the requested device; by default the one that the plan was measured on, unless that is simulated.

    Raises:
        InputError, DeviceError: the device is absent, or differs from the plan's device.
    """
    made_for = None if plan is None or plan.header.simulated else plan.header.conditions.get("device")
    unsaid = opts.device == AUTO and opts.root is None and isinstance(made_for, str)
    try:
        device = open_named(str(made_for) if unsaid else opts.device, opts.root, seed=opts.seed)
    except DeviceError as error:
        raise DeviceError(f"the plan is for {made_for}: {error.message}", error.hint) if unsaid else error from None
    if plan is not None:
        refuse_other(plan, device=device.name)
    return device


def _engines(opts: InterleaveOptions, device: Device) -> Sequence[Engine]:
    """Return the requested engines, each once; a simulated device runs only simulated engines.

    Raises:
        InputError: an engine or policy is unknown, an engine needs a real device, or a policy needs an engine that
            orders minibatches.
    """
    live = isinstance(device.source, LiveSource)
    default = "managed" if live else "simulated"
    engines = [ENGINES.find(word.strip()) for word in (default if opts.engine is None else opts.engine).split(",")]
    for engine in engines:
        if not engine.simulated and not live:
            message = f"{device.name} cannot run a network, which engine {engine.name} needs"
            raise InputError(message, "--engine simulated")
        if POLICIES.find(opts.policy or engine.policy).lines_up and not engine.lines_up:
            message = f"policy {opts.policy} queues minibatches ahead, which engine {engine.name} cannot"
            raise InputError(message, "--engine managed, or --policy native")
    return tuple({engine.name: engine for engine in engines}.values())


def _profile_options(opts: InterleaveOptions, tenant: TenantSpec) -> ProfileOptions:
    options = profile_options(PointOptions(inputs=tenant.inputs, precision=tenant.precision, seed=opts.seed))
    return replace(options, dimensions=tenant.dimensions)


def _check_input(request: InterleaveRequest) -> None:
    """Check that requests can be read from standard input, which is read once and in real time.

    Raises:
        InputError: several tenants or engines would read it, it carries the plan, or the run is simulated.
    """
    opts, engines = request.opts, request.engines
    names = [name for name, spec in request.specs.items() if spec.kind == "live"]
    if not names:
        return
    if len(names) > 1 or opts.plan == "-":
        other = "the plan" if opts.plan == "-" else f"the requests of {names[1]}"
        raise InputError(f"standard input cannot be both the requests of {names[0]} and {other}", "name a file")
    if any(engine.simulated for engine in engines):
        raise InputError("requests come line by line in real time, and a simulation has none", "--arrivals trace:FILE")
    if len(engines) * opts.turns > 1:
        message = f"standard input is read once, and {len(engines) * opts.turns} turns are to answer it"
        raise InputError(message, "name one engine and one turn, or --arrivals trace:FILE")


def _measure(request: InterleaveRequest) -> Callable[[TenantSpec, Point], ProfileRow]:
    """Return a function that measures a point: on a real device with the tenants taking turns, with power if needed.

    Raises:
        InputError, DeviceError: see ``measure_shared``.
    """
    opts, device, points = request.opts, request.device, request.points
    if not isinstance(device.source, LiveSource) or not any(points.values()):
        return lambda _, point: request.measure(point)
    count = sum(map(len, points.values()))
    request.reporter.info(f"measuring {count} point{'s' * (count > 1)}, the workloads in turn as in the run")
    shared = measure_shared(device, request.known, points, seed=opts.seed)
    rows = {(name, row.point): row for name, several in shared.items() for row in several}
    if isinstance(device.power, Absent) or opts.power_budget is None:
        return lambda tenant, point: rows[tenant.name, point]

    def measure(tenant: TenantSpec, point: Point) -> ProfileRow:
        alone = request.measure(point)
        return replace(rows[tenant.name, point], power_w=alone.power_w, power_source=alone.power_source)

    return measure


def _budgets(opts: InterleaveOptions, plan: Plan | None) -> Budgets | None:
    """Return the power budget: ``30W``, or ``30W,20W@60s`` for another one from 60 s on; by default the plan's."""
    if opts.power_budget is None:
        watts = None if plan is None else plan.problem.power_budget_w
        return None if watts is None else Budgets(((0.0, watts),))
    if not isinstance(opts.power_budget, str):
        return Budgets(((0.0, parse_power_w(opts.power_budget, what="--power-budget")),))
    steps = []
    for number, word in enumerate(opts.power_budget.split(",")):
        watts_word, at, time_word = word.partition("@")
        if bool(at) != bool(number):
            raise InputError(f"--power-budget: {opts.power_budget!r} is not a power budget", "e.g. 30W, or 30W,20W@60s")
        from_s = parse_time_s(time_word, what="--power-budget") if at else 0.0
        steps.append((from_s, parse_power_w(watts_word, what="--power-budget")))
    if [from_s for from_s, _ in steps] != sorted({from_s for from_s, _ in steps}):
        raise InputError(f"--power-budget: the times of {opts.power_budget!r} do not rise", "e.g. 30W,20W@60s,25W@2m")
    return Budgets(tuple(steps))


def _run_of(planned: InterleaveJob, result: InterleaveResult) -> Run:
    """Return the run of all turns, with its tenants and conditions."""
    request = planned.request
    opts, device, tenants = request.opts, request.device, []
    for known, tenant in zip(planned.known, planned.tenants, strict=True):
        path = known.workload.path
        asked = {key.name: getattr(known.asked, key.name) for key in fields(known.asked) if key.name != "planned"}
        described = {key: value for key, value in asked.items() if value is not None and value != {}}
        described["sha256"] = known.workload.sha256
        described |= {} if path is None else {"path": str(path.resolve())}
        tenants.append({**described, "batch_size": tenant.batch_size, "minibatch_s": tenant.minibatch_s})
    simulated = {engine.name for engine in request.engines if engine.simulated}
    ran = {row.engine for row in result.rows}
    conditions = {
        **device.conditions,
        "device": device.name,
        "simulated": request.simulated or (bool(ran) and ran <= simulated),
        "duration_s": request.duration_s,
        "mode": dict(planned.mode.settings()),
        "seed": opts.seed,
        "overhead": result.overhead,
        "turns": opts.turns,
        "options": [name for name in ("adapt", "best_effort") if getattr(opts, name)],
        **({} if opts.policy is None else {"policy": opts.policy}),
    }
    lost = DataWarning("tenant-lost", f"{', '.join(sorted(result.lost))} could not go on; see the reason in its rows")
    header = Header.new(
        KIND, VERSION, inputs={"tenants": tenants}, conditions=conditions, warnings=(lost,) if result.lost else ()
    )
    return Run(header, tuple(result.rows))
