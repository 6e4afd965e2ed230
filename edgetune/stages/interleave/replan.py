"""Plans anew when the rate of requests or the power budget changes: from the points that are known.

    rate     ___________          changed: which known point serves 90/s? -> batch 8 at 727 MHz
                        |______

Before a change is certain, requests pile up. That is seen before the new rate is known: the point that answers most per
second takes over at once (the refuge), until they are answered and the rate has been counted again.
"""

import math
from dataclasses import replace

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.artifacts.run import Outcome, RunRow
from edgetune.errors import EdgetuneError
from edgetune.stages.interleave.cycle_choice import CycleChoice, CycleChooser, TenantNames
from edgetune.stages.interleave.loop import InterleaveLoop, Watcher
from edgetune.stages.interleave.rates import RateTracker
from edgetune.units import NS

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
        """Follow how many requests wait, and power."""
        if row.event == "request" and row.tenant == self._names.infer:
            self._waiting -= 1
        if row.event == "power" and row.power_w is not None:
            self._saw_power(row.power_w, row.power_budget_w)

    def _saw_power(self, power_w: float, budget_w: float | None) -> None:
        """Count excesses, and follow the budget."""
        if budget_w != self._choices.goals.power_budget_w:
            self._choices.goals = replace(self._choices.goals, power_budget_w=budget_w)
            self._new_rate = self._new_rate or self._tracker.rate_per_s
        self._over = self._over + 1 if budget_w is not None and power_w > budget_w else 0
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
        """Choose a cycle for a rate, and run it."""
        choice, words = self._choose(rate_per_s), f"the rate is {rate_per_s:.3g}/s now"
        if choice.grade != "least" and self._piled_up():
            self._take_refuge(rate_per_s, loop, words)
            return
        self._refuge_ns = None
        if choice.grade == "serves":
            self._guessed = not self._tracker.settled
        elif choice.grade == "least":
            words += "; nothing measured serves it, this answers most"
            self._count_anew(loop.now_ns())
        self._follow(choice, loop, words)

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
