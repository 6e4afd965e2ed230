"""The header of every artifact: kind, version, origin, conditions and warnings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

from edgetune.artifacts.origin import running_command
from edgetune.errors import InputError
from edgetune.version import __version__

Head = TypeVar("Head")
_MAPPINGS = {
    "inputs": ("workload", "background", "table", "request", "dataset", "ops"),
    "conditions": ("problem", "policies"),
}
"""What in a header has fields of its own, where it is there."""


def utc_now() -> str:
    """Return the time in UTC to the second, e.g. ``2026-05-01T12:00:00Z``."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class DataWarning:
    """A typed warning stored with the data and worded when printed.

    Args:
        code: Stable identifier, explained in ``manual/files.md``, e.g. ``too-few-power-samples``.
        numbers: The figures behind the warning, units in their names.
        advice: The remedy, one line.
    """

    code: str
    advice: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Header:
    """Provenance of an artifact, the same for every kind.

    Args:
        kind: ``profile``, ``plan``, ``trace``, ``ops``, ...
        version: Version of that kind's layout.
        created: UTC time, ISO 8601 to the second.
        tool: Name and version of the program that wrote it.
        command: The command that wrote it, as a shell takes it, secrets masked; empty where a Python program did.
        inputs: The inputs by role: ``{"workload": {"name": ..., "sha256": ...}}``.
        conditions: Device, whether simulated, software versions, power source, temperature, options, seed.
        warnings: Warnings of its creation.
    """

    kind: str
    version: int
    created: str
    tool: str
    command: str = field(default="", kw_only=True)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[DataWarning, ...] = ()

    @property
    def made(self) -> str:
        """How the artifact came into being, in words."""
        return (
            "read from a table of another program" if self.tool == "unknown" else f"made {self.created} by {self.tool}"
        )

    @property
    def simulated(self) -> bool:
        """Whether any figure in the artifact comes from a model rather than from a device."""
        return bool(self.conditions.get("simulated", False))

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the measuring command by name; empty if the file stores them in another way."""
        found = self.conditions.get("options")
        return found if isinstance(found, Mapping) else {}

    @classmethod
    def new(
        cls,
        kind: str,
        version: int,
        *,
        inputs: Mapping[str, Any] | None = None,
        conditions: Mapping[str, Any] | None = None,
        warnings: tuple[DataWarning, ...] = (),
    ) -> Header:
        """Return the header of an artifact made now by this program."""
        return cls(
            kind=kind,
            version=version,
            created=utc_now(),
            tool=f"edgetune {__version__}",
            command=running_command(),
            inputs=dict(inputs or {}),
            conditions=dict(conditions or {}),
            warnings=warnings,
        )

    @classmethod
    def of(cls, head: Mapping[str, Any], *, name: str) -> Header:
        """Return the header in a file; keys that this version does not know are left out.

        Raises:
            InputError: a field is missing or has another type.
        """
        header = validated_head(cls, head, name=name)
        for place, keys in _MAPPINGS.items():
            for key in keys:
                if not isinstance(getattr(header, place).get(key) or {}, Mapping):
                    raise _damaged(name, f"{place}.{key}: it should hold keys and values")
        return header

    @classmethod
    def foreign(cls, kind: str, version: int, data: bytes, *, name: str, **stated: Any) -> Header:
        """Return the header of a foreign table, whose only provenance is its hash.

        Args:
            kind: The kind that the table is read as.
            version: Version of that kind's layout.
            data: The file.
            name: The file's name.
            stated: ``columns`` with stated meanings, ``conditions`` and ``warnings``.
        """
        table: dict[str, Any] = {"name": name, "sha256": hashlib.sha256(data).hexdigest()}
        if columns := stated.pop("columns", None):
            table["columns"] = dict(columns)
        return cls(kind, version, "unknown", "unknown", inputs={"table": table}, **stated)


def validated_head(form: type[Head], head: Mapping[str, Any], *, name: str) -> Head:
    """Return the head of a file as the dataclass ``form``.

    Raises:
        InputError: a field is missing or has another type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(form).validate_json(json.dumps(head), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _damaged(name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _damaged(name: str, reason: str) -> InputError:
    return InputError(f"{name} has a damaged header: {reason}", "write the file again")
