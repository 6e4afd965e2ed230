"""The power mode, policy and room for normal work that answer with the least energy, on a twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgetune.artifacts.files import name_of, write_atomically
from edgetune.artifacts.io import read
from edgetune.artifacts.json_format import json_document
from edgetune.artifacts.kernel_tasks import KernelTasks
from edgetune.artifacts.mode import Mode
from edgetune.devices.modes import select_modes
from edgetune.devices.twin.device import load_twin
from edgetune.devices.twin.kernel_rates import KernelRates, kernel_rates
from edgetune.errors import InfeasibleError, InputError, blaming
from edgetune.stages.elastic.energy import ROOMS, Choice, EnergyPlan, GpuInMode, least_energy, try_out
from edgetune.stages.elastic.gpu import Gpu, find_gpu
from edgetune.stages.elastic.loop import check_tasks
from edgetune.stages.elastic.mdtb.networks import compiled_for
from edgetune.stages.elastic.model import GpuTimingModel, note_of
from edgetune.stages.elastic.policies import POLICIES
from edgetune.stages.elastic.tasks import check_count, tasks_of
from edgetune.stages.elastic.work import GpuTask
from edgetune.units import parse_share, parse_time_s
from edgetune.version import __version__
from edgetune.workflows.kernels.options import EnergyOptions
from edgetune.workflows.kernels.plan import check_kernels, folder_of
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.reporting import Reporter, SimulationLabel


@dataclass(frozen=True, slots=True)
class EnergyFigures:
    """The result of ``energy``.

    Args:
        plan: All that were tried.
        best: The best of them.
        policies: Their names, in the order asked for.
        device: The twin.
        document: The same as written.
        target: Where the document went.
    """

    plan: EnergyPlan
    best: Choice
    policies: Sequence[str]
    device: str
    document: dict[str, Any]
    target: Target


def energy(opts: EnergyOptions, reporter: Reporter) -> EnergyFigures:
    """Simulate power modes, policies and rooms, and write what was tried.

    Raises:
        InputError: no twin, an unknown mode or policy, tasks that cannot be simulated, no critical task, one without a
            deadline, or no normal task.
        InfeasibleError: no combination that was tried keeps the deadlines; they are written all the same.
    """
    target = choose_target(opts.output, "energy.json", last=True, stdout=reporter.stdout)
    check_outputs({"-o": target.file}, [opts.tasks], {"-o": "energy"})
    twin = load_twin(opts.device)[0]
    modes = select_modes(opts.modes, twin.space).modes
    policies = list(dict.fromkeys(name.strip() for name in opts.policy.split(",")))
    for name in policies:
        POLICIES.find(name)
    rooms = _rooms(opts.room)
    duration_s = parse_time_s(opts.duration, what="--duration")
    with blaming("--device"):
        gpu = find_gpu(twin.board)
    tasks = _tasks(opts, gpu, policies, duration_s)
    in_modes = {mode: _in_mode(gpu, mode, rates) for mode, rates in zip(modes, kernel_rates(twin, modes), strict=True)}
    with reporter.bar("simulating", None) as advance:

        def trial(mode: Mode, policy: str, room: float) -> Choice:
            if advance is not None:
                advance(1, f"{mode}, {policy}, room {room:.0%}")
            return try_out(in_modes[mode], tasks, policy, room, duration_s=duration_s)

        plan = least_energy(modes, policies, rooms, trial)
    document = {
        "kind": "energy", "tool": f"edgetune {__version__}", "simulated": True, "device": opts.device,
        "model": note_of(gpu), "tasks": opts.tasks, "duration_s": duration_s, "combinations": plan.combinations,
        "best": None if plan.best is None else _told(plan.best), "tried": [_told(each) for each in plan.tried],
    }  # fmt: skip
    SimulationLabel(True, reporter).announce()
    if target.path is not None:
        write_atomically(json_document(document), target.path)
        target.report(reporter)
    if plan.best is None:
        least = min(plan.tried, key=lambda each: (each.late, each.unanswered, each.latency_s))
        short = f"{least.late} critical requests late" if least.late else f"{least.unanswered} normal ones unanswered"
        message = f"no combination that was tried keeps the deadlines; the nearest has {short}, at {least.mode}"
        raise InfeasibleError(message, "give a longer deadline, fewer requests, or faster modes (--modes MAXN)")
    return EnergyFigures(plan, plan.best, policies, opts.device, document, target)


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


def _tasks(opts: EnergyOptions, gpu: Gpu, policies: Sequence[str], duration_s: float) -> tuple[GpuTask, ...]:
    """Return the tasks, compiled for the GPU, with the deadline that was asked for."""
    document, file = read(KernelTasks, opts.tasks), name_of(opts.tasks)
    deadline_s = None if opts.deadline is None else parse_time_s(opts.deadline, what="--deadline")
    with blaming(file):
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
        tasks = compiled_for(gpu, tasks)
        check_kernels(tasks, gpu)
        check_count(tasks, policies[:1], gpu, duration_s=duration_s)
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
