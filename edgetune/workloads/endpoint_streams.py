"""Streams of requests to a server: each sends its next request as soon as its last is answered, a closed loop.

    stream 1   |--- request ---|--- request ---|--- request ---|
    stream 2   |---- request ----|---- request ----|-- request --|
    answers                    1 2             3   4           5 6
    minibatches |-------- 1 -----|-------- 2 ------|----- 3 -----|

A minibatch is as many answers as there are streams, whichever stream they are of. Minibatches follow each other without
a gap, and by Little's law (a closed loop without pauses) their mean time is the mean latency of a request, and the
batch size divided by it is the rate of requests.

With arrivals, an open loop, a free stream waits for the next of them. One that finds no free stream waits for it, which
its time to the first token includes.

A language-model server that is started for a point and ended after it: ``--start 'llama-server --port {port}'``.

``{port}`` is a free port, which takes the place of that of the address. ``{batch}``, ``{mode}`` and the names of knobs
are filled in as in a command. The server runs below the child process of the profiler and dies with edgetune.
"""

import contextlib
import http.client
import math
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psutil

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.processes.families import end_descendants, family, held_bytes, keep_descendants, kills
from edgetune.stats import find_warmup, median, percentile
from edgetune.units import format_duration
from edgetune.workloads.command import KNOWN, filled, placeholders, split
from edgetune.workloads.endpoint import Endpoint, arrivals_of, connect, endpoint_of
from edgetune.workloads.endpoint_client import Answer, Client
from edgetune.workloads.rounds import failed, last_line, start_advice, started
from edgetune.workloads.workload import RunOptions, Workload

_POLL_S = 0.1
_ANSWERS_WITHIN_S = 5.0
_NO_ROUTE = (404, 405, 501)
_NOT_YET = (502, 503, 504)
_TAIL_BYTES = 4096
_START_KNOWN = ("port", *KNOWN)


def check_start(command: str) -> None:
    """Check the command that starts a server.

    Raises:
        InputError: it cannot be split, has an unknown placeholder, or its program does not exist.
    """
    program = split(command, _START_KNOWN)[0]
    if shutil.which(program) is None:
        raise InputError(f"--start: there is no program {program!r} to run", start_advice(program))


class StartedServer:
    """A server, started by the constructor, which returns when it is ready.

    Args:
        command: As written after ``--start``.
        endpoint: Its address; with ``{port}`` the port is another, see ``endpoint``.
        values: Values of the other placeholders.
        limit_s: How long it may take to become ready, s.

    Raises:
        InputError: it cannot be started, ends, is not ready in time, or another program has its port.
    """

    def __init__(self, command: str, endpoint: Endpoint, values: Mapping[str, Any], limit_s: float) -> None:
        words = split(command, _START_KNOWN)
        if "port" in placeholders(words):
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))
                endpoint = replace(endpoint, port=found.getsockname()[1])
        elif _listens(endpoint):
            raise InputError(
                f"--start: another program listens at {endpoint.url}", "end it, leave --start out, or use {port}"
            )
        self._words = [filled(word, {"port": endpoint.port, **values}, _START_KNOWN) for word in words]
        self.endpoint = endpoint
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- closed in close()
        self._kills_before = kills()
        keep_descendants()
        try:
            self._process = started(self._words, stdout=self._log, stderr=self._log)
        except InputError:
            self._log.close()
            raise
        try:
            self._wait(limit_s)
        except BaseException:
            self.close()
            raise

    def ended(self, within_s: float = 0.0) -> InputError | None:
        """Return the error of a server that has ended by itself, or does so within some time, s."""
        try:
            return failed(self._words, self._process.wait(within_s), self._tail(), self._kills_before)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """End the server and all that it started."""
        end_descendants()
        self._process.poll()  # it has ended: leave no warning of it
        self._log.close()

    def _wait(self, limit_s: float) -> None:
        """Wait until ``/health`` or the list of models answers."""
        give_up_s = time.monotonic() + limit_s
        while not _ready(self.endpoint):
            if (error := self.ended()) is not None:
                raise error
            if time.monotonic() > give_up_s:
                raise InputError(
                    f"{self._words[0]} was not ready at {self.endpoint.url} within {format_duration(limit_s)}"
                    f"{last_line(self._tail())}",
                    f"give it longer (--point-timeout), or run it by itself: {shlex.join(self._words)[:200]}",
                )
            time.sleep(_POLL_S)

    def _tail(self) -> bytes:
        descriptor = self._log.fileno()  # the server shares its offset: do not seek
        return os.pread(descriptor, _TAIL_BYTES, max(0, os.fstat(descriptor).st_size - _TAIL_BYTES))


