"""The connection of a fleet: its address, its certificate, and what its processes take from the network.

All machines of a fleet have the same certificate with its key, which is its own authority: who has it may join and send
work. Dask sends functions as pickles, which may run any code where they are read. So every process of a fleet reads
pickles only of the names in ``_NAMES``.

Dask's processes as a fleet runs them, and the one function that it runs on a board.

The function hands a request to a process of its own and returns the reply. The kernel ends the measuring process with
the worker, see ``task``.
"""

import io
import ipaddress
import json
import logging
import os
import pickle
import socket
import subprocess
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from distributed import Nanny, Scheduler, Worker, get_worker
from distributed.comm import connect

from edgetune.errors import DeviceError, InputError
from edgetune.processes.start import in_root_folder, python_command
from edgetune.processes.user_folders import user_folder

PREFIX = "fleet:"
PORT = 8786
_CERTIFICATE, _KEY = "cert.pem", "key.pem"
_NAMES = frozenset(
    {
        ("edgetune.workflows.fleet.wire", "run_task"),
        ("dask._task_spec", "Task"),
        ("builtins", "bytes"),
        ("dask._expr", "LLGExpr"),
        ("dask._expr", "Expr._reconstruct"),
    }
)
"""What a pickle from the network may name; no code of anybody else."""


@dataclass(frozen=True, slots=True)
class FleetAddress:
    """The address of a scheduler.

    Args:
        url: ``tls://host:8786``, or ``tcp://`` without TLS.
        tls: Folder of the certificate; ``None`` without TLS.
    """

    url: str
    tls: Path | None

    def security(self) -> Any:
        """Return the settings of Dask.

        Raises:
            InputError: there is no certificate.
        """
        dask()
        from distributed import Security

        if self.tls is None:
            return Security(require_encryption=False)
        files = {"cert": str(self.tls / _CERTIFICATE), "key": str(self.tls / _KEY)}
        if not all(os.access(each, os.R_OK) for each in files.values()):
            message = f"{self.tls} has no {_CERTIFICATE} and {_KEY} of the fleet that can be read"
            raise InputError(message, "copy that folder from the host of edgetune fleet start, or name it with --tls")
        roles = {
            f"tls_{role}_{what}": file for role in ("client", "worker", "scheduler") for what, file in files.items()
        }
        return Security(require_encryption=True, tls_ca_file=files["cert"], **roles)


def host_of(address: str) -> str | None:
    """Return the host of an address ``tls://host:port``."""
    return urlsplit(address).hostname


def contact_of(text: str, scheme: str) -> tuple[str, int]:
    """Return the address and the port in ``HOST:PORT``, at which the scheduler reaches a board.

    Raises:
        InputError: it is none.
    """
    try:
        parts = urlsplit(f"{scheme}://{text}")
        if parts.hostname and parts.port and parts.netloc == text and parts.username is None:
            return f"{scheme}://{text}", parts.port
    except ValueError:
        pass
    raise InputError(f"--contact {text!r} is not HOST:PORT", "e.g. --contact 192.168.1.20:9001")


def parse_address(text: str, tls: str | None = None) -> FleetAddress:
    """Return the address in ``tls://host:8786``, ``tcp://host:8786``, ``host`` or ``fleet:...?tls=DIR``.

    Raises:
        InputError: it is none, or without TLS and public.
    """
    where, _, query = text.removeprefix(PREFIX).partition("?")
    options = dict(parse_qsl(query))
    example = "e.g. tls://192.168.1.10:8786, as edgetune fleet start prints it"
    try:
        parts = urlsplit(where if "://" in where else f"tls://{where}")
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        raise InputError(f"{text!r} is no address of a fleet", example) from None
    if parts.scheme not in ("tls", "tcp") or not host or parts.path.strip("/") or {*options} - {"tls"}:
        raise InputError(f"{text!r} is no address of a fleet", example)
    url = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    if parts.scheme == "tls":
        folder = options.get("tls") or tls
        return FleetAddress(url, certificate_folder(folder))
    require_private(host)
    return FleetAddress(url, None)


