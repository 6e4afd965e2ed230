"""Plans a job from measured points: batch sizes and a mode that serve the tenants, else an error.

The watchers of a run: the power sensor, and the planner for changing rates.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Point
from edgetune.artifacts.yaml_document import plain
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.errors import InfeasibleError, InputError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.stages.interleave.admission import admit
from edgetune.stages.interleave.backend import Engine, Inference, Tenant, Training
from edgetune.stages.interleave.cycle import Cycle, CycleGoals, WorkloadPoint, explain
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.interleave.loop import Watcher
from edgetune.stages.interleave.planner import CycleChoice, CycleChooser, TenantNames, best_cycle, halves, tenants_of
from edgetune.stages.interleave.policies.policy import guard_ns
from edgetune.stages.interleave.power import Budgets, PowerWatcher, SimulatedReadings
from edgetune.stages.interleave.replan import Replanner
from edgetune.stages.interleave.simulated import SimulatedMinibatchBackend
from edgetune.units import format_si, parse_time_s
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.interleave.points import Measuring, TenantMeasurements
from edgetune.workflows.output import Target
from edgetune.workflows.reporting import Reporter


@dataclass(frozen=True, slots=True)
class InterleaveRequest:
    """A requested run, before any measurement.

    Args:
        opts: The options as given.
        reporter: Receives progress.
        device: Where to run.
        engines: The engines in the order of comparison.
        measure: Measures points that no table has.
        plan: The plan to follow; ``None`` without one.
        target: The output of the run.
        budgets: Power budgets; ``None`` without one.
        known: The tenants, with the rows of tables and of the plan.
        specs: The arrival process of each tenant.
        modes: The modes to choose from.
        points: The points to measure first, by tenant.
    """

    opts: InterleaveOptions
    reporter: Reporter
    device: Device
    engines: Sequence[Engine]
    measure: Measuring
    plan: Plan | None
    target: Target
    budgets: Budgets | None
    known: Sequence[TenantMeasurements]
    specs: Mapping[str, ArrivalSpec]
    modes: Sequence[Mode]
    points: Mapping[str, Sequence[Point]]

    @property
    def simulated(self) -> bool:
        """Whether all figures are simulated."""
        return self.device.simulated or all(engine.simulated for engine in self.engines)

    @property
    def duration_s(self) -> float:
        """Duration of a turn, s."""
        return parse_time_s(self.opts.duration, what="--duration")


@dataclass(frozen=True, slots=True)
class InterleaveJob:
    """A planned run.

    Args:
        request: What was asked.
        tenants: With their batch sizes and times.
        known: The tenants with all their measured points.
        mode: The power mode.
        cycle: The cycle of one inference and at most one training workload; ``None`` for other tenants.
        goals: The problem that the cycle solves.
    """

    request: InterleaveRequest
    tenants: tuple[Tenant, ...]
    known: tuple[TenantMeasurements, ...]
    mode: Mode
    cycle: Cycle | None = None
    goals: CycleGoals | None = None


def choose_tenants(request: InterleaveRequest, known: Sequence[TenantMeasurements]) -> InterleaveJob:
    """Return the job to run.

    Args:
        request: What was asked.
        known: The tenants with their measured points.

    Raises:
        InfeasibleError: the tenants cannot be served; the message names the nearest feasible rate.
        InputError: a power budget without measured power, or no mode in which all tenants were measured.
    """
    opts, specs, modes, plan = request.opts, request.specs, request.modes, request.plan
    answering = [each for each in known if each.asked.answers]
    training = [each for each in known if not each.asked.answers]
    rates = {name: _rate(spec, adapt=opts.adapt) for name, spec in specs.items()}
    if len(answering) != 1 or len(training) > 1:
        tenants = tuple(_tenant(each, modes[0], rates) for each in known)
        _admit(tenants, best_effort=opts.best_effort)
        return InterleaveJob(request, tenants, tuple(known), modes[0])
    asked = answering[0].asked
    assert asked.latency_budget_s is not None
    power_w = None if request.budgets is None else request.budgets.at(0.0)
    continuous = plan is not None and plan.problem.objective == "continuous-throughput"
    goals = CycleGoals(asked.latency_budget_s, rates[asked.name], power_w, continuous=continuous)
    train = _halves(training[0], modes) if training else []
    infer, clients = _halves(answering[0], modes), specs[asked.name].clients
    infer = [half for half in infer if clients is None or half.batch_size <= clients] or infer  # what clients can fill
    cycle = best_cycle(infer, train, goals, best_effort=opts.best_effort)
    ordered = (*answering, *training)
    tenants = tuple(
        replace(tenant, name=each.asked.name, weight=each.asked.weight, task=each.asked.task)
        if isinstance(tenant, Training)
        else replace(tenant, name=each.asked.name)
        for tenant, each in zip(tenants_of(cycle, goals), ordered, strict=True)
    )
    _admit(tenants, best_effort=opts.best_effort)
    return InterleaveJob(request, tenants, ordered, cycle.infer.mode, cycle, goals)


def _rate(spec: ArrivalSpec, *, adapt: bool) -> float | None:
    """Return the rate to plan for, 1/s: the highest rate, or the first one if the run follows changes."""
    first = next((rate for rate in spec.rates_per_s if rate > 0), None)
    return first if adapt and first is not None else spec.peak_rate_per_s


def _halves(known: TenantMeasurements, modes: Sequence[Mode]) -> list[WorkloadPoint]:
    """Return the points to choose from: in the requested modes, of the requested batch size or of any."""
    size = known.asked.batch_size
    found = halves(known.rows, known.asked.task, workload=known.workload.name)
    chosen = [half for half in found if half.mode in modes and size in (None, half.batch_size)]
    return chosen or [half for half in found if size in (None, half.batch_size)]


def _tenant(known: TenantMeasurements, mode: Mode, rates: Mapping[str, float | None]) -> Tenant:
    """Return one of several tenants at its batch size, by default the smallest measured one."""
    opts = known.asked
    found = [half for half in _halves(known, [mode]) if half.mode == mode] or _halves(known, [mode])
    half = min(found, key=lambda half: half.batch_size) if opts.answers else found[0]
    if not opts.answers:
        return Training(opts.name, half.batch_size, half.cautious_s, opts.weight, opts.task)
    assert opts.latency_budget_s is not None
    return Inference(opts.name, half.batch_size, opts.latency_budget_s, rates[opts.name], half.cautious_s)


def _admit(tenants: Sequence[Tenant], *, best_effort: bool) -> None:
    """Refuse tenants that cannot share the device.

    Raises:
        InfeasibleError: see ``admission``.
    """
    budgets_s = [tenant.latency_budget_s for tenant in tenants if isinstance(tenant, Inference)]
    admission = admit(tenants, guard_ns=guard_ns(budgets_s))
    if not admission.admitted and not best_effort:
        raise InfeasibleError(admission.reason, f"{admission.hint}; or --best-effort to run it all the same")


def explained(planned: InterleaveJob) -> list[str]:
    """Return the lines that describe the job: the use of time in a cycle, or the utilisation by several tenants."""
    mode = f"power mode: {planned.mode}" if planned.mode.settings() else None
    lines = [mode] if mode else []
    if planned.cycle is not None and planned.goals is not None:
        lines += explain(planned.cycle, planned.goals)
    for tenant in planned.tenants if planned.cycle is None else ():
        takes = format_si(tenant.minibatch_s, "s")
        if isinstance(tenant, Inference):
            rate = "" if tenant.rate_per_s is None else f" at {tenant.rate_per_s:g}/s"
            due = format_si(tenant.latency_budget_s, "s")
            lines.append(f"{tenant.name}: answers{rate} within {due}, batch {tenant.batch_size} in {takes}")
        else:
            lines.append(f"{tenant.name}: trains, batch {tenant.batch_size} in {takes}, weight {tenant.weight:g}")
    bursts = [name for name, spec in planned.request.specs.items() if not spec.even]
    if bursts:
        lines.append(f"{', '.join(bursts)}: requests do not come evenly, and a burst of them may be late")
    return lines


def cycle_figures(planned: InterleaveJob) -> dict[str, Any] | None:
    """Return the figures of the cycle as plain data; ``None`` without a cycle."""
    cycle = planned.cycle
    if cycle is None:
        return None
    named = ("rate_per_s", "train_minibatches", "period_s", "fill_s", "latency_s", "training_s", "idle_s")
    figures = {name: getattr(cycle, name) for name in (*named, "utilisation", "throughput_per_s", "power_w")}
    finite = {name: value if value is None or math.isfinite(value) else None for name, value in figures.items()}
    return {**finite, "infer": plain(cycle.infer), "train": plain(cycle.train)}


InterleaveBackend = LiveMinibatchBackend | SimulatedMinibatchBackend
WatcherOfTurn = Callable[[int], Watcher]
"""Makes the watcher of a turn from its begin, ns. All that takes long is done before the turn begins."""
REFRESH_S = 1.0
"""How often a simulated sensor has a reading where the device does not say, s: as on a Jetson, see the twin."""


def power_watcher(planned: InterleaveJob, backend: InterleaveBackend, stack: ExitStack) -> WatcherOfTurn | None:
    """Open the sensor and return the watcher of power; ``None`` without a sensor."""
    device = planned.request.device
    refresh_s = REFRESH_S if isinstance(device.power, Absent) else device.power.refresh_s
    readings: Any = None
    if not isinstance(backend, LiveMinibatchBackend):
        readings = None if backend.power is None else SimulatedReadings(backend.power.mean_w, backend.now_ns())
    elif not isinstance(device.power, Absent):
        recording, taken = stack.enter_context(device.power.record()), 0

        def fresh(now_ns: int) -> Sequence[tuple[int, float]]:  # noqa: ARG001 -- those that are there now
            nonlocal taken
            new = recording.readings[taken:]
            taken += len(new)
            return [(reading.time_ns, reading.power_w) for reading in new]

        readings = fresh
    budgets = planned.request.budgets
    return None if readings is None else lambda begin_ns: PowerWatcher(readings, refresh_s, begin_ns, budgets)


def replanner(planned: InterleaveJob) -> WatcherOfTurn:
    """Return the watcher that replans when the rate changes.

    Raises:
        InputError: several workloads answer requests, or no initial rate is known.
    """
    cycle, goals = planned.cycle, planned.goals
    if cycle is None or cycle.rate_per_s is None or goals is None:
        raise InputError("--adapt needs exactly one inference workload, with an arrival rate", "leave --adapt out")
    tenants, known = planned.tenants, planned.known
    names = TenantNames(tenants[0].name, known[0].workload.name)
    if len(tenants) > 1:
        train, size = tenants[1].name, tenants[1].batch_size
        names = replace(names, train=train, train_workload=known[1].workload.name, train_size=size)
    choices = CycleChooser(names, [row for each in known for row in each.rows], goals)
    present, rate_per_s = CycleChoice(cycle, "fits"), cycle.rate_per_s
    return lambda begin_ns: Replanner(names, choices, present, rate_per_s=rate_per_s, begin_ns=begin_ns)
