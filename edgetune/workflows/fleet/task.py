"""The requests to a board, in a process of their own: ``python -m edgetune.workflows.fleet.task PARENT`` on a board.

Requests and replies are lines of JSON on standard input and output. A request names a network of the zoo, or files by
their hash. It is a sweep of some visits with the board's own journal: nothing that the board has measured is lost or
measured twice. The kernel ends this process with its parent, and the guardian then puts the board back. Whoever comes
next waits for the lock until this one has ended.
"""

import base64
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.artifacts.yaml_document import plain
from edgetune.devices.capabilities import Absent
from edgetune.devices.guardian.lock import hold
from edgetune.errors import DeviceError, EdgetuneError, ExitCode, InputError
from edgetune.processes.messages import die_with
from edgetune.processes.user_folders import user_folder
from edgetune.stages.profiling.boards import measured_by
from edgetune.stages.profiling.journal import discard_journal, open_journal
from edgetune.stages.profiling.queue import Visit
from edgetune.stages.profiling.sweep import request_header, sweep
from edgetune.stages.profiling.sweep_journal import SweepJournalEntry, default_journal_path, identify, identity_sha256
from edgetune.version import __version__
from edgetune.workflows.device_option import recovered
from edgetune.workflows.output import begin_outputs
from edgetune.workflows.profile.options import ProfileCommandOptions
from edgetune.workflows.profile.profile import ProfileRequest, request_of
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.resolve import recognised

FILES = ("model", "inputs", "ops", "prompts")
"""Options that may name a file, which is sent by its hash."""
BESIDE = "beside the model: "
"""Begins the key of a file with weights of the network; its place relative to the network follows."""
_PATIENCE_S = 60.0
"""How long a request waits for the end of the one before, whose worker has died."""
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Board:
    """What the owner of a board lets a fleet use.

    Args:
        name: Of the board, unique in the fleet.
        device, root: As ``--device`` and ``--root`` of ``edgetune fleet join``.
        allow_code: Whether Python files, commands and servers may run.
        facts: For ``edgetune fleet show``.
    """

    name: str
    device: str
    root: str | None
    allow_code: bool
    facts: Mapping[str, Any]


