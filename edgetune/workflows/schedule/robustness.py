"""Sensitivity of the ranking of policies to wrong durations: ``edgetune schedule robustness``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from edgetune.errors import InputError
from edgetune.stages.schedule.best_schedule import best_schedule
from edgetune.stages.schedule.budget import left_bytes
from edgetune.stages.schedule.costs import with_safety, with_times_of
from edgetune.stages.schedule.jobs import requests_of
from edgetune.stages.schedule.machine import Paging
from edgetune.stages.schedule.network import least_budget_bytes
from edgetune.stages.schedule.plan import Objective, SchedulingProblem
from edgetune.stages.schedule.policies import choose_policies
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.robustness import Robustness, Study, responses, robustness
from edgetune.stages.schedule.simulation import SimulationCase
from edgetune.units import parse_share, parse_time_s
from edgetune.workflows.cache_folder import prepared_folder
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.schedule.networks import known_networks, read_located_jobs
from edgetune.workflows.schedule.options import COMPARED, RobustnessOptions
from edgetune.workflows.schedule.plan import memory_limit_bytes
from edgetune.workflows.stopping import STOPS


@dataclass(slots=True)
class RobustnessReport:
    """Mean responses of policies, with and without noise.

    Args:
        measured: Mean response of each policy without noise, s.
        found: The result of each amount of noise.
        stopped: The signal that interrupted the runs; ``None`` if all amounts were run.
    """

    measured: Mapping[str, float]
    found: list[Robustness] = field(default_factory=list)
    stopped: BaseException | None = None


def compare_with_noise(opts: RobustnessOptions, reporter: Reporter) -> RobustnessReport:
    """Simulate jobs whose layers deviate from the durations that policies assume.

    Raises:
        InputError: an option or the jobs are invalid.
        InfeasibleError: the memory budget is too small for a network.
    """
    words = opts.noise.split(",") if isinstance(opts.noise, str) else [opts.noise]
    amounts = [parse_share(word.strip() if isinstance(word, str) else word, what="--noise") for word in words]
    if not all(0 < amount < 1 for amount in amounts):
        raise InputError(f"--noise is {opts.noise}", "shares above 0 and below 100 %, e.g. 0.1,0.25,0.5")
    study, seed = _study(opts, reporter)
    SimulationLabel(True, reporter).announce()
    report = RobustnessReport(responses(study))
    try:
        for amount in amounts:
            reporter.info(f"noise of {amount:.0%}")
            with reporter.bar(f"{opts.runs} runs with noise of {amount:.0%}", None):
                report.found.append(robustness(study, amount, runs=opts.runs, seed=seed, with_bytes=opts.bytes_too))
    except STOPS as end:
        done = f"{len(report.found)} of {len(amounts)} amounts of noise were run"
        reporter.info(f"stopped; {done}, and --noise names the others")
        if not report.found:
            raise
        report.stopped = end
    return report


def _study(opts: RobustnessOptions, reporter: Reporter) -> tuple[Study, int]:
    """Return the study to run, on the machine and in the memory of ``schedule run --simulate``, and the seed."""
    chosen = choose_policies(opts.policy)
    if len(chosen) < 2:
        raise InputError(f"--policy is {opts.policy}: an order needs two policies or more", f"e.g. --policy {COMPARED}")
    jobs = read_located_jobs(opts.jobs)
    limit_bytes = memory_limit_bytes(opts.memory, opts.jobs, jobs)
    until_s = None if opts.duration is None else parse_time_s(opts.duration, what="--duration")
    scenario = known_networks(jobs, opts.costs, prepared_folder(), simulate=True, reporter=reporter)
    networks = {each.network.name: each.network for each in scenario.known}
    seed, workers = jobs.seed if opts.seed is None else opts.seed, opts.workers or jobs.workers
    service_s = {name: network.service_s for name, network in networks.items()}
    requests = requests_of(jobs.jobs, service_s, seed=(seed, 0), until_s=until_s)
    if not requests:
        raise InputError(f"{opts.jobs}: nothing arrives before {opts.duration}", "give it longer")
    believed = {name: with_safety(network) for name, network in networks.items()}
    host = scenario.host_for(workers)
    taken_bytes = host.taken_bytes("layers")
    least_bytes = {name: least_budget_bytes(believed[name]) for name in {request.network for request in requests}}
    budget_bytes = left_bytes(limit_bytes, taken_bytes, least_bytes)
    machine = replace(host.machine, memory_bytes=limit_bytes - taken_bytes, paging=Paging(), swap_bytes=None)
    policies: dict[str, Callable[[], SchedulePolicy]] = {each.words: each.make for each in chosen}
    for each in chosen:
        if each.policy.plans_ahead:  # it follows the plan for what was measured, whatever the layers really take
            timed = {name: with_times_of(network, networks[name]) for name, network in believed.items()}
            problem = SchedulingProblem(timed, requests, budget_bytes, workers, cores=machine.cores)
            objective = cast("Objective", each.options.get("variant", "response"))
            policies[each.words] = partial(each.make, plan=best_schedule(problem, objective, machine))
    return Study(SimulationCase(networks, requests, budget_bytes, workers, machine, believed), policies), seed
