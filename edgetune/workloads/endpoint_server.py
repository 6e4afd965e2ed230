"""A language-model server that is started for a point and ended after it: ``--start 'llama-server --port {port}'``.

``{port}`` is a free port, which takes the place of that of the address. ``{batch}``, ``{mode}`` and the names of knobs
are filled in as in a command. The server runs below the child process of the profiler and dies with edgetune.
"""

import contextlib
import http.client
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psutil

from edgetune.errors import InputError
from edgetune.processes.families import end_descendants, keep_descendants
from edgetune.processes.memory import kills
from edgetune.units import format_duration
from edgetune.workloads.command import KNOWN, filled, placeholders, split
from edgetune.workloads.command_errors import failed, last_line, start_advice, started
from edgetune.workloads.endpoint import Endpoint
from edgetune.workloads.endpoint_tokenizer import connect

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
            endpoint = replace(endpoint, port=_free_port())
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
    health = _status(endpoint, "/health")
    if health in _NO_ROUTE:
        return _status(endpoint, endpoint.path + "/models") not in (None, *_NOT_YET)
    return health == 200


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


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _listens(endpoint: Endpoint) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((endpoint.host, endpoint.port), timeout=1.0):
        return True
    return False
