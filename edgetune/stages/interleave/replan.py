"""Plans anew when the rate of requests changes: from points measured before, and only then from new ones.

    rate     ___________          changed: which known point serves 90/s? -> batch 8 at 727 MHz
                        |______   none does: try a point for some minibatches of real work

Before a change is certain, requests pile up. That is seen before the new rate is known: the point that answers most per
second takes over at once (the refuge), until they are answered and the rate has been counted again.

New points are tried on real requests, in the middle of the run, and answers go on. A trial ends as soon as the point
cannot keep up, requests pile up behind it, or it draws too much. The time of trials is counted and bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.artifacts.run import Outcome, RunRow
from edgetune.errors import EdgetuneError
from edgetune.stages.interleave.cycle_choice import (
    SAFETY,
    CycleChoice,
    CycleChooser,
    Grade,
    TenantNames,
    Trial,
    row_of,
)
from edgetune.stages.interleave.loop import InterleaveLoop, Watcher
from edgetune.stages.interleave.rates import RateTracker
from edgetune.stats import median
from edgetune.units import NS

LOOK_S = 1.0
"""Interval at which silence is checked, s."""
SHARE = 0.015
"""Share of a run that trials may take: under the 2 % of Fulcrum's dynamic workloads (2025), because the last trial ends
with its minibatch."""
TRIED = 6
"""Minibatches of a new point before it is judged; the first is not counted."""
TRAINED = 2
"""Training minibatches likewise."""
LONGEST_TRY_S = 5.0
"""Longest trial, s: at low rates batches are rare."""
FOR_TRAINING = 0.5
"""Part of ``SHARE`` for trials while answers are in time, to train more; the rest is for late answers."""
MOST_TRIES = 8
"""Points tried after one change of rate: about as many as the search needs on a grid of which some points are known."""
HOLD_S = 5.0
"""How long the rate is counted in the refuge, s: over some hundred requests, whose number scatters by few percent."""
WAVER = 1.03
"""Mean power may be so many times the power read in a trial: sensors scatter by half of that."""
PILED = 0.5
"""Requests pile up when answering those that wait takes more than this share of the latency budget, and they make more
than two batches: normally one is answered and one fills."""
BEYOND = 3
"""Points in a row that draw too much, after which no point within the power budget is worth a trial."""
OVER = 2
"""Readings of power over the budget in a row that are an excess, not a spike."""

Suggest = Callable[[float], Point | None]
"""Returns the point to try next for a rate, 1/s; ``None`` where none is worth it."""


class Replanner(Watcher):
    """Follows the rate of one tenant's requests and plans anew when it changes; a ``Watcher``.

    Args:
        names: Of the tenants.
        choices: The points known so far.
        suggest: Returns points to try.
        present: The choice set when the run begins.
        rate_per_s: As planned.
        begin_ns, end_ns: Of the run.
    """

    def __init__(
        self,
        names: TenantNames,
        choices: CycleChooser,
        suggest: Suggest,
        present: CycleChoice,
        *,
        rate_per_s: float,
        begin_ns: int,
        end_ns: int,
    ) -> None:
        self.exploring_s = 0.0
        self._names, self._choices, self._suggest = names, choices, suggest
        self._present, self._mode = present, present.cycle.infer.mode
        self._tracker = RateTracker(rate_per_s, begin_ns)
        self._begin_ns, self._due_ns = begin_ns, begin_ns + round(LOOK_S * NS)
        self._allowed_s = SHARE * (end_ns - begin_ns) / NS
        self._hopeless_per_s: dict[Grade, float] = {}
        """Rates from which on trials found nothing better than a known grade, by that grade."""
        self._waiting = 0
        self._new_rate: float | None = None
        self._guessed = False
        self._refuge_ns: int | None = None
        self._counted = 0
        self._beyond = 0
        self._over, self._over_w, self._was_over = 0, 0.0, False
        self._trains = present.cycle.train is not None
        self._power_at_ns = begin_ns
        self._try: Trial | None = None

    def due_ns(self) -> int | None:
        """Return when to poll next: at once after a change, else every second; never during a trial."""
        if self._try is not None:
            return None
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
        """Follow how many requests wait, the durations of a point on trial, and power."""
        if row.event == "request" and row.tenant == self._names.infer:
            self._waiting -= 1
        if row.event == "power" and row.power_w is not None:
            self._saw_power(row.power_w, row.power_budget_w, self._begin_ns + round(row.finished_s * NS))
        if self._try is None or row.started_s is None or row.minibatch is None or row.status != "ok":
            return
        if self._begin_ns + round(row.started_s * NS) < self._try.from_ns:
            return
        if row.event == "request" and row.tenant == self._names.infer:
            self._try.infer_s[row.minibatch] = row.finished_s - row.started_s
        if row.event == "train" and row.tenant == self._names.train:
            self._try.train_s[row.minibatch] = row.finished_s - row.started_s

    def _saw_power(self, power_w: float, budget_w: float | None, at_ns: int) -> None:
        """Count excesses. A reading covers the time since the one before, which may begin before the trial.

        An excess counts against the trial all the same where the reading before was within the budget.
        """
        over = budget_w is not None and power_w > budget_w
        if self._try is not None and (self._power_at_ns >= self._try.from_ns or (over and not self._was_over)):
            self._try.power_w.append(power_w)
        self._was_over = over
        self._power_at_ns = at_ns
        if budget_w != self._choices.goals.power_budget_w:
            self._choices.goals = replace(self._choices.goals, power_budget_w=budget_w)
            self._hopeless_per_s.clear()
            self._new_rate = self._new_rate or self._tracker.rate_per_s
        if self._try is None:  # a trial is judged by itself
            self._over = self._over + 1 if over else 0
            self._over_w = power_w

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
        """Choose a cycle for a rate, trying points where no known one fits, and run it."""
        choice, words = self._choose(rate_per_s), f"the rate is {rate_per_s:.3g}/s now"
        tries = 0
        if choice.grade == "serves" and not self._piled_up():
            self._follow(choice, loop, words)
            self._guessed = not self._tracker.settled
        if choice.grade == "least" or (choice.grade == "serves" and not self._piled_up() and not self._guessed):
            tries = self._explore(rate_per_s, loop)
            choice = self._choose(rate_per_s)
        words += f"; points tried: {tries}" if tries else ""
        if choice.grade == "least":
            words += "; nothing measured serves it, this answers most"
        if choice.grade != "least" and self._piled_up():
            self._take_refuge(rate_per_s, loop, words)
            return
        self._refuge_ns = None
        if choice.grade == "least":
            self._count_anew(loop.now_ns())
        self._follow(choice, loop, words, tried=tries > 0)

    def _choose(self, rate_per_s: float) -> CycleChoice:
        return self._choices.best(rate_per_s, self._present.setting)

    def _take_refuge(self, rate_per_s: float, loop: InterleaveLoop, words: str) -> None:
        """Run the cycle that answers most until the waiting requests are answered."""
        self._count_anew(loop.now_ns())
        self._follow(CycleChoice(self._choices.strongest(rate_per_s), "least"), loop, f"{words}; this answers most")

    def _count_anew(self, now_ns: int) -> None:
        self._refuge_ns, self._counted = now_ns, 0

    def _piled_up(self) -> bool:
        """Return whether the waiting requests cannot all be answered in good time."""
        size, _, _ = self._present.setting
        minibatch_s = self._present.cycle.infer.minibatch_s
        if self._try is not None:
            size, minibatch_s = self._try.batch_size, max(self._try.infer_s.values(), default=minibatch_s)
        takes_s = math.ceil(self._waiting / size) * minibatch_s
        return self._waiting > 2 * size and takes_s > PILED * self._choices.goals.latency_budget_s

    def _explore(self, rate_per_s: float, loop: InterleaveLoop) -> int:
        """Try points until one fits; return how many were tried. A rate that none served is not tried for again."""
        tries, before = 0, self._choose(rate_per_s).grade
        if rate_per_s >= self._hopeless_per_s.get(before, math.inf) / SAFETY:
            return tries
        allowed_s = self._allowed_s * (1.0 if before == "least" else FOR_TRAINING)
        self._beyond = 0
        while not loop.over and tries < MOST_TRIES and allowed_s > self.exploring_s:
            if self._choose(rate_per_s).grade == "fits" or (before != "least" and self._beyond >= BEYOND):
                break
            point = self._suggest(rate_per_s)
            if point is None:
                break
            tries += 1
            if not self._explored(point, rate_per_s, loop):
                return tries
        if self._choose(rate_per_s).grade != "fits":
            self._hopeless_per_s[before] = min(rate_per_s, self._hopeless_per_s.get(before, math.inf))
        return tries

    def _explored(self, point: Point, rate_per_s: float, loop: InterleaveLoop) -> bool:
        """Run a point for some minibatches of real work; return whether to go on trying."""
        names, begun_ns = self._names, loop.now_ns()
        infer = point.task == "infer"
        size = point.batch_size if infer else self._choices.strongest(rate_per_s).infer.batch_size
        tried = replace(point, workload=names.infer_workload, task="infer", batch_size=size)
        calm = not self._piled_up() and self._choose(rate_per_s).grade != "least"
        reason = None
        try:
            self._begin_try(tried, rate_per_s, loop)
            until_ns = loop.now_ns() + round(min(LONGEST_TRY_S, self._allowed_s - self.exploring_s) * NS)
            loop.advance(lambda: loop.now_ns() >= until_ns or self._judged(loop, calm=calm))
        except EdgetuneError as error:
            reason = f"refused: {error.message}"
        endangered = calm and self._piled_up()
        found, self._try = self._try or Trial(size, rate_per_s, begun_ns, urgent=False), None
        told = self._learn(tried, found, reason)
        took_s = (loop.now_ns() - begun_ns) / NS
        self.exploring_s += took_s
        row = loop.row(loop.now_ns())
        row = replace(
            row, tenant=names.infer, batch_size=size, reason=f"tried: {told}", started_s=row.finished_s - took_s,
            status="ok" if reason is None else "failed", **tried.mode.settings(),
        )  # fmt: skip
        loop.record(row)
        return not endangered

    def _begin_try(self, tried: Point, rate_per_s: float, loop: InterleaveLoop) -> None:
        """Set the point on trial, and expect its minibatches to take as long as they possibly can.

        Raises:
            EdgetuneError: the device or the network refused it.
        """
        names, choices, trained = self._names, self._choices, self._names.training(tried.mode)
        infer_s = choices.at_most_s(tried) or loop.tenant(names.infer).minibatch_s
        train_s = None
        if names.train is not None and trained is not None:
            train_s = choices.at_most_s(trained) or loop.tenant(names.train).minibatch_s
        self._run_at(tried.mode, tried.batch_size, infer_s, train_s, loop)
        usual_s = choices.at_most_s(replace(tried, mode=self._present.cycle.infer.mode))
        urgent = self._choose(rate_per_s).grade == "least"
        self._try = Trial(tried.batch_size, rate_per_s, loop.now_ns(), urgent, usual_s)

    def _expect_training(self, found: Trial, loop: InterleaveLoop) -> None:
        """Once it is known how slow answers are in the mode on trial, expect training to be slower likewise.

        With its upper bound training might never begin.
        """
        train, slowness = self._present.cycle.train, found.slowness()
        if slowness is not None and train is not None and self._names.train is not None and not found.train_s:
            loop.re_estimate(self._names.train, slowness * train.minibatch_s)

    def _judged(self, loop: InterleaveLoop, *, calm: bool) -> bool:
        """Return whether the trial is over: enough is known, or answers or power require its end."""
        found, limit_w = self._try, self._choices.goals.power_budget_w
        assert found is not None
        self._expect_training(found, loop)
        if found.lags() or (calm and self._piled_up()):
            return True
        if limit_w is not None and any(power_w > limit_w for power_w in found.power_w):
            return True
        trained = self._names.train is None or found.urgent or len(found.train_s) > TRAINED
        return len(found.infer_s) > TRIED and trained and (limit_w is None or bool(found.power_w))

    def _learn(self, tried: Point, found: Trial, reason: str | None) -> str:
        """Add the measurements of a trial to the known points; return them in words."""
        choices, power_w = self._choices, max(found.power_w, default=None)
        limit_w, mean_w = choices.goals.power_budget_w, None if power_w is None else WAVER * power_w
        self._beyond = self._beyond + 1 if power_w is not None and limit_w is not None and power_w > limit_w else 0
        infer_s, train_s = list(found.infer_s.values()), list(found.train_s.values())
        choices.learn(row_of(tried, infer_s, mean_w, reason))
        trained = self._names.training(tried.mode)
        if trained is not None and (train_s or reason is not None or not found.urgent):
            choices.learn(row_of(trained, train_s, mean_w, reason))
        words = [
            reason or (f"a batch of {tried.batch_size} took {median(infer_s) * 1e3:.3g} ms" if infer_s else ""),
            f"training {median(train_s) * 1e3:.3g} ms" if train_s else "",
            "" if power_w is None else f"{power_w:.3g} W",
        ]
        return ", ".join(filter(None, words)) or "no minibatch ran"

    def _learn_power(self) -> None:
        """Correct the power of the present point to the reading that exceeded its budget."""
        self._over = 0
        size, mode, _ = self._present.setting
        present = (Point(self._names.infer_workload, "infer", size, mode), self._names.training(mode))
        for row in self._choices.rows:
            if row.point in present and (row.power_w or 0.0) < self._over_w:
                self._choices.learn(replace(row, power_w=self._over_w))

    def _follow(self, choice: CycleChoice, loop: InterleaveLoop, reason: str, *, tried: bool = False) -> None:
        """Run the tenants as chosen, and record it; do nothing where they already run so."""
        if choice.setting == self._setting(loop) and not tried:
            self._present = choice
            return
        cycle, name = choice.cycle, self._names.infer
        status: Outcome = "ok"
        try:
            train_s = None if cycle.train is None else cycle.train.minibatch_s
            self._run_at(cycle.infer.mode, cycle.infer.batch_size, cycle.infer.minibatch_s, train_s, loop)
            self._present = choice
        except EdgetuneError as error:
            reason, status = f"{reason}; refused: {error.message}", "failed"
        row = replace(
            loop.row(loop.now_ns()), tenant=name, reason=reason, status=status,
            batch_size=loop.tenant(name).batch_size, **self._mode.settings(),
        )  # fmt: skip
        loop.record(row)

    def _setting(self, loop: InterleaveLoop) -> tuple[int, Mode, bool]:
        """Return the present setting; after a trial it is not the one chosen last."""
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
