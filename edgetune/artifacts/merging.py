"""Merges profiles of one device and the same conditions: conditions of compatibility, rows and header.

A sweep extended by a batch size and ``edgetune merge`` use the same rule. No row is dropped: if two tables have one
point, both rows stay, and readers take the newest measurement (``artifacts.repeats``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.profile import KIND, VERSION, Profile, ProfileRow

NOT_MEASURED = ("point_timeout_s", "retries", "cool_timeout_s")
"""Options that change how long one waits, not what is measured."""

_CONDITIONS: tuple[str, ...] = (
    "simulated", "device_description", "board", "module", "gpu", "machine", "constants_sha256", "noise",
    "runtime", "tf32_matmul", "jetpack", "l4t", "kernel", "driver", "cuda_driver", "python", "onnxruntime", "torch",
    "tensorrt",
)  # fmt: skip
"""Conditions that a figure depends on, the weightiest first; the load and temperature of the day do not count."""
_OFF = ("simulated", "noise")
"""Conditions of which none is a statement too."""
_COUNTED = {f"points-{status}": status for status in ("failed", "throttled", "drifted", "swapped")}


@dataclass(frozen=True, slots=True)
class ProfileDifference:
    """A difference between the conditions of two profiles."""

    what: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.what} is {self.ours} there and {self.theirs} here"


def first_difference(before: Header, after: Header) -> ProfileDifference | None:
    """Return the first incompatibility of two tables: device, network, options or software."""
    return next(differences(before, after), None)


def differences(before: Header, after: Header) -> Iterator[ProfileDifference]:
    """Return each difference between two tables in device, network, options or software, the weightiest first.

    A value that one of the tables lacks is no difference, because foreign tables state few.
    """
    for what, ours, theirs in _pairs(before, after):
        if ours is not None and theirs is not None and ours != theirs:
            yield ProfileDifference(what, _short(ours), _short(theirs))


def rows_difference(before: Sequence[ProfileRow], after: Sequence[ProfileRow]) -> ProfileDifference | None:
    """Return the first difference between the rows of two tables in device or network."""
    for what, name in (("device", "device"), ("network", "workload")):
        ours, theirs = ({getattr(row, name) for row in rows} - {None} for rows in (before, after))
        if ours and theirs and ours != theirs:
            return ProfileDifference(what, ", ".join(sorted(ours)), ", ".join(sorted(theirs)))
    return None


def merged(profiles: Sequence[Profile], *, inputs: Mapping[str, Any]) -> Profile:
    """Merge compatible tables.

    Args:
        profiles: The oldest first; the conditions are those of the last one that states any.
        inputs: The inputs in the header besides the network.
    """
    rows = tuple(dict.fromkeys(row for profile in profiles for row in profile.rows))
    headers = [profile.header for profile in profiles]
    stated = next((header.conditions for header in reversed(headers) if header.conditions), {})
    network = next((n for header in reversed(headers) if (n := header.inputs.get("workload"))), None)
    conditions = {**stated, "simulated": any(header.simulated for header in headers)}
    header = Header.new(
        KIND,
        VERSION,
        inputs={**({} if network is None else {"workload": network}), **inputs},
        conditions=conditions,
        warnings=_warnings(headers, rows),
    )
    return Profile(header, rows)


def _pairs(before: Header, after: Header) -> Iterator[tuple[str, Any, Any]]:
    """Return the values of both tables that must agree, by name."""
    yield "device", before.conditions.get("device"), after.conditions.get("device")
    ours, theirs = (header.inputs.get("workload", {}) for header in (before, after))
    yield "network", ours.get("name"), theirs.get("name")
    yield "SHA-256 of the network", ours.get("sha256") or None, theirs.get("sha256") or None
    yield "batch axes", *(of.get("batch", {}).get("axes") for of in (ours, theirs))
    options, others = (header.options for header in (before, after))
    for name in sorted({*options} & {*others} - {*NOT_MEASURED}):
        given, other = ("none" if of[name] is None else of[name] for of in (options, others))
        yield f"option {name}", given, other
    for name in _CONDITIONS:
        ours, theirs = before.conditions.get(name), after.conditions.get(name)
        if name in _OFF and name in before.conditions and name in after.conditions:
            ours, theirs = ours or "off", theirs or "off"
        yield name.replace("_", " "), ours, theirs
    ours, theirs = (header.inputs.get("ops", {}) for header in (before, after))
    yield "operator table", ours.get("sha256"), theirs.get("sha256")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:12]}..."


def _warnings(headers: Sequence[Header], rows: Sequence[ProfileRow]) -> tuple[DataWarning, ...]:
    """Return the warnings of all tables, each once; warnings that count rows are counted again."""
    last = {(row.point, row.round): row for row in rows}.values()
    found: dict[str, DataWarning] = {}
    for data_warning in (data_warning for header in headers for data_warning in header.warnings):
        before = found.get(data_warning.code)
        if before is not None and "points" in before.numbers and "points" in data_warning.numbers:
            points = before.numbers["points"] + data_warning.numbers["points"]
            data_warning = replace(data_warning, numbers={**data_warning.numbers, "points": points})  # noqa: PLW2901
        found[data_warning.code] = data_warning
    for code, status in _COUNTED.items():
        count = sum(row.status == status for row in last)
        if code in found and count:
            found[code] = replace(found[code], numbers={"points": count})
        elif not count:
            found.pop(code, None)
    return tuple(found.values())
