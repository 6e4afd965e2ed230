"""Plans anew when the rate of requests or the power budget changes: from the points that are known.

    rate     ___________          changed: which known point serves 90/s? -> batch 8 at 727 MHz
                        |______

Before a change is certain, requests pile up. That is seen before the new rate is known: the point that answers most per
second takes over at once (the refuge), until they are answered and the rate has been counted again.

Detects changes of the rate of requests, as distinct from the scatter that any rate has.

    gaps   | | |  |  | | | |||||||||||||
    evidence  ......................./|  <- alarm: the new rate is that since the evidence began to grow

Cumulative sums (Page, "Continuous inspection schemes", Biometrika 41, 1954) of the log-likelihood of exponential gaps,
for rates that rose and that fell, by little and by much. Averages over windows either waver or lag; a sum of evidence
stays low at a steady rate and rises fast at a step. Regular arrivals scatter less, and their changes are found sooner.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.artifacts.run import Outcome, RunRow
from edgetune.errors import EdgetuneError
from edgetune.stages.interleave.loop import InterleaveLoop, Watcher
from edgetune.stages.interleave.planner import CycleChoice, CycleChooser, TenantNames
from edgetune.units import NS

CHANGE = 1.25
"""The least change to detect, as a ratio of rates: smaller ones fit in the headroom of a plan."""
STEP = 2.5
"""A large change: a sum made for it detects a step to three times the rate after a third of the requests."""
THRESHOLD = 14.0
"""Evidence needed, in natural logarithms of the likelihood ratio: at a steady 60/s a false alarm once in days (Wald's
bound gives a chance of e^-14 per restart), a step to twice the rate is detected within about 60 requests."""


RECENT = 100
"""Most requests over which a new rate is counted at first: older evidence is of an older rate."""
_SETTLED = 800
"""Requests over which a new rate is counted at last: the number of random ones scatters by 4 %."""


class RateTracker:
    """Follows the rate of one tenant's requests.

    A new rate is a guess at first, and rather too extreme, because it is found when the evidence happens to be strong.
    So it is counted again over the next hundred requests, and returned again if it was wrong; then, as long as no
    evidence contradicts it, it is refined silently over two, four and eight hundred.

    Args:
        rate_per_s: As planned, above zero.
        begin_ns: When the first request may come.
    """

    def __init__(self, rate_per_s: float, begin_ns: int) -> None:
        self.rate_per_s = rate_per_s
        self._last_ns = begin_ns
        self._recent_ns = deque([begin_ns], RECENT + 1)
        self._since_ns, self._count = begin_ns, 0
        self._count_at: int | None = None
        """Count of requests at which the rate is looked at again; ``None`` while it is the planned one."""
        self._rose, self._fell = _evidence(begin_ns)

    @property
    def settled(self) -> bool:
        """Whether the rate is more than a guess made as soon as it changed."""
        return self._count_at != RECENT

    def arrived(self, at_ns: int) -> None:
        """Note a request."""
        gap = (at_ns - self._last_ns) / NS * self.rate_per_s
        for evidence in (*self._rose, *self._fell):
            evidence.add(gap, at_ns)
        self._last_ns = at_ns
        self._recent_ns.append(at_ns)
        self._count += 1

    def changed(self, now_ns: int) -> float | None:
        """Return the new rate, 1/s, if it has changed by now; later changes are relative to it.

        Silence is evidence too: a rate that fell to zero is detected without a request. The rate returned is then the
        highest that the silence leaves likely.
        """
        if self._count_at == RECENT:
            return self._counted_afresh(now_ns)
        for rose in self._rose:
            if rose.total >= THRESHOLD:
                return self.restart(self._rate_since(rose, self._last_ns))
        silence = (now_ns - self._last_ns) / NS * self.rate_per_s
        for fell in self._fell:
            if fell.total + fell.silent(silence) >= THRESHOLD:
                return self.restart(self._rate_since(fell, now_ns))
        if self._count_at is not None and self._count >= self._count_at:
            self._refine()
        return None

    def restart(self, rate_per_s: float) -> float:
        """Assume this rate, to be counted again, and return it."""
        self._since_ns, self._count, self._count_at = self._last_ns, 0, RECENT
        return self._take(rate_per_s)

    def _take(self, rate_per_s: float) -> float:
        self.rate_per_s = rate_per_s
        self._rose, self._fell = _evidence(self._last_ns)
        return rate_per_s

    def _counted_afresh(self, now_ns: int) -> float | None:
        """Return the rate if the guess was wrong, once enough requests came, or should have come."""
        silent = (now_ns - self._since_ns) / NS * self.rate_per_s >= CHANGE * RECENT
        if self._count < RECENT and not silent:
            return None
        guess = self.rate_per_s
        rate = self._take(max(self._count, 1) * NS / max((now_ns if silent else self._last_ns) - self._since_ns, 1))
        self._count_at = 2 * RECENT
        return rate if not 1 / CHANGE < rate / guess < CHANGE else None

    def _refine(self) -> None:
        """Count the rate over all requests since it changed, unless there is evidence that it changed since."""
        if all(evidence.total < THRESHOLD / 2 for evidence in (*self._rose, *self._fell)):
            self._take(self._count * NS / max(self._last_ns - self._since_ns, 1))
        self._count_at = None if self._count >= _SETTLED else 2 * self._count

    def _rate_since(self, evidence: _Evidence, now_ns: int) -> float:
        """Return the rate since evidence began to grow, or of the latest requests if those are fewer, 1/s.

        Where now is later than the last request, one more may be about to come.
        """
        count = min(evidence.count, len(self._recent_ns) - 1)
        since_ns = self._recent_ns[-1 - count] if count else evidence.since_ns
        return (count + (now_ns > self._last_ns)) * NS / max(now_ns - since_ns, 1)


def _evidence(since_ns: int) -> tuple[list[_Evidence], list[_Evidence]]:
    """Return the sums for rates that rose, and for those that fell."""
    return [_Evidence(each, since_ns) for each in (STEP, CHANGE)], [_Evidence(1 / c, since_ns) for c in (STEP, CHANGE)]


class _Evidence:
    """The sum for one change, and since when it has been above zero."""

    def __init__(self, ratio: float, since_ns: int) -> None:
        self.total = 0.0
        self._ratio, self._log = ratio, math.log(ratio)
        self.since_ns, self.count = since_ns, 0

    def add(self, gap: float, at_ns: int) -> None:
        """Add a gap, in units of the mean gap as planned."""
        self.total += self._log + self.silent(gap)
        self.count += 1
        if self.total <= 0.0:
            self.total, self.since_ns, self.count = 0.0, at_ns, 0

    def silent(self, gap: float) -> float:
        """Return the evidence of so long a gap without a request."""
        return (1.0 - self._ratio) * gap


LOOK_S = 1.0
"""Interval at which silence is checked, s."""
HOLD_S = 5.0
"""How long the rate is counted in the refuge, s: over some hundred requests, whose number scatters by few percent."""
PILED = 0.5
"""Requests pile up when answering those that wait takes more than this share of the latency budget, and they make more
than two batches: normally one is answered and one fills."""
OVER = 2
"""Readings of power over the budget in a row that are an excess, not a spike."""


class Replanner(Watcher):
    """Follows the rate of one tenant's requests and plans anew when it changes; a ``Watcher``.

    Args:
        names: Of the tenants.
        choices: The known points.
        present: The choice set when the run begins.
        rate_per_s: As planned.
        begin_ns: When the run begins.
    """

    def __init__(
        self, names: TenantNames, choices: CycleChooser, present: CycleChoice, *, rate_per_s: float, begin_ns: int
    ) -> None:
        self._names, self._choices = names, choices
        self._present, self._mode = present, present.cycle.infer.mode
        self._tracker = RateTracker(rate_per_s, begin_ns)
        self._begin_ns, self._due_ns = begin_ns, begin_ns + round(LOOK_S * NS)
        self._waiting = 0
        self._new_rate: float | None = None
        self._guessed = False
        """Whether the cycle was chosen for a rate that is only a guess and no cycle fits it, so to be chosen again."""
        self._refuge_ns: int | None = None
        self._counted = 0
        self._over, self._over_w = 0, 0.0
        self._trains = present.cycle.train is not None

    def due_ns(self) -> int:
        """Return when to poll next: at once after a change, else every second."""
        if self._new_rate is not None or self._over >= OVER or (self._refuge_ns is None and self._piled_up()):
            return self._begin_ns
        return self._begin_ns if self._guessed and self._tracker.settled else self._due_ns

    def on_arrival(self, tenant: str, at_ns: int) -> None:
        """Follow the rate."""
        if tenant != self._names.infer:
            return
        self._waiting += 1
        self._counted += 1
        self._tracker.arrived(at_ns)
        self._new_rate = self._tracker.changed(at_ns) or self._new_rate

    def on_row(self, row: RunRow) -> None:
        """Follow how many requests wait, power in excess of its budget, and the budget."""
        if row.event == "request" and row.tenant == self._names.infer:
            self._waiting -= 1
        if row.event == "power" and row.power_w is not None:
            budget_w = row.power_budget_w
            if budget_w != self._choices.goals.power_budget_w:
                self._choices.goals = replace(self._choices.goals, power_budget_w=budget_w)
                self._new_rate = self._new_rate or self._tracker.rate_per_s
            self._over = self._over + 1 if budget_w is not None and row.power_w > budget_w else 0
            self._over_w = row.power_w

    def poll(self, now_ns: int, loop: InterleaveLoop) -> None:
        """Take refuge where requests pile up; plan anew where the rate has changed, or was counted in the refuge."""
        self._due_ns = now_ns + round(LOOK_S * NS)
        rate = self._new_rate or self._tracker.changed(now_ns)
        self._new_rate = None
        if self._over >= OVER:
            self._learn_power()
            rate = rate or self._tracker.rate_per_s
        if self._guessed and self._tracker.settled:
            self._guessed = False
            rate = rate or self._tracker.rate_per_s
        if rate is not None:
            self._plan(rate, loop)
        elif self._refuge_ns is None and self._piled_up():
            self._take_refuge(self._tracker.rate_per_s, loop, f"{self._waiting} requests wait")
        elif self._refuge_ns is not None and now_ns - self._refuge_ns >= HOLD_S * NS:
            rate = max(self._counted, 1) * NS / (now_ns - self._refuge_ns)
            self._plan(self._tracker.restart(rate), loop)

    def _plan(self, rate_per_s: float, loop: InterleaveLoop) -> None:
        """Choose a cycle for a rate, and run it."""
        choice = self._choices.best(rate_per_s, self._present.setting)
        words = f"the rate is {rate_per_s:.3g}/s now"
        if choice.grade != "least" and self._piled_up():
            self._take_refuge(rate_per_s, loop, words)
            return
        self._refuge_ns = None
        if choice.grade == "serves":
            self._guessed = not self._tracker.settled
        elif choice.grade == "least":
            words += "; nothing measured serves it, this answers most"
            self._refuge_ns, self._counted = loop.now_ns(), 0
        self._follow(choice, loop, words)

    def _take_refuge(self, rate_per_s: float, loop: InterleaveLoop, words: str) -> None:
        """Run the cycle that answers most until the waiting requests are answered."""
        self._refuge_ns, self._counted = loop.now_ns(), 0
        self._follow(CycleChoice(self._choices.strongest(rate_per_s), "least"), loop, f"{words}; this answers most")

    def _piled_up(self) -> bool:
        """Return whether the waiting requests cannot all be answered in good time."""
        infer = self._present.cycle.infer
        takes_s = math.ceil(self._waiting / infer.batch_size) * infer.minibatch_s
        return self._waiting > 2 * infer.batch_size and takes_s > PILED * self._choices.goals.latency_budget_s

    def _learn_power(self) -> None:
        """Correct the power of the present point to the reading that exceeded its budget."""
        self._over = 0
        size, mode, _ = self._present.setting
        present = (Point(self._names.infer_workload, "infer", size, mode), self._names.training(mode))
        for row in self._choices.rows:
            if row.point in present and (row.power_w or 0.0) < self._over_w:
                self._choices.learn(replace(row, power_w=self._over_w))

    def _follow(self, choice: CycleChoice, loop: InterleaveLoop, reason: str) -> None:
        """Run the tenants as chosen, and record it; do nothing where they already run so."""
        if choice.setting == self._setting(loop):
            self._present = choice
            return
        cycle, name = choice.cycle, self._names.infer
        status: Outcome = "ok"
        try:
            train_s = None if cycle.train is None else cycle.train.cautious_s
            self._run_at(cycle.infer.mode, cycle.infer.batch_size, cycle.infer.cautious_s, train_s, loop)
            self._present = choice
        except EdgetuneError as error:
            reason, status = f"{reason}; refused: {error.message}", "failed"
        row = replace(
            loop.row(loop.now_ns()), tenant=name, reason=reason, status=status,
            batch_size=loop.tenant(name).batch_size, **self._mode.settings(),
        )  # fmt: skip
        loop.record(row)

    def _setting(self, loop: InterleaveLoop) -> tuple[int, Mode, bool]:
        """Return the present setting; after a refusal it is not the one chosen last."""
        return loop.tenant(self._names.infer).batch_size, self._mode, self._trains

    def _run_at(self, mode: Mode, batch_size: int, infer_s: float, train_s: float | None, loop: InterleaveLoop) -> None:
        """Set mode and batch size, and expect these minibatch times, s; training pauses where ``train_s`` is ``None``.

        Raises:
            EdgetuneError: the device or the network refused it.
        """
        if mode != self._mode:
            loop.apply(mode)
            self._mode = mode
        loop.rebatch(self._names.infer, batch_size, infer_s)
        if (train_s is not None) != self._trains:
            self._trains = not self._trains
            loop.pause_training(paused=not self._trains)
        if self._names.train is not None and train_s is not None:
            loop.re_estimate(self._names.train, train_s)
