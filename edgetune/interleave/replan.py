"""Plans anew when the rate of requests changes: from points that were measured before, and only then from new ones.

    rate     ___________          changed: what is known to serve 90/s? -> batch 8 at 727 MHz, go on
                        |______   nothing is: try a point for some minibatches of real work, look again

New points are tried on the requests that come, in the middle of the run: nothing is answered later than it must be, and
no request is made up. Time spent trying is counted and bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.run import RunRow
from edgetune.errors import EdgetuneError
from edgetune.interleave.cycle import Cycle
from edgetune.interleave.loop import Loop
from edgetune.interleave.rates import RateTracker
from edgetune.stats import median, percentile

NS = 1_000_000_000
LOOK_S = 1.0
"""How often silence is looked at, s."""
SHARE = 0.02
"""Share of a run that may go into trying points, as in Fulcrum's dynamic workloads (2025)."""
TRIED = 6
"""Minibatches of a new point that are run before it is judged; the first is not counted."""
LONGEST_TRY_S = 10.0
"""A try ends after this long at the latest, s: at low rates batches are rare."""
SAFETY = 1.05
"""Rates are planned for a little more than was observed: what is estimated from a few hundred requests wavers so."""

Measure = Callable[[Point], ProfileRow]
Find = Callable[[float, int, Measure], Cycle | None]
"""Finds a cycle for a rate (1/s), measuring so many new points at most; ``None`` where none fits."""


@dataclass(frozen=True, slots=True)
class Names:
    """Who is planned for: the tenant that answers and the one that trains, and their workloads in profile rows."""

    infer: str
    infer_workload: str
    train: str | None = None
    train_workload: str | None = None


