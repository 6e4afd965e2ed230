"""A pool of processes that compute with one thread each, one process per core."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from edgetune.processes.start import in_root_folder

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class _Pool(ProcessPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with in_root_folder():  # a process starts with each of the first tasks
            return super().submit(fn, *args, **kwargs)


@contextmanager
def worker_pool(processes: int, begin: Callable[..., None], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Open a pool; at its end work that has not begun is dropped.

    Args:
        processes: Their number; they start with the first work.
        begin: What each process does first.
        arguments: For it.
    """
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    with in_root_folder():  # its locks start a process that tracks them
        pool = _Pool(processes, get_context("spawn"), _begin, (begin, arguments))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _begin(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers itself
    begin(*arguments)
