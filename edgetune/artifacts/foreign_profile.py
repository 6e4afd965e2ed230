"""Converts a foreign table to a profile: its columns by their names, its figures to base units.

    power_w        as it is                     Power (mW)     power_w, divided by 1000
    latency_ms     minibatch_s, by 1000         gpu_freq_ghz   gpu_mhz, times 1000
    nvpmodel       power_mode                   latency        unknown: no unit says what the figures are

Only unambiguous names are recognised; for any other, ``--column theirs=ours`` states the meaning.

Every interpretation is reported. A column read under another name or in another unit gives the warning ``column-read``,
an unknown column ``column-ignored``. An unknown column that distinguishes rows of one point is an error, because these
rows would be merged.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from edgetune.artifacts.columns import UNITS, columns_of
from edgetune.artifacts.csv_format import plain_numbers
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import SETTINGS
from edgetune.artifacts.profile import KIND, REQUIRED_COLUMNS, VERSION, Profile, ProfileRow, checked_profile
from edgetune.artifacts.table_checks import refuse_twice, rows_of, typed_table
from edgetune.choices import closest, nearest
from edgetune.errors import InputError

_ALSO: Mapping[str, tuple[str, ...]] = {
    "minibatch_s": (
        "latency", "time", "batch_time", "batch_latency", "minibatch_time", "inference_time", "step_time",
        "latency_mean", "mean_latency", "latency_median", "median_latency",
    ),
    "minibatch_p95_s": ("latency_p95", "p95_latency", "p95"),
    "power_w": ("power_mean", "mean_power", "power_avg", "avg_power", "average_power"),
    "power_peak_w": ("peak_power", "power_max", "max_power"),
    "energy_j": ("energy_per_batch", "energy_per_minibatch"),
    "power_limit_w": ("power_cap",),
    **{
        f"{part}_mhz": tuple(f"{name}{of}" for name in names for of in ("", "_freq", "_frequency", "_clock", "_clk"))
        for part, names in (("cpu", ("cpu",)), ("gpu", ("gpu",)), ("mem", ("mem", "memory", "emc")))
    },
}  # fmt: skip
"""Other names of quantities; they need a unit, e.g. ``latency_ms``."""

_WITHOUT_UNIT: Mapping[str, tuple[str, ...]] = {
    "workload": ("model", "network"),
    "batch_size": ("batch", "bs", "batchsize"),
    "cpu_cores": ("cores", "num_cores", "n_cores"),
    "power_mode": ("mode", "nvpmodel", "nvp_model", "nvpmodel_mode"),
}

OURS: tuple[str, ...] = tuple(column.name for column in columns_of(ProfileRow))
"""Every column of a profile."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A column of a profile, and the conversion to its unit: multiply by ``times``, then divide by ``over``."""

    column: str
    times: int = 1
    over: int = 1


def normal(name: str) -> str:
    """Return a column's name in normal form: ``Power (mW)`` is ``power_mw``."""
    lower = name.lower().replace("\u00b5", "u").replace("\u03bc", "u")  # micro sign and Greek letter
    return re.sub(r"[^a-z0-9]+", "_", lower).strip("_")


def meaning_of(name: str) -> Meaning | None:
    """Return the meaning of a column's name; ``None`` if it is unknown or ambiguous."""
    spelled = normal(name)
    if spelled in OURS:
        return Meaning(spelled)
    for ours, names in _WITHOUT_UNIT.items():
        if spelled in names:
            return Meaning(ours)
    stem, _, unit = spelled.rpartition("_")
    for ours in OURS:
        units = units_of(ours)
        if unit in units and stem in stems_of(ours):
            return Meaning(ours, *units[unit])
    return None


def stems_of(ours: str) -> tuple[str, ...]:
    """Return the names, without unit, of a profile's column in edgetune and in other programs."""
    return (ours.rpartition("_")[0], *_ALSO.get(ours, ()))


def units_of(ours: str) -> Mapping[str, tuple[int, int]]:
    """Return the accepted units of a profile's column; none for a column without a unit."""
    return next((units for suffix, units in UNITS.items() if ours.endswith(suffix)), {})


