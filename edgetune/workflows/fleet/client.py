"""The fleet as a client sees it: which boards are there, requests to one of them, and replies as they come.

The state of each board of a sweep, and the modes that wait for one.
"""

import asyncio
import base64
import json
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from edgetune.artifacts.profile import ProfileRow
from edgetune.errors import DeviceError, PartialError
from edgetune.stages.profiling.queue import Visit
from edgetune.version import __version__
from edgetune.workflows.fleet.wire import FleetAddress, dask

_CHUNK_BYTES = 4 * 2**20
_CONNECT_S = 15
_FETCH_S = 30.0
"""How long the result of a board may take through the scheduler, s."""
_SILENCE_S = 30.0
"""After how long without a board that works the user is told, s."""
DIED = "its worker ended while it measured"


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a board, and the request."""

    board: str
    request: Mapping[str, Any]
    value: Mapping[str, Any]


class Boards(Protocol):
    """Boards that take requests: a fleet, or a simulation of one."""

    def present(self) -> dict[str, Mapping[str, Any]]:
        """Return what is known of each board that is there, by name."""
        ...

    def ask(self, board: str, request: Mapping[str, Any]) -> None:
        """Send a request, whose reply ``replies`` returns."""
        ...

    def replies(self, wait_s: float) -> list[Reply]:
        """Return the replies that have come, after ``wait_s`` at most if there is none."""
        ...

    def forget(self, board: str) -> None:
        """Forget the requests to a board, which has gone."""
        ...


class LostSchedulerError(PartialError):
    """The scheduler cannot be reached any more."""


@dataclass(slots=True)
class Fleet:
    """The boards that have joined a scheduler; use ``connect``.

    Args:
        client: Dask's.
        url: Of the scheduler.
        note: Reports a sentence.
    """

    client: Any
    url: str
    note: Callable[[str], None] = lambda _: None
    _asked: dict[str, list[Any]] = field(default_factory=dict)
    _came: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    _others: list[Reply] = field(default_factory=list)
    _sent: int = 0
    _worked_s: float = field(default_factory=time.monotonic)
    """When a board was last known to work, s."""

    def present(self) -> dict[str, Mapping[str, Any]]:
        """See ``Boards``.

        Raises:
            LostSchedulerError: it cannot be reached.
        """
        self._check()
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        found: dict[str, Mapping[str, Any]] = {}
        for address, worker in workers.items():
            facts = worker.get("metrics", {}).get("edgetune")
            if facts is not None:
                found[facts["board"]] = {**facts, "address": address}
        return found

    def ask(self, board: str, request: Mapping[str, Any]) -> None:
        """See ``Boards``."""
        from edgetune.workflows.fleet.wire import run_task

        self._sent += 1
        self._worked_s = max(self._worked_s, time.monotonic())
        text = json.dumps({"edgetune": __version__, **request})
        future = self.client.submit(
            run_task, text, key=f"{self.client.id}-{self._sent}", resources={"BOARD": 1, f"board:{board}": 1}, retries=0
        )
        self._asked.setdefault(board, []).append(future)
        future.add_done_callback(partial(self._note, board, request))

    def _note(self, board: str, request: Mapping[str, Any], future: Any) -> None:
        self._came.put((board, request, future))

    def replies(self, wait_s: float) -> list[Reply]:
        """See ``Boards``.

        Raises:
            LostSchedulerError: it cannot be reached.
        """
        found, made, self._others = [], self._others, []
        with suppress(queue.Empty):
            found.append(self._came.get(timeout=0 if made else wait_s))
            while True:
                found.append(self._came.get_nowait())
        self._check()
        self._watch(bool(found))
        for board, request, future in found:
            if future in self._asked.get(board, ()):
                self._asked[board].remove(future)
                made.append(Reply(board, request, _value(future)))
        return made

    def _watch(self, came: bool) -> None:
        """Tell the user once when no board has worked for ``_SILENCE_S``."""
        now_s = time.monotonic()
        if not came and now_s - self._worked_s < _SILENCE_S:
            return
        if not came and not any(facts["doing"] for facts in self.present().values()):
            hint = f"edgetune fleet show {self.url} lists the boards"
            self.note(f"nothing has run on any board for {_SILENCE_S:g} s: {hint}")
            now_s = math.inf
        self._worked_s = now_s

    def forget(self, board: str) -> None:
        """See ``Boards``."""
        for future in self._asked.pop(board, ()):
            future.cancel()

    def call(self, board: str, request: Mapping[str, Any], timeout_s: float = 600.0) -> Mapping[str, Any]:
        """Send a request and wait for its reply; ``replies`` returns those that come meanwhile."""
        self.ask(board, request)
        give_up_s, others = time.monotonic() + timeout_s, []
        while time.monotonic() < give_up_s:
            came = self.replies(1.0)
            others += [reply for reply in came if reply.request is not request]
            if own := [reply for reply in came if reply.request is request]:
                self._others = others
                return own[0].value
        self._others = others
        self.forget(board)
        return {"error": "it does not answer", "hint": "edgetune fleet show"}

    def send(self, board: str, sha256: str, path: Path) -> Mapping[str, Any]:
        """Send a file to a board that lacks it; return the last reply."""
        data, reply = path.read_bytes(), {}
        for offset in range(0, max(len(data), 1), _CHUNK_BYTES):
            chunk, last = data[offset : offset + _CHUNK_BYTES], offset + _CHUNK_BYTES >= len(data)
            part = {"do": "store", "sha256": sha256, "offset": offset, "last": last}
            reply = dict(self.call(board, {**part, "data": base64.b64encode(chunk).decode()}))
            if "error" in reply:
                break
        return reply

    def _check(self) -> None:
        if self.client.status not in ("running", "newly-created"):
            raise LostSchedulerError(
                f"the scheduler at {self.url} cannot be reached any more",
                "start it again; the boards keep what they have measured, and the same command goes on",
            )


def _value(future: Any) -> Mapping[str, Any]:
    """Return a reply; that of a board whose worker has died is an error too."""
    if future.status == "finished":
        try:
            value: Mapping[str, Any] = json.loads(future.result(timeout=_FETCH_S))
        except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
            message = f"the scheduler could not fetch its result within {_FETCH_S:g} s"
            return {"error": message, "hint": "give edgetune fleet join there an address that leads to it: --contact"}
        return value
    return {"error": DIED, "hint": "see the log of edgetune fleet join there", "died": True}


@contextmanager
def connect(address: FleetAddress, note: Callable[[str], None] = lambda _: None) -> Iterator[Fleet]:
    """Connect to a scheduler.

    Args:
        address: Where it is.
        note: See ``Fleet``.

    Raises:
        DeviceError: none answers, or the certificate is another one.
        InputError: there is no certificate.
    """
    dask()
    from distributed import Client

    security = address.security()
    try:
        client = Client(address.url, security=security, timeout=_CONNECT_S, set_as_default=False, name="edgetune")
    except (OSError, TimeoutError, ValueError) as error:
        raise _unreachable(address, error) from None
    try:
        yield Fleet(client, address.url, note)
    finally:
        client.close(timeout=2)


def none_joined() -> DeviceError:
    """Return the error for a fleet without boards."""
    return DeviceError("no board has joined the fleet", "on each board: edgetune fleet join ADDRESS")


def _unreachable(address: FleetAddress, error: BaseException) -> DeviceError:
    import ssl

    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ssl.SSLError):
            hint = "copy the folder of its certificate: --tls DIR"
            return DeviceError(f"the scheduler at {address.url} has another certificate", hint)
        chain = chain.__cause__ or chain.__context__
    hint = "run edgetune fleet start there, and look at the address, the port and the firewall"
    if address.tls is None:
        hint += "; a scheduler with TLS has an address tls://..."
    return DeviceError(f"no scheduler answers at {address.url}", hint)


TRIES = 2
"""Boards on which a mode may fail before it counts as failed, and failures in a row before a board is left out."""
Batch: TypeAlias = tuple[Visit, ...]
"""The visits of one mode in one round, which one request measures."""


@dataclass(slots=True)
class BoardState:
    """What is known of a board.

    Args:
        name: Of the board.
        worker: The address of its worker, which changes when the worker dies.
        doing: ``describe``, ``first``, ``mode``, ``last``; empty while it waits.
        described: Whether it has said which points the options select.
        batch: What it measures now.
        ready: Whether it has measured the first anchors, and returned what its journal has.
        last: Whether it has measured the last anchors.
        out: Why it gets no work; empty while it does.
        off: Whether its figures are beyond the tolerance, so that its rows do not count.
        errors: Failures in a row.
        seen_s: When it was there last, s; see ``here``.
        points: Visits measured.
        failed: Visits failed.
    """

    name: str
    worker: str
    doing: str = ""
    described: bool = False
    batch: tuple[Visit, ...] = ()
    ready: bool = False
    last: bool = False
    out: str = ""
    off: bool = False
    errors: int = 0
    seen_s: float = 0.0
    points: int = 0
    failed: int = 0

    def __str__(self) -> str:
        """Return what it does, for people."""
        now = self.out or {"first": "first anchors", "last": "last anchors", "describe": "begins"}.get(self.doing, "")
        now = now or (str(self.batch[0].point) if self.batch else "idle")
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.name}: {self.points} done{failed}: {now}"


@dataclass(slots=True)
class Waiting:
    """The modes that wait for a board, each with the boards on which it has failed."""

    batches: deque[Batch] = field(default_factory=deque)
    tried: dict[Batch, list[str]] = field(default_factory=dict)

    def take(self, board: str, *, alone: bool) -> Batch | None:
        """Remove and return the first mode that has not failed on this board; any mode if the board is alone."""
        for place, batch in enumerate(self.batches):
            if alone or board not in self.tried.get(batch, ()):
                del self.batches[place]
                return batch
        return None

    def failed(self, batch: Batch, board: str, *, alone: bool) -> bool:
        """Record a failure; return whether the mode has failed for good."""
        boards = self.tried.setdefault(batch, [])
        boards.append(board)
        return len(boards if alone else set(boards)) >= TRIES


def attempt_of(row: ProfileRow) -> tuple[Any, ...]:
    """Return what tells a row from all others of a sweep, however often a journal gives it."""
    return row.board, row.point, row.round, row.started, row.status


def batches_of(order: Sequence[Visit]) -> Iterable[Batch]:
    """Return the visits of one mode and round together, the modes in the order of their first visit."""
    rank = {key: place for place, key in enumerate(dict.fromkeys(map(_of, order)))}
    ordered = sorted(order, key=lambda visit: rank[_of(visit)])
    return [tuple(group) for _, group in groupby(ordered, key=_of)]


def _of(visit: Visit) -> tuple[Any, ...]:
    return (visit.round, visit.point.mode)