def certificate_folder(named: str | None) -> Path:
    """Return the folder of the certificate: the named one, or the default.

    Raises:
        InputError: its name has a line break, for which Dask would take it for a certificate itself.
    """
    if named is not None and "\n" in named:
        raise InputError(f"--tls {named!r} has a line break in its name", "name another folder")
    if named is not None:
        return Path(named).expanduser()
    return user_folder("config", "fleet")


def require_private(host: str) -> None:
    """Check that an address without TLS is reachable from a private network only.

    Raises:
        InputError: it is public.
        DeviceError: it is unknown, as before a board that starts has a network.
    """
    try:
        found = {ipaddress.ip_address(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise DeviceError(f"the host {host} is not known: {error.strerror or error}", "check its name") from None
    public = [str(each) for each in found if each.is_unspecified or not (each.is_private or each.is_loopback)]
    if public:
        raise InputError(f"{public[0]} is a public address, and TLS is off", "leave --no-tls out, or write tls://")


def make_certificate(folder: Path) -> bool:
    """Make the certificate of a fleet unless the folder has one; return whether it was made.

    Raises:
        InputError: it cannot be written.
    """
    if (folder / _CERTIFICATE).exists() and (folder / _KEY).exists():
        return False
    dask()
    try:
        from distributed import Security

        made = Security.temporary()
    except ImportError:
        raise DeviceError("cryptography is not installed, which makes certificates", INSTALL) from None
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in ((_KEY, made.tls_worker_key), (_CERTIFICATE, made.tls_worker_cert)):
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w") as file:
                file.write(text)
    except OSError as error:
        message = f"cannot write the certificate in {folder}: {error.strerror or error}"
        raise InputError(message, "name another folder with --tls") from None
    return True


INSTALL = "pip install 'edgetune[fleet]'"


def dask() -> Any:
    """Import Dask with the settings of a fleet, and restrict what it takes from the network.

    Raises:
        DeviceError: it is not installed.
    """
    try:
        import dask as library
    except ImportError:
        raise DeviceError("Dask is not installed, which hands out the work of a fleet", INSTALL) from None
    library.config.set(
        {
            "distributed.scheduler.work-stealing": False,
            "distributed.scheduler.worker-ttl": "20s",
            "distributed.nanny.pre-spawn-environ": {},  # by default it sets OMP_NUM_THREADS=1, which measures otherwise
            "distributed.worker.http.routes": [],
            "distributed.scheduler.http.routes": [],
            "distributed.worker.profile.enabled": False,
            "distributed.comm.timeouts.connect": "10s",
            "distributed.admin.event-loop": "asyncio",
            "distributed.admin.max-error-length": 0,  # no tracebacks: they are pickles of many names
            "distributed.worker.use-file-locking": False,
        }
    )
    try:
        from distributed import client, scheduler
        from distributed.protocol import pickle as of_dask
    except ImportError:
        raise DeviceError("Dask distributed is not installed, which hands out the work", INSTALL) from None
    of_dask.loads = restricted_loads
    for module in (client, scheduler):  # which have names of their own for it, and Python's
        module.pickle, module.loads = of_dask, restricted_loads
    warnings.filterwarnings("ignore", module=r"(dask|distributed|tornado)\b")
    for name in ["distributed", *(each for each in logging.root.manager.loggerDict if each.startswith("distributed."))]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters, the commands say in their own words
    return library


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"a fleet takes no {module}.{name} from the network")
        return super().find_class(module, name)


def restricted_loads(data: Any, *, buffers: Any = ()) -> Any:
    """Return the object of a pickle that names nothing but ``_NAMES``.

    Raises:
        pickle.UnpicklingError: it names anything else.
    """
    return _Restricted(io.BytesIO(bytes(data)), buffers=buffers or None).load()


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
