"""The GPU as the native launcher uses it: a stream for each task, words that say what has ended, a graph for a chain.

    program of a task --captured once--> graph: kernel 0 -> kernel 1 -> ...     one launch for each request
                                                +-> place  +-> place            beside the kernels, on a branch
    end of a launch --cuStreamWriteValue32--> word in the host's memory         no event, no query

No GPU has run this yet: everything here is proved on a fake driver of C++ (``tests/fakes/cuda_native.cpp``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from edgetune.errors import DeviceError
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.cuda.backend import WaitTimes, stream_priorities
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.driver import NotOfferedError
from edgetune.stages.elastic.cuda.green import part_of
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.native.structs import Api, FormRow, LineRow, ReadyRow
from edgetune.stages.elastic.work import GpuTask
from edgetune.units import NS

API = (
    "cuCtxSetCurrent", "cuLaunchKernel", "cuGraphLaunch", "cuStreamWriteValue32_v2", "cuMemsetD32Async", "cuStreamQuery"
)  # fmt: skip
"""In the order of ``Api``. Where a driver or a GPU lacks the fourth, the fifth writes in its place."""
_OPTIONAL = "cuStreamWriteValue32_v2"
_FORMS = (None, 1, 2, 4, 8)
"""Logical threads in a physical one, in the order of ``Ready``; ``None`` is the original."""
_LINE_WORDS = 32
"""Words of a task: what has ended, and in another cache line of 64 bytes the kernel of the chain that runs."""
_PLACE = 16


class NativeBackend:
    """Streams, words and graphs of tasks on one GPU, for ``native.loop.NativeLoop``.

    Args:
        context: The GPU.
        programs: Of every task, by name; warmed up.
        tasks: Each gets a stream of its priority.
        patience: How long a kernel may take.
        library: The driver's library; ``None`` loads that of this machine.

    Raises:
        DeviceError: the driver lacks a function, or refuses a graph.
    """

    def __init__(
        self,
        context: Context,
        programs: Mapping[str, Program],
        tasks: Sequence[GpuTask],
        *,
        patience: WaitTimes | None = None,
        library: ctypes.CDLL | None = None,
    ) -> None:
        self.context, self.tasks = context, tuple(tasks)
        self.hang_ns = round((patience or WaitTimes()).hang_s * NS)
        self.lost: str | None = None
        """Why nothing can be launched any more; ``None`` where it can."""
        self.uncertain_ns = 0
        """Times are of the host's own clock."""
        self.api = _api(library or _driver_library())
        self.current = int(context.driver.call("cuCtxGetCurrent"))
        ranks = stream_priorities(tasks, *context.priorities())
        self._words, seen_by_gpu = context.host_words(_LINE_WORDS * len(tasks))
        self.calls = (ReadyRow * sum(len(task.network.calls) for task in tasks))()
        self.lines = (LineRow * len(tasks))()
        ready = iter(self.calls)
        for place, task in enumerate(tasks):
            offset_bytes = 4 * _LINE_WORDS * place
            stream = context.stream(ranks[task.priority], part_of(context, task.sms))
            program = programs[task.name]
            line = self.lines[place]
            line.stream = int(stream)
            line.ended, line.ended_address = self._words + offset_bytes, seen_by_gpu + offset_bytes
            line.place = line.ended + 4 * _PLACE
            line.chain = int(self._chain(program, stream, line.ended_address + 4 * _PLACE))
            for at, call in enumerate(task.network.calls):
                _fill(next(ready), program, at, call.logical.grid)
            if not self._can_write(stream, line.ended_address):
                self.api.write_value = None

    def now_ns(self) -> int:
        """Return the time of its clock, ns."""
        return self.context.now_ns()

    def clear(self) -> None:
        """Set all words to zero; nothing may be in flight."""
        ctypes.memset(self._words, 0, 4 * _LINE_WORDS * len(self.tasks))

    def _can_write(self, stream: Any, address: int) -> bool:
        """Return whether streams write values on this GPU, by writing one."""
        try:
            self.context.driver.call("cuStreamWriteValue32", stream, address, 0, 0)
        except NotOfferedError:
            return False
        self.context.synchronise(stream)
        return True

    def _chain(self, program: Program, stream: Any, place_address: int) -> Any:
        """Return a graph of all kernels of a network, launched once so that nothing of it is loaded during a run."""
        calls, side = program.network.calls, self.context.stream()
        events = [self.context.event() for _ in range(len(calls) + 1)]
        driver = self.context.driver

        def record() -> None:
            for place, call in enumerate(calls):  # the word says which kernel may run now
                driver.call("cuEventRecord", events[place], stream)
                driver.call("cuStreamWaitEvent", side, events[place], 0)
                driver.call("cuMemsetD32Async", place_address, place, 1, side)
                program.launch(Launch(0, "", 0, place, call, 0, call.logical.blocks), stream)
            driver.call("cuEventRecord", events[-1], side)
            driver.call("cuStreamWaitEvent", stream, events[-1], 0)

        graph = self.context.captured(stream, record)
        driver.call("cuGraphLaunch", graph, stream)
        self.context.synchronise(stream)
        return graph


def _fill(ready: Any, program: Program, call: int, grid: Sequence[int]) -> None:
    ready.grid[:] = grid
    for form, per_thread in zip(ready.form, _FORMS, strict=True):
        made = program.ready(call).get(per_thread)
        if made is not None:
            _fill_form(form, made)


def _fill_form(form: FormRow, made: Any) -> None:
    form.function, form.block[:], form.shared_bytes = int(made.function), made.block, made.shared_bytes
    for turn in range(2):  # the packed arguments of both turns
        packed = next(made.turns)
        form.arguments[turn], form.part[turn] = packed.address, packed.part_address


def _driver_library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"there is no NVIDIA driver on this machine: {error}", "install it") from None


def _api(library: ctypes.CDLL) -> Any:
    """Return the functions of the driver."""
    found = [getattr(library, name, None) for name in API]
    missing = [name for name, each in zip(API, found, strict=True) if each is None and name != _OPTIONAL]
    if missing:
        raise DeviceError(f"{missing[0]}: this NVIDIA driver is too old for it", "use --launcher python")
    return Api(*(None if each is None else ctypes.cast(each, ctypes.c_void_p).value for each in found))
