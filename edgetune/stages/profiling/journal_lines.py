"""The lines of a journal: its identity, its runs and its finished points, each with a checksum."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.profiling.queue import Visit

if TYPE_CHECKING:
    from pydantic import TypeAdapter

E = TypeVar("E")
"""An entry of a journal: a point of a sweep, or a training run."""
R = TypeVar("R")


@dataclass(frozen=True)
class JournalFormat(Generic[E]):
    """How the entries of a journal are written and read.

    Args:
        key: A key that the plain data of every entry has, and no other line.
        write: An entry as plain data.
        read: The inverse.
        failed: Whether an entry is a failure.
    """

    key: str
    write: Callable[[E], Mapping[str, Any]]
    read: Callable[[Mapping[str, Any]], E]
    failed: Callable[[E], bool]


_NAMES = frozenset(field.name for field in fields(ProfileRow))


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


@dataclass(frozen=True, slots=True)
class Entries(Generic[E]):
    """The entries of a journal.

    Args:
        kept: Each once, in the order in which they were written.
        duplicates: How many lines repeat another.
    """

    kept: list[E]
    duplicates: int = 0


def entries_of(form: JournalFormat[E], values: Sequence[Mapping[str, Any]]) -> Entries[E]:
    """Return the entries among the lines of a journal; repeated lines are one entry.

    A failure that another run repeats is a second try, and another entry.
    """
    kept: list[E] = []
    seen: set[tuple[str, str]] = set()
    run, duplicates = "", 0
    for value in values:
        if "run" in value:
            run = json.dumps(value["run"], sort_keys=True)
        if form.key not in value:
            continue
        entry = form.read(value)
        line = (run if form.failed(entry) else "", json.dumps(value, sort_keys=True))
        if line in seen:
            duplicates += 1
        else:
            seen.add(line)
            kept.append(entry)
    return Entries(kept, duplicates)


def parse_lines(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the valid lines from the start, and how many bytes they take; each is a JSON object that fits its sum."""
    values: list[dict[str, Any]] = []
    valid_bytes = 0
    for line in content.splitlines(keepends=True):
        body = line[9:-1]
        if not line.endswith(b"\n") or line[:9] != b"%08x " % zlib.crc32(body):
            break
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):  # a checksum does not say who wrote the line
            break
        if not isinstance(value, dict):
            break
        values.append(value)
        valid_bytes += len(line)
    return values, valid_bytes


def to_line(value: Mapping[str, Any]) -> bytes:
    """Return a value as a line with its checksum."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def canonical(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``identity`` as it is after a round trip through JSON, so that equal requests compare equal."""
    value: dict[str, Any] = json.loads(json.dumps(identity, sort_keys=True, default=str))
    return value


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
    plain = {
        "point": {**asked, "mode": Mode.of(asked["mode"]).settings()},
        "rows": rows,
        "overhead": value["overhead"],
        "target_reached": value["target_reached"],
        "round": value.get("round"),  # journals of edgetune 0.1.0 have neither this nor the next
        "cooled": value.get("cooled", True),
    }
    return checked(SweepJournalEntry, plain)


def checked(form: type[R], plain: Mapping[str, Any]) -> R:
    """Return the dataclass that plain data describe.

    Raises:
        ValueError: A field has another type.
    """
    found: R = _adapter(cast("Any", form)).validate_json(json.dumps(plain), strict=True)
    return found


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(form)


POINTS: JournalFormat[SweepJournalEntry] = JournalFormat("point", plain_entry, to_entry, lambda entry: entry.failed)
"""The journal of a sweep."""
