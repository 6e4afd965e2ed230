"""The stage on a real machine: worker threads that load, execute and unload layers of real networks.

    loop --start--> queue of worker 0 --> thread: map weights, or run a session --+
                    queue of worker 1 --> thread                                  |
         <--wait---- what is over  <----------------------------------------------+

Threads only compute; whatever is remembered is changed by the loop's thread, when it learns that a task is over.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from edgetune.errors import EdgetuneError
from edgetune.schedule.executor import Runnable, Values, one_line
from edgetune.schedule.requests import Request
from edgetune.schedule.tasks import FinishedTask, LayerTask
from edgetune.units import NS


class DataExchange(Protocol):
    """What comes before and after the networks: samples, and what becomes of their answers."""

    def sample(self, request: int, network: str) -> Mapping[str, Any]:
        """Return the arrays that a request feeds to its network, by input; called once, by a worker.

        Raises:
            EdgetuneError: there are none.
        """
        ...

    def take(self, request: int, network: str, outputs: Mapping[str, Any]) -> None:
        """Do what is to be done with an answer, arrays by output; called in the loop's thread, before the next task.

        Raises:
            EdgetuneError: it cannot be done; the request has failed then.
        """
        ...


@dataclass(slots=True)
class _Begun:
    """A request of which something has been executed or is being.

    Args:
        network: Its network.
        left: How many layers have not been executed.
        unread: How often each tensor is still to be read; answers are read once more, at the end.
        values: Tensors that are there.
    """

    network: str
    left: int
    unread: dict[str, int]
    values: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    fed: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    task: LayerTask
    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class _Over:
    done: FinishedTask
    result: Any


class LiveTaskBackend:
    """Runs tasks on threads of this process; a ``backend.TaskBackend``. Its clock begins with ``begin``; ``close`` ends
    it.

    Args:
        networks: What can be run, by name.
        workers: How many threads.
        answers: Samples and answers.
        budget: Given the time, returns what may be held.
        also: Descriptors that end a wait when they can be read: new requests come there.
    """

    def __init__(
        self,
        networks: Mapping[str, Runnable],
        *,
        workers: int,
        answers: DataExchange,
        budget: Callable[[int], int],
        also: Sequence[int] = (),
    ) -> None:
        self._networks, self._answers, self._budget, self._also = networks, answers, budget, also
        self._loaded: dict[tuple[str, int], tuple[Runnable, Any]] = {}
        self._begun: dict[int, _Begun] = {}
        self._over: deque[_Over] = deque()
        self._running = 0
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._since_ns = time.monotonic_ns()
        self._jobs = [queue.SimpleQueue[_Job | None]() for _ in range(workers)]
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(workers)]
        for thread in self._threads:
            thread.start()

    def begin(self) -> None:
        """Set the clock to zero."""
        self._since_ns = time.monotonic_ns()

    def now_ns(self) -> int:
        """Return the time since the run began."""
        return time.monotonic_ns() - self._since_ns

    def budget_bytes(self) -> int:
        """Return what may be held now."""
        return self._budget(self.now_ns())

    def start(self, task: LayerTask, worker: int) -> None:
        """Hand a task to a worker's thread."""
        network = self._networks[task.network]
        work = self._loading(network, task.layer) if task.kind == "load" else self._executing(network, task)
        self._running += 1
        self._jobs[worker].put(_Job(task, work))

    def _loading(self, network: Runnable, layer: int) -> Callable[[], Any]:
        return lambda: network.load(layer)

    def _executing(self, network: Runnable, task: LayerTask) -> Callable[[], Values]:
        begun = self._begun.get(task.request)
        if begun is None:
            begun = self._begun[task.request] = _Begun(task.network, len(network.reads), _readers(network))
        reads = network.reads[task.layer]
        _, loaded = self._loaded.get((task.copy, task.layer), (network, None))

        def work() -> Values:
            self._feed(task.request, network, begun)
            return network.execute(task.layer, loaded, {name: begun.values[name] for name in reads})

        return work

    def _feed(self, request: int, network: Runnable, begun: _Begun) -> None:
        """Fetch the sample, if this is the first execution of a request; another that begins at once waits for it."""
        with begun.lock:
            if not begun.fed:
                import onnxruntime as ort

                sample = self._answers.sample(request, begun.network)
                for name in network.inputs:
                    begun.values[name] = ort.OrtValue.ortvalue_from_numpy(sample[name])
                begun.fed = True

    def _work(self, worker: int) -> None:
        """Carry out what comes, until nothing does."""
        while (job := self._jobs[worker].get()) is not None:
            result, failure = None, None
            start_ns = self.now_ns()
            try:
                result = job.work()
            except Exception as error:
                failure = _reason(error)
            self._over.append(_Over(FinishedTask(job.task, worker, start_ns, self.now_ns(), failure), result))
            del job, result  # nothing is held while the thread waits
            self.wake()

    def wake(self) -> None:
        """End a wait; from any thread, and from a signal's handler."""
        with contextlib.suppress(BlockingIOError):  # it is about to end
            os.write(self._wake, b"\0")

    def wait(self, until_ns: int | None) -> Sequence[FinishedTask]:
        """Return what is over; see ``TaskBackend.wait``. A call of ``wake`` ends the wait as well."""
        if not self._over and (until_ns is not None or self._running):
            timeout_s = None if until_ns is None else max(until_ns - self.now_ns(), 0) / NS
            select.select([self._woken, *self._also], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 10)
        found = []
        while self._over:
            over = self._over.popleft()
            self._running -= 1
            found.append(self._remembered(over) if over.done.failure is None else over.done)
        return found

    def _remembered(self, over: _Over) -> FinishedTask:
        """Keep what a task has made, and let go what was read for the last time."""
        task, network = over.done.task, self._networks[over.done.task.network]
        if task.kind == "load":
            self._loaded[task.copy, task.layer] = (network, over.result)
            return over.done
        begun = self._begun[task.request]
        begun.left -= 1
        begun.values.update(over.result)
        for name in network.reads[task.layer]:
            begun.unread[name] -= 1
        for name in [name for name in begun.values if not begun.unread.get(name)]:
            del begun.values[name]
        return over.done if begun.left else self._answered(over.done, begun)

    def _answered(self, done: FinishedTask, begun: _Begun) -> FinishedTask:
        """Hand over the answer; where that fails, whatever the reason, the last execution has failed and no other."""
        task = done.task
        try:
            outputs = {name: begun.values[name].numpy() for name in self._networks[task.network].outputs}
            self._answers.take(task.request, task.network, outputs)
        except Exception as error:
            return replace(done, failure=_reason(error))
        return done

    def unload(self, copy: str, layer: int) -> None:
        """Release weights."""
        network, loaded = self._loaded.pop((copy, layer))
        network.unload(loaded)

    def finish(self, request: Request) -> None:
        """Drop what is left of a request; its answer was handed over with its last execution."""
        self._begun.pop(request.number, None)

    def abandon(self, request: Request) -> None:
        """Drop everything that a request has computed."""
        self._begun.pop(request.number, None)

    def close(self) -> None:
        """End the threads once they are through, and release all weights; harmless when repeated."""
        for jobs in self._jobs:
            jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._over.clear()
        self._begun.clear()
        for copy, layer in list(self._loaded):
            self.unload(copy, layer)
        if self._woken >= 0:
            os.close(self._woken)
            os.close(self._wake)
        self._woken = -1


def _reason(error: Exception) -> str:
    """Return why something failed, one line."""
    if isinstance(error, EdgetuneError):
        return error.message
    if isinstance(error, MemoryError):
        return "there is no memory left"
    return f"{type(error).__name__}: {one_line(error)}"


def _readers(network: Runnable) -> dict[str, int]:
    """Return how often each tensor of a request is read; an answer once more."""
    unread: dict[str, int] = {}
    for name in (*(name for reads in network.reads for name in reads), *network.outputs):
        unread[name] = unread.get(name, 0) + 1
    return unread
