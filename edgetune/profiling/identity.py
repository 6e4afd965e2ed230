"""What makes two sweeps the same, so that one may take over the other's points, and where their journal lies."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetune import __version__
from edgetune.artifacts.profile import Point, Task
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import InputError
from edgetune.profiling.options import ProfileOptions
from edgetune.workloads.workload import Workload

_SCHEDULING = ("point_timeout_s", "retries")
"""Options that change how long one waits, not what is measured."""


def identify(device: Device, workload: Workload, task: Task, options: ProfileOptions) -> dict[str, Any]:
    """Return what must be equal for measured points to be taken over; the points asked for are not part of it.

    A batch size or mode can so be added to a sweep that is half done. On a simulated device its constants and seed
    count, on a real one its description: the load and temperature of the day do not.
    """
    plain = {name: value for name, value in options.plain().items() if name not in _SCHEDULING}
    identity = {
        "version": __version__,
        "device": device.name,
        "device_description": device.description,
        "workload": workload.name,
        "workload_sha256": workload.sha256,
        "task": task,
        "inputs_sha256": None if options.inputs is None else _digest(options.inputs),
        "options": plain,
    }
    if not isinstance(device.source, LiveSource):
        identity["device_conditions"] = dict(device.conditions)
    return identity


def default_journal_path(output: Path | None, identity: Mapping[str, Any], points: Sequence[Point]) -> Path:
    """Return where the journal of a sweep lies.

    Args:
        output: The file the profile will be written to: the journal is beside it, hidden. ``None`` for standard output:
            it is then in ``$XDG_STATE_HOME/edgetune/journals`` (``~/.local/state`` by default), named by its request.
        identity: See ``identify``.
        points: The points asked for.
    """
    if output is not None:
        return output.parent / f".{output.name}.journal"
    asked = json.dumps([identity, [str(point) for point in points]], sort_keys=True, default=str)
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return folder / "edgetune" / "journals" / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.journal"


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
