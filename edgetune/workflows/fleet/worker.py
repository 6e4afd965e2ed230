"""Dask's processes as a fleet runs them, and the one function that it runs on a board.

The function hands a request to a process of its own and returns the reply. The kernel ends the measuring process with
the worker, see ``task``.
"""

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed import Nanny, Scheduler, Worker, get_worker
from distributed.comm import connect

from edgetune.processes.start import in_root_folder, python_command
from edgetune.workflows.fleet.wire import dask, host_of

dask()
_REACH_S = 5.0
"""How long the scheduler tries to connect to a board that joins, s."""


class FleetScheduler(Scheduler):  # type: ignore[misc]
    """A scheduler that admits a board only if it can fetch results from it: it connects to the board's worker.

    Args:
        note: Reports a board that cannot join.
    """

    def __init__(self, *args: Any, note: Callable[[str], None], **settings: Any) -> None:
        self._note, self._refused = note, dict[str, str]()
        super().__init__(*args, **settings)

    async def add_worker(self, comm: Any, *, address: str, name: str, **facts: Any) -> None:
        """Register a board, or answer why it cannot join."""
        if why := await self._refusal(address, name):
            if self._refused.get(name) != why:
                self._note(f"board {name} cannot join: {why}")
            self._refused[name] = why
            await comm.write({"status": "error", "message": why, "time": 0.0})
            return
        self._refused.pop(name, None)
        await super().add_worker(comm, address=address, name=name, **facts)

    async def _refusal(self, address: str, name: str) -> str:
        if name in self.aliases:
            return f"the name {name} is taken: give the board another one with --board NAME"
        if address in self.workers:
            return f"another board has the address {address}: give an address of its own with --contact HOST:PORT"
        try:
            (await connect(address, timeout=_REACH_S, **self.connection_args)).abort()
        except OSError:
            found = "the scheduler cannot reach the board, whose results it fetches, at"
            return f"{found} {host_of(address)}: give an address that leads to the board with --contact HOST:PORT"
        return ""


class BoardWorker(Worker):  # type: ignore[misc]
    """A worker that runs ``run_task`` alone.

    Args:
        board: What the join command knows of the board, see ``task.Board``.
        folder: Where to work, which is not where the process starts; see ``BoardNanny``.
    """

    def __init__(self, *args: Any, board: dict[str, Any], folder: str, **settings: Any) -> None:
        os.chdir(folder)
        self.board = board
        self.doing, self.failed, self.temp_c = "", "", board["facts"]["temp_c"]
        self.child: subprocess.Popen[bytes] | None = None
        super().__init__(*args, metrics={"edgetune": _facts}, **settings)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Open no HTTP server, which would listen without TLS on all networks of the board."""


class BoardNanny(Nanny):  # type: ignore[misc]
    """A nanny that starts a ``BoardWorker`` again when it dies, and closes where that one cannot join."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, worker_class=BoardWorker, folder=os.getcwd(), **settings)

    async def instantiate(self) -> Any:
        """Start the worker, which imports nothing from the present folder; close if it does not start.

        Dask's nanny would go on without one.
        """
        try:
            with in_root_folder():
                return await super().instantiate()
        except Exception:
            await self.close(reason="its worker does not start")
            raise


def _facts(worker: BoardWorker) -> dict[str, Any]:
    """Return what ``edgetune fleet show`` lists of a board, and the id of this worker, which another one has not."""
    return {
        **worker.board["facts"],
        "worker": worker.id,
        "doing": worker.doing,
        "failed": worker.failed,
        "temp_c": worker.temp_c,
    }


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