LEFT_OUT = "-"
"""What ``--column THEIRS=-`` says of a column: it holds nothing that matters here."""

_TASKS = {"inference": "infer", "infer": "infer", "training": "train", "train": "train"}
_INDEX = re.compile(r"(?:__index_level_\d+__|unnamed: \d+|index|)", re.IGNORECASE)  # as pandas numbers rows
_REPEAT = (
    "run", "rep", "repeat", "repeats", "repetition", "trial", "iteration", "iter", "timestamp", "date", "datetime",
)  # fmt: skip
"""Columns that tell repeated measurements of one point apart."""
_SETTING = re.compile(r"freq|clock|clk|[mgk]?hz$|core|mode|limit|cap$|batch|thread|precision|dtype|stream|level|device")
"""Names of settings rather than of figures."""
_SAME_IN_ALL = ("workload", "task", "batch_size", "power_mode", "device")
"""What ``--column task=infer`` may say of every row of a table without such a column, or with one value in it."""


def foreign_profile(table: Any, data: bytes, columns: Mapping[str, str], *, name: str) -> Profile:
    """Return the profile in a foreign table; ``data`` is its file, see ``foreign_table``."""
    typed, data_warnings = foreign_table(table, columns, name=name)
    rows: tuple[ProfileRow, ...] = rows_of(typed, ProfileRow)
    devices = sorted({row.device for row in rows if row.device is not None})
    conditions: dict[str, Any] = {"device": ", ".join(devices)} if devices else {}
    if any(device.startswith("twin:") for device in devices):
        conditions["simulated"] = True  # a twin's figures stay a twin's, also after a detour through CSV
    header = Header.foreign(
        KIND, VERSION, data, name=name, columns=columns, conditions=conditions, warnings=data_warnings
    )
    return Profile(header, rows)


def foreign_table(table: Any, columns: Mapping[str, str], *, name: str) -> tuple[Any, tuple[DataWarning, ...]]:
    """Return a foreign table with a profile's columns, typed and checked, and the warnings on its interpretation.

    Args:
        table: A ``pyarrow.Table``; of a CSV file all texts.
        columns: The stated meanings of columns, by name: a profile's column in any unit, or ``-`` to ignore it. For a
            column that the table lacks or that has one value, by the profile's name, the value of every row.

    Raises:
        InputError: columns are missing (all are named), ambiguous, or hold impossible measurements, or different points
            would be merged.
    """
    refuse_twice(table.column_names, name=name)
    table = plain_numbers(table, name=name)
    table, columns = _with_constants(table, columns)
    meanings = _meanings(table, columns, name=name)
    used = {meaning.column: theirs for theirs, meaning in meanings.items()}
    unknown = [c for c in table.column_names if c not in meanings and columns.get(c) != LEFT_OUT]
    _refuse_missing(list(used), unknown, name=name)
    found = [theirs for theirs in table.column_names if _INDEX.fullmatch(theirs) is None]
    typed = typed_table(_renamed(table, meanings), ProfileRow, name=name, lenient=True)
    typed = checked_profile(_in_base_units(typed, meanings), [*used, *found], name=name)
    if typed.num_rows == 0:
        raise InputError(f"{name} has no rows", "give it at least one row of measurements")
    unknown = [theirs for theirs in unknown if theirs in found]
    _refuse_merging(table, typed, unknown, name=name)
    read = [f"{theirs} as {m.column}" for theirs, m in meanings.items() if theirs != m.column and theirs not in columns]
    data_warnings = check_units(typed, name=name) + _of_one_sample(table, typed, unknown)
    if read:
        data_warnings += (DataWarning("column-read", f"read {', '.join(read)}"),)
    if unknown:
        data_warnings += (DataWarning("column-ignored", _ignored(unknown, used)),)
    return typed, data_warnings


