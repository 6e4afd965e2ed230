"""Runs the engines of ``edgetune interleave`` in turns: makes backends, runs their loops, and keeps the rows."""

import random
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace

from edgetune import limits
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import mean_minibatch_s
from edgetune.artifacts.rows_file import RowsFile
from edgetune.artifacts.run import RunRow
from edgetune.devices.device import Contention, ModelSource
from edgetune.errors import InputError
from edgetune.processes.families import without_collections
from edgetune.serving.clock import EventClock
from edgetune.serving.requests import ArrivalSource, LineArrivals
from edgetune.stages.interleave.backend import Engine, Inference, Tenant
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop, SharingOverhead, Watcher
from edgetune.stages.interleave.policies import POLICIES
from edgetune.stages.interleave.policies.policy import guard_ns
from edgetune.stages.interleave.simulated import SimulatedDevice, SimulatedMinibatchBackend, Slowdown, resampled
from edgetune.stages.roofline.measure import idle_run
from edgetune.stats import median, percentile
from edgetune.units import NS, format_duration, format_si
from edgetune.workflows.interleave.planning import InterleaveBackend, InterleaveJob, power_watcher, replanner
from edgetune.workflows.interleave.points import apply_mode
from edgetune.workflows.reporting import Stopping, noting_signals


class PointModel:
    """Times and power of every point for a simulation; a simulated device measures missing points when asked.

    Args:
        planned: The tenants and their rows.
    """

    def __init__(self, planned: InterleaveJob) -> None:
        self._device, self._planned, self._measure = planned.request.device, planned, planned.request.measure
        self._idle_w: dict[Mode, float] = {}

    def times_ns(self, name: str, batch_size: int, mode: Mode) -> Sequence[int]:
        """Return durations of minibatches, ns: all recorded ones, else the median.

        Raises:
            InputError: the point was not and cannot be measured.
        """
        row = self.row(name, batch_size, mode)
        steady = (row.times_s or ())[row.warmups or 0 :] or (mean_minibatch_s(row) or 0.0,)
        return [round(time_s * NS) for time_s in steady]

    def power_w(self, name: str | None, batch_size: int, mode: Mode) -> float:
        """Return the power of the device while a tenant runs, W; without a tenant, the idle power.

        Raises:
            InputError: power was not measured at that point.
        """
        if name is None:
            if mode not in self._idle_w:  # measured on a twin, else the least power of any workload
                run = idle_run(self._device, mode) if isinstance(self._device.source, ModelSource) else None
                known_w = [row.power_w for each in self._planned.known for row in each.rows if row.power_w is not None]
                self._idle_w[mode] = min(known_w) if run is None or run.power_w is None else run.power_w
            return self._idle_w[mode]
        power_w = self.row(name, batch_size, mode).power_w
        if power_w is None:
            raise InputError(f"the power of {name} at batch {batch_size} [{mode}] was not measured", "measure it first")
        return power_w

    def row(self, name: str, batch_size: int, mode: Mode) -> ProfileRow:
        """Return the row of a tenant's point.

        Raises:
            InputError: the point was not and cannot be measured.
        """
        known = next(known for known in self._planned.known if known.asked.name == name)
        point = Point(known.workload.name, known.asked.task, batch_size, mode)
        for row in known.rows:
            if row.point == point:
                return row
        measured = self._measure(point) if self._device.simulated else None
        if measured is None or measured.minibatch_s is None:
            raise InputError(f"{point} was not measured", "simulate what was measured, or name it with --profile")
        return measured


def note_of_probes(loop: InterleaveLoop, tenant: str, times_s: Sequence[float]) -> str:
    """Return what was learned of a training whose minibatches fit into no gap between answers in time."""
    steps = sum(row.event == "train" and row.tenant == tenant for row in loop.rows)
    planned, took = (format_si(time_s, "s") for time_s in (loop.tenant(tenant).minibatch_s, median(times_s)))
    return (
        f"{tenant}: a step, planned with {planned}, is too long for every gap; {len(times_s)} of {steps} were tried, "
        f"as the plan may overestimate it; one takes {took}"
    )


ROUNDING_NS = 1000
"""By how much a simulated minibatch may exceed its estimate, ns: recorded times are rounded."""
SAVE_EVERY_S = 60.0
"""Interval between checkpoints during a run, s: a power cut costs a minute at most."""


