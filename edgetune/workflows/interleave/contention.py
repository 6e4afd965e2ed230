"""How tenants slow each other down where the driver shares the device: measured on a real one, else a parameter of it.

a alone | b alone | a and b, back to back | a alone | b alone | ...     three rounds, by one engine
                    |-- a --|-- a --|
                    |---- b ----|---- b ----|     each as a share of its median alone
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from edgetune.artifacts.mode import Mode
from edgetune.devices.contention import Contention
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.stages.interleave.backend import Minibatch
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.interleave.live_tenants import LiveTenant
from edgetune.stages.interleave.simulated import Slowdown
from edgetune.stages.interleave.tenants import Inference, Tenant
from edgetune.stats import median
from edgetune.units import NS
from edgetune.workflows.interleave.points import apply_mode

_ROUNDS, _ALONE_S, _TOGETHER_S = 3, 0.5, 1.0
"""Rounds of a measurement, and how long each tenant runs alone and all together in one, s: at least two minibatches."""


@dataclass(frozen=True, slots=True)
class MeasuredContention:
    """Minibatches of one engine, by tenant.

    Args:
        slowdowns: How many times as long as alone they took beside all others.
        alone_ns: Durations alone, ns; another engine may have others: threads of one process share their cores.
    """

    slowdowns: Mapping[str, Sequence[float]]
    alone_ns: Mapping[str, Sequence[int]]

    def slowdown(self, seed: int) -> Slowdown:
        """Return the slowdown of pairs, drawn from these; of several others each has an equal part of the excess."""
        draw, others = random.Random(seed), max(len(self.slowdowns) - 1, 1)
        return lambda tenant, _: 1 + (draw.choice(self.slowdowns[tenant]) - 1) / others

    def summary(self) -> dict[str, dict[str, float]]:
        """Return the median and number of the slowdowns of each tenant, for the header of a run."""
        return {name: {"median": median(of), "minibatches": len(of)} for name, of in self.slowdowns.items()}


def slowdown_of(contention: Contention | None, tenants: Sequence[Tenant], seed: int) -> Slowdown:
    """Return the slowdown of pairs on a device with this contention; of equal time slices where it is not known.

    Two tenants with deadlines, or two without, have equal shares.
    """
    answers = {tenant.name for tenant in tenants if isinstance(tenant, Inference)}
    draw = random.Random(seed)

    def slowdown(tenant: str, other: str) -> float:
        if contention is None or (tenant in answers) == (other in answers):
            return 2.0
        return draw.choice(contention.urgent if tenant in answers else contention.background)

    return slowdown


def measure_contention(
    engine: str, device: Device, tenants: Sequence[LiveTenant], mode: Mode, *, seed: int
) -> MeasuredContention:
    """Run tenants alone and together on an engine of a real device, and return how much longer they take together.

    Raises:
        InputError, DeviceError: a tenant cannot be loaded or fails.
    """
    alone: dict[str, list[int]] = {live.tenant.name: [] for live in tenants}
    together: dict[str, list[int]] = {name: [] for name in alone}
    with closing(LiveMinibatchBackend(engine, device, tenants, seed=seed)) as backend:
        apply_mode(backend, device, mode)
        numbers = dict.fromkeys(alone, 0)
        for _ in range(_ROUNDS):
            for live in tenants:
                alone[live.tenant.name] += _durations(backend, [live], numbers, _ALONE_S)[live.tenant.name]
            for name, found_ns in _durations(backend, tenants, numbers, _TOGETHER_S).items():
                together[name] += found_ns
    return MeasuredContention(
        {name: [duration_ns / median(alone[name]) for duration_ns in of] for name, of in together.items()}, alone
    )


def _durations(
    backend: LiveMinibatchBackend, tenants: Sequence[LiveTenant], numbers: dict[str, int], least_s: float
) -> dict[str, list[int]]:
    """Run tenants back to back at once; return the durations of minibatches beside which all others ran, ns."""
    found: dict[str, list[int]] = {live.tenant.name: [] for live in tenants}
    counts = {each.tenant.name: each.tenant.batch_size for each in tenants if isinstance(each.tenant, Inference)}

    def start(live: LiveTenant) -> None:
        name = live.tenant.name
        task = "infer" if isinstance(live.tenant, Inference) else live.tenant.task
        backend.start(Minibatch(name, task, numbers[name], tuple(range(counts.get(name, 0)))))
        numbers[name] += 1

    by_name = {live.tenant.name: live for live in tenants}
    running, begin_ns = set(by_name), backend.now_ns()
    for live in tenants:
        start(live)
    while running:
        for done in backend.wait(None):
            name = done.minibatch.tenant
            running.discard(name)
            if done.failure is not None:
                raise InputError(f"{name}: {done.failure}", "correct it, and try again")
            found[name].append(done.end_ns - done.start_ns)
            short = any(len(of) < 2 for of in found.values())
            if short or backend.now_ns() - begin_ns < least_s * NS:
                running.add(name)
                start(by_name[name])
    return {name: of[: max(len(of) - 1, 1)] for name, of in found.items()}  # the last may have ended alone