def listening(endpoint: Endpoint) -> list[int]:
    """Return the processes of this machine that listen at an endpoint; of other users only root sees them."""
    if endpoint.host != "localhost" and not endpoint.host.startswith(("127.", "::1")):
        return []
    found = [each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    return sorted({each.pid for each in found if each.pid and getattr(each.laddr, "port", None) == endpoint.port})


def _ready(endpoint: Endpoint) -> bool:
    """Return whether the server answers ``/health`` with 200 or, without that route, the list of models."""
    if (health := _status(endpoint, "/health")) not in _NO_ROUTE:
        return health == 200
    return _status(endpoint, endpoint.path + "/models") not in (None, *_NOT_YET)


def _status(endpoint: Endpoint, path: str) -> int | None:
    connection = connect(endpoint, _ANSWERS_WITHIN_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except ssl.SSLCertVerificationError:
        return 200  # the first request says what is wrong with it
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _listens(endpoint: Endpoint) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((endpoint.host, endpoint.port), timeout=1.0):
        return True
    return False


_LINGER_S = 0.25
"""Streams go on for so long after a call, so that the next call continues the loop, and then pause."""
_CLOSED_WITHIN_S = 2.0
_COUNTED = "server", "tokenizer", "estimated"
"""Who counts tokens, the least sure last."""
_ENDS_WITHIN_S = 0.5
"""A server that crashes cuts its answers off a little before it has ended."""


class Streams:
    """Streams of requests, in threads; they pause until the first call.

    Args:
        clients: One for each stream.
        server: The server, if it was started for them and ends with them.
        processes: Those of a server that runs by itself, whose memory and that of their descendants is read.
        offsets_s: Times of arrivals, s, ascending, without an end; ``None`` for a closed loop.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        server: StartedServer | None = None,
        processes: Sequence[int] = (),
        offsets_s: Iterator[float] | None = None,
    ) -> None:
        self._clients = clients
        self._server = server
        self._processes = processes
        self._offsets_s = offsets_s
        self._offset_s, self._offset_from_s = 0.0, 0.0
        self._condition = threading.Condition()
        self._go_on_until_s = -math.inf
        self._paused = 0
        self._answers: list[Answer] = []
        self._spans_ns: list[tuple[int, int]] = []
        self._error: InputError | None = None
        self._closed = False
        self._threads = [threading.Thread(target=self._loop, args=(client,), daemon=True) for client in clients]
        for thread in self._threads:
            thread.start()

    def times_ns(self, minibatches: int) -> tuple[list[int], list[int]]:
        """Wait for so many further minibatches; return when each started and ended, CLOCK_MONOTONIC, ns.

        Raises:
            InputError: the server failed.
        """
        streams = len(self._clients)
        taken = len(self._spans_ns) * streams
        end = taken + minibatches * streams
        with self._condition:
            if self._pausing:
                self._condition.wait_for(lambda: self._error or self._paused == streams)
                del self._answers[taken:]
                start_ns = time.monotonic_ns()
                self._offset_from_s = start_ns / 1e9 - self._offset_s
            else:
                start_ns = self._spans_ns[-1][1]
            self._go_on_until_s = math.inf
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._error or len(self._answers) >= end)
            if len(self._answers) < end and self._error is not None:
                raise _why(self._error, self._server)
            self._go_on_until_s = time.monotonic() + _LINGER_S
            ends_ns = [answer.end_ns for answer in self._answers[taken + streams - 1 : end : streams]]
        starts_ns = [start_ns, *ends_ns[:-1]]
        self._spans_ns += zip(starts_ns, ends_ns, strict=True)
        return starts_ns, ends_ns

    def columns(self) -> dict[str, Any]:
        """Return the figures of all answers after the warm-up, which ``stats.find_warmup`` finds."""
        times_s = [(end - start) / 1e9 for start, end in self._spans_ns]
        warmups, streams = find_warmup(times_s).length, len(self._clients)
        answers = self._answers[warmups * streams : len(times_s) * streams]
        figures = _summary(answers, sum(times_s[warmups:]))
        notes = [*self._clients[0].route.notes, *_unlike(answers, self._clients[0].output_tokens)]
        figures |= {"reason": "; ".join(notes)} if notes else {}
        held = held_bytes([pid for root in self._processes for pid in family(root)])
        return figures if held is None else {**figures, "memory_peak_bytes": held}

    def close(self) -> None:
        """End the requests and the streams."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        for client in self._clients:
            client.cut()
        for thread in self._threads:
            thread.join(_CLOSED_WITHIN_S)
        if self._server is not None:
            self._server.close()

    @property
    def _pausing(self) -> bool:
        return time.monotonic() > self._go_on_until_s

    def _loop(self, client: Client) -> None:
        """Send request after request until the streams are closed or one fails."""
        while self._awaited():
            begun_s = self._next_arrival()
            if self._closed or self._error:
                return
            try:
                answer = client.ask(begun_s)
            except InputError as error:
                with self._condition:
                    self._error = self._error or error
                    self._condition.notify_all()
                return
            with self._condition:
                self._answers.append(replace(answer, text=""))
                self._condition.notify_all()

    def _next_arrival(self) -> float | None:
        """Wait for the next arrival; return its time, CLOCK_MONOTONIC, s; in a closed loop at once."""
        if self._offsets_s is None:
            return None
        with self._condition:
            self._offset_s = next(self._offsets_s)
            due_s = self._offset_from_s + self._offset_s
            self._condition.wait_for(lambda: self._closed or self._error, max(0.0, due_s - time.monotonic()))
        return due_s

    def _awaited(self) -> bool:
        """Wait while the streams pause; return whether to send a request."""
        with self._condition:
            self._paused += 1
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._closed or self._error or not self._pausing)
            self._paused -= 1
            return not (self._closed or self._error)


def _summary(answers: Sequence[Answer], elapsed_s: float) -> dict[str, Any]:
    """Return the columns of answers that took so long together, s; a figure that no answer has is left out."""

    def share(name: str, percent: float) -> float | None:
        known = [value for answer in answers if math.isfinite(value := getattr(answer, name))]
        return percentile(known, percent) if known else None

    found = {
        "ttft_s": share("ttft_s", 50), "ttft_p95_s": share("ttft_s", 95), "ttft_p99_s": share("ttft_s", 99),
        "token_s": share("token_s", 50), "token_p95_s": share("token_s", 95), "token_p99_s": share("token_s", 99),
        "prompt_tokens": share("prompt_tokens", 50), "output_tokens": median([each.output_tokens for each in answers]),
        "tokens_per_s": sum(each.output_tokens for each in answers) / elapsed_s,
        "tokens_counted": max((each.counted for each in answers), key=_COUNTED.index),
        "own_ttft_s": share("own_ttft_s", 50), "own_token_s": share("own_token_s", 50),
        "bunched_share": sum(each.bunched for each in answers) / len(answers),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def _unlike(answers: Sequence[Answer], asked: int) -> Iterator[str]:
    """Return how the server's counts differ from the tokens asked for and from what it sends."""
    longer = [each for each in answers if each.output_tokens > asked and each.counted == "server"]
    if longer:
        most = max(each.output_tokens for each in longer)
        yield f"{len(longer)} of {len(answers)} answers have more tokens than the {asked} asked for, up to {most:g}"
    fewer = [each for each in answers if each.output_tokens < each.chunks and each.counted == "server"]
    if fewer:
        counts = f"{fewer[0].output_tokens:g} tokens in {fewer[0].chunks} chunks"
        yield f"the server counts fewer tokens than it sends chunks ({counts}), so tokens_per_s may be too low"


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> Streams:  # noqa: ARG001
    """Send one request to the server, and return ``batch_size`` streams of requests.

    Raises:
        InputError: see ``Client.ask`` and ``StartedServer``.
    """
    endpoint, server = endpoint_of(workload), None
    if options.start is not None:
        mode = Mode(**dict(options.mode))
        values = {"batch": batch_size, "mode": str(mode), **mode.settings()}
        server = StartedServer(options.start, endpoint, values, options.start_within_s)
        endpoint = server.endpoint
    try:
        route = Client(endpoint, options.seed).find_route()
    except InputError as error:
        why = _why(error, server)
        if server is not None:
            server.close()
        raise why from None
    clients = [Client(endpoint, options.seed + number, route) for number in range(batch_size)]
    offsets_s = arrivals_of(endpoint.arrivals).offsets_s(options.seed) if endpoint.arrivals else None
    return Streams(clients, server, () if server else listening(endpoint), offsets_s)


def _why(error: InputError, server: StartedServer | None) -> InputError:
    """Return the error of a stream, or how the server ended, which explains it."""
    return (server and server.ended(_ENDS_WITHIN_S)) or error
