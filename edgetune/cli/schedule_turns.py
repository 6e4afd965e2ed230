"""The policies of ``edgetune schedule run``, in turns: requests made, runs done, what came of them kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from edgetune.artifacts.timeline import TimelineRow
from edgetune.cli.schedule_policies import ChosenPolicy
from edgetune.cli.screen import Screen
from edgetune.units import NS
from edgetune.workflows.stopping import Stopping, noting_signals

if TYPE_CHECKING:
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.errors import PartialError
    from edgetune.schedule.costs import Host
    from edgetune.schedule.network import LayeredNetwork
    from edgetune.schedule.plan import LayerSchedule, Objective
    from edgetune.schedule.policies.policy import SchedulePolicy
    from edgetune.schedule.requests import Request
    from edgetune.schedule.simulation import ScheduleSimulation


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What one turn of one policy came to.

    Args:
        rows: Of the timeline.
        conditions: What holds for this turn, for the header.
        failure: What ended it before its time, though its rows are good.
    """

    rows: Sequence[TimelineRow]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    failure: PartialError | None = None


class TurnRunner(Protocol):
    """Runs policies: on the clock, or for real."""

    def run(self, policy: ChosenPolicy, turn: int, requests: Sequence[Request], stopping: Stopping) -> TurnResult:
        """Run one turn of a policy on requests, until it is asked to stop."""
        ...


@dataclass(slots=True)
class ScheduleResult:
    """What came of all turns.

    Args:
        rows: Of all policies.
        conditions: Of each policy, turn by turn.
        lost: Why turns of a policy ended before their time, by policy.
        stopped_by: Number of the signal that ended the run early.
        failure: What ended it, other than that: raised again once the rows are written.
    """

    rows: list[TimelineRow] = field(default_factory=list)
    conditions: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    lost: dict[str, PartialError] = field(default_factory=dict)
    stopped_by: int | None = None
    failure: BaseException | None = None


def run_turns(
    policies: Sequence[ChosenPolicy],
    turns: int,
    requests: Callable[[int], Sequence[Request]],
    runner: TurnRunner,
    screen: Screen,
    *,
    rows: RowsFile | None = None,
) -> ScheduleResult:
    """Run every policy so often, in alternation, each turn on the same requests; a signal ends it in order.

    Args:
        policies: What to compare; every second turn runs them backwards, so that a drift of the machine favours none.
        turns: How often each.
        requests: Of a turn, by its number from 0.
        runner: Runs one.
        screen: For progress.
        rows: Where rows are kept turn by turn; ``None`` where nobody wants it, or the runner keeps them as they come.
    """
    outcome = ScheduleResult()
    try:
        with noting_signals(screen, "the tasks that run") as stopping:
            for turn in range(turns):
                asked = requests(turn)
                for policy in policies[:: -1 if turn % 2 else 1]:
                    if stopping.number is None:
                        screen.info(f"{policy.words}, turn {turn + 1}" if turns > 1 else policy.words)
                        _keep(outcome, policy.words, runner.run(policy, turn, asked, stopping), rows)
                        stopping.act = lambda: None
            outcome.stopped_by = stopping.number
    except BaseException as error:
        outcome.failure = error
    return outcome


def _keep(outcome: ScheduleResult, policy: str, ran: TurnResult, rows: RowsFile | None) -> None:
    outcome.rows += ran.rows
    if rows is not None:
        for row in ran.rows:
            rows.keep(row)
        rows.flush()
    outcome.conditions.setdefault(policy, []).append(ran.conditions)
    if ran.failure is not None:
        outcome.lost[policy] = ran.failure


