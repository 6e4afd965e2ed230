"""Records the readings of power during a run, each beside the budget of the moment.

Splits the time and the energy of a run between its tenants.

    answers  ####      ####      ####
    trains       ######    ##########
    idle                             ..   native sharing overlaps, managed does not

A tenant has the device while a minibatch of its own was started and is not over; what the device does in between is not
seen from outside.

Sensors of these devices read a few times per second and minibatches take milliseconds, so that no reading belongs to
one minibatch. The energy of a turn, idle time included, is therefore divided among the tenants in proportion to the
device time of each (``Occupancy.tenants_s``). Where one workload draws more than another while it runs, it is charged
too little and the other too much.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

from edgetune.artifacts.run import RunRow
from edgetune.stages.interleave.loop import InterleaveLoop, Watcher
from edgetune.units import NS

Readings = Callable[[int], Sequence[tuple[int, float]]]
"""Readings that are new at a time of the stage's clock: when each was taken, ns, and power, W."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """Power to stay within, W, from each time on, s since the run began; ascending, the first from 0."""

    steps: tuple[tuple[float, float], ...]

    def at(self, time_s: float) -> float:
        """Return the budget at a time, W."""
        return next(budget_w for from_s, budget_w in reversed(self.steps) if from_s <= time_s or from_s == 0.0)


class PowerWatcher(Watcher):
    """Reads the sensor as often as it has something new.

    Args:
        readings: Returns the new readings of the sensor.
        refresh_s: Interval between readings, s.
        begin_ns: When the run begins.
        budgets: Power to stay within; ``None`` for none.
    """

    def __init__(self, readings: Readings, refresh_s: float, begin_ns: int, budgets: Budgets | None = None) -> None:
        self._readings, self._refresh_ns = readings, max(round(refresh_s * NS), 1)
        self._begin_ns, self._due_ns = begin_ns, begin_ns + self._refresh_ns
        self._budgets = budgets

    def due_ns(self) -> int:
        """Return when the sensor has a new reading."""
        return self._due_ns

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Record new readings."""
        budget_w = None if self._budgets is None else self._budgets.at((now_ns - self._begin_ns) / NS)
        while self._due_ns <= now_ns:
            self._due_ns += self._refresh_ns
        for at_ns, power_w in self._readings(now_ns):
            if at_ns >= self._begin_ns:  # else the sensor was opened before the run began
                loop.record(replace(loop.row(at_ns), event="power", power_w=power_w, power_budget_w=budget_w))


class SimulatedReadings:
    """Readings of a simulated sensor: the mean power since the last reading.

    Args:
        mean_w: Mean power over an interval of the stage's clock, W.
        begin_ns: When the run begins.
    """

    def __init__(self, mean_w: Callable[[int, int], float], begin_ns: int) -> None:
        self._mean_w, self._last_ns = mean_w, begin_ns

    def __call__(self, now_ns: int) -> Sequence[tuple[int, float]]:
        """Return one reading, of the time since the last."""
        if now_ns <= self._last_ns:
            return ()
        reading = (now_ns, self._mean_w(self._last_ns, now_ns))
        self._last_ns = now_ns
        return (reading,)


@dataclass(frozen=True, slots=True)
class Busy:
    """One minibatch on the device.

    Args:
        tenant: Name of its tenant.
        answers: Whether it answered requests; else it trained.
        start_s, end_s: Since the turn began.
        batch_size: Samples that it had room for.
        samples: Samples that it had; ``None`` where unknown.
    """

    tenant: str
    answers: bool
    start_s: float
    end_s: float
    batch_size: int | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The time of a run, s; ``answering_s + training_s - both_s + idle_s`` is all of it.

    Args:
        duration_s: All of it.
        answering_s, training_s: Covered by at least one minibatch of that sort.
        both_s: Covered by both sorts at once.
        idle_s: Covered by no minibatch.
        tenants_s: Time per tenant; overlapping time is divided evenly among them, so that all adds up to the busy time.
    """

    duration_s: float
    answering_s: float
    training_s: float
    both_s: float
    idle_s: float
    tenants_s: Mapping[str, float]


def minibatches(rows: Iterable[RunRow]) -> list[Busy]:
    """Return the minibatches of one turn, in the order of their starts; requests answered together are one."""
    found: dict[tuple[str, str, int | None, float], Busy] = {}
    for row in rows:
        if row.event in ("request", "train") and row.started_s is not None:
            tenant = row.tenant or ""
            key = tenant, row.event, row.minibatch, row.started_s
            answers = row.event == "request"
            found[key] = Busy(tenant, answers, row.started_s, row.finished_s, row.batch_size, row.samples)
    return sorted(found.values(), key=lambda busy: (busy.start_s, busy.end_s))


