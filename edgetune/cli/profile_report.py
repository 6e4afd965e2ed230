"""What ``edgetune profile`` says: what it would measure, and what it measured."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from edgetune.cli.artifact_report import show_profile_rows
from edgetune.cli.output import Target
from edgetune.cli.screen import Screen, SimulationLabel, answer, print_folded, print_lines
from edgetune.errors import ExitCode
from edgetune.units import format_duration, format_si

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Point, Profile, ProfileRow
    from edgetune.devices.device import Device
    from edgetune.profiling.options import ProfileOptions
    from edgetune.workloads.workload import Workload

_SHOWN = 20
"""Rows shown to people; files hold all."""


def report_plan(
    device: Device, workload: Workload, points: list[Point], options: ProfileOptions, *, left: list[Point],
    file: str | None, json: bool,
) -> None:  # fmt: skip
    """Print what would be measured, how long it may take and how many joules.

    Args:
        device: Where.
        workload: What.
        points: Those asked for.
        options: How.
        left: Those that are not in the file yet.
        file: The file that will be written.
        json: Answer for machines.
    """
    from edgetune.artifacts.plain import plain
    from edgetune.profiling.estimate import estimate

    if not left:
        _report_complete(device, points, file, json=json)
        return
    expected = estimate(device, workload, left, options, run_code=False)
    SimulationLabel(device.simulated).announce()
    if json:
        answer({**plain(expected), "device": device.name, "listed": [str(point) for point in left]})
        return
    print_lines(f"{workload.name} {points[0].task} on {device.name}")
    for point in left[:_SHOWN]:
        print_lines(f"batch {point.batch_size} [{point.mode}]")
    if len(left) > _SHOWN:
        print_lines(f"... and {len(left) - _SHOWN} more")
    if len(left) < len(points):
        print_lines(f"{file} has the other {len(points) - len(left)} of {len(points)} points")
    time = "unknown" if expected.duration_s is None else format_duration(expected.duration_s)
    energy = "unknown" if expected.energy_j is None else format_si(expected.energy_j, "J")
    counted = "1 point" if expected.points == 1 else f"{expected.points} points"
    summary = f"{counted} on {device.name}; time {time}, energy {energy} ({expected.basis})"
    print_folded(summary)


def _report_complete(device: Device, points: list[Point], file: str | None, *, json: bool) -> None:
    """Say that nothing would be measured."""
    SimulationLabel(device.simulated).announce()
    if json:
        answer({"points": 0, "duration_s": 0.0, "energy_j": 0.0, "device": device.name, "listed": []})
    else:
        print_lines(f"0 points: {file} has all {len(points)} of them; --fresh measures them again")


def report(table: Profile, target: Target, screen: Screen, *, json: bool) -> None:
    """Show the rows on standard error, or answer in JSON, and end with 5 when points failed."""
    from edgetune.artifacts.plain import plain

    if json:
        answer({"file": str(target.path or "-"), **plain(table.header), "rows": [brief(row) for row in table.rows]})
    if not screen.quiet:
        show_profile_rows(table.rows[:_SHOWN], whole=table.rows, stream=sys.stderr)
        if len(table.rows) > _SHOWN:
            screen.info(f"... and {len(table.rows) - _SHOWN} more rows (edgetune show {target.path or 'FILE'})")
        for data_warning in table.header.warnings:
            if data_warning.code != "no-power":  # the note below the rows said why
                screen.info(f"warning: {data_warning.code}: {data_warning.advice}")
    failed = unfinished(table)
    if failed:
        screen.info(f"{len(failed)} of {len(_last_rows(table))} points were not measured")
        raise typer.Exit(ExitCode.PARTIAL)


def brief(row: ProfileRow) -> dict[str, Any]:
    """Return a row without raw samples and without what was not measured."""
    from edgetune.artifacts.plain import plain

    return {k: v for k, v in plain(row).items() if v is not None and k not in ("times_s", "power_trace")}


def unfinished(table: Profile) -> list[ProfileRow]:
    """Return the last row of each point, in each round, that is not a measurement."""
    return [row for row in _last_rows(table) if row.status != "ok"]


def _last_rows(table: Profile) -> list[ProfileRow]:
    return list({(row.point, row.round): row for row in table.rows}.values())
