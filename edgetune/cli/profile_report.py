"""Prints the plan and the result of ``edgetune profile``.

Prints the plan and the results of ``edgetune profile --convergence``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from edgetune.cli.screen import answer, print_folded, print_lines
from edgetune.cli.sections import TextSection
from edgetune.errors import ExitCode, InputError, PartialError
from edgetune.units import format_duration, format_si
from edgetune.workflows.cells import brief
from edgetune.workflows.output import Target
from edgetune.workflows.reporting import SimulationLabel

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence
    from edgetune.artifacts.profile import Point, Profile
    from edgetune.cli.command import Terminal
    from edgetune.devices.device import Device
    from edgetune.stages.profiling.estimate import SweepEstimate
    from edgetune.workflows.profile.convergence import TrainingRequest
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
    from edgetune.artifacts.yaml_document import plain

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
    from edgetune.artifacts.yaml_document import plain
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


def report_convergence_plan(request: TrainingRequest, terminal: Terminal) -> None:
    """Print the planned runs, and the most minibatches they take."""
    proxy, tasks, jobs = request.proxy, request.tasks, request.jobs
    samples, options = proxy.dataset.samples, proxy.options
    sizes, seeds = (list(dict.fromkeys(values)) for values in zip(*tasks, strict=True))
    minibatches = sum(samples // size * options.max_epochs for size, _ in tasks)
    if terminal.json:
        answer(
            {
                "workload": proxy.workload.name,
                "dataset": proxy.dataset.name,
                "target_accuracy": options.target_accuracy,
                "max_epochs": options.max_epochs,
                "batch_sizes": sizes,
                "seeds": seeds,
                "runs": len(tasks),
                "jobs": jobs,
                "minibatches_at_most": minibatches,
                "duration_s": None,
            }
        )
        return
    until = f"until {options.target_accuracy:.1%} are right, for {options.max_epochs} epochs at most"
    print_lines(f"{proxy.workload.name} on {samples} samples of {proxy.dataset.name}, {until}")
    print_lines(f"batch sizes {', '.join(map(str, sizes))}; seeds {', '.join(map(str, seeds))}")
    summary = (
        f"{len(tasks)} runs, {jobs} at a time; {minibatches} minibatches at most; "
        "time unknown (how many it takes is what is measured)"
    )
    print_folded(summary)


def report_convergence(runs: Convergence, target: Target, terminal: Terminal) -> None:
    """Show the epochs by batch size on standard error, or answer in JSON; end with 5 when runs failed.

    Raises:
        PartialError: no batch size reached the target; the table is written all the same.
    """
    from edgetune.artifacts.convergence import epochs_of
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.sections import TextSection
    from edgetune.workflows.report.tables import convergence_section

    if terminal.json:
        answer({"file": str(target.path or "-"), **plain(runs)})
    if not terminal.screen.quiet:
        convergence_section(runs, TextSection(sys.stderr))
    failed = sum(row.status == "failed" for row in runs.rows)
    if failed:
        terminal.screen.info(f"{failed} of {len(runs.rows)} runs failed")
        raise typer.Exit(ExitCode.PARTIAL)
    name = str(target.path or "the table")
    try:
        epochs_of(runs, name=name)
    except InputError as error:
        raise PartialError(error.message, f"{name} is written all the same; {error.hint}") from None
