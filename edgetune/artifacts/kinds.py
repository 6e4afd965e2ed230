"""The format of a file, which the ending of its name decides: a file is what its name says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast, get_args

from edgetune.errors import InputError

Format = Literal["parquet", "csv", "json", "yaml"]
Document = Literal["plan", "roofline", "jobs", "kernel_tasks"]

_TABLE = (".parquet", ".csv", ".json")
_DOCUMENT = (".yaml", ".yml", ".json")
_TABLES = (
    "profile", "trace", "ops", "convergence", "evaluation", "run", "timeline", "layer_costs", "elastic_table",
    "kernel_timeline",
)  # fmt: skip

ENDINGS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_TABLES, _TABLE),
    **dict.fromkeys(get_args(Document), _DOCUMENT),
    "benchmark": (".json",),
    "event trace": (".json",),
    "set of constants": (".yaml", ".yml"),
    "network": (".onnx",),
    "CUDA source": (".cu", ".cuh", ".h", ".hpp", ".cpp"),
}
"""Endings of each kind of file, the usual one first: of every kind of artifact, and of what else commands write."""


def check_ending(name: str | Path, kind: str, option: str) -> None:
    """Refuse a file name whose ending says another format than files of its kind have.

    Args:
        name: As written after the option. Without an ending it says no format, and gets the usual one of its kind; so
            does a device or a pipe, e.g. ``/dev/null``.
        kind: One of ``ENDINGS``.
        option: That names the file, for the message.

    Raises:
        InputError: files of this kind have no such ending.
    """
    endings, path = ENDINGS[kind], Path(name)
    if _ending(path) in (*endings, ""):
        return
    *first, last = endings
    listed = f"{', '.join(first)} or {last}" if first else last
    article = "an" if kind[0] in "aeiou" else "a"
    message = f"{option}: {name} ends in {path.suffix}, and {article} {kind.replace('_', ' ')} is written as {listed}"
    raise InputError(message, f"e.g. {option} {path.with_suffix(endings[0])}")


def format_of(name: str | Path, kind: str) -> Format:
    """Return the format of an artifact's file, as its ending says; the usual one of its kind where it has none.

    Raises:
        InputError: artifacts of this kind have no such ending.
    """
    check_ending(name, kind, "-o")
    ending = _ending(Path(name)) or ENDINGS[kind][0]
    return cast("Format", {".yml": "yaml"}.get(ending, ending.removeprefix(".")))


def _ending(path: Path) -> str:
    """Return the ending of a file's name in small letters; none of a device's or a pipe's."""
    return "" if os.path.exists(path) and not os.path.isfile(path) else path.suffix.lower()
