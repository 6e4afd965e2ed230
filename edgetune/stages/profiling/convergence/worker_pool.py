"""A pool of processes, each of which trains one run after the other."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Sequence

from edgetune.artifacts.convergence import ConvergenceRow
from edgetune.artifacts.header import utc_now
from edgetune.errors import EdgetuneError
from edgetune.processes.child import Child
from edgetune.stages.profiling.convergence.proxy import Proxy, Task

_WORKER = "edgetune.stages.profiling.convergence.worker:train_one"

Ended = tuple[ConvergenceRow, EdgetuneError | None]
"""A finished run, and why it failed if it did."""


class WorkerPool:
    """Threads, each with a child process that trains one run after the other."""

    def __init__(self, proxy: Proxy, tasks: Sequence[Task], jobs: int) -> None:
        self._proxy = proxy
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            self._tasks.put(task)
        self._ended: queue.SimpleQueue[Ended | BaseException] = queue.SimpleQueue()
        self._stopping = False
        self._children: list[Child] = []
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(min(jobs, len(tasks)))]
        for thread in self._threads:
            thread.start()

    def next(self) -> Ended:
        """Wait for the next run to end."""
        ended = self._ended.get()
        if isinstance(ended, BaseException):
            raise ended
        return ended

    def stop(self) -> None:
        """End every child and wait for the threads."""
        self._stopping = True
        for child in list(self._children):
            child.kill()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        child: Child | None = None
        try:
            while not self._stopping:
                try:
                    size, seed = self._tasks.get_nowait()
                except queue.Empty:
                    break
                if child is None or not child.alive:
                    child = self._replace(child)
                self._ended.put(self._train(child, size, seed))
        except BaseException as error:  # the main thread is waiting: it must hear of it
            self._ended.put(error)
        finally:
            if child is not None:
                self._children.remove(child)
                child.close()

    def _replace(self, child: Child | None) -> Child:
        if child is not None:
            self._children.remove(child)
            child.close()
        child = Child(_WORKER)
        self._children.append(child)
        if self._stopping:
            child.kill()
        return child

    def _train(self, child: Child, size: int, seed: int) -> Ended:
        proxy = self._proxy
        started = utc_now()
        begun_s, failed = time.monotonic(), None
        try:
            reply = child.ask(proxy.command(size, seed), deadline_s=math.inf)
        except EdgetuneError as error:
            reply, failed = {"status": "failed", "reason": error.message}, error
        row = ConvergenceRow(
            workload=proxy.workload.name, batch_size=size, epochs=reply.get("epochs"), dataset=proxy.dataset.name,
            seed=seed, target_accuracy=proxy.options.target_accuracy, optimizer=proxy.options.optimizer,
            learning_rate=proxy.options.learning_rate_at(size), samples=reply.get("samples"),
            accuracy=reply.get("accuracy"), status=reply["status"], reason=reply.get("reason"),
            duration_s=round(time.monotonic() - begun_s, 3), started=started, device=reply.get("device"),
        )  # fmt: skip
        return row, failed
