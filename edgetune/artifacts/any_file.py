"""An artifact of any kind, read from a file that says itself what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from edgetune.artifacts.detection import document_kind, sniff, table_in
from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.io import Artifact, Kind, columns_kind, from_bytes, profile_of_bytes
from edgetune.artifacts.kinds import ENDINGS
from edgetune.errors import InputError


def read_any(file: str, columns: Mapping[str, str] | None = None) -> Artifact:
    """Return the artifact in a file, whatever its kind; ``columns`` as in ``foreign_table``.

    Raises:
        InputError: it cannot be read, or is no artifact.
    """
    data, name = read_source(file), name_of(file)
    if columns:
        return profile_of_bytes(data, columns, name=name)
    form = sniff(data, name=name)
    if form == "yaml":
        return from_bytes(data, kind=document_kind(data), name=name)
    table, head = table_in(data, form, name=name)
    kind = str((head or {}).get("kind", columns_kind(table) or "profile"))
    if kind not in ENDINGS:
        raise InputError(f"{name} is a {kind!r}, which this version cannot show", "a newer edgetune may")
    return from_bytes(data, kind=cast("Kind", kind), name=name)
