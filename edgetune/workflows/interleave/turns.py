"""The engines of ``edgetune interleave``, in turns: stages made, loops run, what came of them kept."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.run import Engine, RunRow
from edgetune.cli.screen import Screen
from edgetune.stats import median, percentile
from edgetune.units import NS, format_duration
from edgetune.workflows.stopping import Stopping, noting_signals

if TYPE_CHECKING:
    from edgetune.artifacts.rows_file import RowsFile
    from edgetune.devices.device import Device
    from edgetune.interleave.live import LiveMinibatchBackend
    from edgetune.interleave.loop import InterleaveLoop, SharingOverhead, Watcher
    from edgetune.interleave.recorded import RecordedRun
    from edgetune.interleave.simulated import SimulatedMinibatchBackend
    from edgetune.interleave.snapshot import InterleavePolicy
    from edgetune.serving.sources import ArrivalSource
    from edgetune.workflows.interleave.options import InterleaveJob
    from edgetune.workflows.interleave.points import Measuring

ROUNDING_NS = 1000
"""What simulated minibatches may take more than they are estimated to: recorded times are rounded."""
SAVE_EVERY_S = 60.0
"""How often what was learnt is written during a run: a minute is what a power cut may cost."""


@dataclass(slots=True)
class InterleaveResult:
    """What came of all turns.

    Args:
        rows: Of all engines.
        overhead: What deciding and starting cost, by engine.
        notes: For people.
        lost: Workloads that crashed, hung or diverged in some turn.
        stopped_by: Number of the signal that ended the run early.
        failure: What ended it, other than that: raised again once the rows are written.
    """

    rows: list[RunRow] = field(default_factory=list)
    overhead: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    stopped_by: int | None = None
    failure: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Keeper:
    """Keeps rows as they come; a ``Watcher``. The loop tells it of them while the device is at work.

    Args:
        rows: Where.
    """

    rows: RowsFile

    def due_ns(self) -> int | None:
        """Never look: rows come by themselves."""
        return None

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Do nothing."""

    def on_arrival(self, tenant: str, at_ns: int) -> None:
        """Do nothing: a request becomes a row when it is answered."""

    def on_row(self, row: RunRow) -> None:
        """Keep the row."""
        self.rows.keep(row)


