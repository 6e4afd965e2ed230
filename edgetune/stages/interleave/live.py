"""The backend on a real device: child processes that hold the tenants, and pipes to them.

    managed, native                      streams
    loop --+-- process of tenant a       loop ---- process --+-- thread of tenant a, stream of high priority
           +-- process of tenant b                           +-- thread of tenant b, stream of low priority

A tenant that crashes or hangs ends its process and nothing else. Tenants that share a process end together, except that
a hang leaves the other threads running. Everything is loaded and warm before a run starts.
"""

import select
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent
from edgetune.devices.cpu import usable_cpus
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.processes.child import Child
from edgetune.processes.turn_signal import SignalPipe, new_turn_signal
from edgetune.serving.requests import LineArrivals
from edgetune.stages.interleave.backend import (
    ENGINES,
    FinishedMinibatch,
    Inference,
    LiveTenant,
    Minibatch,
    SavedCheckpoint,
)
from edgetune.units import NS, format_duration

_WORKER = "edgetune.stages.interleave.worker"
_HANG_S, _HANG_FACTOR = 10.0, 20.0
"""A minibatch hangs when it takes this long, s, and this many times longer than expected: a machine may stall for
seconds (memory, a driver), and a minibatch far slower than that does not end."""
_LOAD_TIMEOUT_S = 600.0
"""Loading compiles a network for some providers (TensorRT), which takes minutes."""
_SAVE_TIMEOUT_S = 120.0
_QUIET_THREADS = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
"""Threads of OpenMP sleep as soon as they are idle. By default they spin, on cores that other processes need: on two
cores with other programs, a training step of MobileNetV2 then took 2 to 6 times as long. The same for all engines, so
that they compare. See the OpenMP specification (OMP_WAIT_POLICY), libgomp's and LLVM's manuals."""


@dataclass(slots=True)
class _Held:
    """A tenant in its process."""

    live: LiveTenant
    child: Child
    running: deque[Minibatch] = field(default_factory=deque)
    since_ns: int = 0
    """Since when the first minibatch runs, as far as this process knows, or when it begins at the latest."""
    turns: deque[int] = field(default_factory=deque)
    """The turn of each minibatch; see ``processes.turn_signal``."""
    found_ns: int | None = None
    """Modification time of the file that was at the checkpoint's path before the run, ns."""
    lost: str | None = None
    last_output: str | None = None
    """The last lines printed before its process ended or its thread hung; ``None`` while it can be asked."""


