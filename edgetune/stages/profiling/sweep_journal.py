"""The journal of a sweep of points: its entries, and what a stopped sweep has measured."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import STDIN
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow
from edgetune.stages.profiling.journal import (
    JOURNAL_SUFFIX,
    Journal,
    JournalFormat,
    about,
    checked,
    journal_beside,
    open_journal_of,
    peek,
)
from edgetune.stages.profiling.queue import Visit


@dataclass(frozen=True, slots=True)
class SweepJournalEntry:
    """One finished point.

    Args:
        point: The point, as the sweep requests it.
        rows: Every attempt, the one that counts last.
        overhead: Fraction of the sampled time spent outside the workload.
        target_reached: Whether the confidence interval reached its target.
        round: Number of the visit to the point; ``None`` in a sweep of one round.
        cooled: Whether the device was cool enough before the attempt that counts.
    """

    point: Point
    rows: tuple[ProfileRow, ...]
    overhead: float | None = None
    target_reached: bool = True
    round: int | None = None
    cooled: bool = True

    @property
    def visit(self) -> Visit:
        """Which measurement of which point this is."""
        return Visit(self.point, self.round)

    @property
    def failed(self) -> bool:
        """Whether the point could not be measured."""
        return self.rows[-1].status == "failed"


_NAMES = frozenset(field.name for field in fields(ProfileRow))


def plain_entry(entry: SweepJournalEntry) -> dict[str, Any]:
    """Return an entry as plain data, without the columns that were not measured."""
    point = entry.point
    asked: dict[str, Any] = {"workload": point.workload, "task": point.task, "batch_size": point.batch_size}
    asked["mode"] = point.mode.settings()
    rows = [{name: value for name, value in asdict(row).items() if value is not None} for row in entry.rows]
    facts = {name: getattr(entry, name) for name in ("overhead", "target_reached", "round", "cooled")}
    return {"point": asked, "rows": rows, **facts}


def to_entry(value: Mapping[str, Any]) -> SweepJournalEntry:
    """Return the entry that plain data describe: the inverse of ``plain_entry``.

    Raises:
        AttributeError, LookupError, TypeError, ValueError: The data do not describe an entry.
    """
    asked = value["point"]
    rows = [
        {"minibatch_s": None, **{name: cell for name, cell in row.items() if name in _NAMES}} for row in value["rows"]
    ]
    return checked(
        SweepJournalEntry, {**value, "point": {**asked, "mode": Mode.of(asked["mode"]).settings()}, "rows": rows}
    )


POINTS: JournalFormat[SweepJournalEntry] = JournalFormat(plain_entry, to_entry, lambda entry: entry.failed)
"""The journal of a sweep."""


def open_journal(
    path: Path, identity: Mapping[str, Any], *, synced: bool = True, fresh: bool = False
) -> Journal[SweepJournalEntry]:
    """Open the journal of a sweep; see ``open_journal_of``."""
    return open_journal_of(POINTS, path, identity, synced=synced, fresh=fresh)


def entries_in_journal(path: Path, identity: Mapping[str, Any]) -> list[SweepJournalEntry]:
    """Return the entries in the journal of this very request; none where there is no such journal."""
    found = peek(path)
    return _entries(found[1]) if found is not None and found[0] == about(identity) else []


def stopped_sweep(file: str) -> Profile | None:
    """Return what a stopped sweep has measured, where ``file`` is its journal, or its table, not written yet."""
    path = Path(file)
    if file == STDIN or (path.exists() and path.suffix != JOURNAL_SUFFIX):
        return None
    identity, values = peek(path if path.exists() else journal_beside(path)) or ({}, [])
    rows = tuple(row for entry in _entries(values) for row in entry.rows)
    if not rows:
        return None
    of_device = identity.get("device_conditions") or {}
    conditions = {
        **of_device,
        **{name: identity.get(name) for name in ("device", "device_description", "options")},
        "simulated": bool(identity.get("simulated") or of_device.get("simulated")),
    }
    advice = "the sweep was stopped; the same edgetune profile command goes on with it and writes the table"
    inputs = {"workload": {"name": identity.get("workload"), "sha256": identity.get("workload_sha256")}}
    warnings = (DataWarning("sweep-stopped", advice),)
    return Profile(Header.new(KIND, VERSION, inputs=inputs, conditions=conditions, warnings=warnings), rows)


def _entries(values: list[dict[str, Any]]) -> list[SweepJournalEntry]:
    """Return the entries that plain data describe; none where they are those of a training."""
    try:
        return [to_entry(value) for value in values]
    except (AttributeError, LookupError, TypeError, ValueError):
        return []
