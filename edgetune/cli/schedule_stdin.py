"""Requests from standard input while networks run: a line is an arrival."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgetune.errors import InputError
from edgetune.serving.sources import LineArrivals

if TYPE_CHECKING:
    from edgetune.artifacts.jobs import Job
    from edgetune.schedule.live_run import LiveRun

_LOOK_S = 0.1
"""How often to look whether the run has begun or ended."""


@contextmanager
def feeding(run: LiveRun, job: Job, seed: Sequence[int], until_s: float | None) -> Iterator[None]:
    """Send a run a request, or one for each network, for every line, until input ends, enough came or it is late.

    Args:
        run: It takes requests from outside.
        job: Which they belong to.
        seed: Of the choice of networks.
        until_s: How long to wait for lines, s; ``None`` for as long as there are any.
    """
    over = threading.Event()
    thread = threading.Thread(target=_feed, args=(run, job, seed, until_s, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _feed(run: LiveRun, job: Job, seed: Sequence[int], until_s: float | None, over: threading.Event) -> None:
    from edgetune.schedule.jobs import networks_of

    while run.figures.base_bytes is None and not over.is_set():
        time.sleep(_LOOK_S)
    lines, chosen, arrived, begun_s = LineArrivals(), networks_of(job, seed), 0, time.monotonic()
    with contextlib.suppress(InputError):  # the run has ended, and needs no more requests
        with contextlib.suppress(OSError):  # standard input was closed, or cannot be read: no more will come
            while not (over.is_set() or lines.ended) and (job.count is None or arrived < job.count):
                if until_s is not None and time.monotonic() - begun_s >= until_s:
                    break
                select.select([lines], [], [], _LOOK_S)
                for _ in lines.take(time.monotonic_ns())[: None if job.count is None else job.count - arrived]:
                    arrived += 1
                    for network in next(chosen):
                        run.ask(network, job=job.name, due_s=job.deadline_s)
        run.end()
