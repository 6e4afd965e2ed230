"""The real GPU as a backend: a stream for each task, an event before and behind each launch.

    stream of a   [start event][kernel][end event][kernel][end event]     behind another launch, its end is the start
    stream of b   [wait for a's end event][start event][kernel][end event]

Nothing on the critical path waits: a launch costs one or two records and the launch itself, and only the oldest launch
of each stream is queried. Times are those of the events. A start is the moment at which the GPU passed the event before
the launch: on an idle stream that is while the host still launches, and where other streams hold all multiprocessors
the first block begins later, as block records show.

After a kernel that failed, or one that does not end, everything in flight and everything after it fails, as the process
cannot use the GPU any more. CUDA cannot stop a kernel: only the end of the process does, or the driver's own time limit
on a GPU that draws a screen.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgetune.errors import DeviceError, EdgetuneError
from edgetune.stages.elastic.cuda.blocks import BlockRecords, EventTimes
from edgetune.stages.elastic.cuda.building import part_of
from edgetune.stages.elastic.cuda.context import HANG_S, Context
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import GpuTask
from edgetune.stages.elastic.kernel import NO_QUOTA
from edgetune.stages.elastic.view import Launch, LaunchEvent, Residency
from edgetune.units import NS
from edgetune.workloads.cuda_driver import KernelFailedError

_EARLY_NS = 200_000
"""No nap is taken this long before a deadline: sleeping is late by the kernel's timer slack of 50 us (prctl,
PR_SET_TIMERSLACK) and by the time of waking up."""


_BESIDE = 4
"""Streams of a task for blocks that come back: on one alone they would wait for the last ones that came back."""


_SPIN_NS = 2_000_000
"""Queries without a pause for so long after a launch or an event, which keeps a processor core busy: late queries make
late decisions."""
_NAP_S = 0.00005
"""Between two queries afterwards."""


@dataclass(slots=True)
class _InFlight:
    launch: Launch
    start: Any | None  # None: the end of the one before it
    end: Any
    since_ns: int
    started_ns: int | None = None

    def begin(self, at_ns: int) -> LaunchEvent:
        """Note and return that it has started, though not before it was launched."""
        self.started_ns = max(at_ns, self.since_ns)
        return LaunchEvent(self.launch.number, "started", self.started_ns)


class CudaBackend:
    """Launches kernels of tasks on one GPU.

    Args:
        context: The GPU.
        programs: Of every task, by name; warmed up.
        tasks: Each gets a stream of its priority, on as many multiprocessors as it may use.
        hang_s: A kernel hangs where nothing has started or ended for so long although something is in flight, s.
        records: Room for block records, where they are asked for.
    """

    def __init__(
        self,
        context: Context,
        programs: Mapping[str, Program],
        tasks: Sequence[GpuTask],
        *,
        hang_s: float = HANG_S,
        records: BlockRecords | None = None,
    ) -> None:
        self._context, self._programs, self.records = context, programs, records
        self.residencies: Sequence[Residency] = ()
        """Where blocks were, of a run that is over, where they wrote it down."""
        self._hang_s, self.now_ns = hang_s, context.now_ns
        self.times = EventTimes(context)
        self._streams, self._beside = dict[str, Any](), dict[str, Iterator[Any]]()
        """Of each task; and in turns, those for blocks of its persistent launches that come back."""
        ranks = stream_priorities(tasks, *context.priorities())
        for task in tasks:
            place = ranks[task.priority], part_of(context, task.sms)
            self._streams[task.name] = context.stream(*place)
            if (control := programs[task.name].control) is not None:
                control.set_quota(NO_QUOTA)  # a run that broke down may have left another
                self._beside[task.name] = itertools.cycle([context.stream(*place) for _ in range(_BESIDE)])
        self._quotas = dict.fromkeys(self._beside, NO_QUOTA)
        self._lines: dict[str, deque[_InFlight]] = {task.name: deque() for task in tasks}
        self._ends: dict[int, Any] = {}
        """End events of launches in flight, by number."""
        self._spare: list[Any] = []
        self._failed: list[LaunchEvent] = []
        self.lost: str | None = None
        """Why nothing can be launched any more; ``None`` where it can."""
        self._lively_ns = self._progress_ns = context.now_ns()

    def decided(self) -> None:
        """Do nothing: a decision takes its time by itself."""

    def launch(self, launch: Launch) -> None:
        """Put a launch on its task's stream; one that CUDA refuses ends in failure with the next ``wait``."""
        if self.lost is not None:
            self._fail(launch, self.lost)
            return
        try:
            in_flight = self._put(launch)
        except EdgetuneError as error:
            self._fail(launch, error.message)
            if isinstance(error, KernelFailedError):
                self._lose(error.message)
        else:
            if not self._ends:
                self._progress_ns = in_flight.since_ns
            self._lines[launch.task].append(in_flight)
            self._ends[launch.number] = in_flight.end
            self._lively_ns = in_flight.since_ns

    def set_quota(self, task: str, blocks: int) -> None:
        """Let so many blocks of a task's persistent launches go on, and bring back those that have left."""
        control, before = self._programs[task].control, self._quotas.get(task, 0)
        if control is None or self.lost is not None:
            return
        self._quotas[task] = blocks
        try:
            control.set_quota(blocks)
            for each in self._lines[task]:
                if each.launch.persistent and before < min(blocks, each.launch.physical_blocks):
                    self._programs[task].bring_back(each.launch, before, next(self._beside[task]))
        except DeviceError as error:
            self._lose(error.message)

    def wait(self, until_ns: int | None) -> Sequence[LaunchEvent]:
        """Query until an event, or until ``until_ns``; with nothing in flight and no limit return at once."""
        while True:
            events = self._poll()
            now_ns = self.now_ns()
            if events:
                self._lively_ns = self._progress_ns = now_ns
                return events
            if (until_ns is None and not self._ends) or (until_ns is not None and now_ns >= until_ns):
                return ()
            left_s = float("inf") if until_ns is None else (until_ns - now_ns - _EARLY_NS) / NS
            if self._ends and now_ns - self._lively_ns < _SPIN_NS:
                continue
            left_s = min(left_s, _NAP_S) if self._ends else left_s
            if left_s > 0:
                self._context.sleep_s(left_s)

    def _put(self, launch: Launch) -> _InFlight:
        driver, stream = self._context.driver, self._streams[launch.task]
        waits = [self._ends[number] for number in launch.after if number in self._ends]
        for end in waits:
            driver.call("cuStreamWaitEvent", stream, end, 0)
        records = 0 if self.records is None else self.records.reserve(launch)
        start = self._event() if waits or not self._lines[launch.task] else None
        in_flight = _InFlight(launch, start, self._event(), self.now_ns())
        if start is not None:
            driver.call("cuEventRecord", start, stream)
        try:
            self._programs[launch.task].launch(launch, stream, records)
        except EdgetuneError:
            self._reuse(in_flight)
            raise
        driver.call("cuEventRecord", in_flight.end, stream)
        return in_flight

    def _event(self) -> Any:
        return self._spare.pop() if self._spare else self._context.event()

    def _reuse(self, over: _InFlight) -> None:
        self._spare += [event for event in (over.start, over.end) if event is not None]

    def _poll(self) -> list[LaunchEvent]:
        """Return the events since the last time, in order."""
        found, self._failed = self._failed, []
        try:
            for line in self._lines.values():
                while line and self._over(line, found):
                    pass
                if line and self.now_ns() - self._progress_ns > self._hang_s * NS:
                    waited = f"nothing has happened for {self._hang_s:g} s"
                    raise self._context.hangs(f"{waited}, and kernel {line[0].launch.what.kernel} is waited for")
        except DeviceError as error:  # of whatever kind: what an event tells is wrong with the whole context
            self._lose(error.message)
        found += self._failed
        self._failed = []
        return sorted(found, key=lambda event: event.at_ns)

    def _over(self, line: deque[_InFlight], found: list[LaunchEvent]) -> bool:
        """Take in the events of the oldest launch of a stream; return whether it has ended."""
        driver, oldest = self._context.driver, line[0]
        number = oldest.launch.number
        if oldest.started_ns is None and driver.is_over(oldest.start):
            found.append(oldest.begin(self.times.at_ns(oldest.start)))
        if oldest.started_ns is None or not driver.is_over(oldest.end):
            return False
        ended_ns = max(self.times.at_ns(oldest.end), oldest.started_ns)
        found.append(LaunchEvent(number, "ended", ended_ns))
        line.popleft()
        del self._ends[number]
        self._reuse(oldest)
        if line and line[0].start is None:
            found.append(line[0].begin(ended_ns))
        return True

    def _fail(self, launch: Launch, why: str) -> None:
        self._failed.append(LaunchEvent(launch.number, "ended", self.now_ns(), why))

    def _lose(self, why: str) -> None:
        """End everything in flight in failure."""
        self.lost = why
        for line in self._lines.values():
            for each in line:
                self._fail(each.launch, why)
            line.clear()
        self._ends.clear()


def stream_priorities(tasks: Sequence[GpuTask], lowest: int, highest: int) -> dict[int, int]:
    """Return the stream priority for every task priority; for streams a lower number is more urgent.

    The most critical task gets the highest there is, the next the one below, best effort the lowest. Where there are
    more than the GPU has, the least critical ones share the lowest but one.

    Args:
        tasks: Of a run.
        lowest, highest: Of the GPU's streams, e.g. 0 and -5.
    """
    critical = sorted({task.priority for task in tasks if task.critical}, reverse=True)
    least = max(highest, lowest - 1)
    ranked = {priority: min(highest + rank, least) for rank, priority in enumerate(critical)}
    return {task.priority: lowest for task in tasks} | ranked