def answer(board: Board, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a request; an error is a reply too."""
    begin_outputs()
    try:
        if request["edgetune"] != __version__:
            message = f"it has edgetune {__version__}, and edgetune {request['edgetune']} asks"
            raise DeviceError(message, "install the same version on all machines of the fleet")
        with _alone(board):
            return REQUESTS[request["do"]](board, request)
    except EdgetuneError as error:
        return {"error": error.message, "hint": error.hint, "exit_code": int(error.exit_code)}
    except Exception as error:  # a request of another program may hold anything
        message = f"it cannot answer: {type(error).__name__}: {error}"
        hint = "ask with edgetune of the same version"
        return {"error": message, "hint": hint, "exit_code": int(ExitCode.UNEXPECTED)}


@contextmanager
def _alone(board: Board) -> Iterator[None]:
    """Hold the board among requests of all fleets; wait for one whose worker has died.

    Raises:
        DeviceError: another request has not ended in time.
    """
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        lock = hold(f"fleet request {board.name}")
        try:
            lock.__enter__()
            break
        except DeviceError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(_POLL_S)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _describe(board: Board, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the points that the options select here and the conditions; or the absent files."""
    if absent := [sha256 for _, sha256 in request["files"].values() if not _stored(sha256)]:
        return {"absent": absent}
    asked = _asked(board, request)
    device, workload, points, options = asked.device, asked.workload, asked.points, asked.options
    identity = identify(device, workload, points[0].task, options)
    return {
        "points": [plain_point(point) for point in points],
        "header": plain(request_header(device, workload, options)),
        "identity": identity_sha256(identity),
    }


def _measure(board: Board, request: Mapping[str, Any]) -> dict[str, Any]:
    """Make the visits that the journal lacks; return them, with ``all`` every other one that it has, as Parquet."""
    asked = _asked(board, request)
    device, workload, options = asked.device, asked.workload, asked.options
    order = [Visit(to_point(each["point"]), each["round"]) for each in request["visits"]]
    journal = _journal(board, request["sweep"])
    if request.get("all"):
        identity = identify(device, workload, asked.points[0].task, options)
        with open_journal(SweepJournalEntry, journal, identity) as open_:
            done = [entry.visit for entry in open_.entries if not entry.failed]
        order = list(dict.fromkeys([*order, *done]))
    if not order:
        return {}
    table = measured_by(board.name, sweep(device, workload, order, options, journal))
    found = base64.b64encode(table.to_bytes()).decode()
    temp_c = None if isinstance(device.temperature, Absent) else device.temperature.read_c()
    return {"table": found, "visits": visits_of(order), "notes": list(recovered(device)), "temp_c": temp_c}


def _discard(board: Board, request: Mapping[str, Any]) -> dict[str, Any]:
    """Discard the journal of a sweep whose table is written."""
    discard_journal(_journal(board, request["sweep"]))
    return {}


def _store(_: Board, request: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a part of a file; after the last one, check the hash and keep the file."""
    sha256 = str(request["sha256"])
    path = _place(sha256)
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("r+b" if request["offset"] else "wb") as file:
            file.seek(request["offset"])
            file.write(base64.b64decode(request["data"]))
        if request["last"]:
            if hashlib.sha256(part.read_bytes()).hexdigest() != sha256:
                part.unlink()
                raise InputError("a file of the sweep arrived damaged", "run the same command again")
            part.replace(path)
    except OSError as error:
        raise InputError(f"cannot keep a file of the sweep: {error.strerror or error}", "free some space") from None
    return {}


REQUESTS: Mapping[str, Callable[[Board, Mapping[str, Any]], dict[str, Any]]] = {
    "describe": _describe,
    "measure": _measure,
    "discard": _discard,
    "store": _store,
}
"""All that a board can be asked for."""


def _asked(board: Board, request: Mapping[str, Any]) -> ProfileRequest:
    """Return the sweep of the request's options on this board's device.

    Raises:
        InputError: the options are wrong, or the board's owner does not let code run.
    """
    given = {**request["options"], **_files(request["files"])}
    opts = ProfileCommandOptions(**given, device=board.device, root=board.root)
    _refuse_code(board, opts)
    asked = request_of(opts, Reporter())
    named = Path(opts.model).name
    return replace(asked, workload=replace(asked.workload, reference=named)) if "model" in request["files"] else asked


def _refuse_code(board: Board, opts: ProfileCommandOptions) -> None:
    kind = recognised(opts.model)
    if board.allow_code or not (opts.start or opts.python or (kind is not None and kind.runs_code)):
        return
    raise InputError(
        f"{Path(opts.python or opts.model).name} is code, which this board does not run for others",
        "its owner may allow it: edgetune fleet join --allow-code",
    )


def _stored(sha256: str) -> bool:
    return _place(sha256).is_file()


def _place(sha256: str) -> Path:
    """Return the place of a file by its hash.

    Raises:
        InputError: it is no hash.
    """
    if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        raise InputError("a file of the sweep has no SHA-256", "use the same version on all machines")
    return user_folder("cache", "fleet", sha256, "file")


def _files(files: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the path of each stored file under its own name, by its option; weights lie beside their network.

    Raises:
        InputError: weights would lie outside the network's folder.
    """
    found: dict[str, str] = {}
    for option, (name, sha256) in files.items():
        if option.startswith(BESIDE):
            continue
        found[option] = str(_named(sha256, _place(sha256).with_name(Path(name).name)))
    for option, (_, sha256) in files.items():
        if option.startswith(BESIDE):
            folder = Path(found["model"]).parent
            link = (folder / option.removeprefix(BESIDE)).resolve()
            if not link.is_relative_to(folder.resolve()):
                raise InputError(f"weights outside the network's folder: {option.removeprefix(BESIDE)}", "move them")
            _named(sha256, link)
    return found


def _named(sha256: str, path: Path) -> Path:
    """Copy a stored file to a name that tells its kind; onnx reads no weights that have several names."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        shutil.copyfile(_place(sha256), part)
        part.replace(path)
    return path


def _journal(board: Board, sweep_id: str) -> Path:
    return default_journal_path(None, {"fleet": str(sweep_id), "board": board.name}, ())


def plain_point(point: Point) -> dict[str, Any]:
    """Return a point as JSON."""
    return {"workload": point.workload, "task": point.task, "batch": point.batch_size, "mode": point.mode.settings()}


def to_point(value: Mapping[str, Any]) -> Point:
    """Return the point that JSON describes: the inverse of ``plain_point``."""
    return Point(value["workload"], value["task"], value["batch"], Mode.of(value["mode"]))


def visits_of(visits: Sequence[Visit]) -> list[dict[str, Any]]:
    """Return visits as JSON."""
    return [{"point": plain_point(visit.point), "round": visit.round} for visit in visits]


def _main() -> int:
    die_with(int(sys.argv[1]))
    replies = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints is no part of a reply
    with open(replies, "w") as out:
        for line in sys.stdin.buffer:
            given = json.loads(line)
            out.write(json.dumps(answer(Board(**given["board"]), given["request"])) + "\n")
            out.flush()
    return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(_main())
