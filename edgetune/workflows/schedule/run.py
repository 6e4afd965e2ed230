"""Runs the jobs of ``edgetune schedule run`` in turns: from its plan to a written timeline.

A turn is simulated, or a process under a memory limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from edgetune.artifacts import timeline as timelines
from edgetune.artifacts.header import Header
from edgetune.artifacts.output_file import scratch_folder
from edgetune.artifacts.rows_file import RowsFile
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import DeviceError, EdgetuneError, PartialError
from edgetune.stages.schedule.budget import left_bytes
from edgetune.stages.schedule.costs import SAFETY
from edgetune.stages.schedule.live_run import LiveNetwork, LiveOptions, LiveRun
from edgetune.stages.schedule.network import least_budget_bytes
from edgetune.stages.schedule.policies import PolicyChoice
from edgetune.stages.schedule.policies.policy import taken_by
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import BudgetRecord, Paging, Record, RequestRecord
from edgetune.stages.schedule.timeline import timeline_rows
from edgetune.units import NS, format_bytes, format_duration
from edgetune.workflows.device_option import open_named, warn_of_host_load
from edgetune.workflows.output import FinishedRun, keep_rows, write_run
from edgetune.workflows.reporting import OnAdvance, Reporter, SimulationLabel, Stopping, noting_signals
from edgetune.workflows.schedule.options import ScheduleOptions
from edgetune.workflows.schedule.plan import SchedulePlan, plan_schedule, planned


def schedule(opts: ScheduleOptions, reporter: Reporter) -> FinishedRun[Timeline]:
    """Run every policy in turn and write the timeline.

    Raises:
        InputError, InfeasibleError, DeviceError: an option or the jobs are invalid, or nothing could run.
    """
    plan = plan_schedule(opts, reporter)
    plan.requests(0)
    SimulationLabel(opts.simulate, reporter).announce()
    if not opts.simulate:
        warn_of_host_load(reporter)
    rows = keep_rows(plan.target, lambda: timeline_of(plan, ScheduleResult()), TimelineRow, reporter)
    with _runner(plan, rows) as runner:
        outcome = run_turns(plan, runner, reporter, rows)
    failure = outcome.failure
    if failure is not None and not outcome.rows:
        if rows is not None:
            (rows.finish if rows.kept else rows.discard)()
        raise failure
    timeline = timeline_of(plan, outcome)
    try:
        write_run(plan.target, timeline, rows, reporter)
    except (EdgetuneError, OSError) as error:  # a full disk: the figures at least are shown
        failure = failure or error
    for policy, lost in outcome.lost.items():
        reporter.info(f"{policy}: {lost.message}")
    return FinishedRun(timeline, plan.target, outcome.lost, outcome.stopped_by, failure)


def dry_run(opts: ScheduleOptions, reporter: Reporter) -> Iterator[str]:
    """Say the costs of every network, the requests and policies, and the memory of the process of each form.

    Raises:
        InputError, InfeasibleError, DeviceError: the run would be refused.
    """
    plan = plan_schedule(opts, reporter)
    requests, limit = plan.requests(0), format_bytes(plan.limit_bytes)
    for each in plan.scenario.known:
        network, least = each.network, least_budget_bytes(each.network)
        alone = f", {format_duration(network.service_s)} alone" if each.timed else ""
        yield (
            f"{network.name}: {len(network.layers)} layers, {format_bytes(network.weight_bytes)} of weights{alone}; "
            f"runs in {format_bytes(least)}, layer by layer"
        )
    last_s = max((request.arrival_ns for request in requests), default=0) / NS
    yield f"{len(requests)} requests, the last after {format_duration(last_s)}; {limit}"
    turns = f", {opts.turns} turns each" if opts.turns > 1 else ""
    names = ", ".join(policy.words for policy in plan.policies)
    yield f"{names}{turns}, {'simulated' if opts.simulate else 'for real'}"
    with _runner(plan) as runner:
        for policy in {policy.form: policy for policy in reversed(plan.policies)}.values():
            if taken_bytes := runner.taken_bytes(policy, requests):
                layers = policy.form == "layers"
                what = "ONNX Runtime and the sessions of all layers take" if layers else "ONNX Runtime takes"
                yield f"{policy.words}: {what} {format_bytes(taken_bytes)} of {limit} before anything is loaded"


@contextmanager
def _runner(plan: SchedulePlan, rows: RowsFile | None = None) -> Iterator[SimulatedRunner | LiveRunner]:
    if plan.opts.simulate:
        yield SimulatedRunner(plan)
    else:
        with scratch_folder() as root:
            yield LiveRunner(plan, RunInputs(root, seed=plan.seed), rows)


def timeline_of(plan: SchedulePlan, outcome: ScheduleResult) -> Timeline:
    """Return the timeline of all turns, with its inputs and conditions."""
    networks = [
        {
            "name": each.network.name,
            **each.origin,
            "layers": len(each.network.layers),
            "weight_bytes": each.network.weight_bytes,
            **({"service_s": each.network.service_s} if each.timed else {}),
        }
        for each in plan.scenario.known
    ]
    if plan.opts.simulate:  # the machine is the one that has measured the layers
        machine = {} if plan.scenario.device is None else {"device": plan.scenario.device}
    else:
        device = open_named("host")
        machine = {**device.conditions, "device": device.name}
    turns = [turn for of in outcome.conditions.values() for turn in of if "enforced_by" in turn]
    weakest = next((turn for turn in turns if turn["enforced_by"] == "accounted"), turns[0] if turns else {})
    shared = {
        "simulated": plan.opts.simulate, **machine, "limit_bytes": plan.limit_bytes, "workers": plan.workers,
        "safety": SAFETY, "policies": outcome.conditions,
        **{name: weakest[name] for name in ("enforced_by", "not_enforced_for") if name in weakest},
        "turns": plan.opts.turns, "seed": plan.seed,
    }  # fmt: skip
    inputs = {"jobs": plan.opts.jobs, "networks": networks}
    header = Header.new(timelines.KIND, timelines.VERSION, inputs=inputs, conditions=shared)
    return Timeline(header, tuple(outcome.rows))


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
    plan: SchedulePlan, runner: SimulatedRunner | LiveRunner, reporter: Reporter, rows: RowsFile | None
) -> ScheduleResult:
    """Run the policies in alternation, on the same requests in each turn; a signal stops the run in order.

    Every second turn runs the policies in reverse order, so that a drift of the machine favours none.

    Args:
        plan: The plan to run.
        runner: Runs one turn.
        reporter: Receives progress.
        rows: The file that keeps rows turn by turn; ``None`` without one.
    """
    outcome, turns = ScheduleResult(), plan.opts.turns
    try:
        with noting_signals(reporter, "the tasks that run") as stopping:
            for turn in range(turns):
                requests = plan.requests(turn)
                for policy in plan.policies[:: -1 if turn % 2 else 1]:
                    if stopping.number is None:
                        reporter.info(f"{policy.words}, turn {turn + 1}" if turns > 1 else policy.words)
                        total = None if plan.opts.simulate else len(requests)  # a simulation takes moments
                        with reporter.bar(policy.words, total) as advance:
                            ran = runner.run(policy, turn, requests, stopping, advance)
                        if plan.opts.simulate:
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
    last_ns = max((each.at_ns if isinstance(each, BudgetRecord) else each.end_ns for each in records), default=0)
    return [
        RequestRecord(each, "failed", None, max(last_ns, each.arrival_ns), reason)
        for each in requests
        if each.number not in recorded
    ]


class SimulatedRunner:
    """Runs policies in simulated time.

    Memory above the limit costs paging time. The budget of tasks is the limit less the memory of the process itself, if
    that was measured.

    Args:
        plan: The plan to run.
    """

    def __init__(self, plan: SchedulePlan) -> None:
        self._plan, self._networks, self._believed = plan, plan.networks, plan.believed
        self._host = plan.host

    def run(
        self, policy: PolicyChoice, turn: int, requests: Sequence[Request], stopping: Stopping,
        advance: OnAdvance | None = None,  # noqa: ARG002
    ) -> TurnResult:  # fmt: skip
        """Run one turn of a policy in simulated time."""
        taken_bytes, plan, host = self.taken_bytes(policy, requests), self._plan, self._host
        budget_bytes, told = self._left_bytes(taken_bytes, {}), dict[str, Any]()
        if policy.policy.plans_ahead:
            found = planned(plan, policy, requests, budget_bytes)
            made = policy.make(plan=found)
            told["plan"] = {
                "objective": found.objective, "value_s": found.value_ns / NS, "bound_s": found.bound_ns / NS,
                "proved": found.proved, "took_s": found.took_s,
            }  # fmt: skip
        else:
            made = policy.make()
        swap_bytes = host.machine.swap_bytes if plan.swap_bytes is None else plan.swap_bytes
        if policy.form == "external":
            swap_bytes = None  # its weights are pages of files, which a network put together from layers does not say
        memory_bytes = plan.limit_bytes - taken_bytes
        machine = replace(host.machine, memory_bytes=memory_bytes, paging=Paging(), swap_bytes=swap_bytes)
        case = SimulationCase(self._networks, requests, budget_bytes, plan.workers, machine, self._believed)
        done = simulate(made, case, lambda: stopping.number is not None)
        records = list(done.records)
        told |= {"decisions": done.overhead.decisions, "decisions_s": done.overhead.decisions_s}
        if done.killed is not None:
            records += unanswered(records, requests, done.killed.message)
            told["killed"] = {"at_s": done.killed.at_ns / NS, "bytes": done.peak_bytes}
        rows = timeline_rows(records, done.networks, policy=policy.words, turn=turn)
        if taken_bytes:
            end_s = max((row.finished_s for row in rows), default=0.0)
            rows.append(TimelineRow("memory", policy.words, end_s, turn, peak_bytes=taken_bytes + done.peak_bytes))
        return TurnResult(rows, told, done.killed)

    def taken_bytes(self, policy: PolicyChoice, requests: Sequence[Request]) -> int:
        """Return the memory of the process itself, after checking that the rest of the limit suffices; 0 if unknown.

        Raises:
            InfeasibleError: the rest of the limit is too small for a requested network.
        """
        taken_bytes = self._host.taken_bytes(policy.form)
        asked = set() if policy.policy.whole else {request.network for request in requests}
        self._left_bytes(taken_bytes, {name: least_budget_bytes(self._believed[name]) for name in asked})
        return taken_bytes

    def _left_bytes(self, taken_bytes: int, least_bytes: Mapping[str, int]) -> int:
        """Return the memory budget of tasks, computed as in a live run."""
        charged = self._host.base_anonymous_bytes is not None
        return left_bytes(self._plan.limit_bytes, taken_bytes, least_bytes, charged=charged)


class LiveRunner:
    """Runs policies live, each turn in a process under the memory limit.

    Args:
        plan: The plan to run.
        inputs: The samples of its networks.
        rows: The file that keeps rows during the run; ``None`` keeps them in memory only.
    """

    def __init__(self, plan: SchedulePlan, inputs: RunInputs, rows: RowsFile | None = None) -> None:
        self._plan, self._inputs, self._rows, self._believed = plan, inputs, rows, plan.believed

    def run(
        self, policy: PolicyChoice, turn: int, requests: Sequence[Request], stopping: Stopping,
        advance: OnAdvance | None = None,
    ) -> TurnResult:  # fmt: skip
        """Run one turn of a policy; keep the rows of a turn killed at its memory limit.

        Raises:
            InputError, InfeasibleError, DeviceError: the plan cannot run.
        """
        run = self._run_of(policy, requests)
        stopping.act = run.stop
        records, failure, killed_s = list[Record](), None, 0.0
        networks = taken_by(policy.make(), self._believed)

        def rows_of(some: Sequence[Record]) -> list[TimelineRow]:
            return timeline_rows(some, networks, policy=policy.words, turn=turn)

        try:
            for record in run.records():
                if not records and self._plan.opts.limit == "cgroup" and run.figures.enforced_by == "accounted":
                    message = f"no control group can limit memory here: {run.figures.not_enforced_for}"
                    raise DeviceError(message, "--limit auto has the runtime account it alone, and says so")
                records.append(record)
                if advance is not None and isinstance(record, RequestRecord):
                    advance(1, policy.words)
                keep(self._rows, rows_of([record]), flush=False)
        except PartialError as error:
            failure, killed_s = error, max((row.finished_s for row in rows_of(records)), default=0.0)
            left = unanswered(records, requests, error.message)
            keep(self._rows, rows_of(left), flush=False)
            records += left
        rows, figures = rows_of(records), run.figures
        # the peak of a control group counts a file's page once for all its mappings; a resident set does not
        group, end_s = figures.group, max((row.finished_s for row in rows), default=0.0)
        peak_bytes = figures.peak_bytes if group.peak_bytes is None else group.peak_bytes
        counted = TimelineRow(
            "memory", policy.words, end_s, turn, swap_bytes=group.swap_bytes, major_faults=group.major_faults,
            limit_hits=group.limit_hits, peak_bytes=peak_bytes,
        )  # fmt: skip
        keep(self._rows, [counted])
        conditions = {name: value for name, value in asdict(figures).items() if value is not None}
        if failure is not None:
            conditions["killed"] = {"at_s": killed_s, "bytes": peak_bytes}
        return TurnResult([*rows, counted], conditions, failure)

    def taken_bytes(self, policy: PolicyChoice, requests: Sequence[Request]) -> int:
        """Return the memory of the process before any network is loaded; no network is run.

        Raises:
            InputError, InfeasibleError, DeviceError: the plan cannot run.
        """
        return self._run_of(policy, requests).rehearse().base_bytes or 0

    def _run_of(self, policy: PolicyChoice, requests: Sequence[Request]) -> LiveRun:
        plan = self._plan
        networks = [
            LiveNetwork(self._believed[each.network.name], each.prepared, each.inputs)
            for each in plan.scenario.known
            if each.prepared is not None
        ]
        options = LiveOptions(
            policy.name, plan.limit_bytes, policy.options, policy.form, plan.workers, plan.swap_bytes,
            enforce=plan.opts.limit != "accounted",
        )  # fmt: skip
        return LiveRun(networks, requests, options, self._inputs)
