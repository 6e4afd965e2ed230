"""A GPU with the networks of tasks ready on it, for one run or many.

open_gpu_session(0) -> GpuSession: open_backend(tasks) -> CudaBackend    networks are compiled, filled and warmed up
                                   open_backend(tasks) -> CudaBackend    once; streams and events belong to a backend

The kernels of a network are timed alone, in their place in a request, so that they find the caches as in a run:

    [delay][start event][kernel][end event][delay][start event][next kernel][end event]...     whole_s of each
    [delay][start event][one block for each multiprocessor][end event][all other blocks]...    block_s of each

What a launch takes is measured as the GPU is opened: from the end of a kernel to that of the next, empty one.

    host   launch|query|query|decide|launch|...
    GPU       ....[kernel]              ....[kernel]         shorter pieces leave the GPU waiting for the host
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from edgetune.errors import blaming
from edgetune.processes.families import without_collections
from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.blocks import TIMER_SOURCE, BlockRecords, GlobalTimer, delay
from edgetune.stages.elastic.cuda.building import Build, build, compiled_image, fitting, use_part
from edgetune.stages.elastic.cuda.context import HANG_S, WITHOUT, Context, open_context
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import Call, Gpu, GpuTask, KernelSequence, Logical, Resources
from edgetune.stages.elastic.kernel import PERSISTENT
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import values
from edgetune.stages.elastic.policies.simple import Sequential
from edgetune.stages.elastic.view import Launch
from edgetune.stats import median
from edgetune.units import NS
from edgetune.workloads.cuda_driver import load_driver

DELAY_NS = 60_000
"""Queueing two events and two launches takes some 20 us on the host of an H100; boards take longer."""
_REPEATS = 5
_MS = 1e-3


def timed_calls(context: Context, program: Program, image: bytes) -> tuple[Call, ...]:
    """Return a network's calls with their times; takes some milliseconds, while nothing else is to run.

    Args:
        context: The GPU.
        program: With contents, warmed up.
        image: ``blocks.TIMER_SOURCE``, compiled.

    Raises:
        KernelFailedError: a kernel failed.
    """
    driver, calls = context.driver, program.network.calls
    wholes = [[Launch(0, "", 0, place, call, 0, call.logical.blocks)] for place, call in enumerate(calls)]
    parted = [_parted(program, whole, context.facts.gpu.sm_count) for (whole,) in wholes]
    with context.scope():
        wait, stream = delay(context, image, DELAY_NS), context.stream()
        events = [(context.event(), context.event()) for _ in calls]

        def request_s(requests: Sequence[Sequence[Launch]]) -> list[float]:
            """Return the time of the first launch of each call, s."""
            for (first, *others), (start, end) in zip(requests, events, strict=True):
                wait.launch(stream)
                driver.call("cuEventRecord", start, stream)
                program.launch(first, stream)
                driver.call("cuEventRecord", end, stream)
                for launch in others:
                    program.launch(launch, stream)
            context.synchronise(stream)
            return [float(driver.call("cuEventElapsedTime", start, end)) * _MS for start, end in events]

        whole_s, block_s = (
            [median(each) for each in zip(*[request_s(launches) for _ in range(_REPEATS + 1)][1:], strict=True)]
            for launches in (wholes, parted)
        )  # the first request warms up
    return tuple(
        replace(call, whole_s=whole or None, block_s=(block if 1 in program.forms(place) else whole) or None)
        for place, (call, whole, block) in enumerate(zip(calls, whole_s, block_s, strict=True))
    )


def _parted(program: Program, whole: Launch, sm_count: int) -> list[Launch]:
    """Return a call as a block for each multiprocessor and the rest; the original, where it has no elastic form."""
    if 1 not in program.forms(whole.call):
        return [whole]
    first = min(whole.count, sm_count)
    parts = [(0, first)] if first == whole.count else [(0, first), (first, whole.count - first)]
    return [replace(whole, first=begin, count=count, blocks=count) for begin, count in parts]


EMPTY_KERNEL = "edgetune_empty"
EMPTY_SOURCE = f'extern "C" __global__ void {EMPTY_KERNEL}() {{}}'
_EMPTY_RUN_S = 0.1


def reaction_s(context: Context, image: bytes | None = None) -> float:
    """Return the median time from the end of a kernel until the end of an empty one that follows it, s.

    Args:
        context: The GPU; nothing else is to run on it for a tenth of a second.
        image: The empty kernel, compiled for it; ``None``: it is compiled.

    Raises:
        InputError: NVRTC does not know the GPU, or is newer than the driver.
        DeviceError: NVRTC is missing.
    """
    call = Call(EMPTY_KERNEL, Logical((1, 1, 1), (1, 1, 1)), elastic=False)
    task = GpuTask("empty", KernelSequence("empty", (call,)))
    built = Build(image or compiled_image(EMPTY_SOURCE, context, "empty"), {EMPTY_KERNEL: {None: Resources(0)}})
    with context.scope(), GpuSession(context, builder=lambda *_: built).open_backend([task]) as backend:
        loop = ElasticLoop(Sequential(), backend, [task], gpu=context.facts.gpu, duration_s=_EMPTY_RUN_S)
        loop.run()
    return median([later.ended_ns - earlier.ended_ns for earlier, later in pairwise(loop.launches)]) / NS


Builder = Callable[[KernelSequence, Context, bool], Build]
"""Compiles a network for the GPU of a context; the last argument asks for block records."""


class GpuSession:
    """Networks on a GPU, and backends for tasks that request them.

    Args:
        context: The GPU.
        recorded: Whether blocks write down where and when they run; that costs time.
        seed: Of the contents of inputs and weights.
        hang_s: As of ``CudaBackend``.
        builder: Compiles networks.
        timer_image: ``TIMER_SOURCE``, compiled; ``None``: it is compiled when it is first needed.
    """

    def __init__(
        self,
        context: Context,
        *,
        recorded: bool = False,
        seed: int = 0,
        hang_s: float = HANG_S,
        builder: Builder = build,
        timer_image: bytes | None = None,
    ) -> None:
        self.context = context
        self._recorded, self._seed, self._hang_s = recorded, seed, hang_s
        self._builder, self._timer_image = builder, timer_image
        self.programs: dict[str, Program] = {}
        """Networks that are ready, by task."""
        self._builds: dict[tuple[str, frozenset[str]], Build] = {}

    @property
    def gpu(self) -> Gpu:
        """Limits of the GPU, or of the part of it that is used."""
        return self.context.facts.gpu

    @cached_property
    def timer_image(self) -> bytes:
        """``TIMER_SOURCE``, compiled for the GPU when it is first needed."""
        return self._timer_image or compiled_image(TIMER_SOURCE, self.context, "timer")

    def prepare(self, tasks: Sequence[GpuTask]) -> None:
        """Compile, fill and warm up the networks of tasks that are not ready yet; each task has buffers of its own.

        Raises:
            InputError: a network has no source, does not compile, or does not fit the GPU.
            DeviceError: memory is short, or a kernel fails.
        """
        for task in tasks:
            known = self.programs.get(task.name)
            if known is not None and known.network == task.network:
                continue
            program = Program(self.context, task.network, self.build(task.network))
            program.write(values(task.network, self._seed))
            with self.context.scope():
                program.warm_up(self.context.stream())
            self.programs[task.name] = program

    def fitted(self, tasks: Sequence[GpuTask]) -> tuple[GpuTask, ...]:
        """Return tasks whose calls have the needs of their compiled kernels, and whether they have elastic forms.

        Raises:
            InputError: a network has no source, does not compile, or does not fit the GPU.
            DeviceError: the compiler is missing.
        """
        found = list[GpuTask]()
        for task in tasks:
            network, calls = task.network, list[Call]()
            with blaming(f"task {task.name}, network {network.name}"):
                for call in network.calls:
                    there = fitting(call, self.build(network), self.gpu)
                    needs = {**{key: each for key, each in there.items() if key}, 1: there[None]}
                    elastic, persistent = 1 in there, PERSISTENT in there
                    calls.append(replace(call, resources=needs, elastic=elastic, persistent=persistent))
            found.append(replace(task, network=replace(network, calls=tuple(calls))))
        return tuple(found)

    def measured(self, tasks: Sequence[GpuTask]) -> tuple[GpuTask, ...]:
        """Make tasks ready, and return them with the time of each of their kernels, by which policies size pieces.

        Raises:
            InputError, DeviceError: as ``prepare``.
        """
        self.prepare(tasks)
        found = []
        for task in tasks:
            program = self.programs[task.name]
            program.network = replace(task.network, calls=timed_calls(self.context, program, self.timer_image))
            found.append(replace(task, network=program.network))
        return tuple(found)

    @contextmanager
    def open_backend(self, tasks: Sequence[GpuTask]) -> Iterator[CudaBackend]:
        """Open a backend for one run of tasks.

        Raises:
            InputError, DeviceError: as ``prepare``.
        """
        self.prepare(tasks)
        with self.context.scope():
            recorded = self._recorded
            records = BlockRecords(self.context, GlobalTimer(self.context, self.timer_image)) if recorded else None
            backend = CudaBackend(self.context, self.programs, tasks, hang_s=self._hang_s, records=records)
            gc.collect()  # now, and not during a run, where it would take milliseconds
            with without_collections():
                yield backend
            if records is not None and not backend.lost:
                backend.residencies = records.residencies()

    def build(self, network: KernelSequence) -> Build:
        """Return the compiled kernels of a network, for every part of this GPU; they are compiled once.

        Raises:
            InputError: the network has no source, or does not compile.
            DeviceError: the compiler is missing.
        """
        wanted = network.source, frozenset(call.kernel for call in network.calls)
        if wanted not in self._builds:
            self._builds[wanted] = self._builder(network, self.context, self._recorded)
        return self._builds[wanted]


@contextmanager
def open_gpu_session(
    index: int,
    *,
    sm_count: int | None = None,
    module: Any = None,
    launch_s: Callable[[Context], float] = reaction_s,
    now_ns: Callable[[], int] = time.monotonic_ns,
    sleep_s: Callable[[float], object] = time.sleep,
    **options: Any,
) -> Iterator[GpuSession]:
    """Open a GPU.

    Args:
        index: Its number.
        sm_count: Use only so many of its multiprocessors, by a green context.
        module: In place of ``cuda.bindings.driver``.
        launch_s: Returns the time of a launch on a GPU, s, for policies.
        now_ns, sleep_s: The clock of everything.
        options: Of ``GpuSession``.

    Raises:
        DeviceError: cuda-bindings, the driver or the GPU is missing, or a part of it is not available.
    """
    driver = load_driver(module, WITHOUT)
    with open_context(driver, index, now_ns=now_ns, sleep_s=sleep_s) as context:
        if sm_count is not None:
            use_part(context, sm_count)
        context.facts = replace(context.facts, gpu=replace(context.facts.gpu, launch_s=launch_s(context)))
        yield GpuSession(context, **options)