def _with_constants(table: Any, columns: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """Return the table with the stated columns of constant value, and the statements on all other columns."""
    import pyarrow as pa

    said = {}
    for theirs, ours in columns.items():
        there = theirs in table.column_names
        alike = there and ours != LEFT_OUT and meaning_of(ours) is None and len(table.column(theirs).unique()) < 2
        if theirs in _SAME_IN_ALL and (alike or not there):
            table = table.drop_columns([theirs] if there else [])
            table = table.append_column(theirs, pa.repeat(pa.scalar(ours), table.num_rows))
        else:
            said[theirs] = ours
    return table, said


def _meanings(table: Any, columns: Mapping[str, str], *, name: str) -> dict[str, Meaning]:
    """Return the meaning of each recognised column, in the order of the table.

    Raises:
        InputError: a named column is missing, or two columns have the same meaning.
    """
    stated = {theirs: _stated(theirs, ours, table.column_names, name=name) for theirs, ours in columns.items()}
    chosen = {meaning.column for meaning in stated.values() if meaning is not None}
    found: dict[str, list[tuple[str, Meaning]]] = {}
    for theirs in table.column_names:
        meaning = stated[theirs] if theirs in stated else _named(table, theirs)
        if meaning is not None and (theirs in stated or meaning.column not in chosen):
            found.setdefault(meaning.column, []).append((theirs, meaning))
    meanings = {}
    for ours, candidates in found.items():
        exact = [pair for pair in candidates if pair[0] == ours]
        if len(candidates) > 1 and not exact:
            listed = " and ".join(theirs for theirs, _ in candidates)
            hint = f"choose one: {_describe(name, f'{candidates[0][0]}={ours}')}"
            raise InputError(f"{name}: {listed} could each be {ours}", hint)
        theirs, meaning = (exact or candidates)[0]
        meanings[theirs] = meaning
    return meanings


def _named(table: Any, theirs: str) -> Meaning | None:
    """Return the meaning of a column by its name; a column ``mode`` is the task if it holds only tasks."""
    meaning = meaning_of(theirs)
    if meaning is not None and meaning.column == "power_mode":
        words = {str(cell).strip().lower() for cell in table.column(theirs).to_pylist() if cell is not None}
        if words and words <= _TASKS.keys():
            return Meaning("task")
    return meaning


def _stated(theirs: str, ours: str, names: Sequence[str], *, name: str) -> Meaning | None:
    """Return the meaning stated for a column; ``None`` if it is to be ignored."""
    if theirs not in names:
        hint = nearest(theirs, names, listed=f"it has {_listed(names)}")
        raise InputError(f"--column: {name} has no column {theirs!r}", hint)
    if ours == LEFT_OUT:
        return None
    meaning = meaning_of(ours)
    if meaning is None:
        known = f"a profile has {', '.join((*REQUIRED_COLUMNS, *SETTINGS, 'power_w', 'energy_j'))}"
        raise InputError(f"--column: a profile has no column {ours!r}", nearest(normal(ours), OURS, listed=known))
    own = units_of(meaning.column).get(normal(theirs).rpartition("_")[2])
    if own is not None and own != (1, 1) and ours == meaning.column:
        return Meaning(meaning.column, *own)
    return meaning


def _refuse_missing(used: Sequence[str], unknown: Sequence[str], *, name: str) -> None:
    """Refuse a table that lacks columns; the error names all, with the probable candidates."""
    missing = [ours for ours in REQUIRED_COLUMNS if ours not in used]
    has_knob = any(knob in used for knob in SETTINGS)
    if not missing and has_knob:
        return
    lacks = [f"column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"] if missing else []
    lacks += [] if has_knob else [f"knob column: one of {', '.join(SETTINGS)} is needed"]
    same = {"workload": "workload=NAME", "task": "task=infer", "batch_size": "batch_size=1"}
    likely = {ours: next(iter(_probable(ours, unknown)), None) for ours in missing}
    said = [f"{theirs}={ours}" if theirs else same.get(ours, f"THEIRS={ours}") for ours, theirs in likely.items()]
    if not has_knob:
        of_knobs = (f"{theirs}={knob}" for knob in SETTINGS for theirs in _probable(knob, unknown))
        said.append(next(of_knobs, "THEIRS=power_mode"))
    found = f"it has {_listed(unknown)}; " if unknown else ""
    raise InputError(f"{name} has no {' and no '.join(lacks)}", f"{found}add them; or e.g. {_describe(name, *said)}")


def _describe(name: str, *pairs: str) -> str:
    """Return the command that converts the table, with stated meanings, for all later commands."""
    return f"edgetune show {name} {' '.join(f'--column {shlex.quote(pair)}' for pair in pairs)} -o NEW.parquet"


def _probable(ours: str, unknown: Sequence[str]) -> list[str]:
    """Return the probable candidates for a profile's column: its name without the unit, or a similar name."""
    stems = [theirs for theirs in unknown if units_of(ours) and normal(theirs) in stems_of(ours)]
    spelled = {normal(theirs): theirs for theirs in unknown}
    near = closest(ours, spelled, likeness=0.7)
    return stems if near is None else [*stems, spelled[near]]


def _renamed(table: Any, meanings: Mapping[str, Meaning]) -> Any:
    """Return the recognised columns under a profile's names, with tasks in its words."""
    import pyarrow as pa

    arrays = {meaning.column: table.column(theirs) for theirs, meaning in meanings.items()}
    tasks = [None if cell is None else str(cell).strip() for cell in arrays["task"].to_pylist()]
    arrays["task"] = pa.array([_TASKS.get(cell.lower(), cell) if cell else None for cell in tasks], pa.string())
    return pa.table(arrays)


def _in_base_units(table: Any, meanings: Mapping[str, Meaning]) -> Any:
    """Convert the table to base units in decimal arithmetic: 5.1 ms is 0.0051 s, not 0.0050999999999999995 s."""
    import pyarrow as pa

    for meaning in meanings.values():
        if meaning.times != meaning.over:
            place = table.column_names.index(meaning.column)
            figures = [
                None if figure is None else float(Decimal(str(figure)) * meaning.times / meaning.over)
                for figure in table.column(place).to_pylist()
            ]
            table = table.set_column(place, meaning.column, pa.array(figures, pa.float64()))
    return table


def _refuse_merging(table: Any, typed: Any, unknown: Sequence[str], *, name: str) -> None:
    """Refuse a table in which an unknown column distinguishes rows of one point."""
    keys = [ours for ours in ("device", "workload", "task", "batch_size", *SETTINGS) if ours in typed.column_names]
    points: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*(typed.column(key).to_pylist() for key in keys), strict=True)):
        points.setdefault(key, []).append(row)
    merged = [rows for rows in points.values() if len(rows) > 1]
    cells = {theirs: table.column(theirs).to_pylist() for theirs in unknown} if merged else {}
    repeats = [theirs for theirs in cells if normal(theirs) in _REPEAT]
    if repeats and all(len({tuple(cells[c][row] for c in repeats) for row in rows}) == len(rows) for rows in merged):
        return
    for theirs, found in cells.items():
        pairs = ((rows[0], row) for rows in merged for row in rows if found[row] != found[rows[0]])
        apart = next(pairs, None)
        if apart is None or theirs in repeats or not _is_setting(theirs, found):
            continue
        first, second = apart
        knob = "gpu_mhz" if re.search(r"freq|clock|clk|hz$", normal(theirs)) else "power_mode"
        raise InputError(
            f"{name}, rows {first + 1} and {second + 1}: only {theirs} tells them apart "
            f"({found[first]} and {found[second]}), and its meaning is unknown",
            f"name its meaning: {_describe(name, f'{theirs}={knob}')}; {theirs}=- if rows repeat a measurement",
        )


