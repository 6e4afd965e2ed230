"""``edgetune schedule robustness``: how much wrong durations change which policy is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli import options
from edgetune.cli.screen import Screen, answer, print_lines, table
from edgetune.errors import InputError
from edgetune.workflows.reporting import SimulationLabel

if TYPE_CHECKING:
    from edgetune.cli.screen import Screen
    from edgetune.schedule.policies.policy import SchedulePolicy
    from edgetune.schedule.robustness import Robustness, Study

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_POLICIES = "linear,deepeye,partial,fcfs,sjf,masa,reuse"


@app.command()
def robustness(
    jobs: Annotated[str, typer.Argument(metavar="JOBS", help="A YAML file of networks and jobs.", show_default=False)],
    *,
    costs: Annotated[
        str | None, typer.Option(metavar="FILE", help="What layers take, as edgetune schedule profile writes it.")
    ] = None,
    noise: Annotated[str, typer.Option(metavar="LIST", help="Durations are wrong by up to this much.")] = "10%,25%,50%",
    bytes_too: Annotated[bool, typer.Option("--bytes", help="Bytes are wrong as much.")] = False,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="How often, for each.")] = 20,
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="LIST", help="Two or more, as for edgetune schedule run.")
    ] = _POLICIES,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="The budget, e.g. 512MiB.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, metavar="N", help="Tasks that run at a time.")] = None,
    duration: Annotated[str | None, typer.Option(metavar="TIME", help="Nothing arrives after it, e.g. 60s.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Of arrivals and noise. Default: that of the file.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Say how much wrong durations change which policy is best.

    Jobs are run on a clock again and again, with layers that take other times than policies believe: each duration is
    multiplied by a factor of its own. Policies are put in order by their mean response; Kendall's tau says how like the
    order is to that without noise: 1 the same, 0 unrelated, -1 reversed.

    \b
      edgetune schedule robustness jobs.yaml --costs costs.parquet --noise 0.1,0.25,0.5
    """
    from edgetune.cli.schedule_policies import choose_policies
    from edgetune.schedule.robustness import responses
    from edgetune.schedule.robustness import robustness as measure
    from edgetune.workflows.stopping import STOPS

    screen, amounts = Screen(quiet, verbose), _amounts(noise)
    chosen = choose_policies(policy, None)
    if len(chosen) < 2:
        raise InputError(f"--policy is {policy}: one policy alone is in no order", f"e.g. --policy {_POLICIES}")
    made = {each.words: each.make for each in chosen}
    study, seed = _study(jobs, costs, made, memory=memory, workers=workers, duration=duration, seed=seed, screen=screen)
    SimulationLabel(True, screen).announce()
    measured = responses(study)
    found = []
    stopped: BaseException | None = None
    try:
        for amount in amounts:
            screen.info(f"noise of {amount:.0%}")
            found.append(measure(study, amount, runs=runs, seed=seed, with_bytes=bytes_too))
    except STOPS as end:
        screen.info(f"stopped; {len(found)} of {len(amounts)} amounts of noise were run, and --noise names the others")
        if not found:
            raise
        stopped = end
    if json:
        answer({"simulated": True, "measured_s": measured, "noise": [asdict(each) for each in found]})
    else:
        _show(measured, found)
    if stopped is not None:
        raise stopped


def _amounts(words: str) -> list[float]:
    from edgetune.units import parse_share

    amounts = [parse_share(word.strip(), what="--noise") for word in words.split(",")]
    if not all(0 < amount < 1 for amount in amounts):
        raise InputError(f"--noise is {words}", "shares above 0 and below 100 %, e.g. 0.1,0.25,0.5")
    return amounts


def _study(
    file: str, costs: str | None, policies: Mapping[str, Callable[[], SchedulePolicy]], *, memory: str | None,
    workers: int | None, duration: str | None, seed: int | None, screen: Screen,
) -> tuple[Study, int]:  # fmt: skip
    """Return what is to be run, and the seed."""
    from edgetune.artifacts.io import read_jobs
    from edgetune.cli.schedule_networks import known_networks
    from edgetune.schedule.costs import with_safety
    from edgetune.schedule.jobs import requests_of
    from edgetune.schedule.machine import Machine, Paging
    from edgetune.schedule.robustness import Study
    from edgetune.units import parse_bytes, parse_time_s
    from edgetune.workflows.cache_folder import prepared_folder

    jobs = read_jobs(file)
    budget_bytes = jobs.memory_bytes if memory is None else parse_bytes(memory, what="--memory")
    if budget_bytes is None:
        raise InputError(f"{file} has no memory budget", "add --memory 512MiB, or write memory: 512MiB into it")
    until_s = None if duration is None else parse_time_s(duration, what="--duration")
    scenario = known_networks(jobs, costs, prepared_folder(), simulate=True, screen=screen)
    networks = {each.network.name: each.network for each in scenario.known}
    chosen, count = jobs.seed if seed is None else seed, workers or jobs.workers
    service_s = {name: network.service_s for name, network in networks.items()}
    requests = requests_of(jobs.jobs, service_s, seed=(chosen, 0), until_s=until_s)
    if not requests:
        raise InputError(f"{file}: nothing arrives before {duration}", "give it longer")
    machine = Machine(cores=scenario.cores or count, memory_bytes=budget_bytes, paging=Paging())
    believed = {name: with_safety(network) for name, network in networks.items()}
    return Study(networks, believed, requests, budget_bytes, count, machine, policies), chosen


def _show(measured: Mapping[str, float], found: Sequence[Robustness]) -> None:
    """Print the order as measured, and what noise makes of it."""
    from edgetune.units import format_duration

    order = sorted(measured, key=measured.__getitem__)
    print_lines(
        f"mean responses as measured: {', '.join(f'{name} {format_duration(measured[name])}' for name in order)}"
    )
    print_lines(f"{order[0]} is best; over {found[0].runs} runs for each amount of noise:")
    print_lines()
    table(
        ["noise>", "tau: mean>", "least>", "best stays>", "lost at most>", *(f"{name}>" for name in order)],
        [
            (
                f"{each.noise:.0%}",
                f"{sum(each.tau) / len(each.tau):.3f}",
                f"{min(each.tau):.3f}",
                f"{each.best_stays}/{each.runs}",
                f"{each.regret:.1%}",
                *(format_duration(each.mean_s[name]) for name in order),
            )
            for each in found
        ],
    )
