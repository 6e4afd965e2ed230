"""Finds what serves a new rate: the search's own strategy, on what is known and a few points tried in the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from edgetune.cli.interleave_points import INFER_SIZES
from edgetune.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.problem import Problem
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.cli.run_interleave import Planned
    from edgetune.devices.device import Device
    from edgetune.interleave.cycle import Cycle

STRATEGY = "roofline"


class Finder:
    """Searches again whenever the rate has changed; what was measured once is known from then on.

    Args:
        device: Whose modes may be chosen; only those that were measured on a device whose modes are not to be tried.
        planned: What runs.
        seed: Of the strategy.
    """

    def __init__(self, device: Device, planned: Planned, seed: int) -> None:
        assert planned.wanted is not None
        self._planned, self._seed, self._wanted = planned, seed, planned.wanted
        self._rows: list[ProfileRow] = [row for known in planned.known for row in known.rows]
        self._candidates = self._offer(device)

    def _offer(self, device: Device) -> list[Point]:
        """Return the points that may be chosen: those measured, and every batch size in the modes among them."""
        from edgetune.artifacts.profile import Point
        from edgetune.devices.device import Absent

        modes = list(dict.fromkeys(row.mode for row in self._rows))
        if isinstance(device.modes, Absent):
            modes = [self._planned.mode]
        offered = [row.point for row in self._rows]
        for known, tenant in zip(self._planned.known, self._planned.tenants, strict=True):
            sizes = {row.batch_size for row in known.rows} | {tenant.batch_size}
            if known.asked.task == "infer" and known.asked.batch_size is None:
                sizes |= set(INFER_SIZES)
            name, task = known.workload.name, known.asked.task
            offered += [Point(name, task, size, mode) for mode in modes for size in sorted(sizes)]
        return list(dict.fromkeys(offered))

    def find(self, rate_per_s: float, points: int, measure: Callable[[Point], ProfileRow]) -> Cycle | None:
        """Return the best cycle for a rate; ``None`` where nothing known, nor what was just measured, serves it."""
        from edgetune.search.driver import run_search

        def remembered(point: Point) -> ProfileRow:
            row = measure(point)
            self._rows.append(row)
            return row

        try:
            found = run_search(
                self._problem(rate_per_s), self._candidates, remembered, strategy=STRATEGY, max_points=points,
                seed=self._seed, known=tuple(self._rows),
            )  # fmt: skip
        except (InfeasibleError, InputError):
            return None
        return self._cycle(found.plan, rate_per_s)

    def _problem(self, rate_per_s: float) -> Problem:
        from edgetune.artifacts.problem import Problem

        training = [known for known in self._planned.known if known.asked.task == "train"]
        problem = Problem(
            "train+infer" if training else "infer",
            latency_budget_s=self._wanted.latency_budget_s,
            arrival_rate_per_s=rate_per_s,
            power_budget_w=self._wanted.power_budget_w,
            margin=self._wanted.headroom,
        )
        if not training:
            return problem
        size = self._planned.tenants[-1].batch_size
        return replace(problem, background=training[0].workload.name, background_batch_size=size)

    def _cycle(self, plan: Plan, rate_per_s: float) -> Cycle | None:
        """Return the cycle of a plan, if it holds with the caution that plans of this command take."""
        from edgetune.interleave.planner import best_cycle, halves

        chosen, rows = plan.configuration, self._rows
        infer_name = self._planned.known[0].workload.name
        size = chosen.infer_batch_size or chosen.batch_size
        infer = [half for half in halves(rows, "infer", workload=infer_name) if half.batch_size == size]
        infer = [half for half in infer if half.mode == chosen.mode]
        train = []
        if len(self._planned.known) > 1:
            name, size = self._planned.known[1].workload.name, self._planned.tenants[1].batch_size
            train = [h for h in halves(rows, "train", workload=name) if (h.batch_size, h.mode) == (size, chosen.mode)]
        try:
            return best_cycle(infer, train, replace(self._wanted, rate_per_s=rate_per_s), best_effort=True)
        except InputError:
            return None
