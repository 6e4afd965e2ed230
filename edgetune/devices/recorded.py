"""A table of earlier measurements as a device: points are looked up and never interpolated."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.io import from_bytes
from edgetune.artifacts.mode import KNOBS, SETTINGS, Mode
from edgetune.artifacts.profile import Point, Profile, ProfileRow, Task
from edgetune.artifacts.repeats import SAME, PointKey, knob_key, one_per_point, point_key
from edgetune.devices.capabilities import Absent, ModeSpace, VirtualClock
from edgetune.devices.device import Device, DeviceKind, Listing
from edgetune.errors import DeviceError, InputError

PREFIX = "recorded:"


@dataclass(frozen=True, slots=True)
class RecordedWorkload:
    """One workload and task of a table, and the batch sizes it was measured at, ascending."""

    workload: str
    task: Task
    batch_sizes: tuple[int, ...]


def open_recorded(path: str) -> Device:
    """Open the profile in a file (``-``: standard input) as a device.

    Raises:
        InputError: the file is not a profile, or has no rows.
    """
    path = path.removeprefix(PREFIX)
    if not path:
        raise InputError("recorded: names no file", "e.g. recorded:profile.parquet")
    data, name = read_source(path), name_of(path)
    digest = hashlib.sha256(data).hexdigest()
    return recorded_device(from_bytes(data, kind="profile", name=name), name=f"{PREFIX}{path}", sha256=digest)


def recorded_device(profile: Profile, *, name: str, sha256: str | None = None) -> Device:
    """Return the device that answers from ``profile``; simulated when the profile is.

    Raises:
        InputError: the profile has no rows.
    """
    table = RecordedTable.of(profile.rows, name=name)
    devices = sorted({row.device for row in table.rows if row.device is not None})
    measured_on = ", ".join(devices) or profile.header.conditions.get("device", "an unnamed device")
    data_warnings = (*profile.header.warnings, *table.data_warnings)
    absent = Absent("this is a table: what was measured is in its rows")
    return Device(
        name=name,
        description=f"{len(table.rows)} recorded points of {measured_on}",
        simulated=profile.header.simulated,
        source=table,
        clock=VirtualClock(),
        power=absent,
        modes=_RecordedModes(table.space),
        temperature=absent,
        throttle=absent,
        conditions={
            **profile.header.conditions,
            "measured_on": measured_on,
            "recorded": {"name": name.removeprefix(PREFIX), "sha256": sha256, "rows": len(table.rows)},
            **({"cautions": data_warnings} if data_warnings else {}),
        },
    )


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """The rows of a profile by point: a ``TableSource``.

    ``artifacts.repeats`` defines the result of a point with several rows.

    Args:
        rows: One row per point, in the order of the table.
        data_warnings: Warnings about the table, e.g. repeated points.
    """

    rows: tuple[ProfileRow, ...]
    data_warnings: tuple[DataWarning, ...] = ()
    _name: str = "the table"
    _index: Mapping[PointKey, ProfileRow] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, rows: Sequence[ProfileRow], *, name: str) -> RecordedTable:
        """Index ``rows``; ``name`` is the name of the table in messages.

        Raises:
            InputError: ``rows`` is empty.
        """
        if not rows:
            raise InputError(f"{name} has no rows", "give it a profile with at least one measured point")
        found = one_per_point(rows)
        advice = "the newest measurement of each point is used; measure again into a fresh file to be rid of the others"
        if found.disagreeing:
            advice = f"some differ by more than {100 * SAME:g} %: {advice}"
        numbers = {"rows_ignored": found.ignored, "rows_disagreeing": found.disagreeing}
        data_warnings = (DataWarning("duplicate-points", advice, numbers),) if found.ignored else ()
        return cls(found.rows, data_warnings, name, found.by_point)

    @property
    def space(self) -> ModeSpace:
        """The modes in the table, and the values of each knob that it varies or names.

        The name of a mode is a preset where the table has one mode of that name.
        """
        listed = tuple(dict.fromkeys(row.mode for row in self.rows))
        values = {knob: {mode.knobs()[knob] for mode in listed if knob in mode.knobs()} for knob in KNOBS}
        names = Counter(mode.power_mode for mode in listed)
        return ModeSpace(
            {knob: tuple(sorted(found)) for knob, found in values.items() if found},
            presets={mode.power_mode: mode for mode in listed if mode.power_mode and names[mode.power_mode] == 1},
            listed=listed,
        )

    def lookup(self, point: Point) -> ProfileRow:
        """Return the row measured at ``point``; a failed row is returned as it is.

        Raises:
            InputError: the point is not in the table; the message names the nearest value.
        """
        row = self._index.get(point_key(point))
        if row is None:
            raise _missing(point, self.rows, name=self._name)
        return row


def workloads_of(rows: Sequence[ProfileRow]) -> tuple[RecordedWorkload, ...]:
    """Return every workload and task in ``rows``, in their order, with its batch sizes."""
    sizes: dict[tuple[str, Task], set[int]] = {}
    for row in rows:
        sizes.setdefault((row.workload, row.task), set()).add(row.batch_size)
    return tuple(RecordedWorkload(workload, task, tuple(sorted(found))) for (workload, task), found in sizes.items())


def _missing(point: Point, rows: Sequence[ProfileRow], *, name: str) -> InputError:
    """Return the error that names the first part of ``point`` that rows matching the parts before it lack."""
    message = f"{name} has no {point}"
    asked = _parts(point)
    left = [_parts(row.point) for row in rows]
    for part, wanted in asked.items():
        fitting = [parts for parts in left if parts[part] == wanted]
        if not fitting:
            return InputError(message, _nearest(part, wanted, [parts[part] for parts in left]))
        left = fitting
    return InputError(message, "`edgetune show FILE` lists what it has")  # pragma: no cover


def _parts(point: Point) -> dict[str, Any]:
    workload, task, batch_size, values = point_key(point)
    return {"workload": workload, "task": task, "batch_size": batch_size, **dict(zip(SETTINGS, values, strict=True))}


def _nearest(part: str, wanted: Any, found: Sequence[Any]) -> str:
    known = sorted({value for value in found if value is not None})
    if part in ("workload", "task"):
        return f"its {part}s: {', '.join(known)}"
    if not known:
        return f"{part} was not set in that table: leave it out"
    if part == "power_mode":
        return f"its modes by name: {', '.join(known)}"
    if wanted is None:
        return f"{part} must be given; it has {', '.join(f'{value:g}' for value in known[:8])}"
    nearest = min(known, key=lambda value: abs(value - wanted))
    return f"the nearest {part} measured there is {nearest:g}; a table is never interpolated"


class _RecordedModes:
    """Mode control over the listed modes; setting a mode only records it."""

    def __init__(self, space: ModeSpace) -> None:
        self.space = space
        self._listed = {knob_key(mode): mode for mode in space.listed or ()}

    def apply(self, mode: Mode) -> Mode:
        """Return the listed mode equal to ``mode``.

        Raises:
            DeviceError: the table has no point in this mode.
        """
        try:
            return self._listed[knob_key(mode)]
        except KeyError:
            hint = "only measured modes exist on a recorded device; `edgetune device modes NAME all` lists them"
            raise DeviceError(f"the table has no mode {mode}", hint) from None

    def restore(self) -> None:
        """Do nothing: there is no board."""


KIND = DeviceKind(
    "recorded:FILE",
    False,
    lambda: [Listing("recorded:FILE", "any profile table: answers what it holds, nothing in between")],
    lambda name, _seed: open_recorded(name.removeprefix("recorded").removeprefix(":")),
)