@dataclass(frozen=True, slots=True)
class SimulatedRunner:
    """Runs policies on the clock; a ``TurnRunner``.

    Args:
        networks: What is really there, by name.
        believed: What the runtime takes them for.
        limit_bytes: Memory of the process that runs, so that what takes more pays for paging; what may be held is less
            by what that process takes itself, where somebody measured it.
        workers: How many tasks run at a time.
        cores: Of the machine where layers were measured; ``None`` for as many as there are workers.
        plan_within_s: How long to look for the best schedule, for a policy that follows one, s.
        host: What was measured of the machine beside layers; ``None`` where nothing was.
    """

    networks: Mapping[str, LayeredNetwork]
    believed: Mapping[str, LayeredNetwork]
    limit_bytes: int
    workers: int
    cores: int | None = None
    plan_within_s: float = 60.0
    host: Host | None = None

    def run(self, policy: ChosenPolicy, turn: int, requests: Sequence[Request], stopping: Stopping) -> TurnResult:
        """Run one turn of a policy on the clock."""
        from edgetune.schedule.timeline import timeline_rows

        self.check(policy, requests)
        plan = self._plan(policy, requests) if policy.plans_ahead else None
        made = policy.make() if plan is None else policy.make(plan=plan)
        done = self._simulate(made, policy.form, requests, lambda: stopping.number is not None)
        rows = timeline_rows(done.records, done.networks, policy=policy.words, turn=turn)
        rows += self._peak(policy, turn, done, max((row.finished_s for row in rows), default=0.0))
        told: dict[str, Any] = {"decisions": done.overhead.decisions, "decisions_s": done.overhead.decisions_s}
        return TurnResult(rows, told if plan is None else {**told, "plan": _figures(plan)})

    def check(self, policy: ChosenPolicy, requests: Sequence[Request]) -> int:
        """Return what the process that runs takes itself, bytes; 0 where nobody measured it.

        Raises:
            InfeasibleError: what is left of the limit is too little for a network that is asked for.
        """
        from edgetune.schedule.budget import check_budget, left_bytes
        from edgetune.schedule.network import least_budget_bytes
        from edgetune.schedule.policies import find_policy

        taken_bytes = self._taken_bytes(policy.form)
        asked = set() if find_policy(policy.name).whole else {request.network for request in requests}
        least_bytes = {name: least_budget_bytes(self.believed[name]) for name in asked}
        if taken_bytes:
            left_bytes(self.limit_bytes, taken_bytes, least_bytes)
        else:
            check_budget(self.limit_bytes, least_bytes)
        return taken_bytes

    def _simulate(
        self,
        policy: SchedulePolicy,
        form: str,
        requests: Sequence[Request],
        stopped: Callable[[], bool] = lambda: False,
    ) -> ScheduleSimulation:
        from edgetune.schedule.machine import Machine, Paging
        from edgetune.schedule.simulation import simulate

        host = self.host
        machine = Machine(cores=self.cores or self.workers) if host is None else host.machine
        return simulate(
            policy, self.networks, requests, budget_bytes=self._budget_bytes(form), workers=self.workers,
            machine=replace(machine, memory_bytes=self.limit_bytes - self._taken_bytes(form), paging=Paging()),
            believed=self.believed, wholes={} if host is None else host.wholes.get(form, {}),
            stopped=stopped,
        )  # fmt: skip

    def _taken_bytes(self, form: str) -> int:
        return 0 if self.host is None else self.host.taken_bytes(form)

    def _budget_bytes(self, form: str) -> int:
        """Return what may be held, as the process that runs would work it out."""
        from edgetune.schedule.budget import left_bytes

        taken_bytes = self._taken_bytes(form)
        return left_bytes(self.limit_bytes, taken_bytes) if taken_bytes else self.limit_bytes

    def _peak(self, policy: ChosenPolicy, turn: int, done: ScheduleSimulation, end_s: float) -> list[TimelineRow]:
        """Return a row of the most that is in memory, where it is known what the process takes itself."""
        taken_bytes = self._taken_bytes(policy.form)
        peak_bytes = taken_bytes + done.peak_bytes
        return [TimelineRow("memory", policy.words, end_s, turn, peak_bytes=peak_bytes)] if taken_bytes else []

    def _plan(self, policy: ChosenPolicy, requests: Sequence[Request]) -> LayerSchedule:
        """Return the best schedule that is found in time, from the one of the policy that looks ahead on."""
        from edgetune.schedule.costs import with_times_of
        from edgetune.schedule.optimum import optimum
        from edgetune.schedule.plan import SchedulingProblem
        from edgetune.schedule.policies.reuse import Reuse
        from edgetune.schedule.records import TaskRecord

        networks = {name: with_times_of(each, self.networks[name]) for name, each in self.believed.items()}
        case = SchedulingProblem(networks, requests, self._budget_bytes(policy.form), self.workers, cores=self.cores)
        known = [each for each in self._simulate(Reuse(), "layers", requests).records if isinstance(each, TaskRecord)]
        objective = cast("Objective", policy.options.get("variant", "response"))
        return optimum(case, objective, limit_s=self.plan_within_s, known=known)


def _figures(plan: LayerSchedule) -> dict[str, Any]:
    return {
        "objective": plan.objective,
        "value_s": plan.value_ns / NS,
        "bound_s": plan.bound_ns / NS,
        "proved": plan.proved,
        "took_s": plan.took_s,
    }
