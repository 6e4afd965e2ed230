"""The table of the kinds of files that edgetune writes, and their formats by the endings of names.

The module of a row is imported only by ``class_of`` and ``current_version``, because every command reads the table when
it starts.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from edgetune.errors import InputError

Format = Literal["parquet", "csv", "json", "yaml"]
TABLE = (".parquet", ".csv", ".json")
DOCUMENT = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of artifact; its module in ``edgetune.artifacts`` has the name of the kind.

    Args:
        artifact: Name of its class.
        endings: Endings of its files, the usual one first.
        made_by: The command that writes it, for hints.
    """

    artifact: str
    endings: tuple[str, ...]
    made_by: str


KINDS: Mapping[str, Kind] = {
    "profile": Kind("Profile", TABLE, "edgetune profile"),
    "trace": Kind("Trace", TABLE, "edgetune search --trace FILE"),
    "ops": Kind("OpsTable", TABLE, "edgetune roofline ops MODEL -o FILE"),
    "plan": Kind("Plan", DOCUMENT, "edgetune search"),
    "convergence": Kind("Convergence", TABLE, "edgetune profile --convergence"),
    "evaluation": Kind("Evaluation", TABLE, "edgetune search evaluate -o FILE"),
    "roofline": Kind("Roofline", DOCUMENT, "edgetune roofline MODEL -o FILE"),
    "run": Kind("Run", TABLE, "edgetune interleave -o FILE"),
    "timeline": Kind("Timeline", TABLE, "edgetune schedule run -o FILE"),
    "jobs": Kind("Jobs", DOCUMENT, "edgetune help memory"),
    "layer_costs": Kind("LayerCosts", TABLE, "edgetune schedule profile"),
    "kernel_timeline": Kind("KernelTimeline", TABLE, "edgetune schedule kernels simulate -o FILE"),
    "kernel_tasks": Kind("KernelTasks", DOCUMENT, "edgetune help kernels"),
}

ENDINGS: Mapping[str, tuple[str, ...]] = {
    **{name: kind.endings for name, kind in KINDS.items()},
    "benchmark": (".json",),
    "energy": (".json",),
    "event trace": (".json",),
    "network": (".onnx",),
    "PTX": (".ptx",),
}
"""Endings of each kind of file, the usual one first: of every kind of artifact, and of what else commands write."""

REMOVED: Mapping[str, str] = {
    "elastic_table": "edgetune schedule kernels shrink prints the pieces, and policies compute them before a run",
}
"""Kinds that earlier versions wrote, and what replaces them."""


def class_of(kind: str) -> Any:
    """Return the class of a kind, a subclass of ``artifact.Table`` or ``artifact.Document``."""
    return getattr(import_module(f"edgetune.artifacts.{kind}"), KINDS[kind].artifact)


def current_version(kind: str) -> int:
    """Return the version of a kind's layout that this program writes."""
    version: int = import_module(f"edgetune.artifacts.{kind}").VERSION
    return version


def kind_of(artifact: type) -> str:
    """Return the kind of an artifact class."""
    return next(name for name, kind in KINDS.items() if kind.artifact == artifact.__name__)


def article(kind: str) -> str:
    """Return a kind in words with its article, e.g. ``an ops``, ``a file of jobs``."""
    word = kind.replace("_", " ")
    if kind in ("jobs", "kernel_tasks", "layer_costs"):
        return f"a file of {word}"
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def check_ending(name: str | Path, kind: str, option: str) -> None:
    """Refuse a file name whose ending is not a format of its kind.

    Args:
        name: As written after the option. A name without an ending, a device or a pipe, e.g. ``/dev/null``, has the
            usual format of its kind.
        kind: One of ``ENDINGS``.
        option: The option that names the file, for the message.

    Raises:
        InputError: files of this kind do not have this ending.
    """
    endings, path = ENDINGS[kind], Path(name)
    if _ending(path) in (*endings, ""):
        return
    *first, last = endings
    listed = f"{', '.join(first)} or {last}" if first else last
    message = f"{option}: {name} ends in {path.suffix}, and {article(kind)} is written as {listed}"
    raise InputError(message, f"e.g. {option} {path.with_suffix(endings[0])}")


def format_of(name: str | Path, kind: str) -> Format:
    """Return the format of an artifact's file by its ending; without one, the usual format of its kind.

    Raises:
        InputError: artifacts of this kind do not have this ending.
    """
    check_ending(name, kind, "-o")
    ending = _ending(Path(name)) or ENDINGS[kind][0]
    return cast("Format", {".yml": "yaml"}.get(ending, ending.removeprefix(".")))


def _ending(path: Path) -> str:
    """Return the ending of a file's name in lower case; empty for a device or a pipe."""
    return "" if os.path.exists(path) and not os.path.isfile(path) else path.suffix.lower()
