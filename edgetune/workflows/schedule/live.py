"""Live turns of ``edgetune schedule run``: runs each turn in a process under a memory limit, and returns its rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from edgetune.artifacts.rows_file import RowsFile
from edgetune.artifacts.timeline import TimelineRow
from edgetune.errors import DeviceError, PartialError
from edgetune.stages.schedule.budget import UNSTEADY_BYTES
from edgetune.stages.schedule.live_run import LiveFigures, LiveNetwork, LiveOptions, LiveRun
from edgetune.stages.schedule.plan import LayerSchedule
from edgetune.stages.schedule.policies import PolicyChoice
from edgetune.stages.schedule.policies.policy import taken_by
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.stages.schedule.tasks import Record, RequestRecord
from edgetune.stages.schedule.timeline import timeline_rows
from edgetune.workflows.reporting import OnAdvance, Stopping
from edgetune.workflows.schedule.plan import SchedulePlan, plan_figures, planned
from edgetune.workflows.schedule.turns import TurnResult, keep, unanswered


class LiveRunner:
    """Runs policies live; a ``TurnRunner``.

    Args:
        plan: The plan to run.
        inputs: The samples of its networks.
        rows: The file that keeps rows during the run; ``None`` keeps them in memory only.
    """

    def __init__(self, plan: SchedulePlan, inputs: RunInputs, rows: RowsFile | None = None) -> None:
        self._plan, self._inputs, self._rows, self._believed = plan, inputs, rows, plan.believed
        self._plans: dict[tuple[str, tuple[Request, ...]], LayerSchedule] = {}
        """By policy and requests: a search takes long."""

    def total(self, requests: Sequence[Request]) -> int | None:
        """See ``TurnRunner``."""
        return len(requests)

    def run(
        self, policy: PolicyChoice, turn: int, requests: Sequence[Request], stopping: Stopping,
        advance: OnAdvance | None = None,
    ) -> TurnResult:  # fmt: skip
        """Run one turn of a policy; keep the rows of a turn killed at its memory limit.

        Raises:
            InputError, InfeasibleError, DeviceError: the plan cannot run.
        """
        found = self._planned(policy, requests)
        run = self._run_of(policy, requests, found)
        stopping.act = run.stop
        records: list[Record] = []
        failure, killed_s = None, 0.0
        networks = taken_by(policy.make(), self._believed)

        def rows_of(some: Sequence[Record]) -> list[TimelineRow]:
            return timeline_rows(some, networks, policy=policy.words, turn=turn)

        try:
            for record in run.records():
                if not records:
                    self._require_limit(run)
                records.append(record)
                if advance is not None and isinstance(record, RequestRecord):
                    advance(1, policy.words)
                keep(self._rows, rows_of([record]), flush=False)
        except PartialError as error:
            failure = error
            killed_s = max((row.finished_s for row in rows_of(records)), default=0.0)
            left = unanswered(records, requests, error.message)
            keep(self._rows, rows_of(left), flush=False)
            records += left
        rows, figures = rows_of(records), run.figures
        rows.append(_counted(figures, policy.words, turn, max((row.finished_s for row in rows), default=0.0)))
        keep(self._rows, rows[-1:])
        conditions = _conditions(figures)
        if failure is not None:
            conditions["killed"] = {"at_s": killed_s, "bytes": rows[-1].peak_bytes}
        if found is not None:
            conditions["plan"] = plan_figures(found)
        return TurnResult(rows, conditions, failure)

    def _planned(self, policy: PolicyChoice, requests: Sequence[Request]) -> LayerSchedule | None:
        """Return the schedule to follow, made before the clock starts; ``None`` for a policy that follows none."""
        if not policy.policy.plans_ahead or not requests:
            return None
        which = (policy.words, tuple(requests))
        if which not in self._plans:
            budget_bytes = self._run_of(policy, requests).rehearse().budget_bytes or self._plan.limit_bytes
            self._plans[which] = planned(self._plan, policy, requests, budget_bytes - UNSTEADY_BYTES)
        return self._plans[which]

    def taken_bytes(self, policy: PolicyChoice, requests: Sequence[Request]) -> int:
        """Return the memory of the process before any network is loaded; no network and no handler's code is run.

        Raises:
            InputError, InfeasibleError, DeviceError: the plan cannot run.
        """
        return self._run_of(policy, requests, handled=False).rehearse().base_bytes or 0

    def _run_of(
        self,
        policy: PolicyChoice,
        requests: Sequence[Request],
        found: LayerSchedule | None = None,
        *,
        handled: bool = True,
    ) -> LiveRun:
        plan = self._plan
        networks = [
            LiveNetwork(
                self._believed[each.network.name], each.prepared, each.inputs, each.handler if handled else None
            )
            for each in plan.known
            if each.prepared is not None
        ]
        options = LiveOptions(
            policy.name, plan.limit_bytes, policy.options, policy.form, plan.workers, plan.swap_bytes,
            enforce=plan.opts.limit != "accounted", plan=found,
        )  # fmt: skip
        return LiveRun(networks, requests, options, self._inputs)

    def _require_limit(self, run: LiveRun) -> None:
        """Refuse a run without a control group if one was requested."""
        if self._plan.opts.limit == "cgroup" and run.figures.enforced == "accounted":
            hint = "--limit auto runs it with the accounts of the runtime alone, and says so"
            raise DeviceError(f"no control group can limit memory here: {run.figures.reason}", hint)


def _counted(figures: LiveFigures, policy: str, turn: int, end_s: float) -> TimelineRow:
    """Return the row of the system's memory counts of a turn.

    The peak is that of the control group if there is one, which counts a file's page once for all its mappings; a
    resident set does not.
    """
    group = figures.group
    peak_bytes = figures.peak_bytes if group.peak_bytes is None else group.peak_bytes
    return TimelineRow(
        "memory", policy, end_s, turn, swap_bytes=group.swap_bytes, major_faults=group.major_faults,
        limit_hits=group.limit_hits, peak_bytes=peak_bytes,
    )  # fmt: skip


def _conditions(figures: LiveFigures) -> dict[str, Any]:
    """Return the figures of a turn."""
    told = asdict(figures)
    told["enforced_by"] = told.pop("enforced")
    told["not_enforced_for"] = told.pop("reason")
    return {name: value for name, value in told.items() if value is not None}


def enforced_by(policies: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Return, for the header, the mechanism that limited memory in all turns, and the reason if not the kernel."""
    turns = [turn for of in policies for turn in of if "enforced_by" in turn]
    if not turns:
        return {}
    weakest = next((turn for turn in turns if turn["enforced_by"] == "accounted"), turns[0])
    reason = weakest.get("not_enforced_for")
    return {"enforced_by": weakest["enforced_by"], **({} if reason is None else {"not_enforced_for": reason})}
