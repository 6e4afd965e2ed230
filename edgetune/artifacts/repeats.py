"""The rule that combines several rows of one point into one.

A table may have several rows of one point for three reasons:

    an attempt that throttled, drifted, swapped or failed, before one that did not     the measurement stands
    a point measured again later                                              the newest measurement stands
    rounds of one sweep (``--interleave-repeats``), all of equal standing     the median of the rounds that are ``ok``

With two rounds the median is their mean; from three on, a round that something disturbed does not move it.

Figures that follow from those of a measured point; ``None`` where one of them was not measured.

Merges profiles of one device and the same conditions: conditions of compatibility, rows and header.

A sweep extended by a batch size and ``edgetune merge`` use the same rule. No row is dropped: if two tables have one
point, both rows stay, and readers take the newest measurement (``artifacts.repeats``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import fmean
from typing import Any, TypeAlias

from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.profile import KIND, RAW_COLUMNS, VERSION, Point, Profile, ProfileRow
from edgetune.stats import is_positive, median, percentile

_NO_SPREAD_S = 1.5e-9
"""Clocks count whole nanoseconds: figures of a simulation without noise differ by one, s."""


def mean_minibatch_s(row: ProfileRow) -> float | None:
    """Return the mean time of a steady minibatch, s, from which rates, shares of time and energy follow.

    Without raw times ``minibatch_s`` stands for it.
    """
    steady = (row.times_s or ())[row.warmups or 0 :]
    return _apart(row.minibatch_mean_s or (fmean(steady) if steady else None), row.minibatch_s)


def late_minibatch_s(row: ProfileRow) -> float | None:
    """Return the 95th percentile of minibatch times, s, with which a latency budget is kept.

    Without it ``minibatch_s`` stands for it.
    """
    steady = (row.times_s or ())[row.warmups or 0 :]
    return _apart(row.minibatch_p95_s or (percentile(steady, 95) if steady else None), row.minibatch_s)


def _apart(figure_s: float | None, time_s: float | None) -> float | None:
    """Return a figure of the times, or ``minibatch_s`` where it is missing or the times do not spread, s."""
    if time_s is None or figure_s is None or not is_positive(figure_s) or abs(figure_s - time_s) < _NO_SPREAD_S:
        return time_s
    return float(figure_s)


def energy_per_minibatch_j(row: ProfileRow) -> float | None:
    """Return the energy of one minibatch, J: as measured, else mean power times mean time, else ``None``."""
    if row.energy_j is not None and is_positive(row.energy_j):
        return float(row.energy_j)
    time_s = mean_minibatch_s(row)
    if row.power_w is None or time_s is None or not is_positive(row.power_w * time_s):
        return None
    return float(row.power_w * time_s)


def energy_per_request_j(row: ProfileRow) -> float | None:
    """Return the energy of one sample or request, J."""
    energy_j = energy_per_minibatch_j(row)
    return None if energy_j is None else energy_j / row.batch_size


def energy_per_output_token_j(row: ProfileRow) -> float | None:
    """Return the energy of an answer divided by its tokens, J; the energy of the prompt is in it."""
    energy_j = energy_per_request_j(row)
    return None if energy_j is None or not row.output_tokens else energy_j / row.output_tokens


def tokens_per_j(row: ProfileRow) -> float | None:
    """Return the output tokens per joule."""
    token_j = energy_per_output_token_j(row)
    return None if token_j is None else 1 / token_j


def requests_per_s(row: ProfileRow) -> float | None:
    """Return the samples or requests per second."""
    time_s = mean_minibatch_s(row)
    return row.batch_size / time_s if time_s else None


SAME = 0.03
"""Share by which two measurements of one point may differ: boards repeat to 2 to 3 %."""

_DIGITS = 6
"""Knob values that agree to a millionth are the same: tables are written with more and with fewer digits."""

PointKey: TypeAlias = tuple[str, str, int, tuple[float | str | None, ...]]
"""What is equal for two spellings of one point."""

_MIDDLE = (
    "minibatch_s", "power_w", "energy_j", "minibatch_p95_s", "temp_start_c", "duration_s", "own_value", "ttft_s",
    "ttft_p95_s", "ttft_p99_s", "token_s", "token_p95_s", "token_p99_s", "prompt_tokens", "output_tokens",
    "tokens_per_s", "own_ttft_s", "own_token_s", "bunched_share", "build_s", "engine_bytes", "minibatch_mean_s",
)  # fmt: skip
_LOWEST = ("minibatch_ci95_low_s", "memory_available_min_bytes")
_HIGHEST = (
    "power_peak_w", "temp_max_c", "minibatch_ci95_high_s", "others_cpu_share", "memory_peak_bytes",
    "memory_device_bytes", "cpu_throttled_share",
)  # fmt: skip
_SUMS = ("minibatches", "warmups", "power_samples", "swap_in_bytes")
_SUMMARIES: tuple[tuple[tuple[str, ...], Callable[[list[Any]], Any]], ...] = (
    (_MIDDLE, median), (_LOWEST, min), (_HIGHEST, max), (_SUMS, sum),
)  # fmt: skip
_RAW: Mapping[str, Any] = dict.fromkeys((*RAW_COLUMNS, "power_from_s", "round"))


@dataclass(frozen=True, slots=True)
class OnePerPoint:
    """The rows of a table, one per point.

    Args:
        by_point: The row that stands for each point, in the order of the table.
        ignored: Number of unused measurements; failed attempts are not counted.
        disagreeing: Number of these that differ from the newest by more than ``SAME``.
    """

    by_point: Mapping[PointKey, ProfileRow]
    ignored: int
    disagreeing: int

    @property
    def rows(self) -> tuple[ProfileRow, ...]:
        """The rows alone."""
        return tuple(self.by_point.values())


def one_per_point(rows: Iterable[ProfileRow]) -> OnePerPoint:
    """Return the row of each point of a table by the rule above.

    The newer of two rows is the one started last if both have a start, else the later one in the table.
    """
    by_point: dict[PointKey, ProfileRow] = {}
    ignored = disagreeing = 0
    for key, group in rows_by_point(rows).items():
        used = standing(group)
        by_point[key] = together(used)
        left = [row for row in group if row.status == "ok" and all(row is not other for other in used)]
        ignored += len(left)
        disagreeing += sum(disagree(row, used[-1]) for row in left)
    return OnePerPoint(by_point, ignored, disagreeing)


def rows_by_point(rows: Iterable[ProfileRow]) -> dict[PointKey, list[ProfileRow]]:
    """Return all rows of each point, in the order of the table."""
    groups: dict[PointKey, list[ProfileRow]] = {}
    for row in rows:
        groups.setdefault(point_key(row.point), []).append(row)
    return groups


def point_key(point: Point) -> PointKey:
    """Return a key that is equal for all spellings of one point."""
    return point.workload, point.task, point.batch_size, knob_key(point.mode)


def knob_key(mode: Mode) -> tuple[float | str | None, ...]:
    """Return a key that is equal for all spellings of one mode: a value per knob, and the name."""
    knobs = mode.knobs()
    return (*(round(float(knobs[knob]), _DIGITS) if knob in knobs else None for knob in KNOBS), mode.power_mode)


def standing(rows: Sequence[ProfileRow]) -> list[ProfileRow]:
    """Return the counted rows of one point, newest last: the newest row, with the other rounds of its sweep."""
    oldest_first = sorted(rows, key=lambda row: row.started or "")
    measured = [row for row in oldest_first if row.status == "ok"]
    if not measured or measured[-1].round is None:
        return [(measured or oldest_first)[-1]]
    measured = [row for row in measured if row.board == measured[-1].board]
    rounds = {row.round: row for row in measured if row.round is not None}
    return [row for row in measured if row.round is not None and rounds[row.round] is row]


def together(rounds: Sequence[ProfileRow]) -> ProfileRow:
    """Combine rounds of one point into one row without raw values; return a single row unchanged.

    The interval spans those of all rounds, and so includes changes between rounds.
    """
    newest = rounds[-1]
    if len(rounds) == 1:
        return newest
    merged: dict[str, Any] = dict(_RAW)
    for names, summary in _SUMMARIES:
        for name in names:
            read = mean_minibatch_s if name == "minibatch_mean_s" else attrgetter(name)
            values = [value for row in rounds if (value := read(row)) is not None]
            merged[name] = summary(values) if values else None
    return replace(newest, reason=next((row.reason for row in rounds if row.reason), None), **merged)


def disagree(a: ProfileRow, b: ProfileRow) -> bool:
    """Return whether two measurements of one point differ by more than the tolerance."""
    pairs = ((a.minibatch_s, b.minibatch_s), (a.power_w, b.power_w))
    both = a.status == b.status == "ok"
    return both and any(x and y and abs(x - y) > SAME * max(abs(x), abs(y)) for x, y in pairs)


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
