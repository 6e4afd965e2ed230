"""``edgetune fleet start`` and ``join``: the scheduler, and a board that works for it until it is stopped.

``edgetune fleet show`` and ``stop``.
"""

import asyncio
import re
import shlex
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.devices.guardian.lock import hold
from edgetune.errors import DeviceError
from edgetune.version import __version__
from edgetune.workflows.device_option import open_named
from edgetune.workflows.fleet.client import connect
from edgetune.workflows.fleet.options import FleetOptions, JoinOptions, StartOptions
from edgetune.workflows.fleet.task import Board
from edgetune.workflows.fleet.wire import (
    FleetAddress,
    certificate_folder,
    contact_of,
    dask,
    make_certificate,
    parse_address,
    require_private,
)
from edgetune.workflows.profile.tables import board_name
from edgetune.workflows.reporting import Reporter

_AGAIN_S = 5.0
"""How long a board waits before it looks for a lost scheduler again."""


def start(opts: StartOptions, reporter: Reporter) -> None:
    """Run a scheduler until it is stopped.

    Raises:
        InputError: TLS is off on a public address, or the certificate cannot be written.
        DeviceError: Dask is not installed, or the port is taken.
    """
    library = dask()
    host = opts.host or ("127.0.0.1" if opts.no_tls else "")
    folder = None if opts.no_tls else certificate_folder(opts.tls)
    if folder is None:
        require_private(host)
    scheme = "tcp" if folder is None else "tls"
    address = FleetAddress(f"{scheme}://{host}:{opts.port}", folder)
    try:
        _try_to_listen(host, opts.port)
    except (OSError, ValueError, OverflowError) as error:
        raise _cannot_listen(address, error) from None
    if folder is not None and make_certificate(folder):
        reporter.info(f"wrote the certificate of the fleet to {folder}: copy that folder to every machine of it")
    library.config.set({"distributed.scheduler.allowed-failures": opts.allowed_failures})
    asyncio.run(_schedule(address, reporter))


