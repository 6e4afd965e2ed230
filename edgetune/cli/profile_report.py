"""What ``edgetune profile`` says: what it would measure, and what it measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.output import Target
from edgetune.cli.screen import Label, Screen, answer
from edgetune.errors import ExitCode
from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Point, Profile, ProfileRow
    from edgetune.devices.device import Device
    from edgetune.profiling.options import ProfileOptions
    from edgetune.workloads.workload import Workload

_SHOWN = 20
"""Rows shown to people; files hold all."""


def tell_plan(device: Device, workload: Workload, points: list[Point], options: ProfileOptions, *, json: bool) -> None:
    """Print what would be measured, how long it may take and how many joules."""
    from edgetune.artifacts.plain import plain
    from edgetune.profiling.estimate import estimate

    expected = estimate(device, workload, points, options)
    Label(device.simulated).say()
    if json:
        answer({**plain(expected), "device": device.name, "listed": [str(point) for point in points]})
        return
    for point in points[:_SHOWN]:
        print(point)
    if len(points) > _SHOWN:
        print(f"... and {len(points) - _SHOWN} more")
    time = "unknown" if expected.duration_s is None else format_duration(expected.duration_s)
    energy = "unknown" if expected.energy_j is None else format_si(expected.energy_j, "J")
    print(f"{expected.points} points on {device.name}; time {time}, energy {energy} ({expected.basis})")


def report(table: Profile, target: Target, screen: Screen, *, json: bool) -> None:
    """Show the rows on standard error, or answer in JSON, and end with 5 when points failed."""
    from edgetune.artifacts.plain import plain

    if json:
        answer({"file": str(target.path or "-"), **plain(table.header), "rows": [brief(row) for row in table.rows]})
    if not screen.quiet:
        show_rows(table.rows[:_SHOWN])
        if len(table.rows) > _SHOWN:
            screen.say(f"... and {len(table.rows) - _SHOWN} more rows (edgetune show FILE)")
        for caution in table.header.warnings:
            screen.say(f"warning: {caution.code}: {caution.advice}")
        for reason in dict.fromkeys(row.reason for row in table.rows if row.status == "ok" and row.reason):
            screen.say(f"note: {reason}")
    failed = unfinished(table)
    if failed:
        screen.say(f"{len(failed)} of {len({row.point for row in table.rows})} points were not measured")
        raise typer.Exit(ExitCode.PARTIAL)


def brief(row: ProfileRow) -> dict[str, Any]:
    """Return a row without raw samples and without what was not measured."""
    from edgetune.artifacts.plain import plain

    return {k: v for k, v in plain(row).items() if v is not None and k not in ("times_s", "power_trace")}


def show_rows(rows: Sequence[ProfileRow]) -> None:
    """Draw rows on standard error: knobs that vary as columns, the others in one line before."""
    from edgetune.artifacts.mode import KNOBS, Mode
    from edgetune.cli.screen import table

    varying = [knob for knob in KNOBS if len({getattr(row, knob) for row in rows}) > 1]
    fixed = {knob: value for row in rows[:1] for knob, value in row.mode.knobs().items() if knob not in varying}
    if fixed:
        print(f"{'each with' if varying else 'mode:'} {Mode.of(fixed)}", file=sys.stderr)
    columns = ("task", "batch>", *(f"{knob}>" for knob in varying), "minibatch>", "+-95 %>", "power>", "energy>", "n>")
    table((*columns, "status"), [cells(row, varying) for row in rows], stream=sys.stderr)


def cells(row: ProfileRow, knobs: Sequence[str]) -> tuple[object, ...]:
    """Return a row as people read it; the interval is half its width, relative to the median."""

    def pretty(value: float | None, unit: str) -> str | None:
        return None if value is None else format_si(value, unit)

    low, high = row.minibatch_ci95_low_s, row.minibatch_ci95_high_s
    within = None if low is None or high is None or not row.minibatch_s else f"{(high - low) / 2 / row.minibatch_s:.1%}"
    mode = ("-" if getattr(row, knob) is None else f"{getattr(row, knob):g}" for knob in knobs)
    status = row.status if row.status == "ok" else f"{row.status}: {row.reason}"
    figures = (pretty(row.minibatch_s, "s"), within, pretty(row.power_w, "W"), pretty(row.energy_j, "J"))
    return row.task, row.batch_size, *mode, *figures, row.minibatches, status


def unfinished(table: Profile) -> list[ProfileRow]:
    """Return the last row of each point that is not a measurement."""
    last = {row.point: row for row in table.rows}
    return [row for row in last.values() if row.status != "ok"]
