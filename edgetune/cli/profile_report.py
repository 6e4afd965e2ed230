"""Prints the plan and the result of ``edgetune profile``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from edgetune.cli.screen import answer, print_folded, print_lines
from edgetune.cli.sections import TextSection
from edgetune.errors import ExitCode
from edgetune.units import format_duration, format_si
from edgetune.workflows.cells import brief
from edgetune.workflows.output import Target
from edgetune.workflows.reporting import SimulationLabel

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Point, Profile
    from edgetune.cli.command import Terminal
    from edgetune.devices.device import Device
    from edgetune.stages.profiling.estimate import SweepEstimate
    from edgetune.workflows.profile.profile import ProfileRequest

_SHOWN = 20
"""Rows shown to people; files hold all."""


def report_plan(request: ProfileRequest, left: list[Point], expected: SweepEstimate | None, terminal: Terminal) -> None:
    """Print the points to measure, and the time and energy they may take.

    Args:
        request: The sweep.
        left: The points that are not in the file yet.
        expected: The estimate for these points; ``None`` if none is left.
        terminal: The options of the answer.
    """
    from edgetune.artifacts.plain import plain

    device, workload, points, file = request.device, request.workload, request.points, request.target.file
    SimulationLabel(device.simulated, terminal.screen).announce()
    if expected is None:
        _report_complete(device, points, file, json=terminal.json)
        return
    if terminal.json:
        answer({**plain(expected), "device": device.name, "listed": [str(point) for point in left]})
        return
    print_lines(f"{workload.name} {points[0].task} on {device.name}")
    for point in left[:_SHOWN]:
        print_lines(f"batch {point.batch_size} [{point.mode}]")
    if len(left) > _SHOWN:
        print_lines(f"... and {len(left) - _SHOWN} more")
    if len(left) < len(points):
        path = request.target.path
        where = file if path is not None and path.exists() else "the journal of a stopped sweep"
        print_lines(f"{where} has the other {len(points) - len(left)} of {len(points)} points")
    time = "unknown" if expected.duration_s is None else format_duration(expected.duration_s)
    energy = "unknown" if expected.energy_j is None else format_si(expected.energy_j, "J")
    counted = "1 point" if expected.points == 1 else f"{expected.points} points"
    summary = f"{counted} on {device.name}; time {time}, energy {energy} ({expected.basis})"
    print_folded(summary)


def _report_complete(device: Device, points: list[Point], file: str | None, *, json: bool) -> None:
    """Report that no point is left to measure."""
    if json:
        answer({"points": 0, "duration_s": 0.0, "energy_j": 0.0, "device": device.name, "listed": []})
    else:
        print_lines(f"0 points: {file} has all {len(points)} of them; --fresh measures them again")


def report(table: Profile, target: Target, terminal: Terminal) -> None:
    """Show the rows on standard error, or answer in JSON, and end with 5 when points failed."""
    from edgetune.artifacts.plain import plain
    from edgetune.workflows.profile.profile import last_rows, unfinished
    from edgetune.workflows.report.profile import profile_section

    screen = terminal.screen
    if terminal.json:
        answer({"file": str(target.path or "-"), **plain(table.header), "rows": [brief(row) for row in table.rows]})
    if not screen.quiet:
        more = f"edgetune show {target.path or 'FILE'}"
        profile_section(table, TextSection(sys.stderr, most=_SHOWN, more=more))
        for data_warning in table.header.warnings:
            if data_warning.code != "no-power":  # the note below the rows gives the reason
                screen.warn(data_warning)
    failed = unfinished(table)
    if failed:
        screen.info(f"{len(failed)} of {len(last_rows(table))} points were not measured")
        raise typer.Exit(ExitCode.PARTIAL)