def _try_to_listen(host: str, port: int) -> None:
    """Listen at an address for a moment, so that an address that is wrong or taken is known before a file is made.

    Raises:
        OSError: it cannot be listened at, or its host is unknown.
        ValueError: its host is no host name.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    socket.create_server(address[:2], family=family).close()


def _cannot_listen(address: FleetAddress, why: BaseException) -> DeviceError:
    return DeviceError(f"cannot listen at {address.url}: {why}", "stop what uses that port, or choose --port")


async def _schedule(address: FleetAddress, reporter: Reporter) -> None:
    from distributed.scheduler import DEFAULT_EXTENSIONS

    from edgetune.workflows.fleet.wire import FleetScheduler

    stopped = _stop_event()
    host, _, port = address.url.partition("://")[2].rpartition(":")
    protocol = address.url.partition("://")[0]
    try:
        scheduler = FleetScheduler(
            host=host or None, port=int(port), protocol=protocol, security=address.security(), dashboard=False,
            dashboard_address="127.0.0.1:0",
            extensions={name: of for name, of in DEFAULT_EXTENSIONS.items() if name in ("events", "spans")},
            note=reporter.info,
        )  # fmt: skip
        await scheduler
    except (OSError, RuntimeError) as error:
        raise _cannot_listen(address, error.__cause__ or error) from None
    shown = f"{protocol}://{host or socket.gethostname()}:{scheduler.port}"
    tls = "" if address.tls is None else f" --tls {shlex.quote(str(address.tls))}"
    reporter.info(f"the fleet is at {shown}; on each board: edgetune fleet join {shown}{tls}")
    await _first(stopped.wait(), scheduler.finished())
    await scheduler.close(reason="edgetune fleet stop")


def join(opts: JoinOptions, reporter: Reporter) -> None:
    """Work for a scheduler until this is stopped; look for a lost scheduler until it is back.

    Raises:
        InputError: the address or the device is wrong, or there is no certificate.
        DeviceError: Dask is not installed, or this board has joined already.
    """
    dask()
    address = parse_address(opts.address, opts.tls)
    security = address.security()
    scheme = address.url.partition("://")[0]
    contact = (None, 0) if opts.contact is None else contact_of(opts.contact, scheme)
    device = open_named(opts.device, opts.root)
    name = opts.board or board_name(device, opts.root)
    root = None if opts.root is None else str(Path(opts.root).resolve())
    board = Board(
        name, device.name if opts.device == "auto" else opts.device, root, opts.allow_code, facts_of(name, device)
    )
    with hold(f"fleet board {name}"):
        asyncio.run(_work(address.url, security, contact, board, reporter))


def facts_of(name: str, device: Device) -> dict[str, Any]:
    """Return what ``edgetune fleet show`` lists of a board."""
    found, heat = device.conditions, device.temperature
    return {
        "board": name, "device": device.name, "description": device.description, "simulated": device.simulated,
        "l4t": found.get("l4t"), "temp_c": None if isinstance(heat, Absent) else heat.read_c(),
        "python": sys.version.split()[0], "edgetune": __version__,
    }  # fmt: skip


async def _work(url: str, security: Any, contact: tuple[str | None, int], board: Board, reporter: Reporter) -> None:
    from edgetune.workflows.fleet.wire import BoardNanny

    stopped, said = _stop_event(), ""
    while not stopped.is_set():
        nanny = BoardNanny(
            url, nthreads=1, name=board.name, memory_limit=0, security=security, dashboard=False,
            resources={"BOARD": 1, f"board:{board.name}": 1}, board=asdict(board),
            local_directory=tempfile.gettempdir(), death_timeout=30,
            contact_address=contact[0], worker_port=contact[1],
        )  # fmt: skip
        try:
            await _first(nanny, stopped.wait())
            if not stopped.is_set():
                reporter.info(f"{board.name} has joined {url}")
                said = ""
                await _first(nanny.finished(), stopped.wait())
        except Exception as error:
            why = _first_cause(error)
            if why != said:
                reporter.info(f"cannot join {url}, and tries again every {_AGAIN_S:g} s: {why}")
            said = why
        finally:
            with suppress(AssertionError):  # Dask's, of a worker stopped while it begins, which ends with this process
                await nanny.close(timeout=5)
        if not stopped.is_set():
            await _first(stopped.wait(), asyncio.sleep(_AGAIN_S))


def _first_cause(error: BaseException) -> str:
    """Return the first cause of an error; of a refusal, the message of ``FleetScheduler``."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    told = re.search(r"'message': (?P<quote>['\"])(?P<why>.*?)(?P=quote), '", str(error))
    return str(error) if told is None else told["why"]


def _stop_event() -> asyncio.Event:
    """Return an event that the usual signals set."""
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _first(*awaited: Awaitable[Any]) -> None:
    """Wait until one of them is done; raise its error."""
    tasks = [asyncio.ensure_future(each) for each in awaited]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    for task in done:
        task.result()


def boards(opts: FleetOptions) -> list[dict[str, Any]]:
    """Return what is known of each board.

    Raises:
        InputError, DeviceError: see ``connect``.
    """
    with connect(parse_address(opts.address, opts.tls)) as fleet:
        return [dict(facts) for _, facts in sorted(fleet.present().items())]


def lines_of(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each board."""
    if not found:
        return ["no board has joined"]
    lines = []
    for each in found:
        l4t = f", L4T {each['l4t']}" if each.get("l4t") else ""
        heat = "" if each.get("temp_c") is None else f", {each['temp_c']:.0f} C"
        failed = f"; last failure: {each['failed']}" if each.get("failed") else ""
        simulated = " SIMULATED" if each["simulated"] else ""
        doing = each["doing"] or "idle"
        lines.append(f"{each['board']}:{simulated} {each['description']}{l4t}{heat}: {doing}{failed}")
    return lines


def stop(opts: FleetOptions, reporter: Reporter) -> None:
    """Stop the scheduler.

    Raises:
        InputError, DeviceError: see ``connect``.
    """
    with connect(parse_address(opts.address, opts.tls)) as fleet:
        count = len(fleet.present())
        with suppress(OSError, TimeoutError):
            fleet.client.sync(fleet.client.scheduler.terminate)
    reporter.info(f"the scheduler has stopped; {count} board{'s wait' if count != 1 else ' waits'} for the next one")
