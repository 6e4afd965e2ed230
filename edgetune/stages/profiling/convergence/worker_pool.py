"""A pool of processes, each of which trains one run after the other."""

import select
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from edgetune.artifacts.convergence import ConvergenceRow
from edgetune.artifacts.header import utc_now
from edgetune.errors import EdgetuneError
from edgetune.processes.child import Child
from edgetune.stages.profiling.convergence.proxy import Proxy, Task

_WORKER = "edgetune.stages.profiling.convergence.worker:train_one"

Ended = tuple[ConvergenceRow, EdgetuneError | None]
"""A finished run, and why it failed if it did."""


class WorkerPool:
    """Child processes; the constructor starts as many runs as there are jobs."""

    def __init__(self, proxy: Proxy, tasks: Sequence[Task], jobs: int) -> None:
        self._proxy, self._tasks = proxy, deque(tasks)
        self._running: dict[Child, tuple[Task, str, float]] = {}
        """The task of each child, and when it began: in UTC, and in s."""
        for _ in range(min(jobs, len(tasks))):
            self._begin(Child(_WORKER))

    def next(self) -> Ended:
        """Wait for the next run to end, and start another in its place."""
        while True:
            child = select.select([*self._running], [], [])[0][0]
            failed = None
            try:
                reply = next(child.received(), None)
            except EdgetuneError as error:
                reply, failed = {"status": "failed", "reason": error.message}, error
            if reply is None:  # a part of a line has come
                continue
            (size, seed), started, begun_s = self._running.pop(child)
            proxy = self._proxy
            row = ConvergenceRow(
                workload=proxy.workload.name, batch_size=size, epochs=reply.get("epochs"), dataset=proxy.dataset.name,
                seed=seed, target_accuracy=proxy.options.target_accuracy, optimizer=proxy.options.optimizer,
                learning_rate=proxy.options.learning_rate_at(size), samples=reply.get("samples"),
                accuracy=reply.get("accuracy"), status=reply["status"], reason=reply.get("reason"),
                duration_s=round(time.monotonic() - begun_s, 3), started=started, device=reply.get("device"),
            )  # fmt: skip
            self._begin(child)
            return row, failed

    def stop(self) -> None:
        """End every child."""
        for child in self._running:
            child.close()

    def _begin(self, child: Child) -> None:
        """Start the next run in a child, or in a new one where it has ended; end the child where no run is left."""
        if not self._tasks or not child.alive:
            child.close()
        if self._tasks:
            child = child if child.alive else Child(_WORKER)
            task = self._tasks.popleft()
            self._running[child] = (task, utc_now(), time.monotonic())
            with suppress(EdgetuneError):  # it has just ended, which ``received`` reports
                child.send(self._proxy.command(*task))
