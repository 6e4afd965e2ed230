"""Turns of ``edgetune schedule run`` for real: a process under a memory limit for each, and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.timeline import TimelineRow
from edgetune.cli.schedule_stdin import feeding
from edgetune.cli.schedule_turns import TurnResult
from edgetune.errors import DeviceError, PartialError

if TYPE_CHECKING:
    from types import TracebackType

    from edgetune.artifacts.jobs import Job
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.cli.schedule_networks import JobNetwork
    from edgetune.cli.schedule_policies import ChosenPolicy
    from edgetune.schedule.live_run import LiveFigures, LiveRun
    from edgetune.schedule.network import LayeredNetwork
    from edgetune.schedule.records import Record
    from edgetune.schedule.requests import Request
    from edgetune.schedule.verification import Verification
    from edgetune.workflows.stopping import Stopping


@dataclass(slots=True)
class LiveRunner(AbstractContextManager["LiveRunner"]):
    """Runs policies for real; a ``TurnRunner``, to be entered with ``with``.

    Args:
        known: The networks and their prepared folders.
        believed: What the runtime takes the networks for, by name.
        limit_bytes: Memory of the process that runs, everything included.
        workers: How many tasks run at a time.
        limit: ``auto``, ``cgroup`` or ``accounted``.
        swap_bytes: Of swap beside the limit; ``None`` for as much as the machine has.
        seed: Of the samples that networks are fed, and of the choice of networks for live arrivals.
        live: The job whose arrivals are lines of standard input; ``None`` where there is none.
        until_s: When those end, s; ``None`` with the input.
        rows: Where rows are kept as they come; ``None`` for memory alone.
    """

    known: Sequence[JobNetwork]
    believed: Mapping[str, LayeredNetwork]
    limit_bytes: int
    workers: int
    limit: str
    swap_bytes: int | None
    seed: int
    live: Job | None = None
    until_s: float | None = None
    rows: RowsFile | None = None
    _verification: Verification | None = field(default=None, init=False)

    def __enter__(self) -> LiveRunner:
        from edgetune.schedule.verification import Verification

        self._verification = Verification(seed=self.seed).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._verification is not None
        self._verification.__exit__(kind, error, trace)

    def run(self, policy: ChosenPolicy, turn: int, requests: Sequence[Request], stopping: Stopping) -> TurnResult:
        """Run one turn of a policy; rows of one that was killed at its limit are kept.

        Raises:
            InputError, InfeasibleError, DeviceError: it cannot be run so.
        """
        from edgetune.schedule.timeline import timeline_rows

        run = self._prepared(policy, requests)
        stopping.act = run.stop
        records: list[Record] = []
        failure = None
        fed = nullcontext() if self.live is None else feeding(run, self.live, (self.seed, turn), self.until_s)
        networks = self._networks(policy)
        try:
            with fed:
                for record in run.records():
                    if not records:
                        self._require_limit(run)
                    records.append(record)
                    self._keep(timeline_rows([record], networks, policy=policy.words, turn=turn))
        except PartialError as error:
            failure = error
            left = _unanswered(records, requests, error.message)
            self._keep(timeline_rows(left, networks, policy=policy.words, turn=turn))
            records += left
        rows = timeline_rows(records, networks, policy=policy.words, turn=turn)
        figures = run.figures
        rows.append(_counted(figures, policy.words, turn, max((row.finished_s for row in rows), default=0.0)))
        self._keep(rows[-1:])
        if self.rows is not None:
            self.rows.flush()
        return TurnResult(rows, _conditions(figures, _unverified(rows, figures)), failure)

    def rehearse(self, policy: ChosenPolicy, requests: Sequence[Request]) -> LiveFigures:
        """Return what the process takes before anything is loaded, and what is left of the limit; nothing is run.

        Raises:
            InputError, InfeasibleError, DeviceError: it cannot be run so.
        """
        return self._prepared(policy, requests).rehearse()

    def _prepared(self, policy: ChosenPolicy, requests: Sequence[Request]) -> LiveRun:
        from edgetune.schedule.live_run import LiveNetwork, LiveOptions, LiveRun

        assert self._verification is not None
        networks = [
            LiveNetwork(self.believed[each.network.name], each.prepared, each.inputs, each.handler)
            for each in self.known
            if each.prepared is not None
        ]
        options = LiveOptions(
            policy.name, self.limit_bytes, policy.options, policy.form, self.workers, self.swap_bytes,
            enforce=self.limit != "accounted", outside=self.live is not None,
        )  # fmt: skip
        return LiveRun(networks, requests, options, self._verification)

    def _require_limit(self, run: LiveRun) -> None:
        """Refuse a run that goes on without a control group where one was asked for."""
        if self.limit == "cgroup" and run.figures.enforced == "accounted":
            hint = "--limit auto runs it with the accounts of the runtime alone, and says so"
            raise DeviceError(f"no control group can limit memory here: {run.figures.reason}", hint)

    def _networks(self, policy: ChosenPolicy) -> dict[str, LayeredNetwork]:
        from edgetune.schedule.policies.policy import taken_by

        return taken_by(policy.make(), self.believed)

    def _keep(self, rows: Sequence[TimelineRow]) -> None:
        if self.rows is not None:
            for row in rows:
                self.rows.keep(row)


def _unanswered(records: Sequence[Record], requests: Sequence[Request], reason: str) -> list[Record]:
    """Return a record for every request that the process took with it when it was killed."""
    from edgetune.schedule.records import RequestRecord

    told = {each.request.number for each in records if isinstance(each, RequestRecord)}
    last_ns = max((_end_ns(record) for record in records), default=0)
    return [
        RequestRecord(each, "failed", None, max(last_ns, each.arrival_ns), reason)
        for each in requests
        if each.number not in told
    ]


def _end_ns(record: Record) -> int:
    from edgetune.schedule.records import BudgetRecord

    return record.at_ns if isinstance(record, BudgetRecord) else record.end_ns


def _counted(figures: LiveFigures, policy: str, turn: int, end_s: float) -> TimelineRow:
    """Return a row of what the system counted in a turn.

    The peak is that of the control group where there is one: it counts a page of a file once, however often it is
    mapped, which a resident set does not.
    """
    group = figures.group
    peak_bytes = figures.peak_bytes if group.peak_bytes is None else group.peak_bytes
    return TimelineRow(
        "memory", policy, end_s, turn, swap_bytes=group.swap_bytes, major_faults=group.major_faults,
        limit_hits=group.limit_hits, peak_bytes=peak_bytes,
    )  # fmt: skip


def _unverified(rows: Sequence[TimelineRow], figures: LiveFigures) -> list[str] | None:
    """Return the networks that were asked for and of which no answer was compared; ``None`` where there are none."""
    asked = {row.network for row in rows if row.event == "request" and row.network is not None}
    return sorted(asked - figures.differences.keys()) or None


def _conditions(figures: LiveFigures, unverified: list[str] | None) -> dict[str, Any]:
    told = {**asdict(figures), "differences": dict(figures.differences), "unverified": unverified}
    told["enforced_by"] = told.pop("enforced")
    told["not_enforced_for"] = told.pop("reason")
    return {name: value for name, value in told.items() if value is not None}


def host_conditions() -> dict[str, Any]:
    """Return what is known of the machine, whose processor runs the layers."""
    from edgetune.workflows.device_option import open_named

    device = open_named("host")
    return {**device.conditions, "device": device.name}


def enforced_by(policies: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Return by what memory was limited in all turns of all policies, and why not by the kernel, for the header."""
    turns = [turn for of in policies for turn in of if "enforced_by" in turn]
    if not turns:
        return {}
    weakest = next((turn for turn in turns if turn["enforced_by"] == "accounted"), turns[0])
    reason = weakest.get("not_enforced_for")
    return {"enforced_by": weakest["enforced_by"], **({} if reason is None else {"not_enforced_for": reason})}
