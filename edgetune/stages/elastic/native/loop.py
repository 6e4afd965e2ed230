"""The loop of ``elastic.loop`` by the native launcher: Python plans and keeps records, C++ decides and launches.

policy -> table of decisions | arrivals -> times | program -> functions, arguments, graphs      before the run
thread of C++: spin -> state -> decide -> launch, records into a ring                           during it
ring -> LaunchRecord, RequestRecord                                                             read by Python
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgetune.serving.arrivals import parse_arrivals
from edgetune.serving.requests import DecisionOverhead, Outcome
from edgetune.serving.supervision import UNSUPERVISED, Supervision
from edgetune.stages.elastic.backend import GpuBackend, Launch, LaunchRecord, Record, RequestRecord
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.loop import TIME_IS_UP, ElasticLoop, check_tasks
from edgetune.stages.elastic.native.backend import API, NativeBackend
from edgetune.stages.elastic.native.build import native_library
from edgetune.stages.elastic.native.structs import PlanRow, RecordRow, SummaryRow
from edgetune.stages.elastic.native.table import compile_policy
from edgetune.stages.elastic.view import ElasticPolicy
from edgetune.stages.elastic.work import GpuTask
from edgetune.units import NS

_AT_ONCE = 4096
_TAKE_S = 0.005
"""Between two times that Python empties the ring, which holds what a launcher records in a tenth of a second."""
_QUERY_NS = 1_000_000
"""Without an end for so long the driver is asked whether a kernel failed: a query costs a microsecond."""
_HANGS, _NO_FORM = -1, -2
_REQUEST = 1
_OUTCOMES: tuple[Outcome, ...] = ("ok", "failed", "abandoned")


class NativeLoop:
    """One run of tasks by the native launcher; see ``elastic.loop.ElasticLoop``, whose records it makes.

    Ends are as the host saw them. A launch starts when it was launched, or with the end of the one before it on its
    stream. A launch that the driver refuses ends the run.

    Args:
        policy: One that has a table of decisions.
        backend: Of these tasks.
        tasks: Their names are unique.
        gpu: Limits of the GPU, for policies.
        duration_s: How long requests come, s.
        seed: Of random arrivals.
        supervision: Once stopped, the run ends as if time were up. Records are reported after the run.

    Raises:
        InputError: the policy has no table, or as ``ElasticLoop``.
        DeviceError: there is no compiler.
    """

    def __init__(
        self,
        policy: ElasticPolicy,
        backend: NativeBackend,
        tasks: Sequence[GpuTask],
        *,
        gpu: Gpu,
        duration_s: float,
        seed: int = 0,
        supervision: Supervision[Record] = UNSUPERVISED,
    ) -> None:
        check_tasks(tasks)
        self.launches: list[LaunchRecord] = []
        self.requests: list[RequestRecord] = []
        self.begin_ns = 0
        """When requests begin to come; known once it runs."""
        self.seen_ns: dict[int, int] = {}
        """For each launch by number: requests that arrived until then were known when it was decided."""
        self.overhead = DecisionOverhead()
        self._library, self._backend, self._tasks = _typed(native_library()), backend, tuple(tasks)
        self._table, self._supervision = compile_policy(policy, tasks, gpu), supervision
        self._duration_ns = round(duration_s * NS)
        self._clients, self._offsets_ns = [], []
        for place, task in enumerate(tasks):
            spec = parse_arrivals(task.arrivals)
            closed = spec.kind == "closed"
            source = spec.source(0, self._duration_ns, seed=(seed, place))
            self._clients.append((spec.clients or 1) if closed else 0)
            self._offsets_ns.append(np.array(() if closed else source.take(self._duration_ns), np.int64))

    def run(self) -> None:
        """Run until time is up and every launch has ended; all records are there then."""
        backend, library = self._backend, self._library
        backend.clear()
        self.begin_ns = begin_ns = backend.now_ns()
        arrivals = [begin_ns + offsets_ns for offsets_ns in self._offsets_ns]
        for line, times_ns, clients in zip(backend.lines, arrivals, self._clients, strict=True):
            line.arrivals, line.arrival_count, line.clients = times_ns.ctypes.data, len(times_ns), clients
        plan = PlanRow(
            self._table.address, ctypes.addressof(backend.api), ctypes.addressof(backend.calls),
            ctypes.addressof(backend.lines), backend.current, begin_ns, begin_ns + self._duration_ns, backend.hang_ns,
            _QUERY_NS,
        )  # fmt: skip
        taken, summary = list[Any](), SummaryRow()
        launcher = library.edgetune_start(ctypes.byref(plan))
        try:
            while not library.edgetune_ended(launcher):
                if self._supervision.stopped():
                    library.edgetune_stop(launcher)
                self._take(launcher, taken)
                time.sleep(_TAKE_S)
        finally:
            library.edgetune_stop(launcher)
            while not library.edgetune_ended(launcher):  # it may wait for room in the ring
                self._take(launcher, taken)
            self._take(launcher, taken)
            library.edgetune_finish(launcher, ctypes.byref(summary))
        self.overhead.decisions, self.overhead.decisions_s = summary.decisions, summary.decisions_ns / NS
        self.overhead.longest_s = summary.longest_ns / NS
        backend.lost = self._why_lost(summary)
        for record in taken:
            self._write(record, backend.lost)

    def _take(self, launcher: int, taken: list[Any]) -> None:
        """Move what is in the ring to a list."""
        to = (RecordRow * _AT_ONCE)()
        while count := self._library.edgetune_take(launcher, to, _AT_ONCE):
            taken += np.frombuffer(to, np.dtype(RecordRow))[:count].tolist()

    def _why_lost(self, summary: Any) -> str | None:
        if not summary.lost:
            return None
        context = self._backend.context
        if summary.lost == _HANGS:
            return context.hangs(f"nothing has ended for {self._backend.hang_ns / NS:g} s").message
        if summary.lost == _NO_FORM:
            return "the policy launches a form that a kernel does not have"
        return context.driver.translated(API[summary.function], summary.lost).message

    def _write(self, row: Sequence[Any], lost: str | None) -> None:
        """Append the record of a row."""
        kind, at, request, number, place, first, shape, outcome, seen_ns, asked_ns, started_ns, ended_ns = row
        task, said = self._tasks[at], _OUTCOMES[outcome]
        record: Record
        if kind == _REQUEST:
            begun_ns = None if started_ns < 0 else started_ns
            failure = None if said == "ok" else lost or TIME_IS_UP
            record = RequestRecord(task, request, asked_ns, begun_ns, ended_ns, said, failure)
            self.requests.append(record)
        else:
            count, per_thread, blocks = shape
            call = task.network.calls[place]
            launch = Launch(number, task.name, request, place, call, first, count, per_thread, blocks or None)
            record = LaunchRecord(launch, asked_ns, started_ns, ended_ns, None if said == "ok" else lost)
            self.launches.append(record)
            self.seen_ns[number] = seen_ns
        self._supervision.on_record(record)


AnyBackend = GpuBackend | NativeBackend
AnyLoop = ElasticLoop | NativeLoop


def loop_on(policy: ElasticPolicy, backend: AnyBackend, tasks: Sequence[GpuTask], **options: Any) -> AnyLoop:
    """Return the loop of a backend; arguments as ``ElasticLoop``."""
    if isinstance(backend, NativeBackend):
        return NativeLoop(policy, backend, tasks, **options)
    return ElasticLoop(policy, backend, tasks, **options)


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """Return the library, its functions declared."""
    pointer = ctypes.c_void_p
    library.edgetune_start.restype = pointer
    library.edgetune_start.argtypes = (pointer,)
    library.edgetune_stop.argtypes = library.edgetune_ended.argtypes = (pointer,)
    library.edgetune_take.argtypes = (pointer, pointer, ctypes.c_size_t)
    library.edgetune_take.restype = ctypes.c_size_t
    library.edgetune_finish.argtypes = (pointer, pointer)
    return library
