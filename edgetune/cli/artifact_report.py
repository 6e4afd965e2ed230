"""Prints artifacts: provenance, values common to all rows, and the rows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

from edgetune.artifacts.row_figures import energy_per_minibatch_j
from edgetune.cli.cells import cell, si_cell
from edgetune.cli.endpoint_report import show_answers
from edgetune.cli.screen import print_folded, print_lines, table, terminal_width
from edgetune.units import format_bytes, format_duration, format_si
from edgetune.visible import visible

if TYPE_CHECKING:
    from edgetune.artifacts.header import Header
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.artifacts.roofline import Roof, Roofline
    from edgetune.artifacts.trace import TraceRow

_WIDEST = 100
"""The widest line of prose, columns."""


def show_header(header: Header) -> None:
    """Print the provenance and warnings of an artifact as YAML."""
    from edgetune.artifacts.plain import plain
    from edgetune.artifacts.yaml_document import dump_value

    foreign = header.tool == "unknown"
    made = "read from a table of another program" if foreign else f"made {header.created} by {header.tool}"
    print_lines(f"{header.kind} version {header.version}, {made}")
    width = min(terminal_width(_WIDEST), _WIDEST)
    for title, facts in (("inputs", plain(header.inputs)), ("conditions", plain(header.conditions))):
        if facts:
            print_lines(f"{title}:")
        for name, value in facts.items():
            first, *more = textwrap.wrap(
                f"{visible(str(name))}: {dump_value(value)}", width - 6, break_long_words=False, break_on_hyphens=False
            )
            print_lines(*[f"  {first}", *(f"      {line}" for line in more)])
    for data_warning in header.warnings:
        numbers = "".join(f" {name}={value:g}" for name, value in data_warning.numbers.items())
        print_lines(f"warning: {data_warning.code}{numbers}: {data_warning.advice}")
    print_lines()


def show_profile_rows(
    rows: Sequence[ProfileRow], *, whole: Sequence[ProfileRow] | None = None, stream: TextIO | None = None
) -> None:
    """Print rows, below the values that all rows of the ``whole`` table share and above remarks on measured rows."""
    if not rows:
        print_lines("no rows", stream=stream)
        return
    varying = _report_common(rows if whole is None else whole, stream)
    if any(row.energy_j is None and energy_per_minibatch_j(row) is not None for row in rows):
        print_folded("energy: power times time, where the table has none", stream=stream)
    columns = (*map(_column, varying), "minibatch>", "ci95>", "power>", "energy>", "timed>")
    cells = [(*_settings(row, varying), *_measured(row)) for row in rows]
    if any(row.memory_peak_bytes is not None for row in rows):
        columns, cells = (*columns, "memory>"), [(*of, _memory(row)) for of, row in zip(cells, rows, strict=True)]
    if any(row.engine_bytes is not None for row in rows):
        columns = (*columns, "built in>", "engine>")
        cells = [(*of, si_cell(row.build_s, "s"), _engine(row)) for of, row in zip(cells, rows, strict=True)]
    if any(row.status != "ok" for row in rows):
        said = ("ok" if row.status == "ok" else f"{row.status}: {row.reason}" for row in rows)
        columns, cells = (*columns, "status"), [(*cell, status) for cell, status in zip(cells, said, strict=True)]
    table(columns, cells, stream=stream)
    for reason in dict.fromkeys(row.reason for row in rows if row.status == "ok" and row.reason):
        print_folded(f"note: {reason}", stream=stream)
    settings = {_column(name): partial(_setting, name) for name in varying}
    show_answers(rows, rows if whole is None else whole, settings, stream)
    _show_long(rows, varying, stream)


def show_trace_rows(rows: Sequence[TraceRow]) -> None:
    """Print the steps of a search, below the values that all of them share."""

    if not rows:
        print_lines("no rows")
        return
    varying = _report_common(rows, None)
    verdict = {True: "", False: "over budget; ", None: "cannot tell; "}
    table(
        ("step>", *map(_column, varying), "minibatch>", "power>", "objective>", "why"),
        [
            (
                row.step,
                *_settings(row, varying),
                si_cell(row.minibatch_s, "s"),
                si_cell(row.power_w, "W"),
                cell(row.objective, ".4g"),
                verdict[row.feasible] + (row.reason or ""),
            )
            for row in rows
        ],
    )


def show_roofs(roofline: Roofline, shown: int) -> None:
    """Print the first roofs of a device, below a line on the measurements; energy columns only if known."""
    from edgetune.artifacts.mode import KNOBS, Mode

    roofs = roofline.roofs
    varying = [knob for knob in KNOBS if len({getattr(roof.mode, knob) for roof in roofs}) > 1]
    fixed = Mode.of({knob: value for knob, value in roofs[0].mode.knobs().items() if knob not in varying})
    modes = len({run.mode for run in roofline.runs})
    kernels = f"{len(roofline.runs)} kernels measured at {modes} mode{'' if modes == 1 else 's'}"
    print_lines(", ".join([roofline.device, *([str(fixed)] if fixed.knobs() else []), kernels]))
    columns = [*(f"{knob}>" for knob in varying), "precision", "peak>", "memory>", "FLOP/byte>"]
    if with_energy := any(roof.flop_j is not None for roof in roofs):
        columns += ["static>", "pJ/FLOP>", "pJ/byte>", "residual>"]
    rows = [
        [
            *(cell(getattr(roof.mode, knob), "g") for knob in varying),
            *(roof.precision, si_cell(roof.flops_per_s, "FLOP/s"), si_cell(roof.bytes_per_s, "B/s")),
            f"{roof.flops_per_s / roof.bytes_per_s:.4g}",
            *(_energy_cells(roof) if with_energy else ()),
            "measured" if roof.measured else "inferred",
        ]
        for roof in roofs[:shown]
    ]
    table([*columns, "from"], rows)


def _energy_cells(roof: Roof) -> tuple[str | None, ...]:
    def picojoules(value_j: float | None, error_j: float | None) -> str | None:
        within = "" if error_j is None else f" +-{1e12 * error_j:.2g}"
        return None if value_j is None else f"{1e12 * value_j:.4g}{within}"

    residual = cell(roof.residual_share, ".1%")
    constants = picojoules(roof.flop_j, roof.flop_j_error), picojoules(roof.byte_j, roof.byte_j_error)
    return si_cell(roof.static_w, "W"), *constants, residual


def _report_common(rows: Sequence[ProfileRow] | Sequence[TraceRow], stream: TextIO | None) -> list[str]:
    """Print the values common to all rows, and return the names of settings in which they differ."""
    from edgetune.artifacts.mode import SETTINGS, Mode

    names = ("workload", "task", "device", "batch_size", *SETTINGS, "round")
    values = {name: {getattr(row, name, None) for row in rows} for name in names}  # a trace has no device or round
    same = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}
    what = [str(same[name]) for name in ("workload", "task") if name in same]
    where = [f"on {same['device']}"] if same.get("device") is not None else []
    batch = [f"batch {same['batch_size']}"] if "batch_size" in same else []
    fixed = {name: value for name in SETTINGS if (value := same.get(name)) is not None}
    mode = [str(Mode.of(fixed))] if fixed else []
    shared = ", ".join(filter(None, [" ".join(what + where), *batch, *mode]))
    print_folded(shared, stream=stream)
    return [name for name in names if name not in same]


def _show_long(rows: Sequence[ProfileRow], varying: Sequence[str], stream: TextIO | None) -> None:
    """Print a command's own figure, what soaks showed, and the first minibatches after idling, below the table."""
    from edgetune.stages.profiling.soak import soak_sentence, soak_summary

    for row in rows:
        which = ", ".join(
            f"{_column(name).rstrip('>')} {value}" for name, value in zip(varying, _settings(row, varying), strict=True)
        )
        head = f"{which}: " if which else ""
        if (soak := soak_summary(row)) is not None:
            print_folded(f"{head}{soak_sentence(soak)}", stream=stream)
        if row.own_value is not None:
            unit = f" {row.own_unit}" if row.own_unit else ""
            print_folded(f"{head}its own figure: {row.own_value:.4g}{unit}", stream=stream)
        gaps = zip(row.idle_gap_s or (), row.idle_minibatch_s or (), strict=True)
        said = [
            f"{format_si(first_s, 's')} after {format_duration(gap_s)} ({first_s / row.minibatch_s:.2g} x)"
            for gap_s, first_s in gaps
            if row.minibatch_s
        ]
        if said:
            print_folded(f"{head}first minibatch after idling: {', '.join(said)}", stream=stream)


