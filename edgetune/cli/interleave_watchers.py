"""What looks after a run: the power sensor with its governor, and the planner for changing rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.cli.interleave_options import InterleaveJob
    from edgetune.devices.device import Device
    from edgetune.interleave.cycle import WorkloadPoint
    from edgetune.interleave.governor import Governor, MeasuredMode
    from edgetune.interleave.live import LiveMinibatchBackend
    from edgetune.interleave.power import PowerWatcher
    from edgetune.interleave.replan import Replanner
    from edgetune.interleave.simulated import SimulatedMinibatchBackend

REFRESH_S = 1.0
"""How often a simulated sensor has a reading where the device does not say, s: as on a Jetson, see the twin."""


def power_watcher(
    device: Device,
    planned: InterleaveJob,
    backend: LiveMinibatchBackend | SimulatedMinibatchBackend,
    begin_ns: int,
    stack: ExitStack | None,
    *,
    govern: bool,
) -> PowerWatcher | None:
    """Return what writes power down; ``None`` where there is no sensor and nothing to govern.

    Raises:
        InputError: power is to be governed, and there is no sensor, no budget or one mode only.
    """
    from edgetune.devices.device import Absent
    from edgetune.interleave.live import LiveMinibatchBackend
    from edgetune.interleave.power import PowerWatcher, SimulatedReadings

    refresh_s = REFRESH_S if isinstance(device.power, Absent) else device.power.refresh_s
    readings: Any = None
    if not isinstance(backend, LiveMinibatchBackend):
        readings = None if backend.power is None else SimulatedReadings(backend.power.mean_w, begin_ns)
    elif not isinstance(device.power, Absent) and stack is not None:
        readings = _Recorded(stack.enter_context(device.power.record()))
    if readings is None:
        if govern:
            reason = device.power.reason if isinstance(device.power, Absent) else "nobody measured it"
            raise InputError(f"power cannot be governed on {device.name}: {reason}", "leave --govern out")
        return None
    return PowerWatcher(readings, refresh_s, begin_ns, planned.budgets, governor_of(planned) if govern else None)


class _Recorded:
    """Readings of a recording that are new."""

    def __init__(self, recording: Any) -> None:
        self._recording, self._taken = recording, 0

    def __call__(self, now_ns: int) -> Sequence[tuple[int, float]]:  # noqa: ARG002
        """Return the readings since the last time."""
        fresh = self._recording.readings[self._taken :]
        self._taken += len(fresh)
        return [(reading.time_ns, reading.power_w) for reading in fresh]


def governor_of(planned: InterleaveJob) -> Governor:
    """Return a governor over the modes in which every tenant was measured at its batch size and is served.

    Raises:
        InputError: no budget, or no second such mode.
    """
    from edgetune.interleave.governor import Governor
    from edgetune.interleave.planner import halves

    if planned.budgets is None:
        raise InputError("there is no budget to keep power within", "add --power-budget, e.g. 30W or 30W,20W@60s")
    found: dict[Mode, dict[str, WorkloadPoint]] = {}
    for tenant, known in zip(planned.tenants, planned.known, strict=True):
        for half in halves(known.rows, known.asked.task, workload=known.workload.name):
            if half.batch_size == tenant.batch_size and half.power_w is not None:
                found.setdefault(half.mode, {})[tenant.name] = half
    rungs = []
    for mode, by_name in found.items():
        if len(by_name) == len(planned.tenants):
            rungs += _rungs(mode, by_name, planned)
    present = next((rung for rung in rungs if rung.mode == planned.mode and rung.trains), None)
    if present is None or len(rungs) < 2:
        raise InputError(
            f"{len(rungs)} modes were measured that serve these workloads, too few to step between",
            "give tables of several modes with --profile, or --modes SPEC to measure them first",
        )
    kept = [rung for rung in rungs if not any(_beats(other, rung) for other in rungs)]
    if present not in kept:
        kept.append(present)
    return Governor(kept, present, planned.budgets.at(0.0))


def _rungs(mode: Mode, halves: Mapping[str, WorkloadPoint], planned: InterleaveJob) -> list[MeasuredMode]:
    """Return what can be done in a mode: answer and train, and answer alone; nothing where answers would be late.

    Where no whole training minibatch fits between two batches, training is rare and not forbidden; it is where it would
    make a request late that comes just after one began.
    """
    from edgetune.interleave.cycle import CycleGoals, broken, cycles_of
    from edgetune.interleave.governor import MeasuredMode
    from edgetune.interleave.tenants import Inference

    answering = [tenant for tenant in planned.tenants if isinstance(tenant, Inference)]
    training = [halves[tenant.name] for tenant in planned.tenants if not isinstance(tenant, Inference)]
    goals = [CycleGoals(tenant.latency_budget_s, tenant.rate_per_s) for tenant in answering]
    kept = [
        [cycle for cycle in cycles_of(halves[tenant.name], None, each) if not broken(cycle, each)]
        for tenant, each in zip(answering, goals, strict=True)
    ]
    if not all(kept):
        return []
    times = {name: half.minibatch_s for name, half in halves.items()}
    alone_w = max((halves[tenant.name].power_w or 0.0 for tenant in answering), default=0.0)
    latency_s = sum(cycles[0].latency_s for cycles in kept)
    power_w = max(half.power_w or 0.0 for half in halves.values())
    if not training:
        return [MeasuredMode(mode, power_w, -latency_s, times)]
    trained_per_s = sum(half.batch_size / half.minibatch_s for half in training)
    both, alone = (
        MeasuredMode(mode, power_w, trained_per_s, times),
        MeasuredMode(mode, alone_w, -latency_s, times, trains=False),
    )
    if not answering:
        return [both]
    longest_s = max(half.minibatch_s for half in training)
    due_s = min(each.latency_budget_s * (1 - each.headroom) for each in goals)
    fits = longest_s + sum(halves[tenant.name].minibatch_s for tenant in answering) <= due_s
    return [both, alone] if fits else [alone]


def _beats(one: MeasuredMode, other: MeasuredMode) -> bool:
    """Return whether a mode is better and more frugal than another, so that nobody would step to that."""
    better = one.power_w <= other.power_w and one.worth >= other.worth
    return better and (one.power_w, one.worth) != (other.power_w, other.worth)


def replanner(planned: InterleaveJob, begin_ns: int, end_ns: int, *, seed: int) -> Replanner:
    """Return what plans anew when the rate changes.

    Raises:
        InputError: there are several workloads that answer, or no rate to begin from.
    """
    from edgetune.cli.interleave_find import Suggester
    from edgetune.interleave.cycle_choice import CycleChoice, CycleChooser, TenantNames
    from edgetune.interleave.replan import Replanner

    cycle, goals = planned.cycle, planned.goals
    if cycle is None or cycle.rate_per_s is None or goals is None:
        raise InputError("changing rates are followed for one workload that answers, from a rate", "leave --adapt out")
    tenants, known = planned.tenants, planned.known
    names, train_size = TenantNames(tenants[0].name, known[0].workload.name), None
    if len(tenants) > 1:
        names = TenantNames(tenants[0].name, known[0].workload.name, tenants[1].name, known[1].workload.name)
        train_size = tenants[1].batch_size
    choices = CycleChooser(names, [row for each in known for row in each.rows], goals, train_size=train_size)
    suggest = Suggester(planned, choices, planned.tried, seed)
    return Replanner(
        names,
        choices,
        suggest,
        CycleChoice(cycle, "fits"),
        rate_per_s=cycle.rate_per_s,
        begin_ns=begin_ns,
        end_ns=end_ns,
    )