def slowdown_of(contention: Contention | None, tenants: Sequence[Tenant], seed: int) -> Slowdown:
    """Return the slowdown of pairs on a device with this contention; of equal time slices where it is not known.

    Two tenants with deadlines, or two without, have equal shares.
    """
    answers = {tenant.name for tenant in tenants if isinstance(tenant, Inference)}
    draw = random.Random(seed)

    def slowdown(tenant: str, other: str) -> float:
        if contention is None or (tenant in answers) == (other in answers):
            return 2.0
        return draw.choice(contention.urgent if tenant in answers else contention.background)

    return slowdown


@dataclass(slots=True)
class InterleaveResult:
    """The result of all turns.

    Args:
        rows: Of all engines.
        overhead: The cost of decisions and starts, by engine.
        notes: Notes for the terminal.
        lost: Workloads that crashed, hung or diverged in some turn.
        stopped_by: Number of the signal that ended the run early.
        failure: The error that ended it; raised again once the rows are written.
    """

    rows: list[RunRow] = field(default_factory=list)
    overhead: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    stopped_by: int | None = None
    failure: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Keeper(Watcher):
    """Writes rows to a file during the run."""

    rows: RowsFile

    def on_row(self, row: RunRow) -> None:
        """Keep the row."""
        self.rows.keep(row)