def _is_setting(theirs: str, cells: Sequence[Any]) -> bool:
    """Return whether a column holds a setting rather than a measurement, by its name, texts or whole numbers."""

    def is_fraction(cell: Any) -> bool:
        with suppress(TypeError, ValueError, OverflowError):
            return not float(cell).is_integer()
        return False

    return _SETTING.search(normal(theirs)) is not None or not any(map(is_fraction, cells))


def _ignored(unknown: Sequence[str], used: Mapping[str, str]) -> str:
    """Return the warnings on ignored columns, and on those that lack only a unit."""
    text = f"nothing is taken from {_listed(unknown)}"
    for theirs in unknown:
        ours = next((o for o in OURS if units_of(o) and o not in used and normal(theirs) in stems_of(o)), None)
        if ours is not None:
            text += f"; {theirs} has no unit in its name: show and search take --column {theirs}={ours}"
    return text


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")


_HIGHEST: Mapping[str, float] = {
    **dict.fromkeys(("cpu_mhz", "gpu_mhz"), 10_000),
    "mem_mhz": 50_000,  # GDDR7 is quoted at 14 GHz and more
    **dict.fromkeys(("power_w", "power_peak_w", "power_limit_w"), 5_000),
}
"""Upper bounds of columns on any device: larger values are of another unit."""
_LOWEST_CLOCK_MHZ = 10.0
"""No clock of a running device is below this: such a column is in GHz."""
_LONGEST_MEDIAN_S = 3600.0
"""A median minibatch above one hour is in milliseconds or less."""
_SUSPECT_MEDIAN_S = 10.0
"""A median minibatch above this is more often in milliseconds than not: a warning, no error."""


