"""The watchers of a run: the power sensor, and the planner for changing rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.errors import InfeasibleError, InputError
from edgetune.stages.interleave.cycle_choice import SAFETY, CycleChoice, CycleChooser, TenantNames
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.interleave.loop import Watcher
from edgetune.stages.interleave.power import PowerWatcher, SimulatedReadings
from edgetune.stages.interleave.replan import Replanner
from edgetune.stages.interleave.simulated import SimulatedMinibatchBackend
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.workflows.interleave.planning import InterleaveJob
from edgetune.workflows.interleave.points import INFER_SIZES

InterleaveBackend = LiveMinibatchBackend | SimulatedMinibatchBackend
WatcherOfTurn = Callable[[int, int], Watcher]
"""Makes the watcher of a turn from its begin and end, ns. All that takes long is done before the turn begins."""
REFRESH_S = 1.0
"""How often a simulated sensor has a reading where the device does not say, s: as on a Jetson, see the twin."""


def power_watcher(
    device: Device, planned: InterleaveJob, backend: InterleaveBackend, stack: ExitStack
) -> WatcherOfTurn | None:
    """Open the sensor and return the watcher of power; ``None`` without a sensor."""
    refresh_s = REFRESH_S if isinstance(device.power, Absent) else device.power.refresh_s
    readings: Any = None
    if not isinstance(backend, LiveMinibatchBackend):
        readings = None if backend.power is None else SimulatedReadings(backend.power.mean_w, backend.now_ns())
    elif not isinstance(device.power, Absent):
        readings = _Recorded(stack.enter_context(device.power.record()))
    return (
        None if readings is None else lambda begin_ns, _: PowerWatcher(readings, refresh_s, begin_ns, planned.budgets)
    )


class _Recorded:
    """Yields the new readings of a recording."""

    def __init__(self, recording: Any) -> None:
        self._recording, self._taken = recording, 0

    def __call__(self, now_ns: int) -> Sequence[tuple[int, float]]:  # noqa: ARG002
        """Return the readings since the last call."""
        fresh = self._recording.readings[self._taken :]
        self._taken += len(fresh)
        return [(reading.time_ns, reading.power_w) for reading in fresh]


def replanner(planned: InterleaveJob, *, seed: int) -> WatcherOfTurn:
    """Return the watcher that replans when the rate changes.

    Raises:
        InputError: several workloads answer requests, or no initial rate is known.
    """
    cycle, goals = planned.cycle, planned.goals
    if cycle is None or cycle.rate_per_s is None or goals is None:
        raise InputError("--adapt needs exactly one inference workload, with an arrival rate", "leave --adapt out")
    tenants, known = planned.tenants, planned.known
    names = TenantNames(tenants[0].name, known[0].workload.name)
    if len(tenants) > 1:
        train, size = tenants[1].name, tenants[1].batch_size
        names = replace(names, train=train, train_workload=known[1].workload.name, train_size=size)
    choices = CycleChooser(names, [row for each in known for row in each.rows], goals)
    suggest, present, rate_per_s = Suggester(planned, choices, seed), CycleChoice(cycle, "fits"), cycle.rate_per_s
    return lambda begin_ns, end_ns: Replanner(
        names, choices, suggest, present, rate_per_s=rate_per_s, begin_ns=begin_ns, end_ns=end_ns
    )


STRATEGY = "roofline"
AIM = 0.95
"""Share of the power budget to aim at: the power read in a trial counts for 3 % more (``replan.WAVER``), and a point
that was never measured may draw more than predicted. At 90 % points that just serve a rate are not seen (squeezenet
beside resnet18 on the twin of an AGX Orin: only from 19.4 of 20 W on)."""


class Suggester:
    """Suggests the next point to measure, by a search over all known points.

    Args:
        planned: The job that runs.
        choices: The known points.
        seed: Seed of the strategy.
    """

    def __init__(self, planned: InterleaveJob, choices: CycleChooser, seed: int) -> None:
        self._planned, self._choices, self._seed = planned, choices, seed
        self._candidates = self._offer()

    def _offer(self) -> list[Point]:
        """Return the points to explore: every batch size in every mode; the training batch size stays."""
        offered = [row.point for row in self._choices.rows]
        every = list(dict.fromkeys([*(point.mode for point in offered), *self._planned.tried]))
        for known, tenant in zip(self._planned.known, self._planned.tenants, strict=True):
            sizes = {tenant.batch_size}
            if known.asked.task == "infer" and known.asked.batch_size is None:
                sizes |= {row.batch_size for row in known.rows} | set(INFER_SIZES)
            name, task = known.workload.name, known.asked.task
            offered += [Point(name, task, size, mode) for mode in every for size in sorted(sizes)]
        return list(dict.fromkeys(offered))

    def __call__(self, rate_per_s: float) -> Point | None:
        """Return the next point to explore for a rate, 1/s; ``None`` if the search expects no gain."""
        choices, problem = self._choices, self._problem(rate_per_s)
        tasks = {"infer", "train"} if problem.kind == "train+infer" else {"infer"}
        rows = tuple(row for row in choices.rows if row.task in tasks)
        known, failed = {row.point for row in rows}, {row.point for row in rows if row.status != "ok"}
        strongest = choices.strongest(rate_per_s).infer.batch_size

        def is_offered(point: Point) -> bool:
            if point in known:
                return point not in failed
            size = point.batch_size if point.task == "infer" else strongest
            return not (choices.lags(point.mode, size, rate_per_s) or choices.draws_too_much(point))

        candidates = [point for point in self._candidates if point.task in tasks and is_offered(point)]
        asked: list[Point] = []

        def note(point: Point) -> ProfileRow:
            asked.append(point)
            return ProfileRow.at(point, None, status="failed", reason="only asked for")

        with suppress(InfeasibleError, InputError):  # only the requested point counts
            settings = SearchSettings(STRATEGY, max_points=1, seed=self._seed, known=rows)
            run_search(problem, candidates, note, settings)
        return asked[0] if asked else None

    def _problem(self, rate_per_s: float) -> Problem:
        """Return the search problem; without training if answers are late.

        Latency and rate keep the headroom that choices are graded by. Power has a smaller margin of its own, because
        the ``margin`` of a problem applies to every budget alike.
        """
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
