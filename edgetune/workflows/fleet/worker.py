"""The one function that a fleet runs on a board: it hands a request to a process of its own and returns the reply.

The measuring process is ended by the kernel with this one, see ``task``.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from typing import Any

from distributed import Nanny, Worker, get_worker

from edgetune.processes.start import python_command
from edgetune.workflows.fleet.wire import NANNY, WORKER, dask, restrict

dask()


class BoardWorker(Worker):  # type: ignore[misc]
    """A worker that runs ``run_task`` alone.

    Args:
        board: What the join command knows of the board, see ``task.Board``.
    """

    def __init__(self, *args: Any, board: dict[str, Any], **settings: Any) -> None:
        self.board = board
        self.doing, self.failed, self.temp_c = "", "", board["facts"]["temp_c"]
        self.child: subprocess.Popen[bytes] | None = None
        super().__init__(*args, metrics={"edgetune": _facts}, **settings)
        restrict(self.handlers, WORKER)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open no HTTP server, which would listen without TLS on all networks of the board."""

    async def plugin_add(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Add no plug-in of a scheduler."""
        return {"status": "OK"}


class BoardNanny(Nanny):  # type: ignore[misc]
    """A nanny that starts a ``BoardWorker`` again when it dies."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, worker_class=BoardWorker, **settings)
        restrict(self.handlers, NANNY)

    async def plugin_add(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Add no plug-in of a scheduler."""
        return {"status": "OK"}


def _facts(worker: BoardWorker) -> dict[str, Any]:
    """Return what ``edgetune fleet show`` lists of a board."""
    return {**worker.board["facts"], "doing": worker.doing, "failed": worker.failed, "temp_c": worker.temp_c}


def run_task(request: str) -> str:
    """Run a request on this board, both JSON, in a process of its own."""
    worker: Any = get_worker()
    asked = json.loads(request)
    worker.doing = str(asked.get("about", ""))
    try:
        value = _from_child(worker, {"board": worker.board, "request": asked})
    finally:
        worker.doing = ""
    worker.failed = value.get("error", worker.failed)
    worker.temp_c = value.get("temp_c", worker.temp_c)
    return json.dumps(value)


def _from_child(worker: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of the measuring process, which is begun at need and ends with a sweep or with this process."""
    if worker.child is None:
        command = python_command("edgetune.workflows.fleet.task", str(os.getpid()))
        worker.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child, reply = worker.child, b""
    with suppress(OSError):  # it has died
        child.stdin.write(json.dumps(given).encode() + b"\n")
        child.stdin.flush()
        reply = child.stdout.readline()
    if not reply or given["request"].get("do") == "discard":
        child.stdin.close()
        child.stdout.close()
        worker.child = None
        code = child.wait()
    found: dict[str, Any] = json.loads(reply) if reply else {
        "error": f"the measuring process ended with {code}", "hint": "see the log of edgetune fleet join there"
    }  # fmt: skip
    return found