def _column(name: str) -> str:
    return name if name in ("workload", "task", "device", "power_mode") else f"{name.removesuffix('_size')}>"


def _settings(row: ProfileRow | TraceRow, names: Sequence[str]) -> list[object]:
    return [_setting(name, row) for name in names]


def _setting(name: str, row: ProfileRow | TraceRow) -> object:
    value = getattr(row, name)
    return f"{value:g}" if isinstance(value, float) else value


def _engine(row: ProfileRow) -> str | None:
    return None if row.engine_bytes is None else format_bytes(row.engine_bytes)


def _memory(row: ProfileRow) -> str | None:
    return None if row.memory_peak_bytes is None else format_bytes(row.memory_peak_bytes)


def _measured(row: ProfileRow) -> tuple[object, ...]:
    """Return a row's figures; the interval is its half width relative to the median."""
    low, high = row.minibatch_ci95_low_s, row.minibatch_ci95_high_s
    known = low is not None and high is not None and row.minibatch_s
    within = f"+-{(high - low) / 2 / row.minibatch_s:.1%}" if known else None  # type: ignore[operator]
    figures = (
        si_cell(row.minibatch_s, "s"),
        within,
        si_cell(row.power_w, "W"),
        si_cell(energy_per_minibatch_j(row), "J"),
    )
    return *figures, row.minibatches
