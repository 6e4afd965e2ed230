"""The plan of ``edgetune schedule run``: jobs, networks, policies, memory and output, all checked.

The schedule that a policy follows which plans ahead, made before a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from edgetune.artifacts.jobs import MOST_WORKERS, Jobs
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.processes.user_folders import prepared_folder
from edgetune.stages.schedule.best_schedule import best_schedule, require_ortools
from edgetune.stages.schedule.costs import Host, with_safety
from edgetune.stages.schedule.jobs import check_tasks, requests_of
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem
from edgetune.stages.schedule.policies import PolicyChoice, choose_policies
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.tasks import Machine
from edgetune.units import format_bytes, parse_bytes, parse_time_s
from edgetune.workflows.figures import check_plot
from edgetune.workflows.output import Target, check_outputs, choose_target
from edgetune.workflows.reporting import Reporter, reporting_saved
from edgetune.workflows.schedule.networks import Scenario, known_networks, read_located_jobs
from edgetune.workflows.schedule.options import LIMITS, ScheduleOptions

_MOST_BYTES = 1 << 50
"""A pebibyte; the kernel takes what is much larger for a small number."""


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """The checked plan of a run, from options and jobs.

    Args:
        opts: The options as given.
        jobs: The jobs as in their file.
        scenario: Its networks and their measuring device.
        policies: The policies in the order of comparison.
        limit_bytes: Memory limit.
        swap_bytes: Swap beside it; ``None`` for all swap of the machine.
        workers: Number of parallel tasks.
        seed: Seed of random arrivals.
        until_s: End of arrivals, s; ``None`` if jobs end by themselves.
        plan_within_s: Time limit of the search for the best schedule, for a policy that follows one, s.
        target: The output of the timeline.
    """

    opts: ScheduleOptions
    jobs: Jobs
    scenario: Scenario
    policies: Sequence[PolicyChoice]
    limit_bytes: int
    swap_bytes: int | None
    workers: int
    seed: int
    until_s: float | None
    plan_within_s: float
    target: Target

    @property
    def networks(self) -> dict[str, LayeredNetwork]:
        """The networks as measured, by name."""
        return {each.network.name: each.network for each in self.scenario.known}

    @property
    def believed(self) -> dict[str, LayeredNetwork]:
        """The networks with the runtime's safety margin, by name."""
        return {each.network.name: with_safety(each.network) for each in self.scenario.known}

    @property
    def host(self) -> Host:
        """The machine that measured the layers; only its cores, else as many as workers, where it is unknown."""
        return self.scenario.host or Host(Machine(cores=self.scenario.cores or self.workers))

    def requests(self, turn: int) -> tuple[Request, ...]:
        """Return the requests of a turn, which are the same for every policy."""
        networks = self.networks
        service_s = {name: network.service_s for name, network in networks.items()}
        found = requests_of(self.jobs.jobs, service_s, seed=(self.seed, turn), until_s=self.until_s)
        check_tasks(found, networks.values())
        return found


def plan_schedule(opts: ScheduleOptions, reporter: Reporter) -> SchedulePlan:
    """Check every option and return the plan; prepare networks if necessary.

    Raises:
        InputError: an option or the jobs are invalid.
        DeviceError: ONNX Runtime is missing, or OR-Tools where a policy needs it.
    """
    jobs = read_located_jobs(opts.jobs)
    policies = choose_policies(opts.policy or jobs.policy)
    if ahead := [each.words for each in policies if each.policy.plans_ahead]:
        if not opts.simulate:
            raise InputError(f"policy {ahead[0]} is simulated only", "add --simulate, or name reuse")
        require_ortools()
    choose(opts.limit, LIMITS, what="limit")
    limit_bytes = jobs.memory_bytes if opts.memory is None else parse_bytes(opts.memory, what="--memory")
    if limit_bytes is None:
        hint = "add --memory 512MiB, or write memory: 512MiB into it"
        raise InputError(f"{opts.jobs} has no memory budget", hint)
    if limit_bytes > _MOST_BYTES:
        raise InputError(f"the memory budget is {format_bytes(limit_bytes)}, which no machine has", "e.g. 512MiB")
    swap_bytes = None
    if opts.swap is not None:
        none = str(opts.swap).strip() in ("0", "0.0", "none")
        swap_bytes = 0 if none else parse_bytes(opts.swap, what="--swap")
    plan_within_s = parse_time_s(opts.time_limit, what="--time-limit")
    until_s = None if opts.duration is None else parse_time_s(opts.duration, what="--duration")
    check_plot(opts.plot, opts.view, "timeline")
    target = _target(opts, jobs, reporter)
    folder = Path(opts.prepared) if opts.prepared is not None else prepared_folder()
    with reporting_saved(reporter, lambda: f"networks prepared by now are in {folder}, and the same command goes on"):
        scenario = known_networks(
            jobs, opts.costs, folder, simulate=opts.simulate, limit_bytes=limit_bytes, reporter=reporter
        )
    seed, workers = jobs.seed if opts.seed is None else opts.seed, opts.workers or jobs.workers
    if workers > MOST_WORKERS:
        raise InputError(f"there are to be {workers} workers, at most {MOST_WORKERS} can be", "e.g. 2")
    return SchedulePlan(
        opts, jobs, scenario, policies, limit_bytes, swap_bytes, workers, seed, until_s, plan_within_s, target,
    )  # fmt: skip


def _target(opts: ScheduleOptions, jobs: Jobs, reporter: Reporter) -> Target:
    """Return the output of the timeline, checked to be no input and distinct from other outputs.

    Raises:
        InputError: an output is an input or is named twice, or a file cannot be created.
    """
    target = choose_target(opts.output, "timeline.parquet", last=True, stdout=reporter.stdout)
    inputs = [opts.jobs, opts.costs, *(each.costs for each in jobs.networks)]
    inputs += [file for each in jobs.networks for file in (each.model, each.inputs)]
    outputs = {"-o": target.file, "--plot": opts.plot}
    check_outputs(outputs, inputs, {"-o": "timeline"})
    return target


def planned(plan: SchedulePlan, policy: PolicyChoice, requests: Sequence[Request], budget_bytes: int) -> LayerSchedule:
    """Return the best schedule of requests that is found in time.

    It keeps to the bytes that the runtime accounts for, safety included, and takes layers for as long as they were
    measured to take.

    Args:
        plan: The plan of the command.
        policy: The policy that follows it.
        requests: All requests of the turn.
        budget_bytes: Memory for tasks.

    Raises:
        DeviceError: OR-Tools is missing.
    """
    networks = {name: with_safety(each, times=False) for name, each in plan.networks.items()}
    case = SchedulingProblem(networks, requests, budget_bytes, plan.workers, cores=plan.scenario.cores)
    objective = cast("Objective", policy.options.get("variant", "response"))
    return best_schedule(case, objective, plan.host.machine, limit_s=plan.plan_within_s)
