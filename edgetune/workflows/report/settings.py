"""The settings of measured points in a report: those that all rows share, and the cells of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.plotting.page import SectionWriter

if TYPE_CHECKING:
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.trace import TraceRow


def write_common(rows: Sequence[ProfileRow] | Sequence[TraceRow], out: SectionWriter) -> list[str]:
    """Write the values common to all rows, and return the names of settings in which they differ."""
    from edgetune.artifacts.mode import SETTINGS, Mode

    names = ("workload", "task", "device", "board", "batch_size", *SETTINGS, "round")
    values = {name: {getattr(row, name, None) for row in rows} for name in names}  # a trace has no device or round
    same = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}
    what = [str(same[name]) for name in ("workload", "task") if name in same]
    where = [f"on {same['device']}"] if same.get("device") is not None else []
    batch = [f"batch {same['batch_size']}"] if "batch_size" in same else []
    fixed = {name: value for name in SETTINGS if (value := same.get(name)) is not None}
    mode = [str(Mode.of(fixed))] if fixed else []
    shared = ", ".join(filter(None, [" ".join(what + where), *batch, *mode]))
    out.note(shared)
    return [name for name in names if name not in same]


def column_name(name: str) -> str:
    """Return the name of a setting as a table has it."""
    return name if name in ("workload", "task", "device", "board", "power_mode") else f"{name.removesuffix('_size')}>"


def settings_cells(row: ProfileRow | TraceRow, names: Sequence[str]) -> list[object]:
    """Return the cells of a row's settings."""
    return [setting_cell(name, row) for name in names]


def setting_cell(name: str, row: ProfileRow | TraceRow) -> object:
    """Return the cell of one setting."""
    value = getattr(row, name)
    return f"{value:g}" if isinstance(value, float) else value
