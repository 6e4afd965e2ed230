"""The watchers of a run: the power sensor, and the planner for changing rates."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.stages.interleave.cycle_choice import CycleChoice, CycleChooser, TenantNames
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.interleave.loop import Watcher
from edgetune.stages.interleave.power import PowerWatcher, SimulatedReadings
from edgetune.stages.interleave.replan import Replanner
from edgetune.stages.interleave.simulated import SimulatedMinibatchBackend
from edgetune.workflows.interleave.planning import InterleaveJob

InterleaveBackend = LiveMinibatchBackend | SimulatedMinibatchBackend
WatcherOfTurn = Callable[[int], Watcher]
"""Makes the watcher of a turn from its begin, ns. All that takes long is done before the turn begins."""
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
    return None if readings is None else lambda begin_ns: PowerWatcher(readings, refresh_s, begin_ns, planned.budgets)


class _Recorded:
    """Yields the new readings of a recording."""

    def __init__(self, recording: Any) -> None:
        self._recording, self._taken = recording, 0

    def __call__(self, now_ns: int) -> Sequence[tuple[int, float]]:  # noqa: ARG002
        """Return the readings since the last call."""
        fresh = self._recording.readings[self._taken :]
        self._taken += len(fresh)
        return [(reading.time_ns, reading.power_w) for reading in fresh]


def replanner(planned: InterleaveJob) -> WatcherOfTurn:
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
    present, rate_per_s = CycleChoice(cycle, "fits"), cycle.rate_per_s
    return lambda begin_ns: Replanner(names, choices, present, rate_per_s=rate_per_s, begin_ns=begin_ns)
