"""Runs the policies of ``edgetune schedule run`` in turns and keeps their rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from edgetune.artifacts.rows_file import RowsFile
from edgetune.artifacts.timeline import TimelineRow
from edgetune.errors import PartialError
from edgetune.stages.schedule.budget import left_bytes
from edgetune.stages.schedule.network import least_budget_bytes
from edgetune.stages.schedule.policies import PolicyChoice
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import ScheduleSimulation, SimulationCase, simulate
from edgetune.stages.schedule.tasks import BudgetRecord, Paging, Record, RequestRecord
from edgetune.stages.schedule.timeline import timeline_rows
from edgetune.units import NS
from edgetune.workflows.reporting import OnAdvance, Reporter, Stopping, noting_signals
from edgetune.workflows.schedule.plan import SchedulePlan, plan_figures, planned


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The result of one turn of one policy.

    Args:
        rows: Rows of the timeline.
        conditions: Conditions of this turn, for the header.
        failure: The error that ended it early; its rows are valid.
    """

    rows: Sequence[TimelineRow]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    failure: PartialError | None = None


class TurnRunner(Protocol):
    """Runs policies, simulated or live."""

    def run(
        self, policy: PolicyChoice, turn: int, requests: Sequence[Request], stopping: Stopping,
        advance: OnAdvance | None,
    ) -> TurnResult:  # fmt: skip
        """Run one turn of a policy on requests, until a stop is requested; ``advance`` counts answered requests."""
        ...

    def total(self, requests: Sequence[Request]) -> int | None:
        """Return the number of requests that a turn counts; ``None`` if it does not."""
        ...

    def taken_bytes(self, policy: PolicyChoice, requests: Sequence[Request]) -> int:
        """Return the memory of the process before any network is loaded, without running any; 0 if unknown.

        Raises:
            InputError, InfeasibleError, DeviceError: the plan cannot run.
        """
        ...


@dataclass(slots=True)
class ScheduleResult:
    """The result of all turns.

    Args:
        rows: Rows of all policies.
        conditions: Conditions of each policy, turn by turn.
        lost: Reasons for turns that ended early, by policy.
        stopped_by: Number of the signal that ended the run early.
        failure: Any other error that ended it; raised again after the rows are written.
    """

    rows: list[TimelineRow] = field(default_factory=list)
    conditions: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    lost: dict[str, PartialError] = field(default_factory=dict)
    stopped_by: int | None = None
    failure: BaseException | None = None


def run_turns(
    plan: SchedulePlan, runner: TurnRunner, reporter: Reporter, *, rows: RowsFile | None = None
) -> ScheduleResult:
    """Run the policies in alternation, on the same requests in each turn; a signal stops the run in order.

    Every second turn runs the policies in reverse order, so that a drift of the machine favours none.

    Args:
        plan: The plan to run.
        runner: Runs one turn.
        reporter: Receives progress.
        rows: The file that keeps rows turn by turn; ``None`` without one, or if the runner keeps rows itself.
    """
    outcome, turns = ScheduleResult(), plan.opts.turns
    try:
        with noting_signals(reporter, "the tasks that run") as stopping:
            for turn in range(turns):
                requests = plan.requests(turn)
                for policy in plan.policies[:: -1 if turn % 2 else 1]:
                    if stopping.number is None:
                        reporter.info(f"{policy.words}, turn {turn + 1}" if turns > 1 else policy.words)
                        with reporter.bar(policy.words, runner.total(requests)) as advance:
                            ran = runner.run(policy, turn, requests, stopping, advance)
                        keep(rows, ran.rows)
                        outcome.rows += ran.rows
                        outcome.conditions.setdefault(policy.words, []).append(ran.conditions)
                        if ran.failure is not None:
                            outcome.lost[policy.words] = ran.failure
                        stopping.act = lambda: None
            outcome.stopped_by = stopping.number
    except BaseException as error:
        outcome.failure = error
    return outcome


def keep(kept: RowsFile | None, rows: Sequence[TimelineRow], *, flush: bool = True) -> None:
    """Append rows to the file that keeps them, if there is one."""
    if kept is not None:
        for row in rows:
            kept.keep(row)
        if flush:
            kept.flush()