class LiveMinibatchBackend:
    """Runs minibatches of tenants in child processes; a ``backend.MinibatchBackend``.

    The constructor loads every tenant, one after the other, which takes seconds; ``close`` ends the processes.

    Args:
        engine: Name of a row of ``ENGINES``.
        device: Where to run; its source must be live.
        tenants: Workloads to hold ready.
        save_every_s: Interval between checkpoints during a run, s; ``None`` writes them at the end only.
        warmup: Minibatches run after loading, before anything counts.
        hang_s: Least duration after which a minibatch counts as hung, s; more for slow ones.
        seed: Of random inputs and weights.

    Raises:
        InputError: a tenant cannot be loaded, or does not run at its batch size.
        DeviceError: the device is simulated, or a library or provider is missing.
    """

    def __init__(
        self,
        engine: str,
        device: Device,
        tenants: Sequence[LiveTenant],
        *,
        save_every_s: float | None = None,
        warmup: int = 3,
        hang_s: float = _HANG_S,
        seed: int = 0,
    ) -> None:
        if not isinstance(device.source, LiveSource):
            raise DeviceError(f"{device.name} cannot run a network: it is no real device", "use --engine simulated")
        self.warm_up_s: dict[str, list[float]] = {}
        """Durations of the warm-up minibatches, s, by tenant."""
        self._source, self._modes = device.source, device.modes
        self._outside: Mapping[str, LineArrivals] = {}
        self._engine, self._save_every_s, self._warmup, self._seed = ENGINES.find(engine), save_every_s, warmup, seed
        self._hang_s = hang_s
        self._cores: int | None = None
        self._held: dict[str, _Held] = {}
        self._over: list[FinishedMinibatch] = []
        self._children: list[Child] = []
        self._closing: list[threading.Thread] = []
        self._woken = SignalPipe()
        self._turn_signal = new_turn_signal(len(tenants)) if self._engine.lines_up else None
        self._turn = 0
        try:
            self._open(tenants)
        except BaseException:
            self.close()
            raise

    def _open(self, tenants: Sequence[LiveTenant]) -> None:
        for live in tenants:  # processes first: they import what they need while others load
            if not self._children or not self._engine.one_process:
                environment = {**_QUIET_THREADS, **self._source.environment}
                descriptors = () if self._turn_signal is None else self._turn_signal.descriptors
                self._children.append(Child(_WORKER, environment=environment, descriptors=descriptors))
            self._held[live.tenant.name] = _Held(live, self._children[-1])
        for held in self._held.values():
            path = held.live.checkpoint
            if path is not None and path.exists():
                held.found_ns = path.stat().st_mtime_ns
            self._load(held, held.live.tenant.batch_size)

    @property
    def lost(self) -> bool:
        """Whether a tenant cannot continue: its process has ended, it hangs, or its training failed."""
        return any(held.lost is not None for held in self._held.values())

    def now_ns(self) -> int:
        """Return the time of the system's monotonic clock, which child processes use too, ns."""
        return time.monotonic_ns()

    def listen(self, outside: Mapping[str, LineArrivals]) -> None:
        """Take requests from outside for these tenants from now on."""
        self._outside = outside

    def start(self, minibatch: Minibatch) -> None:
        """Send a minibatch to its process, which runs it after those sent before."""
        held = self._held[minibatch.tenant]
        if held.lost is not None:
            now_ns = time.monotonic_ns()
            self._over.append(FinishedMinibatch(minibatch, now_ns, now_ns, failure=held.lost, lost=True))
            return
        command: dict[str, Any] = {"command": "run", "tenant": minibatch.tenant, "number": minibatch.number}
        if minibatch.task == "infer":
            command["requests"] = minibatch.requests
            outside = self._outside.get(minibatch.tenant)
            if outside is not None:
                command["lines"] = [outside.text(request) for request in minibatch.requests]
        after = self._behind(minibatch)
        if not held.running:
            held.since_ns = time.monotonic_ns() if after is None else minibatch.begin_by_ns or 0
        self._turn += 1
        if self._turn_signal is not None:
            command |= {"turn": self._turn, "after": after, "begin_by_ns": minibatch.begin_by_ns}
        held.running.append(minibatch)
        held.turns.append(self._turn)
        try:
            held.child.send(command)
        except EdgetuneError as error:
            self._lose_child(held.child, error.message)

    def _behind(self, minibatch: Minibatch) -> tuple[int, int] | None:
        """Return the place of the process and the turn whose end a minibatch waits for: those of the last one sent.

        ``None`` where it waits for none: the last one is in the same process, or it begins now.
        """
        if self._turn_signal is None or minibatch.begin_by_ns is None:
            return None
        last = next((held for held in self._held.values() if held.turns and held.turns[-1] == self._turn), None)
        if last is None or last is self._held[minibatch.tenant]:
            return None
        return self._place(last), self._turn

    def _place(self, held: _Held) -> int:
        return self._children.index(held.child)

    def wait(self, until_ns: int | None) -> Sequence[FinishedMinibatch]:
        """Return the minibatches that ended; see ``MinibatchBackend.wait``. A handled signal ends the wait as well."""
        while not self._over:
            now_ns = time.monotonic_ns()
            self._lose_hanging(now_ns)
            busy = [held for held in self._held.values() if held.running]
            if self._over or (until_ns is None and not busy):
                break
            if (until_ns is not None and now_ns >= until_ns) or self._select(busy, until_ns, now_ns):
                break
        over, self._over = sorted(self._over, key=attrgetter("end_ns")), []
        return over

    def _select(self, busy: Sequence[_Held], until_ns: int | None, now_ns: int) -> bool:
        """Sleep until a reply, a request, a signal or the first time of interest; return whether the wait is over."""
        children = list({id(held.child): held.child for held in busy}.values())
        outside = [] if until_ns is None else [each for each in self._outside.values() if not (each.ended or each.full)]
        times_ns = [held.since_ns + self._limit_ns(held) for held in busy]
        times_ns += [] if until_ns is None else [until_ns]
        sleep_s = max(min(times_ns) - now_ns, 0) / NS
        sources: list[Child | LineArrivals | SignalPipe] = [*children, *outside, self._woken]
        descriptors = {source.fileno(): source for source in sources}
        readable, _, _ = select.select([*descriptors], [], [], sleep_s)
        ready = [descriptors[descriptor] for descriptor in readable]
        for child in children:
            if child in ready:
                self._take_replies(child)
        if self._woken in ready:
            self._woken.clear()
        return any(source not in children for source in ready)

    def _take_replies(self, child: Child) -> None:
        try:
            for reply in child.received():
                self._take(reply)
        except EdgetuneError as error:
            self._lose_child(child, error.message)

    def _take(self, reply: Mapping[str, Any]) -> None:
        held = self._held[reply["tenant"]]
        if held.lost is not None or "number" not in reply:
            return  # of a minibatch that was given up
        minibatch = held.running.popleft()
        held.turns.popleft()
        held.since_ns = time.monotonic_ns()
        self._begun(held.since_ns)
        failed = reply.get("failed")
        done = FinishedMinibatch(
            minibatch, reply["start_ns"], reply["end_ns"], reply.get("loss"), reply["failure"],
            tuple((request, reason) for request, reason in failed) if failed else (), reply["lost"],
        )  # fmt: skip
        self._over.append(done)
        if done.lost:
            self._lose(held, reply["failure"])

    def _limit_ns(self, held: _Held) -> int:
        expected_s = max(held.live.tenant.minibatch_s, *self.warm_up_s.get(held.live.tenant.name, ()), 0.0)
        return round(max(self._hang_s, _HANG_FACTOR * expected_s) * NS)

    def _lose_hanging(self, now_ns: int) -> None:
        for held in self._held.values():
            limit_ns = self._limit_ns(held)
            if held.running and now_ns - held.since_ns >= limit_ns:
                reason = f"did not finish within {format_duration(limit_ns / NS)} and was stopped"
                others = [o for o in self._held.values() if o.child is held.child and o is not held and o.lost is None]
                if others:
                    held.last_output = held.child.log_tail()
                    self._lose(held, reason)
                else:
                    self._lose_child(held.child, reason)

    def _lose_child(self, child: Child, reason: str) -> None:
        """Give up every tenant of a process, and end the process without waiting for it."""
        for held in self._held.values():
            if held.child is child and held.last_output is None:
                held.last_output = child.log_tail()
                self._lose(held, held.lost or reason)
        closing = threading.Thread(target=child.close)
        closing.start()
        self._closing.append(closing)

    def _lose(self, held: _Held, reason: str) -> None:
        held.lost = reason
        now_ns = time.monotonic_ns()
        for minibatch in held.running:
            self._over.append(
                FinishedMinibatch(minibatch, min(held.since_ns, now_ns), now_ns, failure=reason, lost=True)
            )
        if self._turn_signal is not None and held.turns:
            self._turn_signal.end(self._place(held), held.turns[-1])
        held.running.clear()
        held.turns.clear()
        self._begun(now_ns)

    def _begun(self, now_ns: int) -> None:
        """Note that minibatches lined up have begun by now."""
        for held in self._held.values():
            held.since_ns = min(held.since_ns, now_ns)

    def prepare(self, tenant: str, batch_size: int) -> None:
        """Load a tenant at another batch size; see ``MinibatchBackend.prepare``.

        Raises:
            InputError: it cannot run at this batch size, and the old one is still loaded; or the tenant is lost.
            DeviceError: a library or provider is missing.
        """
        held = self._held[tenant]
        if held.lost is not None:
            raise InputError(f"{tenant} {held.lost}", "start it again")
        self._load(held, batch_size)
        held.live = replace(held.live, tenant=replace(held.live.tenant, batch_size=batch_size))

    def apply(self, mode: Mode) -> Mode:
        """Set a power mode; where it changes the number of cores, reload the tenants with as many threads.

        Raises:
            DeviceError: the device has no modes to set, or refused this one.
        """
        if isinstance(self._modes, Absent):
            raise DeviceError(f"the power mode cannot be set: {self._modes.reason}", "leave the mode as it is")
        applied = self._modes.apply(mode)
        before = self._cpus()
        self._cores = applied.cpu_cores
        if self._cpus() != before:
            for held in self._held.values():
                if held.lost is None:
                    self._load(held, held.live.tenant.batch_size)
        return applied

    def _load(self, held: _Held, batch_size: int) -> None:
        name = held.live.tenant.name
        try:
            reply = self._ask(held, self._load_command(held, batch_size), _LOAD_TIMEOUT_S)
        except TimeoutError:
            limit = format_duration(_LOAD_TIMEOUT_S)
            self._lose_child(held.child, f"was not loaded within {limit}")
            raise InputError(f"{name} was not loaded within {limit}", "try a smaller network") from None
        except EdgetuneError as error:
            if not held.child.alive:
                self._lose_child(held.child, error.message)
            raise type(error)(f"{name}: {error.message}", error.hint) from None
        self.warm_up_s[name] = reply["minibatches_s"] or self.warm_up_s.get(name, [])

    def _ask(self, held: _Held, command: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a command to a tenant of which no minibatch runs, and return the reply.

        Raises:
            TimeoutError: it took too long.
            InputError, DeviceError: it failed.
        """
        deadline_s = time.monotonic() + timeout_s
        reply = held.child.ask(command, deadline_s=deadline_s)
        while "number" in reply:  # of a minibatch in the same process that was given up
            select.select([held.child], [], [], max(deadline_s - time.monotonic(), 0.0))
            later = next(held.child.received(), None)
            if later is None:
                raise TimeoutError
            reply = later
        return reply

    def _load_command(self, held: _Held, batch_size: int) -> dict[str, Any]:
        cpus, live, tenant, source = self._cpus(), held.live, held.live.tenant, self._source
        paths = {"handler": live.handler, "checkpoint": live.checkpoint, "resume": live.resume}
        return {
            "command": "load", "tenant": tenant.name, "task": "infer" if isinstance(tenant, Inference) else tenant.task,
            "urgent": isinstance(tenant, Inference),
            "workload": live.workload.plain(), "batch_size": batch_size, "inputs": live.inputs,
            "dimensions": dict(live.dimensions), "shared": self._engine.one_process,
            "turn_signal": None if self._turn_signal is None else self._turn_signal.descriptors,
            "place": self._place(held), "cpus": cpus, "threads": len(cpus),
            "ort_providers": list(source.ort_providers), "torch_device": source.torch_device, "seed": self._seed,
            "warmup": self._warmup, "save_every_s": self._save_every_s,
            **{name: None if path is None else str(path.absolute()) for name, path in paths.items()},
        }  # fmt: skip

    def _cpus(self) -> list[int]:
        return usable_cpus()[: self._cores]

    def save(self) -> list[SavedCheckpoint]:
        """Write the checkpoints of all trainings that want one; no minibatch may be running."""
        return [self._save(held) for held in self._held.values() if held.live.checkpoint is not None]

    def _save(self, held: _Held) -> SavedCheckpoint:
        name, path = held.live.tenant.name, held.live.checkpoint
        assert path is not None
        kept = path if path.exists() and path.stat().st_mtime_ns != held.found_ns else None
        if held.last_output is not None:
            return SavedCheckpoint(name, kept, failure=held.lost)
        try:
            reply = self._ask(held, {"command": "save", "tenant": name}, _SAVE_TIMEOUT_S)
        except TimeoutError:
            return SavedCheckpoint(name, kept, failure=f"saving took over {format_duration(_SAVE_TIMEOUT_S)}")
        except EdgetuneError as error:
            return SavedCheckpoint(name, kept, failure=held.lost or error.message)
        return SavedCheckpoint(name, path, reply["steps"])

    def log_tail(self, tenant: str) -> str:
        """Return the last lines that a tenant's process printed, even after it ended."""
        held = self._held[tenant]
        return held.last_output if held.last_output is not None else held.child.log_tail()

    def close(self) -> None:
        """End every process without writing checkpoints; repeated calls do nothing."""
        for closing in self._closing:
            closing.join()
        for child in self._children:
            child.close()
        self._woken.close()
        if self._turn_signal is not None:
            self._turn_signal.close()
