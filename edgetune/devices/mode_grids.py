"""Grids of power modes: those of published studies, and evenly spaced levels of every knob.

Power modes from a file: the knob columns of a table, a YAML list of mappings, or the mode of a plan.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.io import from_bytes, sniff, table_in
from edgetune.artifacts.mode import SETTINGS, Mode
from edgetune.artifacts.table_checks import refuse_twice
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.choices import nearest
from edgetune.devices.capabilities import ModeSpace
from edgetune.errors import InputError

STUDIED_GRIDS: Mapping[int, Mapping[str, tuple[float, ...]]] = {
    441: {
        "cpu_cores": (4, 8, 12),
        "cpu_mhz": (422.4, 729.6, 1036.8, 1344.0, 1651.2, 1958.4, 2201.6),
        "gpu_mhz": (114.75, 318.75, 522.75, 726.75, 930.75, 1134.75, 1300.5),
        "mem_mhz": (665.6, 2133.0, 3199.0),
    },
    96: {
        "cpu_cores": (4, 12),
        "cpu_mhz": (422.4, 1036.8, 1651.2, 2201.6),
        "gpu_mhz": (318.75, 726.75, 1134.75, 1300.5),
        "mem_mhz": (665.6, 2133.0, 3199.0),
    },
}
"""Modes of an AGX Orin in studies: Fulcrum's (2025; 3 x 7 x 7 x 3 from 4 to 12 cores, 422 to 2200, 115 to 1300 and
665 to 3200 MHz, with equal steps of the tables between) and Pagoda's (2025; its GPU and memory clocks, while its cores
and CPU clocks are not published)."""


def studied_grid(space: ModeSpace, count: int) -> dict[str, tuple[float, ...]] | None:
    """Return the levels of a study's grid of ``count`` modes at the nearest clocks of this device.

    ``None`` where there is no such study, or this is no AGX Orin with all its cores and clocks on offer.
    """
    grid = STUDIED_GRIDS.get(count, {})
    if not grid or {knob: values[-1] for knob, values in grid.items()} != {k: v[-1] for k, v in space.knobs.items()}:
        return None
    levels: dict[str, tuple[float, ...]] = {}
    for knob, values in grid.items():
        table, found = list(space.knobs[knob]), []
        for value in values:  # ascending, as the table: tables of some kernels lack the lowest clocks
            found.append(min(table, key=lambda each, value=value: abs(each - value)))  # type: ignore[misc]
            table = [each for each in table if each > found[-1]] or [math.inf]
        levels[knob] = tuple(found)
    return None if any(math.inf in each for each in levels.values()) else levels


def levels_of(space: ModeSpace, count: int) -> Mapping[str, Sequence[float]]:
    """Return the levels of a grid: a study's, else evenly spaced ones, or all where no more are on offer."""
    if count >= math.prod(map(len, space.knobs.values())):
        return space.knobs
    usable = {knob: _usable(knob, values) for knob, values in space.knobs.items()}
    return studied_grid(space, count) or grid_levels(usable, count)


_LEAST = {"cpu_cores": 4 / 12, "cpu_mhz": 422.4 / 2201.6, "mem_mhz": 665.6 / 3199.0}
"""The lowest levels of Fulcrum's grid as shares of the highest: below them a board is slow and hardly draws less."""


def _usable(knob: str, values: Sequence[float]) -> Sequence[float]:
    """Return the values that evenly spaced levels are taken from."""
    kept = [value for value in values if value >= _LEAST.get(knob, 0.0) * values[-1] * (1 - 1e-9)]
    return kept if len(kept) > 1 else values


def evenly_spaced(values: Sequence[float], count: int) -> tuple[float, ...]:
    """Return ``count`` of ``values``, evenly by index with both ends; all of them when there are fewer.

    For ``count`` 1 the result is the last value, the highest of an ascending table.
    """
    if count >= len(values):
        return tuple(values)
    if count == 1:
        return (values[-1],)
    return tuple(values[round(i * (len(values) - 1) / (count - 1))] for i in range(count))


def modes_of(levels: Mapping[str, Sequence[float]]) -> list[Mode]:
    """Return every combination of the levels, the last knob varying fastest."""
    return [Mode.of(dict(zip(levels, values, strict=True))) for values in product(*levels.values())]


