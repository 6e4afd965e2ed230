"""The power mode, policy and room for normal work that answer with the least energy, on a twin or a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from edgetune.artifacts.files import name_of, write_atomically
from edgetune.artifacts.io import read
from edgetune.artifacts.json_format import json_document
from edgetune.artifacts.kernel_tasks import KernelTasks
from edgetune.artifacts.mode import Mode
from edgetune.devices.discover import open_device
from edgetune.devices.modes import select_modes
from edgetune.devices.twin.device import load_twin
from edgetune.devices.twin.kernel_rates import KernelRates, kernel_rates
from edgetune.errors import InfeasibleError, InputError, blaming
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.cuda.building import check_source
from edgetune.stages.elastic.energy import (
    ROOMS,
    Choice,
    EnergyPlan,
    GpuInMode,
    Trial,
    combinations,
    confirmed,
    least_energy,
    try_out,
)
from edgetune.stages.elastic.gpu import Gpu, find_gpu
from edgetune.stages.elastic.loop import check_tasks
from edgetune.stages.elastic.mdtb.networks import compiled_for
from edgetune.stages.elastic.model import GpuTimingModel, note_of
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.policies.persistent import Persistent
from edgetune.stages.elastic.tasks import check_count, tasks_of
from edgetune.stages.elastic.work import GpuTask
from edgetune.units import counted, format_duration, format_si, parse_share, parse_time_s
from edgetune.version import __version__
from edgetune.workflows.kernels.gpu import builder_of, gpu_index
from edgetune.workflows.kernels.measured_energy import MeasuredTrials, run_s, sensor_of
from edgetune.workflows.kernels.options import EnergyOptions
from edgetune.workflows.kernels.plan import check_kernels, folder_of, include_folders, with_forms
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.parse_options import choose_modes
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.stopping import STOPS, stop_code


@dataclass(frozen=True, slots=True)
class EnergyFigures:
    """The result of ``energy``.

    Args:
        plan: All that were tried.
        best: The best of them.
        policies: Their names, in the order asked for.
        device: The device.
        simulated: Whether it is a twin.
        document: The same as written.
        target: Where the document went.
        stopped: The exit code of a signal that ended the search; 0 where none did.
    """

    plan: EnergyPlan
    best: Choice
    policies: Sequence[str]
    device: str
    simulated: bool
    document: dict[str, Any]
    target: Target
    stopped: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where combinations are tried: modes, a trial, how long requests come in it, and conditions of the figures."""

    modes: Sequence[Mode]
    trial: Trial
    duration_s: float
    conditions: Mapping[str, Any]


def energy(opts: EnergyOptions, reporter: Reporter) -> EnergyFigures:
    """Try power modes, policies and rooms, on a twin or a GPU, and write what was tried.

    Raises:
        InputError: an unknown device, mode or policy, no power readings, tasks that cannot run there, no critical task,
            one without a deadline or requests, no normal task, or on a twin a kernel of known time.
        DeviceError: the GPU or its compiler is missing, or a mode cannot be set.
        InfeasibleError: no combination that was tried keeps the deadlines; they are written all the same.
    """
    target = choose_target(opts.output, "energy.json", last=True, stdout=reporter.stdout)
    check_outputs({"-o": target.file}, [opts.tasks], {"-o": "energy"})
    policies = list(dict.fromkeys(name.strip() for name in opts.policy.split(",")))
    for name in policies:
        POLICIES.find(name)
    rooms, stopped = _rooms(opts.room), 0
    simulated = opts.device.partition(":")[0] == "twin"
    tried: list[Choice] = []
    opened = partial(_on_twin, reporter=reporter) if simulated else _on_gpu
    with opened(opts, policies) as place, reporter.bar("trying", None) as advance:
        count = combinations(place.modes, policies, rooms)
        each = f"of which some are {'simulated' if simulated else 'run'}, for {format_duration(place.duration_s)} each"
        reporter.info(f"{counted(count, 'combination')}, {each}")

        def trial(mode: Mode, policy: str, room: float) -> Choice:
            if advance is not None:
                advance(1, f"{mode}, {policy}, room {room:.0%}")
            found = place.trial(mode, policy, room)
            if not found.critical_per_s and not found.late:
                message = f"no critical request is answered in the {format_duration(place.duration_s)} of a trial"
                raise InputError(message, f"try longer, e.g. --duration {10 * place.duration_s:g}s")
            tried.append(found)
            if not simulated:
                reporter.detail(f"{mode}, {policy}, room {room:.0%}: {_words(found)}")
            return found

        try:
            plan = least_energy(place.modes, policies, rooms, trial)
            plan = plan if simulated else confirmed(plan, trial)
        except STOPS as end:
            reporter.info(f"stopped; {len(tried)} of {count} combinations were tried, and the best of them is told")
            plan, stopped = EnergyPlan(tuple(tried), count), stop_code(end)
            if not tried:
                raise
    document = {
        "kind": "energy", "tool": f"edgetune {__version__}", "simulated": simulated, "device": opts.device,
        **place.conditions, "tasks": opts.tasks, "duration_s": place.duration_s, "combinations": plan.combinations,
        "best": None if plan.best is None else _told(plan.best), "tried": [_told(each) for each in plan.tried],
    }  # fmt: skip
    SimulationLabel(simulated, reporter).announce()
    if target.path is not None:
        write_atomically(json_document(document), target.path)
        target.report(reporter)
    if plan.best is None:
        least = min(plan.tried, key=lambda each: (each.late, each.unanswered, each.throttled, each.latency_s))
        message = f"no combination that was tried keeps the deadlines; the nearest has {_words(least)}, at {least.mode}"
        raise InfeasibleError(message, "give a longer deadline, fewer requests, or faster modes (--modes MAXN)")
    return EnergyFigures(plan, plan.best, policies, opts.device, simulated, document, target, stopped)


