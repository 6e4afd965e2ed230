"""Power modes from a file: the knob columns of a table, a YAML list of mappings, or the mode of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgetune.artifacts.files import name_of, read_source
from edgetune.artifacts.io import from_bytes, sniff, table_in
from edgetune.artifacts.mode import SETTINGS, Mode
from edgetune.artifacts.table_checks import refuse_twice
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.choices import nearest
from edgetune.errors import InputError

_EXAMPLE = "e.g. a CSV with a column gpu_mhz, or a YAML list of {gpu_mhz: 1300.5, mem_mhz: 3199}"


def read_settings(source: str) -> list[Mode]:
    """Return each mode in a file, in order; an empty cell leaves that knob out.

    Any table with knob columns is accepted, also a profile; other columns are ignored.

    Raises:
        InputError: the file cannot be read, or has no knob, an unknown or repeated knob, or a non-numeric value.
    """
    data, name = read_source(source), name_of(source)
    form = sniff(data, name=name)
    if form == "yaml" or (form == "csv" and _looks_like_yaml(source, data)):
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


def _looks_like_yaml(source: str, data: bytes) -> bool:
    return source.lower().endswith((".yaml", ".yml", ".json")) or data.lstrip().startswith((b"-", b"["))


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
