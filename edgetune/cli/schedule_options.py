"""The options of ``edgetune schedule run``, and the run that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgetune.artifacts.jobs import Job, Jobs
    from edgetune.cli.schedule_networks import JobNetwork, Scenario
    from edgetune.cli.schedule_policies import ChosenPolicy
    from edgetune.schedule.network import LayeredNetwork
    from edgetune.schedule.requests import Request


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """What was asked for, as written on the command line."""

    jobs: str
    policy: str | None
    variant: str | None
    memory: str | None
    workers: int | None
    turns: int
    duration: str | None
    costs: str | None
    prepared: str | None
    limit: str
    swap: str | None
    safety: float | None
    time_limit: str
    output: str | None
    plot: str | None
    view: str | None
    chrome_trace: str | None
    seed: int | None
    simulate: bool = False
    dry_run: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """What is to run.

    Args:
        jobs: As the file has them.
        scenario: Its networks, and where they were measured.
        policies: In the order in which they are compared.
        limit_bytes: Memory that there is.
        workers: How many tasks run at a time.
        seed: Of random arrivals.
        until_s: Nothing arrives later, s; ``None`` where jobs end by themselves.
        safety: What bytes and times of layers are multiplied by, so that the runtime is not surprised.
        live: The job whose arrivals are lines of standard input; ``None`` where there is none.
    """

    jobs: Jobs
    scenario: Scenario
    policies: Sequence[ChosenPolicy]
    limit_bytes: int
    workers: int
    seed: int
    until_s: float | None
    safety: float
    live: Job | None

    @property
    def known(self) -> Sequence[JobNetwork]:
        """The networks."""
        return self.scenario.known

    @property
    def believed(self) -> dict[str, LayeredNetwork]:
        """What the runtime takes the networks for."""
        from edgetune.schedule.costs import with_safety

        return {each.network.name: with_safety(each.network, self.safety) for each in self.known}

    def requests(self, turn: int) -> tuple[Request, ...]:
        """Return the requests of a turn: the same for every policy."""
        from edgetune.schedule.jobs import check_tasks, requests_of

        service_s = {each.network.name: each.network.service_s for each in self.known}
        found = requests_of(self.jobs.jobs, service_s, seed=(self.seed, turn), until_s=self.until_s)
        check_tasks(found, [each.network for each in self.known])
        return found
