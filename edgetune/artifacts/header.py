"""What every artifact says about itself: kind, version, origin, conditions and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from edgetune.version import __version__


@dataclass(frozen=True, slots=True)
class DataWarning:
    """A typed warning that travels with the data and is worded later.

    Args:
        code: Stable identifier, explained in ``manual/files.md``, e.g. ``too-few-power-samples``.
        numbers: The figures behind it, units in their names.
        advice: What the reader may do about it, one line.
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
        inputs: What it was made from, by role: ``{"workload": {"name": ..., "sha256": ...}}``.
        conditions: Device, whether simulated, software versions, power source, temperature, options, seed.
        warnings: Cautions raised while it was made.
    """

    kind: str
    version: int
    created: str
    tool: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[DataWarning, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether any figure in the artifact comes from a model rather than from a device."""
        return bool(self.conditions.get("simulated", False))

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the command that measured, by name; none where the file lists them otherwise."""
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
        now = datetime.now(timezone.utc).replace(microsecond=0)
        return cls(
            kind=kind,
            version=version,
            created=now.isoformat().replace("+00:00", "Z"),
            tool=f"edgetune {__version__}",
            inputs=dict(inputs or {}),
            conditions=dict(conditions or {}),
            warnings=warnings,
        )