def _words(choice: Choice) -> str:
    """Return what a combination gave: its energy, or why it does not count."""
    if choice.late:
        return f"{choice.late} critical requests late"
    if choice.unanswered or not choice.normal_per_s:
        return f"{choice.unanswered} normal ones unanswered"
    return "the device throttled" if choice.throttled else f"{format_si(choice.energy_j, 'J')} per best-effort request"


@contextmanager
def _on_twin(opts: EnergyOptions, policies: Sequence[str], reporter: Reporter) -> Iterator[_Place]:
    """Yield combinations simulated on a twin and the model of its GPU."""
    twin = load_twin(opts.device)[0]
    modes = select_modes(opts.modes or "grid:441", twin.space).modes
    duration_s = parse_time_s(opts.duration or "200ms", what="--duration")
    with blaming("--device"):
        gpu = find_gpu(twin.board)
    document = read(KernelTasks, opts.tasks)
    tasks = _tasks(opts, document)
    with blaming(name_of(opts.tasks)):
        tasks = with_forms(compiled_for(gpu, tasks), include_folders(document, opts.tasks), reporter)
        check_kernels(tasks, gpu)
        for call in (call for task in tasks for call in task.network.calls):
            if call.block_s is not None:
                message = f"kernel {call.kernel} has a block_time, which says nothing of other power modes"
                raise InputError(message, "give flop_per_block and bytes_per_block in its place")
        check_count(tasks, policies[:1], gpu, duration_s=duration_s)
    in_modes = {mode: _in_mode(gpu, mode, rates) for mode, rates in zip(modes, kernel_rates(twin, modes), strict=True)}

    def trial(mode: Mode, policy: str, room: float) -> Choice:
        return try_out(in_modes[mode], tasks, policy, room, duration_s=duration_s)

    yield _Place(modes, trial, duration_s, {"model": note_of(gpu)})


@contextmanager
def _on_gpu(opts: EnergyOptions, policies: Sequence[str]) -> Iterator[_Place]:
    """Yield combinations run on a GPU, with its power read; the device is put back as it was found."""
    index = gpu_index(opts.device)
    device, asked_s = open_device(opts.device), opts.duration and parse_time_s(opts.duration, what="--duration")
    power, document = sensor_of(device), read(KernelTasks, opts.tasks)
    tasks = _tasks(opts, document)
    duration_s, modes = run_s(power, asked_s or None), choose_modes(device, opts.modes).modes
    with blaming(name_of(opts.tasks)):
        for task in tasks:
            check_source(task.network)
        check_count(tasks, policies[:1], None, duration_s=duration_s)
    include, persistent = include_folders(document, opts.tasks), Persistent.name in policies
    builder = builder_of(include, persistent=persistent)
    trials = MeasuredTrials(
        device,
        partial(gpu_session.open_gpu_session, index, seed=document.seed, builder=builder),
        lambda ready: ready.measured(ready.fitted(tasks)),
        duration_s=duration_s,
        seed=document.seed,
    )
    conditions = {"power_source": power.source}
    with trials.ready():
        yield _Place(modes, trials, duration_s, conditions)


def _told(choice: Choice) -> dict[str, Any]:
    told = asdict(choice)
    return {**told.pop("mode"), **told, "feasible": choice.feasible, "energy_j": choice.energy_j}


def _rooms(words: str | None) -> Sequence[float]:
    if words is None:
        return ROOMS
    rooms = [parse_share(word.strip(), what="--room") for word in words.split(",")]
    if min(rooms) <= 0:
        raise InputError(f"--room is {words}: normal work would have no room", "shares above 0, e.g. 100%,50%")
    return sorted(set(rooms), reverse=True)


def _tasks(opts: EnergyOptions, document: KernelTasks) -> tuple[GpuTask, ...]:
    """Return the tasks with the deadline that was asked for."""
    deadline_s = None if opts.deadline is None else parse_time_s(opts.deadline, what="--deadline")
    with blaming(name_of(opts.tasks)):
        tasks = tasks_of(document, folder=folder_of(opts.tasks))
        check_tasks(tasks)
        if deadline_s is not None:
            tasks = tuple(replace(task, deadline_s=deadline_s) if task.critical else task for task in tasks)
        critical = [task for task in tasks if task.critical]
        without = next((task.name for task in critical if task.deadline_s is None), None)
        if not critical or len(critical) == len(tasks):
            kind = "critical" if not critical else "best-effort"
            raise InputError(f"no task is {kind}", "energy is that of best-effort work beside critical work")
        if without is not None:
            raise InputError(f"task {without} has no deadline", "give it one, or name --deadline")
    return tasks


def _in_mode(gpu: Gpu, mode: Mode, rates: KernelRates) -> GpuInMode:
    """Return a GPU in a power mode.

    Waits for memory and turns of blocks are taken to go with the GPU's clock, in whose domain its caches are.
    """
    usual = GpuTimingModel()
    slowed = replace(
        gpu,
        flop_per_s=gpu.flop_per_s * rates.gpu_speed,
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        launch_s=gpu.launch_s * rates.launch_slowdown,
    )
    model = replace(
        usual,
        host_s=usual.host_s * rates.launch_slowdown,
        wait_s=usual.wait_s / rates.gpu_speed,
        turn_s=usual.turn_s / rates.gpu_speed,
        gap_s=usual.gap_s / rates.gpu_speed,
    )
    return GpuInMode(mode, slowed, model, rates.rest_w, rates.active_w, rates.flop_j, rates.byte_j)
