"""Names the points to try when nothing known serves a new rate: the search's own strategy chooses them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from edgetune.cli.interleave_points import INFER_SIZES
from edgetune.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.artifacts.problem import Problem
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.cli.interleave_options import InterleaveJob
    from edgetune.interleave.cycle_choice import CycleChooser

STRATEGY = "roofline"
AIM = 0.95
"""Share of the power budget that is aimed at: what is read of a try counts for 3 % more (``replan.WAVER``), and what
was never measured may draw more than is believed. At 90 % points that just serve a rate are not seen (squeezenet
beside resnet18 on the twin of an AGX Orin: only from 19.4 of 20 W on)."""


class Suggester:
    """Asks the search what it would measure next, given all that is known by now.

    Args:
        planned: What runs.
        choices: What is known.
        modes: That may be set, besides those that were measured.
        seed: Of the strategy.
    """

    def __init__(self, planned: InterleaveJob, choices: CycleChooser, modes: Sequence[Mode], seed: int) -> None:
        self._planned, self._choices, self._seed = planned, choices, seed
        self._candidates = self._offer(modes)

    def _offer(self, modes: Sequence[Mode]) -> list[Point]:
        """Return the points that may be tried: every batch size in every mode; the training's batch size stays."""
        from edgetune.artifacts.profile import Point

        offered = [row.point for row in self._choices.rows]
        every = list(dict.fromkeys([*(point.mode for point in offered), *modes]))
        for known, tenant in zip(self._planned.known, self._planned.tenants, strict=True):
            sizes = {tenant.batch_size}
            if known.asked.task == "infer" and known.asked.batch_size is None:
                sizes |= {row.batch_size for row in known.rows} | set(INFER_SIZES)
            name, task = known.workload.name, known.asked.task
            offered += [Point(name, task, size, mode) for mode in every for size in sorted(sizes)]
        return list(dict.fromkeys(offered))

    def __call__(self, rate_per_s: float) -> Point | None:
        """Return the next point to try for a rate, 1/s; ``None`` where the search sees no use in any."""
        from edgetune.search.driver import SearchSettings, run_search

        opts: list[Point] = []
        failed = {row.point for row in self._choices.rows if row.status != "ok"}
        present = {row.point for row in self._choices.rows}
        size = self._choices.strongest(rate_per_s).infer.batch_size
        choices = self._choices
        candidates = [
            point
            for point in self._candidates
            if point in present
            or not (choices.lags(point.mode, _size(point, size), rate_per_s) or choices.draws_too_much(point))
        ]
        candidates = [point for point in candidates if point not in failed]

        def note(point: Point) -> ProfileRow:
            from edgetune.artifacts.profile import ProfileRow

            opts.append(point)
            reason = "only asked for"
            row = ProfileRow(point.workload, point.task, point.batch_size, None, status="failed", reason=reason)
            return replace(row, **point.mode.settings())  # type: ignore[arg-type]

        problem = self._problem(rate_per_s)
        candidates = [point for point in candidates if point.task == "infer" or problem.kind == "train+infer"]
        with suppress(InfeasibleError, InputError):  # what it asks for is all that counts
            run_search(
                problem, candidates, note, SearchSettings(STRATEGY, max_points=1, seed=self._seed,
                known=tuple(row for row in self._choices.rows if row.task == "infer" or problem.kind == "train+infer")),
            )  # fmt: skip
        return opts[0] if opts else None

    def _problem(self, rate_per_s: float) -> Problem:
        """Return what is to be found: where answers are late as it is, only what answers in time.

        What is kept free is what choices are graded by: of time, of the rate, and little of power, of which a margin of
        the problem would take as much as of time.
        """
        from edgetune.artifacts.problem import Problem
        from edgetune.interleave.cycle_choice import SAFETY

        late = self._choices.best(rate_per_s).grade == "least"
        training = [known for known in self._planned.known if known.asked.task == "train" and not late]
        goals = self._choices.goals
        kept = 1 - goals.headroom
        problem = Problem(
            "train+infer" if training else "infer",
            latency_budget_s=kept * goals.latency_budget_s,
            arrival_rate_per_s=SAFETY * rate_per_s / kept,
            power_budget_w=None if goals.power_budget_w is None else AIM * goals.power_budget_w,
        )
        if not training:
            return problem
        size = self._planned.tenants[-1].batch_size
        return replace(problem, background=training[0].workload.name, background_batch_size=size)


def _size(point: Point, size: int) -> int:
    """Return at what batch size a mode is tried that the search wants for this point."""
    return point.batch_size if point.task == "infer" else size
