"""What makes two sweeps the same, so that one may take over the other's points, and where their journal lies."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetune.artifacts.merging import NOT_MEASURED
from edgetune.artifacts.output_file import OutputFile
from edgetune.artifacts.profile import Task
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import InputError
from edgetune.processes.private_folder import make_private, temporary_folder
from edgetune.profiling.options import ProfileOptions
from edgetune.version import __version__
from edgetune.workloads.workload import Workload


def identify(device: Device, workload: Workload, task: Task, options: ProfileOptions) -> dict[str, Any]:
    """Return what must be equal for measured points to be taken over; the points asked for are not part of it.

    A batch size or mode can so be added to a sweep that is half done. On a simulated device its constants and seed
    count, on a real one its description: the load and temperature of the day do not.
    """
    plain = {name: value for name, value in options.plain().items() if name not in NOT_MEASURED}
    identity = {
        "version": __version__,
        "device": device.name,
        "device_description": device.description,
        "workload": workload.name,
        "workload_sha256": workload.sha256,
        "batch_axes": workload.batch_axes,
        "task": task,
        "ops_sha256": None if workload.ops is None else workload.ops.sha256,
        "inputs_sha256": None if options.inputs is None else _digest(options.inputs),
        "options": plain,
    }
    if not isinstance(device.source, LiveSource):
        identity["device_conditions"] = dict(device.conditions)
    return identity


def identity_sha256(identity: Mapping[str, Any]) -> str:
    """Return the hash by which a profile says which request it answers; the points are not part of it."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def points_sha256(points: Sequence[object]) -> str:
    """Return the hash by which a profile says which points were asked for; its rows name what was read back too."""
    return hashlib.sha256(json.dumps(sorted(str(point) for point in points)).encode()).hexdigest()


def default_journal_path(output: Path | None, identity: Mapping[str, Any], points: Sequence[object]) -> Path:
    """Return where the journal of a sweep lies.

    Args:
        output: The file the profile will be written to: the journal is beside it, hidden. ``None`` for standard output:
            it is then in ``$XDG_STATE_HOME/edgetune/journals`` (``~/.local/state`` by default), or in
            ``temporary_folder`` where that cannot be written, named by its request.
        identity: See ``identify``.
        points: The points (or training runs) asked for.

    Raises:
        InputError: for standard output, when there is no folder to keep it in.
    """
    if output is not None:
        return output.parent / f".{output.name}.journal"
    asked = json.dumps([identity, [str(point) for point in points]], sort_keys=True, default=str)
    return _journals_folder() / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.journal"


def _journals_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: nobody knows where home is
        folder = (Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state") / "edgetune/journals"
        folder.mkdir(parents=True, exist_ok=True)
        if _takes_files(folder):
            return folder
    with contextlib.suppress(OSError):
        folder = temporary_folder()
        if make_private(folder) and _takes_files(folder):
            return folder
    raise InputError(
        "there is no folder to keep the journal in", "name a file with -o, or set XDG_STATE_HOME or TMPDIR"
    )


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made in a folder: on a read-only or full file system permissions say otherwise."""
    try:
        output = OutputFile(folder / "journal")
    except OSError:
        return False
    try:
        output.try_folder()
    except OSError:
        return False
    finally:
        output.close()
    return True


def _digest(path: str) -> str:
    """Return the SHA-256 of a file.

    Raises:
        InputError: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    return digest.hexdigest()
