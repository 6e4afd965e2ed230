"""Reads and writes the files of artifacts.

A file is written in the format of its ending. The format of a file to read follows from its content: ``PAR1`` is
Parquet, a JSON object with ``rows`` or the results of a tool in ``READERS`` are a table, other text with a ``kind:`` is
YAML, and the rest is CSV with a header line. ``-`` is standard input, read whole.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from edgetune.artifacts.artifact import Artifact, Raw, Table
from edgetune.artifacts.columns import columns_of
from edgetune.artifacts.csv_format import csv_table
from edgetune.artifacts.document import Document
from edgetune.artifacts.files import name_of, read_source, write_atomically
from edgetune.artifacts.foreign_profile import foreign_profile
from edgetune.artifacts.foreign_results import READERS, results_table, results_tool
from edgetune.artifacts.formats import MAGIC, has_rows, json_table, parquet_table
from edgetune.artifacts.header import Header
from edgetune.artifacts.kinds import (
    DOCUMENT,
    KINDS,
    REMOVED,
    Format,
    article,
    class_of,
    columns_by_kind,
    current_version,
    format_of,
    kind_of,
)
from edgetune.artifacts.profile import Profile
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError

A = TypeVar("A", bound=Artifact)

_KIND_LINE = re.compile(r"""^\s*["']?kind["']?\s*:|\A\s*\{""", re.MULTILINE)
_JSON_LIST = re.compile(r"""\A\s*\[\s*[\[{\]]""")
_DOCUMENTS = "|".join(name for name, kind in KINDS.items() if kind.endings == DOCUMENT)
_DOCUMENT_KIND = re.compile(rf"""(?:^|[{{,]\s*)["']?kind["']?\s*:\s*["']?({_DOCUMENTS})\b""", re.MULTILINE)


def read(kind: type[A], source: str) -> A:
    """Return the artifact of a kind (``Plan``, ``Run``, ...) in a file or, for ``-``, on standard input.

    A profile, a convergence table and layer costs may also be any table with the needed columns.

    Raises:
        InputError: the file is unreadable or of another kind, a key is unknown or missing, or a value is impossible.
    """
    return from_bytes(read_source(source), kind=kind, name=name_of(source))


def read_profile(source: str, columns: Mapping[str, str] | None = None) -> Profile:
    """Return the profile in a file or, for ``-``, on standard input: a profile, or any table with the needed columns.

    Args:
        source: The file.
        columns: Stated meanings of a foreign table's columns; see ``foreign_table``.

    Raises:
        InputError: the file is unreadable or of another kind, or its figures cannot be measurements.
    """
    return profile_of_bytes(read_source(source), columns, name=name_of(source))


def profile_of_bytes(data: bytes, columns: Mapping[str, str] | None, *, name: str) -> Profile:
    """Return the profile in ``data``; arguments and errors as ``read_profile``."""
    if not columns:
        return from_bytes(data, kind=Profile, name=name)
    form = sniff(data, name=name)
    if form == "yaml":
        raise InputError(f"--column: {name} is YAML, and no table", "give it a CSV or Parquet file")
    table, head = table_in(data, form, name=name)
    if head is not None:
        message = f"--column: {name} was written by edgetune, which names its columns itself"
        raise InputError(message, "leave --column out")
    return foreign_profile(table, data, columns, name=name)


def read_any(file: str, columns: Mapping[str, str] | None = None) -> Artifact:
    """Return the artifact in a file, whatever its kind.

    Args:
        file: The file, ``-`` for standard input.
        columns: As in ``read_profile``.

    Raises:
        InputError: the file is unreadable or not an artifact.
    """
    data, name = read_source(file), name_of(file)
    if columns:
        return profile_of_bytes(data, columns, name=name)
    form = sniff(data, name=name)
    if form == "yaml":
        return from_bytes(data, kind=document_kind(data), name=name)  # type: ignore[no-any-return]
    table, head = table_in(data, form, name=name)
    kind = str((head or {}).get("kind", columns_kind(table) or "profile"))
    if kind in REMOVED:
        raise _removed(kind, name)
    if kind not in KINDS:
        raise InputError(f"{name} is a {kind!r}, which this version cannot show", "a newer edgetune may")
    return from_bytes(data, kind=kind, name=name)  # type: ignore[no-any-return]


def write(artifact: Artifact, target: Path | str) -> Path:
    """Write an artifact to a file that the command has checked, in the format of its ending, and return its path.

    Raises:
        InputError: see ``write_atomically``.
    """
    return write_atomically(artifact.to_bytes(format_of(target, artifact.header.kind)), target)


@overload
def from_bytes(data: bytes, *, kind: type[A], name: str) -> A: ...
@overload
def from_bytes(data: bytes, *, kind: str, name: str) -> Any: ...
def from_bytes(data: bytes, *, kind: type[A] | str, name: str) -> Any:
    """Return the artifact of a kind in ``data``.

    Args:
        data: The file.
        kind: The class of the artifact, or its name in ``KINDS``.
        name: The file's name in messages.

    Raises:
        InputError: see ``read``.
    """
    form = sniff(data, name=name)
    kind = kind if isinstance(kind, str) else kind_of(kind)
    artifact: type[Any] = class_of(kind)
    is_document = issubclass(artifact, Document)
    columns = () if is_document else [column.name for column in columns_of(artifact.ROW)]
    form = "yaml" if is_document and form == "csv" else form
    if form == "yaml":
        raw = _parts(load_yaml(text_of(data), name=name), kind=kind, name=name)
    else:
        table, head = table_in(data, form, columns, name=name)
        if head is None and not is_document:
            return _foreign(artifact, table, data, kind=kind, name=name)
        raw = Raw(head or {}, table)
    raw = upgrade(raw, kind=kind, name=name)
    if is_document != (form == "yaml"):
        found, wanted = ("YAML", "table") if form == "yaml" else ("a table", "document")
        raise InputError(f"{name} is {found}, but a {kind} is a {wanted}", _as_written(kind))
    return artifact.read(raw, name=name)


def _foreign(artifact: type[Table], table: Any, data: bytes, *, kind: str, name: str) -> Artifact:
    """Return the artifact in a foreign table, which has no header."""
    if kind == "profile":
        return foreign_profile(table, data, {}, name=name)
    ours = artifact.from_foreign(table, name=name)
    if ours is not None:
        return artifact.from_table(Header.foreign(kind, current_version(kind), data, name=name), ours, name=name)
    if columns_kind(table) == kind:
        message = f"{name} has only the rows of a {kind}: CSV does not keep the conditions that a {kind} needs"
        raise InputError(message, "give it the .parquet or .json file that the rows are from")
    raise InputError(f"{name} is not a {kind}: edgetune did not write it", _as_written(kind))


def _parts(document: Any, *, kind: str, name: str) -> Raw:
    """Return the head and the rest of a parsed document."""
    if not isinstance(document, Mapping):
        message = f"{name} is not {article(kind)}: it holds {type(document).__name__}, not keys and values"
        raise InputError(message, _as_written(kind))
    head = {key: value for key, value in document.items() if key in Header.__slots__}
    return Raw(head, {key: value for key, value in document.items() if key not in head})


def sniff(data: bytes, *, name: str) -> Format:
    """Return the format of ``data``: of a table Parquet, CSV or JSON; of a document YAML, JSON included.

    JSON is a table if it has ``rows`` or the results of another tool.

    Raises:
        InputError: the file is empty, or neither Parquet nor UTF-8 text.
    """
    if data.startswith(MAGIC):
        return "parquet"
    if not data.strip():
        raise InputError(f"{name} is empty", "was the command that should have written it interrupted?")
    try:
        text = text_of(data)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        network = f"of a network, edgetune roofline ops {name} lists the operators"
        hint = network if name.endswith(".onnx") else "text files must be UTF-8"
        raise InputError(f"{name} is neither Parquet, YAML nor CSV", hint)
    if has_rows(text) or results_tool(text) is not None:
        return "json"
    return "yaml" if _KIND_LINE.search(text[:65536]) else "csv"


def table_in(data: bytes, form: Format, columns: Sequence[str] = (), *, name: str) -> tuple[Any, dict[str, Any] | None]:
    """Return the ``pyarrow.Table`` in ``data`` and its head, which is ``None`` for a foreign table.

    Args:
        data: The file.
        form: The result of ``sniff``, except YAML.
        columns: The columns of a table without rows.
        name: The file, for messages.

    Raises:
        InputError: the file is damaged or irregular, or a JSON list of no tool in ``READERS``.
    """
    if form == "parquet":
        return parquet_table(data, name=name)
    text = text_of(data)
    if form == "csv":
        if _JSON_LIST.search(text):
            raise InputError(
                f"{name} is a JSON list, and no results of a known tool", f"known are {', '.join(READERS)}"
            )
        return csv_table(text, name=name), None
    if not has_rows(text) and (tool := results_tool(text)) is not None:
        return results_table(text, tool, name=name), None
    return json_table(text, columns, name=name)


def document_kind(data: bytes) -> str:
    """Return the kind of a YAML document without parsing it, by default a plan."""
    found = _DOCUMENT_KIND.search(text_of(data))
    return "plan" if found is None else found[1]


def text_of(data: bytes) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark."""
    return data.decode("utf-8-sig")


def columns_kind(table: Any) -> str | None:
    """Return the kind whose rows have exactly these columns, as in CSV of edgetune; ``None`` without such a kind."""
    kinds = columns_by_kind().items()
    return next((kind for kind, columns in kinds if table.column_names == [column.name for column in columns]), None)


_UNREAD = {"benchmark": "bench", "energy": "energy"}
"""Kinds of JSON files for other programs, and the commands that write them."""


def upgrade(raw: Raw, *, kind: str, name: str) -> Raw:
    """Convert a stored artifact to the layout of the current version.

    Raises:
        InputError: the kind differs from the wanted one, or the kind or version is unknown.
    """
    found, version, newest = raw.head.get("kind"), raw.head.get("version"), current_version(kind)
    if found != kind:
        if found is None:
            raise InputError(f"{name} does not say what it is: there is no `kind`", _as_written(kind))
        if isinstance(found, str) and found in KINDS:
            raise InputError(f"{name} is {article(found)}, not {article(kind)}", _as_written(kind))
        if isinstance(found, str) and found in REMOVED:
            raise _removed(found, name)
        if isinstance(found, str) and found in _UNREAD:
            message = f"{name} has figures of `edgetune schedule kernels {_UNREAD[found]}`, which no command reads"
            raise InputError(message, "it is JSON: open it with jq, or with json.load of Python")
        if found == "tenants":
            raise InputError(f"{name} is a file of tenants, not {article(kind)}", "edgetune interleave FILE runs it")
        raise InputError(f"{name} is of unknown kind {found!r}, not {article(kind)}", _as_written(kind))
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"{name} has no valid version: {version!r}", f"a {kind} is version 1 to {newest}")
    if version > newest:
        raise InputError(
            f"{name} was written by a newer edgetune: {kind} version {version}, known up to {newest}",
            "upgrade edgetune here, or write the file again with this version",
        )
    for step in class_of(kind).UPGRADES[version - 1 :]:
        raw = step(raw)
    return raw


def _removed(kind: str, name: str) -> InputError:
    return InputError(f"{name} is {article(kind)} of an earlier version, which no command reads", REMOVED[kind])


def _as_written(kind: str) -> str:
    return f"give it {article(kind)}, as `{KINDS[kind].made_by}` writes"
