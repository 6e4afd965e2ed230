"""The simulated backend: minibatches take given times, on an event clock.

    start(a) --overhead--> runs ------------> over
    start(b) --overhead------> runs, both at half speed --> over

One minibatch at a time runs at full speed. Where several tenants run at once, each takes so many times as long as
``Slowdown`` says of every pair. By default that is 2, so that each of n has the n-th part of the device (processor
sharing): the simplest model of a driver that time-slices.
"""

import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgetune.artifacts.mode import Mode
from edgetune.serving.clock import EventClock
from edgetune.stages.interleave.admission import NEVER_NS
from edgetune.stages.interleave.backend import FinishedMinibatch, Minibatch, Tenant
from edgetune.units import NS

_ROUNDING_NS = 1e-3
"""Rounding error of the remaining time of a minibatch that has ended, ns."""

Durations = Callable[[str, int, Mode], int]
"""Duration of the next minibatch of a tenant, alone on the device, ns, by tenant, batch size and mode."""

Overhead = Callable[[str | None, str, bool], int]
"""Pause before the device runs a minibatch, ns, by the tenant that ended just then (``None`` for none), its own tenant,
and whether it was lined up behind another of its tenant."""

Slowdown = Callable[[str, str], float]
"""How many times as long a minibatch takes while one of another tenant runs all the time, by both tenants.

Of several others the excess over 1 adds up, as it does where all have equal shares."""

Power = Callable[[str | None, int, Mode], float]
"""Power while a tenant runs, W, by tenant (``None`` and batch 0 while the device is idle), batch size and mode."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure of one minibatch.

    Args:
        failure: Why it fails, one line; ``None`` where only some of its requests do.
        failed: Requests that fail by themselves, with the reason.
        duration_ns: What it takes instead, ns: a tenant that hangs is given up after this long.
        lost: Whether its tenant ends with it.
    """

    failure: str | None = None
    failed: tuple[tuple[int, str], ...] = ()
    duration_ns: int | None = None
    lost: bool = False


def resampled(times_ns: Callable[[str, int, Mode], Sequence[int]], seed: int) -> Durations:
    """Return durations drawn from recorded ones, with replacement: the scatter of a real device, its tail included.

    Args:
        times_ns: Measured minibatch times by tenant, batch size and mode, ns; asked once for each.
        seed: The same seed gives the same durations.
    """
    draw = random.Random(seed)
    recorded: dict[tuple[str, int, Mode], Sequence[int]] = {}

    def duration_ns(tenant: str, batch_size: int, mode: Mode) -> int:
        key = (tenant, batch_size, mode)
        if key not in recorded:
            recorded[key] = times_ns(*key)
        return draw.choice(recorded[key])

    return duration_ns


class PowerTrace:
    """Power of a device as a function of time that changes in steps, with its integral.

    Args:
        at_ns: When it begins.
        power_w: What is drawn from then on, W.
    """

    def __init__(self, at_ns: int, power_w: float) -> None:
        self._times_ns, self._power_w, self._energy_j = [at_ns], [power_w], [0.0]

    def change(self, at_ns: int, power_w: float) -> None:
        """Set the power from ``at_ns`` on; times must not go back."""
        if power_w == self._power_w[-1]:
            return
        self._energy_j.append(self._drawn_j(at_ns))
        self._times_ns.append(at_ns)
        self._power_w.append(power_w)

    def energy_j(self, from_ns: int, to_ns: int) -> float:
        """Return the energy of an interval, J; zero before the trace began."""
        return self._drawn_j(to_ns) - self._drawn_j(from_ns)

    def mean_w(self, from_ns: int, to_ns: int) -> float:
        """Return the mean power over an interval, W; of an empty one, the power then."""
        if to_ns <= from_ns:
            return self._power_w[max(bisect_right(self._times_ns, to_ns) - 1, 0)]
        return self.energy_j(from_ns, to_ns) * NS / (to_ns - from_ns)

    def _drawn_j(self, at_ns: int) -> float:
        step = bisect_right(self._times_ns, at_ns) - 1
        return 0.0 if step < 0 else self._energy_j[step] + self._power_w[step] * (at_ns - self._times_ns[step]) / NS


