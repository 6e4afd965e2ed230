"""The backend on a real machine: worker threads that load and execute layers of real networks.

    loop --start--> queue --> thread of a worker: map weights, or run a session --+
         <--wait---- finished tasks  <--------------------------------------------+

Threads only compute; only the loop's thread changes what is kept, when it learns that a task is over.
"""

import contextlib
import os
import queue
import select
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from edgetune.errors import EdgetuneError
from edgetune.stages.schedule.executor import Runnable, Samples, Values, one_line
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.tasks import FinishedTask, LayerTask
from edgetune.units import NS


@dataclass(slots=True)
class _Begun:
    """A request of which an execution has begun.

    Args:
        network: Its network.
        unread: Number of reads to come of each tensor; answers stay until the request is dropped.
        values: Tensors that are there.
    """

    network: str
    unread: dict[str, int]
    values: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    fed: bool = False


class LiveTaskBackend:
    """Runs tasks on threads of this process; a ``TaskBackend``. Its clock begins with ``begin``; ``close`` ends it.

    Args:
        networks: The networks, by name.
        samples: Their samples.
        workers: Number of threads.
    """

    def __init__(self, networks: Mapping[str, Runnable], samples: Samples, *, workers: int) -> None:
        self._networks, self._samples = networks, samples
        self._loaded: dict[tuple[str, int], tuple[Runnable, Any]] = {}
        self._begun: dict[int, _Begun] = {}
        self._over: deque[tuple[FinishedTask, Any]] = deque()
        self._running = 0
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._since_ns = time.monotonic_ns()
        self._jobs = queue.SimpleQueue[tuple[LayerTask, Callable[[], Any]] | None]()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def begin(self) -> None:
        """Set the clock to zero."""
        self._since_ns = time.monotonic_ns()

    def now_ns(self) -> int:
        """Return the time since the run began."""
        return time.monotonic_ns() - self._since_ns

    def start(self, task: LayerTask) -> None:
        """Hand a task to a worker's thread."""
        network = self._networks[task.network]
        work = partial(network.load, task.layer) if task.kind == "load" else self._executing(network, task)
        self._running += 1
        self._jobs.put((task, work))

    def _executing(self, network: Runnable, task: LayerTask) -> Callable[[], Values]:
        begun = self._begun.get(task.request)
        if begun is None:  # an output of the network counts as read once more, so that it stays until the end
            reads_of = Counter([*(name for reads in network.reads for name in reads), *network.outputs])
            begun = self._begun[task.request] = _Begun(task.network, dict(reads_of))
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

                sample = self._samples.sample(request, begun.network)
                for name in network.inputs:
                    begun.values[name] = ort.OrtValue.ortvalue_from_numpy(sample[name])
                begun.fed = True

    def _work(self) -> None:
        """Run tasks from the queue until ``None`` comes."""
        while (job := self._jobs.get()) is not None:
            (task, work), result, failure = job, None, None
            start_ns = self.now_ns()
            try:
                result = work()
            except Exception as error:
                failure = _reason(error)
            self._over.append((FinishedTask(task, start_ns, self.now_ns(), failure), result))
            del job, work, result  # nothing is held while the thread waits
            self.wake()

    def wake(self) -> None:
        """End a wait; from any thread, and from a signal's handler."""
        with contextlib.suppress(BlockingIOError):  # it is about to end
            os.write(self._wake, b"\0")

    def wait(self, until_ns: int | None) -> Sequence[FinishedTask]:
        """Return the tasks that ended; see ``TaskBackend.wait``. A call of ``wake`` ends the wait as well."""
        if not self._over and (until_ns is not None or self._running):
            timeout_s = None if until_ns is None else max(until_ns - self.now_ns(), 0) / NS
            select.select([self._woken], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 10)
        found = []
        while self._over:
            done, result = self._over.popleft()
            self._running -= 1
            found.append(self._remembered(done, result) if done.failure is None else done)
        return found

    def _remembered(self, done: FinishedTask, result: Any) -> FinishedTask:
        """Keep the result of a task, and drop values that were read for the last time."""
        task, network = done.task, self._networks[done.task.network]
        if task.kind == "load":
            self._loaded[task.copy, task.layer] = (network, result)
            return done
        begun = self._begun[task.request]
        begun.values.update(result)
        for name in network.reads[task.layer]:
            begun.unread[name] -= 1
        for name in [name for name in begun.values if not begun.unread.get(name)]:
            del begun.values[name]
        return done

    def unload(self, copy: str, layer: int) -> None:
        """Release weights."""
        network, loaded = self._loaded.pop((copy, layer))
        network.unload(loaded)

    def drop(self, request: Request) -> None:
        """Drop everything that is left of a request, its answer among it."""
        self._begun.pop(request.number, None)

    def close(self) -> None:
        """End the threads once they are idle, and release all weights; harmless when repeated."""
        for _ in self._threads:
            self._jobs.put(None)
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
    """Return the reason of a failure, one line."""
    if isinstance(error, EdgetuneError):
        return error.message
    if isinstance(error, MemoryError):
        return "there is no memory left"
    return f"{type(error).__name__}: {one_line(error)}"
