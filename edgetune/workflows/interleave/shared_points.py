"""How long minibatches take when the tenants take turns, as they will: not the same as alone.

    a a' b  a a' b  ...      what one leaves in the caches, and how its threads go to sleep, the next one feels

Times of a profile are those of a network that has the machine to itself, with threads that spin while they wait. Here
processes are set up as in a run, and every minibatch of one tenant is followed by one of each other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.device import Absent, Device
from edgetune.errors import InputError
from edgetune.interleave.backend import Minibatch
from edgetune.interleave.live import LiveMinibatchBackend
from edgetune.interleave.tenants import Inference, Tenant, Training
from edgetune.stats import find_warmup, median, percentile
from edgetune.units import NS
from edgetune.workflows.interleave.points import TenantMeasurements

MOST, LEAST, ENOUGH_S, LONGEST_S = 100, 20, 3.0, 10.0
"""Minibatches of a point: as many as fill these seconds within these bounds, or with those of the others ten; of 20 the
slowest is about the 95th percentile."""


def measure_shared(
    device: Device,
    tenants: Sequence[TenantMeasurements],
    points: Mapping[str, Sequence[Point]],
    *,
    seed: int,
) -> dict[str, list[ProfileRow]]:
    """Return a row for each point of each tenant; of one that cannot run it tells the reason, and the others go on.

    Handlers are left out: what they do with an answer is not for trying. Checkpoints are named, so that a training that
    cannot save or load one is refused when it is loaded; none is written.

    Args:
        device: A real one; whoever opened it puts its mode back.
        tenants: All that will share it.
        points: To measure, by tenant.
        seed: Of inputs and weights.

    Raises:
        InputError, DeviceError: a tenant cannot be loaded at all, or the device refused a mode.
    """
    sizes = {each.asked.name: _first_size(each, points[each.asked.name]) for each in tenants}
    live = [replace(each.live(_tenant(each, sizes[each.asked.name])), handler=None) for each in tenants]
    rows: dict[str, list[ProfileRow]] = {each.asked.name: [] for each in tenants}
    modes: list[Mode] = list(dict.fromkeys(point.mode for several in points.values() for point in several))
    backend = LiveMinibatchBackend("managed", device, live, seed=seed)
    try:
        for mode in modes:
            apply_mode(backend, device, mode)
            for each in tenants:
                name = each.asked.name
                held = sizes[name]
                for point in (point for point in points[name] if point.mode == mode):
                    rows[name].append(_row(backend, tenants, each, point, held))
                    held = point.batch_size
                    if backend.lost:  # say, out of memory at a large batch: the next point finds everyone as at first
                        backend.close()
                        backend = LiveMinibatchBackend("managed", device, live, seed=seed)
                        apply_mode(backend, device, mode)
                        held = sizes[name]
                if held != sizes[name]:
                    backend.prepare(name, sizes[name])
    finally:
        backend.close()
    return rows


def apply_mode(backend: LiveMinibatchBackend, device: Device, mode: Mode) -> None:
    """Set a mode; where none can be set, only one without knobs is no error."""
    if mode.settings() or not isinstance(device.modes, Absent):
        backend.apply(mode)


def _first_size(known: TenantMeasurements, points: Sequence[Point]) -> int:
    if points:
        return points[0].batch_size
    return known.asked.batch_size or known.rows[0].batch_size


def _tenant(known: TenantMeasurements, batch_size: int) -> Tenant:
    opts = known.asked
    if opts.task == "train":
        return Training(opts.name, batch_size, 0.0)
    return Inference(opts.name, batch_size, opts.latency_budget_s or 0.0, None, 0.0)


def _row(
    backend: LiveMinibatchBackend,
    tenants: Sequence[TenantMeasurements],
    known: TenantMeasurements,
    point: Point,
    held: int,
) -> ProfileRow:
    """Return what a minibatch of one tenant takes that is held ready at another batch size, or at this."""
    knobs: dict[str, Any] = point.mode.settings()
    failed = ProfileRow(point.workload, point.task, point.batch_size, None, status="failed", **knobs)
    try:
        if point.batch_size != held:
            backend.prepare(known.asked.name, point.batch_size)
        times_s = _alternate(backend, tenants, known, point.batch_size)
    except InputError as error:
        return replace(failed, reason=error.message)
    warmups = find_warmup(times_s).length
    steady_s = times_s[warmups:]
    row = replace(failed, status="ok", minibatch_s=median(steady_s), minibatch_p95_s=percentile(steady_s, 95))
    return replace(row, times_s=tuple(times_s), warmups=warmups, minibatches=len(steady_s))


def _alternate(
    backend: LiveMinibatchBackend, tenants: Sequence[TenantMeasurements], known: TenantMeasurements, batch_size: int
) -> list[float]:
    """Run every tenant's minibatches in turn, and return what those of one took, s."""
    times_s: list[float] = []
    begun_s = time.monotonic()
    for number in range(MOST):
        for each in (*(other for other in tenants if other is not known), known):
            opts = each.asked
            count = (batch_size if each is known else 1) if opts.task == "infer" else 0
            backend.start(Minibatch(opts.name, opts.task, number, tuple(range(count))))
            (done,) = backend.wait(None)
            if done.failure is not None:
                raise InputError(f"{opts.name}: {done.failure}", "mend it, and try again")
            if each is known and number:  # the first after loading is not like the others
                times_s.append((done.end_ns - done.start_ns) / NS)
        enough = sum(times_s) >= ENOUGH_S or time.monotonic() - begun_s >= LONGEST_S
        if len(times_s) >= LEAST and enough:
            break
    return times_s