def check_units(table: Any, *, name: str) -> tuple[DataWarning, ...]:
    """Return the warnings on suspicious units of a foreign table; arguments as above.

    Raises:
        InputError: the values of a column show another unit than its name.
    """
    import pyarrow.compute as pc

    for column, most in _HIGHEST.items():
        highest = pc.max(table.column(column)).as_py() if column in table.column_names else None
        unit, smaller = ("W", "mW") if column.endswith("_w") else ("MHz", "kHz or Hz")
        if highest is not None and highest > most:
            message = f"{name}: {column} reaches {highest:.12g}, which looks like {smaller}, not {unit}"
            raise InputError(message, f"{column} is in {unit}: convert the column")
        if highest is not None and unit == "MHz" and highest < _LOWEST_CLOCK_MHZ:
            message = f"{name}: {column} reaches only {highest:.12g}, which looks like GHz, not MHz"
            raise InputError(message, f"{column} is in MHz: multiply by 1000")
    times = pc.drop_null(table.column("minibatch_s").combine_chunks())
    median = float(pc.quantile(times, 0.5)[0].as_py()) if len(times) else 0.0
    if median > _LONGEST_MEDIAN_S:
        message = f"{name}: minibatch_s has a median of {median:g}, which looks like milliseconds or less"
        raise InputError(message, "minibatch_s is in seconds: divide milliseconds by 1000")
    if median <= _SUSPECT_MEDIAN_S:
        return ()
    advice = "minibatch_s is in seconds: if these are milliseconds, divide by 1000"
    return (DataWarning("unit-suspect", advice, {"minibatch_median_s": median}),)


_SAMPLE_RATE = re.compile(r"(^|[^a-z])(fps|imgs?|images?|samples?|frames?)([^a-z]|$)")
"""Names of columns that may count samples per second."""
_SAME_RATE = 0.1
"""Rates that are rounded, or of the mean beside a median, differ by less."""


def _of_one_sample(table: Any, typed: Any, unknown: Sequence[str]) -> tuple[DataWarning, ...]:
    """Return the warning on times of one sample: in every batch of several, a column of rates is one over the time."""
    times, sizes = typed.column("minibatch_s").to_pylist(), typed.column("batch_size").to_pylist()
    for theirs in (column for column in unknown if _SAMPLE_RATE.search(column.lower())):
        try:
            rates = [None if rate in (None, "") else float(rate) for rate in table.column(theirs).to_pylist()]
        except (TypeError, ValueError):
            continue
        each = [r * t for r, t, n in zip(rates, times, sizes, strict=True) if r is not None and t and n and n > 1]
        if each and all(abs(samples - 1) < _SAME_RATE for samples in each):
            advice = (
                f"minibatch_s is that of a whole minibatch, and by {theirs} these are of one sample: times batch_size"
            )
            return (DataWarning("unit-suspect", advice),)
    return ()
