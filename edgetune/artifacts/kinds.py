"""The table of the kinds of files that edgetune writes, and their formats by the endings of names.

The module of a row is imported only by ``class_of`` and ``current_version``, because every command reads the table when
it starts.

Recognises the kind of an existing file that an output would replace, from a few bytes and without any library.

The marks of edgetune's files are: in Parquet the footer, in JSON and YAML ``tool``, in CSV the columns, and in figures,
pages, networks, CUDA source and PTX a mark of their format. A checkpoint is not
recognised: a training file chooses its format.
"""

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from edgetune.artifacts.columns import Column, columns_of
from edgetune.artifacts.output_file import OutputFile
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
    "elastic_table": "edgetune schedule kernels shrink prints the pieces, and policies compute them before a run"
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


_HEAD_BYTES = 1 << 16
_FOOTER_BYTES = 1 << 24
_KIND = re.compile(rb"""^[\s{]*["']?kind["']?\s*:\s*["']?([a-z_]+)["']?""", re.MULTILINE)
_TOOL = re.compile(rb"""["']?tool["']?\s*:\s*["']?edgetune\b""")
_MARKS: Mapping[str, re.Pattern[bytes]] = {
    "network": re.compile(rb"\A\x08.\x12\x08edgetune", re.DOTALL),
    "CUDA source": re.compile(rb"^struct edgetune_launch_t \{", re.MULTILINE),
    "PTX": re.compile(rb"\A/\* edgetune: "),
    "event trace": re.compile(rb'\A\{"otherData": \{"tool": "edgetune'),
    "figure": re.compile(
        rb"<dc:title>edgetune</dc:title>|\A\x89PNG.{29}.*?\x00edgetune|/Creator \(edgetune\)|"
        rb'<meta name="generator" content="edgetune">',
        re.DOTALL,
    ),
}


@dataclass(frozen=True, slots=True)
class Found:
    """The kind and origin of a file.

    Args:
        kind: Kind of the file; ``None`` if it is not of edgetune.
        ours: Whether edgetune wrote it; a document written by hand has a kind, too.
    """

    kind: str | None
    ours: bool


def refuse_other(output: OutputFile, kind: str, *, remedy: str) -> None:
    """Refuse to replace a file of another kind, or one that edgetune did not write, unless it is empty.

    Args:
        output: The place of the new file.
        kind: Of the new file.
        remedy: The option that replaces the file nevertheless.

    Raises:
        InputError: there is such a file.
        OSError: it cannot be read.
    """
    if output.special or not output.exists or not output.read(0, 1):
        return
    found = recognise(output)
    if found.kind is not None and found.kind != kind:
        message = f"{output.path} is a file of kind {found.kind}, and would be lost"
    elif not found.ours:
        message = f"{output.path} is not recognised as a file of edgetune, and would be lost"
    else:
        return
    raise InputError(message, "name another file" + ("" if found.ours else f", or replace it with {remedy}"))


def columns_by_kind() -> dict[str, tuple[Column, ...]]:
    """Return the columns of every kind of table."""
    return {name: columns_of(class_of(name).ROW) for name, kind in KINDS.items() if kind.endings == TABLE}


def recognise(output: OutputFile) -> Found:
    """Return the kind and origin of the existing file.

    Raises:
        OSError: the file cannot be read.
    """
    head = output.read(0, _HEAD_BYTES)
    if head.startswith(b"PAR1"):
        return _parquet(output)
    text = head + output.read(-_HEAD_BYTES, _HEAD_BYTES) if head.startswith(b"%PDF-") else head
    kind = next((kind for kind, pattern in _MARKS.items() if pattern.search(text)), None)
    if kind is not None:
        return Found(kind, ours=True)
    named = _KIND.search(head)
    if named is not None and (kind := named[1].decode()) in ENDINGS:
        return Found(kind, ours=_TOOL.search(head) is not None)
    kind = _csv_kind(head)
    return Found(kind, ours=kind is not None)


def _parquet(output: OutputFile) -> Found:
    """Return the kind in the header of the footer."""
    end = output.read(-8, 8)
    size_bytes = int.from_bytes(end[:4], "little") + 8
    if end[4:] == b"PAR1" and size_bytes <= _FOOTER_BYTES:
        _, key, value = output.read(-size_bytes, size_bytes).partition(b"edgetune")
        named = re.search(rb'"kind":\s*"([a-z_]+)"', value) if key else None
        if named is not None:
            return Found(named[1].decode(), ours=True)
    return Found(None, ours=False)


def _csv_kind(head: bytes) -> str | None:
    """Return the kind whose rows have these columns, in this order; older files have fewer."""
    line = head.partition(b"\n")[0].decode("utf-8-sig", errors="replace").rstrip("\r")
    try:
        names = next(csv.reader([line]), [])
    except csv.Error:
        return None
    for kind, columns in columns_by_kind().items():
        needed = {column.name for column in columns if column.required}
        if needed and needed <= set(names) and names == [column.name for column in columns if column.name in names]:
            return kind
    return None