def grid_levels(knobs: Mapping[str, Sequence[float]], count: int) -> dict[str, tuple[float, ...]]:
    """Return levels per knob with at most, and as close as possible to, ``count`` combinations.

    First every knob gets its fair share: with ``b`` the largest number of levels that every knob could have at once, no
    knob gets fewer than ``b / 2``, and both its ends where ``b`` allows two. Among those choices the largest product
    wins, then the most even one, then the one with more levels for the earlier knobs.
    """
    sizes = [len(values) for values in knobs.values()]
    fair = 1
    while fair < max(sizes, default=1) and math.prod(min(size, fair + 1) for size in sizes) <= count:
        fair += 1
    least = [min(size, fair, max(2, fair // 2)) for size in sizes]
    best = max(_choices(sizes, least, count), key=lambda choice: (math.prod(choice), sorted(choice), choice))
    return {knob: evenly_spaced(values, levels) for (knob, values), levels in zip(knobs.items(), best, strict=True)}


def _choices(sizes: Sequence[int], least: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of levels per knob whose product stays within ``count``; the last knob takes what is left."""
    if not sizes:
        yield ()
    elif len(sizes) == 1:
        if count >= least[0]:
            yield (min(sizes[0], count),)
    else:
        rest_least = math.prod(least[1:])
        for levels in range(least[0], min(sizes[0], count // rest_least) + 1):
            yield from ((levels, *rest) for rest in _choices(sizes[1:], least[1:], count // levels))


_EXAMPLE = "e.g. a CSV with a column gpu_mhz, or a YAML list of {gpu_mhz: 1300.5, mem_mhz: 3199}"


def read_settings(source: str) -> list[Mode]:
    """Return each mode in a file, in order; an empty cell leaves that knob out.

    Any table with knob columns is accepted, also a profile; other columns are ignored.

    Raises:
        InputError: the file cannot be read, or has no knob, an unknown or repeated knob, or a non-numeric value.
    """
    data, name = read_source(source), name_of(source)
    form = sniff(data, name=name)
    yaml = source.lower().endswith((".yaml", ".yml", ".json")) or data.lstrip().startswith((b"-", b"["))
    if form == "yaml" or (form == "csv" and yaml):
        return _from_yaml(data, name=name)
    table = table_in(data, form, name=name)[0]
    refuse_twice([column for column in table.column_names if column in SETTINGS], name=name)
    records = _records(table)
    if not records:
        raise InputError(f"{name} has no knob column: one of {', '.join(SETTINGS)} is needed", _EXAMPLE)
    return [_mode(record, name=f"{name}, row {row}") for row, record in enumerate(records, 1)]


def _records(table: Any) -> list[dict[str, Any]]:
    present = [knob for knob in SETTINGS if knob in table.column_names]
    rows: list[dict[str, Any]] = table.select(present).to_pylist() if present else []
    return list({repr(row): row for row in rows}.values())


def _from_yaml(data: bytes, *, name: str) -> list[Mode]:
    document = load_yaml(data.decode("utf-8-sig"), name=name)
    if isinstance(document, Mapping) and "kind" in document:
        return [from_bytes(data, kind="plan", name=name).configuration.mode]
    records: Sequence[Any] = [document] if isinstance(document, Mapping) else document
    if not isinstance(records, list) or not records or not all(isinstance(record, Mapping) for record in records):
        raise InputError(f"{name} is not a list of power modes", _EXAMPLE)
    for record in records:
        for knob in record:
            if knob not in SETTINGS:
                raise InputError(f"{name}: unknown knob {knob!r}", nearest(str(knob), SETTINGS))
    return [_mode(record, name=f"{name}, mode {place}") for place, record in enumerate(records, 1)]


def _mode(record: Mapping[str, Any], *, name: str) -> Mode:
    settings: dict[str, float | str] = {}
    for knob, cell in record.items():
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            continue
        if knob == "power_mode":
            settings[knob] = str(cell).strip()
            continue
        try:
            value = math.nan if isinstance(cell, bool) else float(cell)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value) or value <= 0:
            raise InputError(f"{name}: {knob} is {cell!r}", "a knob's value is a finite number above zero")
        settings[knob] = value
    return Mode.of(settings)