class Replanner:
    """Watches the rate of one tenant's requests.

    Args:
        names: Who is planned for.
        find: Finds what fits.
        rate_per_s: As planned.
        begin_ns, end_ns: Of the run.
        mode: That is set now.
        power_w: Returns the most power read since a time of the stage's clock, W; ``None`` where nothing was read.
    """

    def __init__(
        self,
        names: Names,
        find: Find,
        *,
        rate_per_s: float,
        begin_ns: int,
        end_ns: int,
        mode: Mode,
        power_w: Callable[[int], float | None] = lambda since_ns: None,  # noqa: ARG005
    ) -> None:
        self.exploring_s = 0.0
        self._names, self._find, self._mode, self._power_w = names, find, mode, power_w
        self._tracker = RateTracker(rate_per_s, begin_ns)
        self._begin_ns, self._due_ns = begin_ns, begin_ns + round(LOOK_S * NS)
        self._allowed_s = SHARE * (end_ns - begin_ns) / NS
        self._new_rate: float | None = None
        self._durations_s: dict[str, list[float]] | None = None

    def due_ns(self) -> int:
        """Return when to look next: soon after a change, else every second."""
        return self._begin_ns if self._new_rate is not None else self._due_ns

    def saw(self, row: RunRow) -> None:
        """Follow the rate, and, while a point is tried, what its minibatches take."""
        if row.event == "request" and row.tenant == self._names.infer and row.arrived_s is not None:
            at_ns = self._begin_ns + round(row.arrived_s * NS)
            self._tracker.arrived(at_ns)
            self._new_rate = self._tracker.changed(at_ns) or self._new_rate
        if self._durations_s is not None and row.started_s is not None and row.status == "ok":
            self._durations_s.setdefault(f"{row.tenant} {row.minibatch}", []).append(row.finished_s - row.started_s)

    def look(self, now_ns: int, loop: Loop) -> None:
        """Plan anew where the rate has changed."""
        self._due_ns = now_ns + round(LOOK_S * NS)
        rate = self._new_rate or self._tracker.changed(now_ns)
        self._new_rate = None
        if rate is None:
            return
        cycle = self._find(SAFETY * rate, 0, self._refuse)
        left_s = self._allowed_s - self.exploring_s
        points = 0
        while cycle is None and left_s > 0:
            before_s = self.exploring_s
            cycle = self._find(SAFETY * rate, 1, lambda point: self._try(point, loop))
            left_s = self._allowed_s - self.exploring_s
            points += 1
            if self.exploring_s == before_s:
                break  # nothing left to try
        words = f"the rate is {rate:.3g}/s now"
        if cycle is None:
            self._note(loop, f"{words}, and nothing measured serves it: the plan stays")
            return
        self._follow(cycle, loop, f"{words}" if not points else f"{words}; points tried: {points}")

    def _follow(self, cycle: Cycle, loop: Loop, reason: str) -> None:
        """Have the tenants run as the cycle says."""
        try:
            self._set(cycle.infer.mode, loop)
            if loop.tenant(self._names.infer).batch_size != cycle.infer.batch_size:
                loop.rebatch(self._names.infer, cycle.infer.batch_size, cycle.infer.minibatch_s)
            else:
                loop.re_estimate(self._names.infer, cycle.infer.minibatch_s)
            if cycle.train is not None and self._names.train is not None:
                loop.re_estimate(self._names.train, cycle.train.minibatch_s)
        except EdgetuneError as error:
            reason = f"{reason}; refused: {error.message}"
        self._note(loop, reason)

    def _set(self, mode: Mode, loop: Loop) -> None:
        if mode != self._mode:
            loop.apply(mode)
            self._mode = mode

    def _try(self, point: Point, loop: Loop) -> ProfileRow:
        """Run a point for some minibatches of real work and return what was measured.

        Raises:
            EdgetuneError: the device or the network refused it.
        """
        name = self._names.infer if point.task == "infer" else self._names.train or ""
        begun_ns = loop.now_ns()
        self._durations_s = {}
        try:
            self._set(point.mode, loop)
            if loop.tenant(name).batch_size != point.batch_size:
                loop.rebatch(name, point.batch_size, loop.tenant(name).minibatch_s)
            until_ns = loop.now_ns() + round(LONGEST_TRY_S * NS)
            loop.advance(lambda: len(self._of(name)) > TRIED or loop.now_ns() >= until_ns)
            times_s = self._of(name)[1:]
        finally:
            self._durations_s = None
            self.exploring_s += (loop.now_ns() - begun_ns) / NS
            self._note(loop, f"tried {point.task} at batch {point.batch_size} [{point.mode}]", tried=(point, begun_ns))
        row = ProfileRow(point.workload, point.task, point.batch_size, None, status="failed", reason="no minibatch ran")
        row = replace(row, **_knobs(point.mode), duration_s=(loop.now_ns() - begun_ns) / NS, started=None)
        if not times_s:
            return row
        slow_s = percentile(times_s, 95)
        measured = replace(row, status="ok", reason=None, minibatch_s=median(times_s), minibatch_p95_s=slow_s)
        return replace(measured, power_w=self._power_w(begun_ns), minibatches=len(times_s))

    def _of(self, name: str) -> list[float]:
        """Return what each minibatch of a tenant took since the try began, s; requests of one share it."""
        found = self._durations_s or {}
        return [times[0] for key, times in found.items() if key.rpartition(" ")[0] == name]

    def _refuse(self, point: Point) -> ProfileRow:
        raise AssertionError(f"{point} was to be measured, and nothing was")  # pragma: no cover

    def _note(self, loop: Loop, reason: str, *, tried: tuple[Point, int] | None = None) -> None:
        """Write down what is run from now on, or what was tried and since when, ns."""
        row = replace(loop.row(loop.now_ns()), tenant=self._names.infer, reason=reason)
        if tried is None:
            size = loop.tenant(self._names.infer).batch_size
            loop.note(replace(row, batch_size=size, **_knobs(self._mode)))
            return
        point, begun_ns = tried
        tenant = self._names.infer if point.task == "infer" else self._names.train
        row = replace(row, tenant=tenant, batch_size=point.batch_size, started_s=loop.row(begun_ns).finished_s)
        loop.note(replace(row, **_knobs(point.mode)))


def _knobs(mode: Mode) -> Mapping[str, Any]:
    return mode.knobs()