@dataclass(slots=True)
class _Running:
    """A minibatch on the device, and how long it would still take alone."""

    minibatch: Minibatch
    start_ns: int
    left_ns: float
    fault: Fault | None
    excess: dict[str, float] = field(default_factory=dict)
    """How much longer it takes for each tenant beside it, as a share of its duration alone."""

    @property
    def speed(self) -> float:
        """Its speed as a share of that alone."""
        return 1 / (1 + sum(self.excess.values()))


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """The behaviour of a device that does not exist.

    Args:
        duration_ns: Duration of each minibatch; raises ``InputError`` for a batch size that cannot run.
        overhead_ns: From the call of ``start``, or the end of the minibatch ahead, until the device runs the minibatch,
            ns; a number is for every start, and none for a minibatch that is lined up.
        mode: The power mode at first.
        accept: Returns a mode as read back, or raises ``DeviceError`` where it is refused.
        power_w: Power, W; where several tenants run, the largest counts (measured so by Fulcrum, 2025).
        fault: Returns the failure of a minibatch, if it fails.
        slowdown: How minibatches that run at once slow each other down.
    """

    duration_ns: Durations
    overhead_ns: int | Overhead = 0
    mode: Mode = field(default_factory=Mode)
    accept: Callable[[Mode], Mode] = lambda mode: mode
    power_w: Power | None = None
    fault: Callable[[Minibatch], Fault | None] = lambda _: None
    slowdown: Slowdown = lambda *_: 2.0

    def overhead_of(self, before: str | None, tenant: str, lined_up: bool) -> int:
        """Return the pause before a minibatch, ns; see ``Overhead``."""
        if callable(self.overhead_ns):
            return self.overhead_ns(before, tenant, lined_up)
        return 0 if lined_up else self.overhead_ns


