"""A small GPU in round numbers, kernels and tasks for it, and policies that do one thing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import ClassVar

from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.gpu import Call, Gpu, GpuTask, KernelSequence, Logical, Resources
from edgetune.stages.elastic.model import GpuTimingModel
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.view import Decision, Launch, LaunchChain, LaunchEvent, LaunchPiece, View

US = 1000
"""Nanoseconds in a microsecond."""

GPU = Gpu(
    name="small", sm_count=2, compute_capability="8.7", threads_per_sm=1024, blocks_per_sm=8, threads_per_block=1024,
    registers_per_sm=65536, shared_bytes_per_sm=65536, shared_bytes_per_block=49152, flop_per_s=2e12,
    bandwidth_bytes_per_s=1e11, launch_s=10e-6, source="made up",
)  # fmt: skip
FREE = GpuTimingModel(saturating_threads=512, turn_s=0.0, serial_cost=0.0, gap_s=0.0, host_s=0.0)
"""Launching costs nothing but the latency of the GPU."""


def call(
    blocks: int = 8, threads: int = 128, block_us: float | None = 100.0, *, registers: int = 32, shared: int = 0,
    flop: float = 0.0, drawn: float = 0.0,
) -> Call:  # fmt: skip
    block_s = None if flop or drawn or block_us is None else block_us / 1e6
    logical, resources = Logical((blocks, 1, 1), (threads, 1, 1), shared), {1: Resources(registers)}
    return Call("k", logical, (), flop, drawn, block_s=block_s, resources=resources)


def task(
    name: str, *calls: Call, priority: int = 0, arrivals: str = "closed", deadline_s: float | None = None
) -> GpuTask:
    return GpuTask(name, KernelSequence(f"net of {name}", calls or (call(),)), priority, arrivals, deadline_s)


class Scene:
    """A simulated GPU on which launches are made one by one."""

    def __init__(
        self, *priorities: int, gpu: Gpu = GPU, model: GpuTimingModel = FREE,
        fault: Callable[[Launch], str | None] | None = None, most_residencies: int = 1000,
        sms: Sequence[int | None] = (),
    ) -> None:  # fmt: skip
        tasks = [task(f"t{place}", priority=priority) for place, priority in enumerate(priorities or (0,))]
        tasks = [replace(each, sms=most) for each, most in zip_longest(tasks, sms)]
        self.clock = EventClock()
        self.gpu = SimulatedGpu(
            self.clock, gpu, tasks, model=model, fault=fault or (lambda _: None), most_residencies=most_residencies
        )
        self._numbers = 0

    def launch(self, what: Call, stream: int = 0, *, first: int = 0, count: int | None = None, **more: object) -> int:
        count = what.logical.blocks if count is None else count
        number, self._numbers = self._numbers, self._numbers + 1
        self.gpu.launch(Launch(number, f"t{stream}", 0, 0, what, first, count, **more))  # type: ignore[arg-type]
        return number

    def until(self, at_us: float) -> None:
        while self.gpu.now_ns() < at_us * US:
            self.gpu.wait(round(at_us * US))

    def run(self) -> dict[tuple[int, str], float]:
        """Run until nothing happens any more; return when launches started and ended, us."""
        return times(iter(lambda: self.gpu.wait(None), []))


def times(waits: Iterable[Iterable[LaunchEvent]]) -> dict[tuple[int, str], float]:
    return {(moment.launch, moment.kind): moment.at_ns / US for moments in waits for moment in moments}


class Whole:
    """Launches every request as it is."""

    name: ClassVar[str] = "whole"

    def decide(self, view: View) -> list[Decision]:
        return [LaunchChain(each.task.name) for each in view.tasks for _ in each.arrived_ns]


class Pieces:
    """Launches so many logical blocks at a time, one piece in flight of each task."""

    name: ClassVar[str] = "pieces"

    def __init__(self, count: int = 3, blocks: int = 2, per_thread: int = 1) -> None:
        self._count, self._blocks, self._per_thread = count, blocks, per_thread

    def decide(self, view: View) -> list[Decision]:
        return [
            LaunchPiece(each.task.name, min(self._count, each.left), self._per_thread, self._blocks)
            for each in view.tasks
            if not each.in_flight and (each.arrived_ns or each.request is not None)
        ]


class Says:
    """Decides what it is told to, once each."""

    name: ClassVar[str] = "says"

    def __init__(self, *decisions: Decision) -> None:
        self._decisions = list(decisions)

    def decide(self, view: View) -> list[Decision]:
        return [self._decisions.pop(0)] if self._decisions else []