def unanswered(records: Sequence[Record], requests: Sequence[Request], reason: str) -> list[Record]:
    """Return a record for every open request of a killed process."""
    recorded = {each.request.number for each in records if isinstance(each, RequestRecord)}
    ends_ns = [each.at_ns if isinstance(each, BudgetRecord) else each.end_ns for each in records]
    last_ns = max(ends_ns, default=0)
    return [
        RequestRecord(each, "failed", None, max(last_ns, each.arrival_ns), reason)
        for each in requests
        if each.number not in recorded
    ]


class SimulatedRunner:
    """Runs policies in simulated time; a ``TurnRunner``.

    Memory above the limit costs paging time. The budget of tasks is the limit less the memory of the process itself, if
    that was measured.

    Args:
        plan: The plan to run.
    """

    def __init__(self, plan: SchedulePlan) -> None:
        self._plan, self._networks, self._believed = plan, plan.networks, plan.believed
        self._host = plan.host

    def total(self, requests: Sequence[Request]) -> int | None:  # noqa: ARG002
        """See ``TurnRunner``; a simulation takes moments."""
        return None

    def run(
        self, policy: PolicyChoice, turn: int, requests: Sequence[Request], stopping: Stopping,
        advance: OnAdvance | None = None,  # noqa: ARG002
    ) -> TurnResult:  # fmt: skip
        """Run one turn of a policy in simulated time."""
        taken_bytes = self.taken_bytes(policy, requests)
        found = None
        if policy.policy.plans_ahead:
            found = planned(self._plan, policy, requests, self._budget_bytes(policy.form))
        made = policy.make() if found is None else policy.make(plan=found)
        done = self._simulate(made, policy.form, requests, lambda: stopping.number is not None)
        records = list(done.records)
        told: dict[str, Any] = {"decisions": done.overhead.decisions, "decisions_s": done.overhead.decisions_s}
        if done.killed is not None:
            records += unanswered(records, requests, done.killed.message)
            told["killed"] = {"at_s": done.killed.at_ns / NS, "bytes": done.peak_bytes}
        rows = timeline_rows(records, done.networks, policy=policy.words, turn=turn)
        if taken_bytes:
            end_s = max((row.finished_s for row in rows), default=0.0)
            rows.append(TimelineRow("memory", policy.words, end_s, turn, peak_bytes=taken_bytes + done.peak_bytes))
        return TurnResult(rows, told if found is None else {**told, "plan": plan_figures(found)}, done.killed)

    def taken_bytes(self, policy: PolicyChoice, requests: Sequence[Request]) -> int:
        """Return the memory of the process itself, after checking that the rest of the limit suffices.

        Raises:
            InfeasibleError: the rest of the limit is too small for a requested network.
        """
        taken_bytes = self._host.taken_bytes(policy.form)
        asked = set() if policy.policy.whole else {request.network for request in requests}
        least_bytes = {name: least_budget_bytes(self._believed[name]) for name in asked}
        self._left_bytes(taken_bytes, least_bytes)
        return taken_bytes

    def _simulate(
        self,
        policy: SchedulePolicy,
        form: str,
        requests: Sequence[Request],
        stopped: Callable[[], bool] = lambda: False,
    ) -> ScheduleSimulation:
        memory_bytes = self._plan.limit_bytes - self._host.taken_bytes(form)
        swap_bytes = self._host.machine.swap_bytes if self._plan.swap_bytes is None else self._plan.swap_bytes
        if form == "external" and not self._host.wholes.get(form):
            swap_bytes = None  # its weights are pages of files, which a network put together from layers does not say
        case = SimulationCase(
            self._networks, requests, self._budget_bytes(form), self._plan.workers,
            replace(self._host.machine, memory_bytes=memory_bytes, paging=Paging(), swap_bytes=swap_bytes),
            self._believed,
            self._host.wholes.get(form, {}),
        )  # fmt: skip
        return simulate(policy, case, stopped)

    def _budget_bytes(self, form: str) -> int:
        """Return the memory budget of tasks, computed as in a live run."""
        return self._left_bytes(self._host.taken_bytes(form), {})

    def _left_bytes(self, taken_bytes: int, least_bytes: Mapping[str, int]) -> int:
        charged = self._host.base_anonymous_bytes is not None
        return left_bytes(self._plan.limit_bytes, taken_bytes, least_bytes, charged=charged)