class SimulatedMinibatchBackend:
    """A backend without a device; see ``MinibatchBackend``.

    Args:
        clock: Simulated time, which advances when the loop waits; other events may happen on it, too.
        tenants: Workloads to hold ready.
        device: Their durations, and the power of the device.
    """

    def __init__(self, clock: EventClock, tenants: Sequence[Tenant], device: SimulatedDevice) -> None:
        self._clock, self._device, self.mode = clock, device, device.mode
        self._batch_sizes = {tenant.name: tenant.batch_size for tenant in tenants}
        self._lines: dict[str, deque[tuple[Minibatch, int]]] = {tenant.name: deque() for tenant in tenants}
        """Minibatches sent and not begun, with the time from which each can begin."""
        self._running: dict[str, _Running] = {}
        self._over: list[FinishedMinibatch] = []
        self._ended: tuple[int, str] | None = None
        """When the last minibatch ended, and its tenant."""
        self._lost: set[str] = set()
        self._progress_ns = clock.now_ns()
        self.power = None if device.power_w is None else PowerTrace(clock.now_ns(), self._drawn_w(device.power_w))
        """Power so far; ``None`` where it is unknown."""

    def now_ns(self) -> int:
        """Return simulated time, ns."""
        return self._clock.now_ns()

    def start(self, minibatch: Minibatch) -> None:
        """Begin a minibatch after the overhead, or line it up."""
        now_ns = self.now_ns()
        if minibatch.begin_by_ns is not None and self._busy():
            self._lines[minibatch.tenant].append((minibatch, now_ns))
            if minibatch.begin_by_ns < NEVER_NS:
                self._clock.at(max(minibatch.begin_by_ns, now_ns), lambda: self._begin(minibatch))
            return
        before = self._ended[1] if self._ended is not None and self._ended[0] == now_ns else None
        ready_ns = now_ns + self._device.overhead_of(before, minibatch.tenant, lined_up=False)
        self._lines[minibatch.tenant].append((minibatch, ready_ns))
        if minibatch.tenant not in self._running and len(self._lines[minibatch.tenant]) == 1:
            self._begin_at(minibatch.tenant, ready_ns)

    def wait(self, until_ns: int | None) -> Sequence[FinishedMinibatch]:
        """Advance the clock until a minibatch ends or it is ``until_ns``; return the minibatches that ended."""
        while not self._over and (until_ns is not None or self._busy()):
            self._clock.advance(until_ns, self._next_end_ns())
            self._end()
            if until_ns is not None and self.now_ns() >= until_ns:
                break
        over, self._over = self._over, []
        return over

    def prepare(self, tenant: str, batch_size: int) -> None:
        """Hold a tenant ready at another batch size; an impossible one is refused now.

        Raises:
            InputError: as the durations do; the old batch size is held ready.
        """
        while tenant in self._running or self._lines[tenant]:
            before, self._over = self._over, []
            self._over = [*before, *self.wait(None)]  # what ends is kept for the next ``wait``
        self._device.duration_ns(tenant, batch_size, self.mode)
        self._batch_sizes[tenant] = batch_size

    def apply(self, mode: Mode) -> Mode:
        """Set a power mode and return it as read back; running minibatches keep their speed.

        Raises:
            DeviceError: as ``accept`` does; the mode is unchanged.
        """
        self.mode = self._device.accept(mode)
        self._note_power()
        return self.mode

    def _busy(self) -> bool:
        return bool(self._running) or any(self._lines.values())

    def _begin_at(self, tenant: str, time_ns: int) -> None:
        minibatch, _ = self._lines[tenant][0]
        if time_ns <= self.now_ns():
            self._begin(minibatch)
        else:
            self._clock.at(time_ns, lambda: self._begin(minibatch))

    def _begin(self, minibatch: Minibatch) -> None:
        """Begin a minibatch, unless it has begun, or its tenant runs another."""
        tenant = minibatch.tenant
        if tenant in self._running or not self._lines[tenant] or self._lines[tenant][0][0] is not minibatch:
            return
        self._progress()
        self._lines[tenant].popleft()
        now_ns = self.now_ns()
        if tenant in self._lost:
            self._over.append(FinishedMinibatch(minibatch, now_ns, now_ns, failure="its tenant had ended", lost=True))
            self._next_in_line(tenant, tenant)
            return
        fault = self._device.fault(minibatch)
        duration_ns = None if fault is None else fault.duration_ns
        if duration_ns is None:
            duration_ns = self._device.duration_ns(tenant, self._batch_sizes[tenant], self.mode)
        begun = _Running(minibatch, now_ns, duration_ns, fault)
        for other, running in self._running.items():
            begun.excess[other] = self._device.slowdown(tenant, other) - 1
            running.excess[tenant] = self._device.slowdown(other, tenant) - 1
        self._running[tenant] = begun
        self._note_power()

    def _next_in_line(self, before: str, tenant: str) -> None:
        if self._lines[tenant]:
            _, ready_ns = self._lines[tenant][0]
            self._begin_at(
                tenant, max(ready_ns, self.now_ns() + self._device.overhead_of(before, tenant, lined_up=True))
            )

    def _progress(self) -> None:
        """Subtract the work done since the last call."""
        now_ns = self.now_ns()
        for running in self._running.values():
            running.left_ns -= (now_ns - self._progress_ns) * running.speed
        self._progress_ns = now_ns

    def _next_end_ns(self) -> int | None:
        if not self._running:
            return None
        least_ns = min(running.left_ns / running.speed for running in self._running.values())
        return self._progress_ns + max(math.ceil(least_ns - _ROUNDING_NS), 0)

    def _end(self) -> None:
        self._progress()
        ended = [tenant for tenant, running in self._running.items() if running.left_ns <= _ROUNDING_NS]
        for tenant in ended:
            running = self._running.pop(tenant)
            fault = running.fault or Fault()
            if fault.lost:
                self._lost.add(tenant)
            done = FinishedMinibatch(
                running.minibatch, running.start_ns, self.now_ns(), None, fault.failure, fault.failed, fault.lost
            )
            self._over.append(done)
            self._ended = (self.now_ns(), tenant)
            for other in self._running.values():
                other.excess.pop(tenant, None)
        for before in ended:
            for tenant in [before] if self._running else self._lines:
                self._next_in_line(before, tenant)
        if ended:
            self._note_power()

    def _note_power(self) -> None:
        if self.power is not None and self._device.power_w is not None:
            self.power.change(self.now_ns(), self._drawn_w(self._device.power_w))

    def _drawn_w(self, power_w: Power) -> float:
        if not self._running:
            return power_w(None, 0, self.mode)
        return max(power_w(tenant, self._batch_sizes[tenant], self.mode) for tenant in self._running)
