"""Tables of other programs: the meanings of their columns, and conversion of layouts to one row per measured point.

    power_w        as it is                     Power (mW)     power_w, divided by 1000
    latency_ms     minibatch_s, by 1000         gpu_freq_ghz   gpu_mhz, times 1000
    nvpmodel       power_mode                   latency        unknown: no unit says what the figures are

    wide    model, mode, latency_ms_b1, latency_ms_b4        one column per batch size
    long    model, mode, batch, metric, value                one row per figure

Only unambiguous names are recognised; for any other, ``--column theirs=ours`` states the meaning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts.columns import UNITS, columns_of
from edgetune.artifacts.profile import ProfileRow
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


def unit_in(name: str, ours: str) -> tuple[int, int] | None:
    """Return the conversion of the unit at the end of a name to that of a profile's column; ``None`` without a unit."""
    return units_of(ours).get(normal(name).rpartition("_")[2])


_BATCH = re.compile(r"(?:(?P<before>.+?)_)?(?:b|bs|batch|batch_size|batchsize)_?(?P<size>\d+)(?:_(?P<after>.+))?")
_METRIC = ("metric", "variable", "measure", "measurement", "quantity", "metric_name")
_VALUE = ("value", "val", "reading", "result")
_UNIT = ("unit", "units")


def one_row_per_point(table: Any, *, name: str) -> Any:
    """Return a table of any layout with one row per point.

    Raises:
        InputError: the layout does not determine the quantity of its figures.
    """
    return _from_wide(_from_long(table, name=name), name=name)


def _from_long(table: Any, *, name: str) -> Any:
    """Convert a table of one row per figure to one column per metric; return any other table unchanged."""
    import pyarrow as pa

    metric, value, unit = (_column(table, names) for names in (_METRIC, _VALUE, _UNIT))
    if metric is None or value is None:
        return table
    keys = [column for column in table.column_names if column not in (metric, value, unit)]
    points: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row, record in enumerate(table.to_pylist(), 1):
        figures = points.setdefault(tuple(record[key] for key in keys), {})
        what = _quantity(record[metric], None if unit is None else record[unit])
        if what in figures:
            message = f"{name}, row {row}: {what} is there twice for the same {', '.join(keys)}"
            raise InputError(message, "add the column that tells the rows apart, or a column run for repeats")
        figures[what] = record[value]
    metrics = dict.fromkeys(what for figures in points.values() for what in figures)
    settings = {key: [point[place] for point in points] for place, key in enumerate(keys)}
    found = {what: [figures.get(what) for figures in points.values()] for what in metrics}
    return pa.table({**settings, **found})


def _quantity(metric: Any, unit: Any) -> str:
    """Return the name of a metric with its unit at the end."""
    text = str(metric)
    return text if unit is None or meaning_of(text) is not None else f"{text}_{unit}"


def _from_wide(table: Any, *, name: str) -> Any:
    """Convert a table of one column per batch size to one row per batch size; return any other table unchanged.

    Raises:
        InputError: the columns do not name their quantity.
    """
    import pyarrow as pa

    names = table.column_names
    if any(_means(column, "batch_size") for column in names):
        return table
    sizes: dict[int, dict[str, str]] = {}
    unclear = [column for column in names if column.strip().isdecimal()]
    for column in names:
        match = _BATCH.fullmatch(normal(column))
        if match is None:
            continue
        quantity = "_".join(filter(None, (match["before"], match["after"])))
        if meaning_of(quantity) is None:
            unclear.append(column)
        else:
            sizes.setdefault(int(match["size"]), {})[quantity] = column
    if unclear and not sizes and any(meaning_of(column) for column in names):
        listed = ", ".join(unclear[:4])
        message = f"{name} seems to have a column per batch size ({listed}), but not of which quantity in which unit"
        raise InputError(message, "rename them, e.g. latency_ms_b1 and power_w_b1, or write a row per batch size")
    if not sizes:
        return table
    taken = {column for quantities in sizes.values() for column in quantities.values()}
    base = table.select([column for column in names if column not in taken])
    parts = []
    for size, quantities in sorted(sizes.items()):
        part = base.append_column("batch_size", pa.repeat(pa.scalar(size), table.num_rows))
        for quantity, column in quantities.items():
            part = part.append_column(quantity, table.column(column))
        parts.append(part.filter(_any_valid([table.column(column) for column in quantities.values()])))
    return pa.concat_tables(parts, promote_options="default")


def _any_valid(columns: list[Any]) -> Any:
    import functools

    import pyarrow.compute as pc

    return functools.reduce(pc.or_, map(pc.is_valid, columns))


def _column(table: Any, names: tuple[str, ...]) -> str | None:
    return next((column for column in table.column_names if normal(column) in names), None)


def _means(column: str, ours: str) -> bool:
    meaning = meaning_of(column)
    return meaning is not None and meaning.column == ours