class Turns:
    """Runs engines on a device or in simulated time.

    Args:
        planned: The job; the caller restores the device's mode.
        rows: The file that keeps rows during the run; ``None`` keeps them in memory only.
    """

    def __init__(self, planned: InterleaveJob, rows: RowsFile | None = None) -> None:
        self._request, self._planned, self._rows = planned.request, planned, rows
        request = planned.request
        self._opts, self._device, self._reporter = request.opts, request.device, request.reporter
        self._outcome = InterleaveResult()
        self._stopping = Stopping()
        self._kept_of = next((engine for engine in request.engines if not engine.simulated), None)
        self._overheads: dict[str, list[SharingOverhead]] = {}

    def run(self) -> InterleaveResult:
        """Run the engines in alternation, the given number of turns; a signal stops them after the current minibatch.

        The result has all rows, also after an error or a signal.
        """
        try:
            with noting_signals(self._reporter, "the minibatch that runs") as self._stopping:
                for turn in range(self._opts.turns):
                    self._report_contention()
                    order = self._request.engines[:: -1 if turn % 2 else 1]
                    for engine in sorted(order, key=lambda engine: engine.simulated):
                        if self._stopping.number is None:
                            self._one(engine, turn)
        except BaseException as error:
            self._outcome.failure = error
        self._outcome.stopped_by = self._stopping.number
        return self._outcome

    def _report_contention(self) -> None:
        """Report how the simulated engines of the turn that begins have tenants slow each other down."""
        if len(self._planned.tenants) < 2 or self._stopping.number is not None:
            return
        for engine in self._request.engines:
            if engine.simulated and not POLICIES.find(self._opts.policy or engine.policy).lines_up:
                known = self._device.contention.get(engine.shares)
                source = "equal time slices, for no pair was measured" if known is None else known.source
                self._reporter.info(f"contention of {engine.name}: {source}")

    def _one(self, engine: Engine, turn: int) -> None:
        named = f"{engine.name}, turn {turn + 1}" if turn else engine.name
        self._reporter.info(f"{named}: {format_duration(self._request.duration_s)}")
        with ExitStack() as stack:
            if engine.simulated:
                self._loop(engine, turn, self._simulated_backend(engine), stack)
            else:
                self._live(engine, turn, stack)

    def _simulated_backend(self, engine: Engine) -> SimulatedMinibatchBackend:
        planned = self._planned
        model = PointModel(planned)
        durations = resampled(model.times_ns, self._opts.seed)
        slowdown = slowdown_of(self._device.contention.get(engine.shares), planned.tenants, self._opts.seed)
        measured = [model.row(each.name, each.batch_size, planned.mode).power_w for each in planned.tenants]
        power_w = None if None in measured else model.power_w
        device = SimulatedDevice(durations, mode=planned.mode, power_w=power_w, slowdown=slowdown)
        return SimulatedMinibatchBackend(EventClock(), planned.tenants, device)

    def _guard_ns(self) -> int:
        """Return the safety margin before deadlines, ns; on a simulated device only for rounding."""
        if self._device.simulated:
            return ROUNDING_NS
        return guard_ns([each.latency_budget_s for each in self._planned.tenants if isinstance(each, Inference)])

    def _live(self, engine: Engine, turn: int, stack: ExitStack) -> None:
        tenants = [known.live(t) for t, known in zip(self._planned.tenants, self._planned.known, strict=True)]
        if engine != self._kept_of:  # only the first engine saves checkpoints, so that all engines begin alike
            tenants = [replace(live, checkpoint=None) for live in tenants]
        backend = LiveMinibatchBackend(
            engine.name, self._device, tenants, save_every_s=SAVE_EVERY_S, seed=self._opts.seed
        )
        stack.callback(backend.close)
        apply_mode(backend, self._device, self._planned.mode)
        if self._opts.adapt:  # every known batch size is loaded, because loading during the run would delay requests
            tenant = self._planned.tenants[0]
            others = {row.batch_size for row in self._planned.known[0].rows} - {tenant.batch_size}
            for size in (*sorted(others), tenant.batch_size):
                backend.prepare(tenant.name, size)
        self._loop(engine, turn, backend, stack)
        for tenant in self._planned.tenants:  # its last words, where it crashed
            for line in backend.log_tail(tenant.name).splitlines():
                self._reporter.detail(f"{tenant.name}: {line}")
        self._hand_back(backend)

    def _loop(self, engine: Engine, turn: int, backend: InterleaveBackend, stack: ExitStack) -> None:
        policy = POLICIES.find(self._opts.policy or engine.policy)(guard_ns=self._guard_ns())
        power = power_watcher(self._planned, backend, stack)
        made = [*([] if power is None else [power]), *([replanner(self._planned)] if self._opts.adapt else [])]
        begin_ns = backend.now_ns()  # requests arrive from now on: what takes long is done
        end_ns = begin_ns + round(self._request.duration_s * NS)
        watchers = [*(make(begin_ns) for make in made), *([] if self._rows is None else [Keeper(self._rows)])]
        sources = self._sources(begin_ns, end_ns, turn)
        if isinstance(backend, LiveMinibatchBackend):
            backend.listen({name: source for name, source in sources.items() if isinstance(source, LineArrivals)})
        ending = EngineTurn(engine.name, end_ns, turn, lambda: self._stopping.number is not None, begin_ns)
        loop = InterleaveLoop(ending, backend, policy, self._planned.tenants, sources, watchers=watchers)
        live = isinstance(backend, LiveMinibatchBackend)
        timing = self._reporter.timing(engine.name, self._request.duration_s) if live else nullcontext()
        try:
            with without_collections(), timing:  # rows are many and long-lived: looking through them holds requests up
                loop.run()
        finally:
            self._outcome.rows += loop.rows
            if self._rows is not None:
                self._rows.flush()
            self._outcome.lost |= set(loop.lost)
        self._outcome.notes += [
            f"{name}: {limits.limit('requests')} requests waited, as many as the limit requests allows; "
            "the lines behind them waited in standard input, and count as arrived later"
            for name, source in sources.items()
            if isinstance(source, LineArrivals) and source.was_full
        ]
        self._outcome.notes += [note_of_probes(loop, name, times_s) for name, times_s in loop.probed.items()]
        self._keep_overhead(engine.name, loop)

    def _sources(self, begin_ns: int, end_ns: int, turn: int) -> dict[str, ArrivalSource]:
        """Return the requests of every tenant; every engine gets the same requests in a turn."""
        sizes = {tenant.name: tenant.batch_size for tenant in self._planned.tenants}
        return {
            name: spec.source(begin_ns, end_ns, (self._opts.seed, turn, place), sizes[name])
            for place, (name, spec) in enumerate(sorted(self._request.specs.items()))
        }

    def _hand_back(self, backend: LiveMinibatchBackend) -> None:
        unkept = [k.asked.name for k in self._planned.known if k.asked.task == "train" and k.asked.checkpoint is None]
        if unkept and not self._outcome.notes:
            self._outcome.notes.append(f"the training of {', '.join(unkept)} is not saved; --checkpoint FILE saves it")
        for saved in backend.save():
            if saved.failure is not None:
                self._outcome.notes.append(f"{saved.tenant}: not saved: {saved.failure}")
            else:
                self._outcome.notes.append(f"{saved.tenant}: {saved.steps} steps of training are in {saved.path}")

    def _keep_overhead(self, engine: str, loop: InterleaveLoop) -> None:
        """Record the cost of sharing in all completed turns of an engine."""
        turns = self._overheads.setdefault(engine, [])
        turns.append(loop.overhead)
        decisions_s = [decision_s for turn in turns for decision_s in turn.decisions_s]
        if not decisions_s:
            return
        self._outcome.overhead[engine] = {
            "decisions": float(len(decisions_s)),
            "decision_median_s": median(decisions_s),
            "decision_p99_s": percentile(decisions_s, 99),
            "gaps_s": sum(turn.gaps_s for turn in turns),
            "minibatches": float(sum(turn.minibatches for turn in turns)),
        }