class Turns:
    """Runs engines on a device, or on the clock.

    Args:
        device: Where; its mode is put back by the caller.
        planned: What.
        measure: Measures a point of a device that is simulated, when the simulation needs it.
        duration_s: Of one turn.
        seed: The same seed gives the same requests.
        adapt: Follow changing rates.
        govern: Keep power within its budget.
        screen: For progress.
        rows: Where rows are kept as they come; ``None`` for memory alone.
    """

    def __init__(
        self,
        device: Device,
        planned: InterleaveJob,
        measure: Measuring,
        *,
        duration_s: float,
        seed: int,
        adapt: bool,
        govern: bool,
        screen: Screen,
        rows: RowsFile | None = None,
    ) -> None:
        self._rows = rows
        self._device, self._planned, self._measure = device, planned, measure
        self._duration_s, self._seed, self._adapt, self._govern = duration_s, seed, adapt, govern
        self._screen = screen
        self._outcome = InterleaveResult()
        self._stopping = Stopping()
        self._kept_of: Engine | None = None
        self._records = False
        """Whether a managed run is written down for a simulation: of one mode and the same batch sizes throughout."""
        self._overheads: dict[Engine, list[SharingOverhead]] = {}
        self._recorded: RecordedRun | None = None
        """What the last managed run took."""

    def run(self, engines: Sequence[Engine], turns: int) -> InterleaveResult:
        """Run every engine so often, in alternation; a signal ends it after the minibatch that runs.

        The simulation comes last in every turn: it is made of what the managed run took, where there was one. Whatever
        else ends it, what ran before is in the outcome.
        """
        self._records = "simulated" in engines and not (self._adapt or self._govern)
        self._kept_of = next((engine for engine in engines if engine != "simulated"), None)
        try:
            with noting_signals(self._screen, "the minibatch that runs") as self._stopping:
                for turn in range(turns):
                    for engine in sorted(engines[:: -1 if turn % 2 else 1], key=lambda engine: engine == "simulated"):
                        if self._stopping.number is None:
                            self._one(engine, turn)
        except BaseException as error:
            self._outcome.failure = error
        self._outcome.stopped_by = self._stopping.number
        return self._outcome

    def _one(self, engine: Engine, turn: int) -> None:
        named = f"{engine}, turn {turn + 1}" if turn else engine
        if engine == "simulated" and self._recorded is not None:
            named += ", from the times of the managed run"
        self._screen.info(f"{named}: {format_duration(self._duration_s)}")
        if engine == "simulated":
            self._simulate(turn)
        else:
            self._live(engine, turn)

    def _simulate(self, turn: int) -> None:
        from edgetune.interleave.policies.managed import Managed
        from edgetune.interleave.simulated import SimulatedMinibatchBackend, resampled
        from edgetune.serving.clock import EventClock
        from edgetune.workflows.interleave.engines import PointModel

        model, clock, recorded = PointModel(self._device, self._planned, self._measure), EventClock(), self._recorded
        measured = resampled(model.times_ns, self._seed)
        backend = SimulatedMinibatchBackend(
            clock, self._planned.tenants, measured if recorded is None else recorded.durations(clock, measured),
            overhead_ns=self._start_ns() if recorded is None else recorded.overhead(clock),
            mode=self._planned.mode, power_w=model.power_w if model.knows_power else None,
        )  # fmt: skip
        watchers = self._watchers(backend)
        self._loop("simulated", turn, backend, Managed(guard_ns=self._guard_ns()), watchers)

    def _guard_ns(self) -> int:
        """Return how long before they are due answers are to be there, ns; computed times are never a surprise."""
        from edgetune.interleave.policies.policy import guard_ns
        from edgetune.interleave.tenants import Inference

        if self._device.simulated:
            return ROUNDING_NS
        return guard_ns([each.latency_budget_s for each in self._planned.tenants if isinstance(each, Inference)])

    def _start_ns(self) -> int:
        """Return what starting a minibatch costs, ns: what managed lost here, nothing where it did not run."""
        lost = self._outcome.overhead.get("managed")
        return 0 if lost is None else round(lost["gaps_s"] / max(lost["minibatches"], 1) * NS)

    def _live(self, engine: Engine, turn: int) -> None:
        from edgetune.interleave.live import LiveMinibatchBackend
        from edgetune.interleave.policies import find_policy
        from edgetune.workflows.interleave.shared_points import apply_mode

        with ExitStack() as stack:
            backend = LiveMinibatchBackend(
                engine, self._device, self._live_tenants(engine), save_every_s=SAVE_EVERY_S, seed=self._seed
            )
            stack.callback(backend.close)
            apply_mode(backend, self._device, self._planned.mode)
            if self._adapt:
                self._hold_ready(backend)
            policy = find_policy("managed" if engine == "managed" else "native")(guard_ns=self._guard_ns())
            watchers = self._watchers(backend, stack)
            self._loop(engine, turn, backend, policy, watchers)
            self._report_output(backend)
            self._hand_back(backend)

    def _hold_ready(self, backend: LiveMinibatchBackend) -> None:
        """Load the network that answers at every batch size known: loading one in the run would make requests late."""
        tenant, known = self._planned.tenants[0], self._planned.known[0]
        for size in sorted({row.batch_size for row in known.rows} - {tenant.batch_size}):
            backend.prepare(tenant.name, size)
        backend.prepare(tenant.name, tenant.batch_size)

    def _loop(
        self,
        engine: Engine,
        turn: int,
        backend: LiveMinibatchBackend | SimulatedMinibatchBackend,
        policy: InterleavePolicy,
        watchers: Sequence[Watcher],
    ) -> None:
        from edgetune.interleave.live import LiveMinibatchBackend
        from edgetune.interleave.loop import InterleaveLoop
        from edgetune.interleave.recorded import Recorder
        from edgetune.serving.sources import LineArrivals

        begin_ns = backend.now_ns()
        end_ns = begin_ns + round(self._duration_s * NS)
        sources = self._sources(begin_ns, end_ns, turn)
        if isinstance(backend, LiveMinibatchBackend):
            backend.listen({name: source for name, source in sources.items() if isinstance(source, LineArrivals)})
        watchers = [*watchers, *([] if self._rows is None else [Keeper(self._rows)])]
        recorder = Recorder(backend) if engine == "managed" and self._records else None
        loop = InterleaveLoop(
            engine, recorder or backend, policy, self._planned.tenants, sources, end_ns=end_ns, watchers=watchers,
            turn=turn, stopped=lambda: self._stopping.number is not None,
        )  # fmt: skip
        collecting = gc.isenabled()
        gc.disable()  # rows are many and long-lived: looking through them all would hold requests up
        try:
            loop.run()
        finally:
            if collecting:
                gc.enable()
            self._outcome.rows += loop.rows
            if self._rows is not None:
                self._rows.flush()
            self._outcome.lost |= set(loop.lost)
        self._keep_overhead(engine, loop)
        self._recorded = self._recorded if recorder is None else recorder.recorded()

    def _sources(self, begin_ns: int, end_ns: int, turn: int) -> dict[str, ArrivalSource]:
        """Return the requests of every tenant; those of one turn are the same for every engine."""
        sizes = {tenant.name: tenant.batch_size for tenant in self._planned.tenants}
        return {
            name: spec.source(begin_ns, end_ns, (self._seed, turn, place), sizes[name])
            for place, (name, spec) in enumerate(sorted(self._planned.specs.items()))
        }

    def _live_tenants(self, engine: Engine) -> list[Any]:
        """Return what to load; what is learnt is kept of one engine, the first, for each begins from the same state."""
        from edgetune.interleave.live import LiveTenant

        found = []
        for tenant, known in zip(self._planned.tenants, self._planned.known, strict=True):
            opts = known.asked
            files = (opts.handler, opts.checkpoint, opts.resume)
            handler, checkpoint, resume = (None if file is None else Path(file) for file in files)
            live = LiveTenant(tenant, known.workload, opts.inputs, handler, checkpoint, resume)
            live = live if engine == self._kept_of else replace(live, checkpoint=None)
            found.append(replace(live, dimensions=dict(opts.dimensions)))
        return found

    def _report_output(self, backend: LiveMinibatchBackend) -> None:
        """Tell the curious what each workload printed last: its last words, where it crashed."""
        for tenant in self._planned.tenants:
            for line in backend.log_tail(tenant.name).splitlines():
                self._screen.detail(f"{tenant.name}: {line}")

    def _hand_back(self, backend: LiveMinibatchBackend) -> None:
        unkept = [k.asked.name for k in self._planned.known if k.asked.task == "train" and k.asked.checkpoint is None]
        if unkept and not self._outcome.notes:
            self._outcome.notes.append(f"what {', '.join(unkept)} learnt is not kept; --checkpoint FILE keeps it")
        for saved in backend.save():
            if saved.failure is not None:
                self._outcome.notes.append(f"{saved.tenant}: not saved: {saved.failure}")
            else:
                self._outcome.notes.append(f"{saved.tenant}: {saved.steps} steps of training are in {saved.path}")

    def _watchers(
        self, backend: LiveMinibatchBackend | SimulatedMinibatchBackend, stack: ExitStack | None = None
    ) -> list[Watcher]:
        from edgetune.workflows.interleave.watchers import power_watcher, replanner

        found: list[Watcher] = []
        begin_ns = backend.now_ns()
        power = power_watcher(self._device, self._planned, backend, begin_ns, stack, govern=self._govern)
        found += [] if power is None else [power]
        if self._adapt:
            end_ns = begin_ns + round(self._duration_s * NS)
            found.append(replanner(self._planned, begin_ns, end_ns, seed=self._seed))
        return found

    def _keep_overhead(self, engine: Engine, loop: InterleaveLoop) -> None:
        """Note what sharing cost in all turns of an engine so far."""
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