def occupancy(busy: Sequence[Busy], duration_s: float) -> Occupancy:
    """Return how ``duration_s`` was split; minibatches may overlap."""
    edges = sorted(
        [(each.start_s, 1, each) for each in busy] + [(each.end_s, -1, each) for each in busy],
        key=lambda edge: edge[:2],
    )
    running: dict[str, int] = {}
    kinds = {True: 0, False: 0}
    answering_s = training_s = both_s = before_s = 0.0
    tenants_s = dict.fromkeys((each.tenant for each in busy), 0.0)
    for at_s, step, each in edges:
        span_s, before_s = at_s - before_s, at_s
        answering_s += span_s if kinds[True] else 0.0
        training_s += span_s if kinds[False] else 0.0
        both_s += span_s if kinds[True] and kinds[False] else 0.0
        for tenant in running:
            tenants_s[tenant] += span_s / len(running)
        kinds[each.answers] += step
        running[each.tenant] = running.get(each.tenant, 0) + step
        if not running[each.tenant]:
            del running[each.tenant]
    idle_s = max(duration_s - (answering_s + training_s - both_s), 0.0)
    return Occupancy(duration_s, answering_s, training_s, both_s, idle_s, tenants_s)


_FEWEST_READINGS = 5
"""Energy is not computed from fewer readings."""


@dataclass(frozen=True, slots=True)
class PowerUse:
    """The power of a device over one or several turns.

    Args:
        readings: How many there are.
        mean_w: Over time, W.
        peak_w: The largest reading, W.
        budget_w: The lowest budget of the run, W; ``None`` where it had none.
        over_s: Time over the budget of the moment, s; ``None`` without one. A reading counts until the next.
        energy_j: Mean power times duration, J.
        reason: Why figures are missing; ``None`` where all are there.
    """

    readings: int
    mean_w: float | None = None
    peak_w: float | None = None
    budget_w: float | None = None
    over_s: float | None = None
    energy_j: float | None = None
    reason: str | None = None


def power_use(rows: Sequence[RunRow], duration_s: float) -> PowerUse:
    """Return the power of one turn that lasted ``duration_s``."""
    taken = sorted(
        (row for row in rows if row.event == "power" and row.power_w is not None), key=attrgetter("finished_s")
    )
    readings = [(row.finished_s, row.power_w or 0.0, row.power_budget_w) for row in taken]
    budgets = [budget_w for _, _, budget_w in readings if budget_w is not None]
    budget_w = min(budgets, default=None)
    if not readings:
        return PowerUse(0, reason="no power was read")
    peak_w = max(power_w for _, power_w, _ in readings)
    span_s = readings[-1][0] - readings[0][0]
    if len(readings) < _FEWEST_READINGS or span_s <= 0:
        reason = f"{len(readings)} power reading{'s' * (len(readings) > 1)}, {_FEWEST_READINGS} needed"
        return PowerUse(len(readings), peak_w=peak_w, budget_w=budget_w, reason=reason)
    area_j = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(readings))
    over_s = sum(b[0] - a[0] for a, b in pairwise(readings) if a[2] is not None and a[1] > a[2])
    mean_w = area_j / span_s
    return PowerUse(len(readings), mean_w, peak_w, budget_w, over_s if budgets else None, mean_w * duration_s)


def together(uses: Sequence[PowerUse], durations_s: Sequence[float]) -> PowerUse:
    """Return the power of several turns; the mean and the energy only where every turn has them."""
    readings = sum(use.readings for use in uses)
    peak_w = max((use.peak_w for use in uses if use.peak_w is not None), default=None)
    budget_w = min((use.budget_w for use in uses if use.budget_w is not None), default=None)
    reason = next((use.reason for use in uses if use.reason is not None), None)
    if reason is not None:
        return PowerUse(readings, peak_w=peak_w, budget_w=budget_w, reason=reason)
    energy_j = sum(use.energy_j or 0.0 for use in uses)
    over_s = None if budget_w is None else sum(use.over_s or 0.0 for use in uses)
    return PowerUse(readings, energy_j / sum(durations_s), peak_w, budget_w, over_s, energy_j)
