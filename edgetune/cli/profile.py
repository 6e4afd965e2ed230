"""``edgetune profile``: a network on a device becomes a table of time, power and energy, or of epochs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from edgetune.cli.command import PlanningTerminal, command
from edgetune.workflows.profile.options import ProfileCommandOptions

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence
    from edgetune.artifacts.profile import Point, Profile
    from edgetune.cli.command import Terminal
    from edgetune.stages.profiling.estimate import SweepEstimate
    from edgetune.workflows.output import Target
    from edgetune.workflows.profile.convergence import TrainingRequest
    from edgetune.workflows.profile.profile import ProfileRequest

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_SHOWN = 20
"""Rows shown to people; files hold all."""
_USUAL = (
    "task", "batch_sizes", "device", "modes", "output", "minibatches", "target_ci", "convergence", "dim", "fresh",
)  # fmt: skip


@command(app, usual=_USUAL)
def profile(opts: ProfileCommandOptions, terminal: PlanningTerminal) -> None:
    """Measure a network: time, power and energy per minibatch, for batch sizes and power modes.

    With --convergence, train it (or a small proxy of its task) instead, at each batch size with several seeds: how many
    epochs it takes to an accuracy, which edgetune search needs for the time to accuracy.

    Run the same command again to resume what was interrupted. Ends with 5 when some points failed; they are in the
    table with their reason.
    """
    from edgetune.workflows.device_option import is_fleet

    if opts.convergence:
        from edgetune.workflows.profile.convergence import convergence, training_request

        if terminal.dry_run:
            _report_training(training_request(opts), terminal)
        else:
            _report(*convergence(opts, terminal.screen), terminal)
        return
    if terminal.dry_run:
        from edgetune.workflows.profile.profile import plan_profile

        _report_plan(*plan_profile(opts, terminal.screen), terminal)
        return
    if is_fleet(opts.device):
        from edgetune.workflows.fleet.profile import profile as workflow
    else:
        from edgetune.workflows.profile.profile import profile as workflow

    _report(*workflow(opts, terminal.screen), terminal)


def _report_plan(
    request: ProfileRequest, left: list[Point], expected: SweepEstimate | None, terminal: Terminal
) -> None:
    """Print the points to measure, and the time and energy they may take.

    Args:
        request: The sweep.
        left: The points that are not in the file yet.
        expected: The estimate for these points; ``None`` if none is left.
        terminal: The options of the answer.
    """
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.screen import answer, print_folded, print_lines
    from edgetune.units import counted, format_duration, format_si
    from edgetune.workflows.reporting import SimulationLabel

    device, points, file = request.device, request.points, request.target.file
    SimulationLabel(device.simulated, terminal.screen).announce()
    if terminal.json:
        found = {"points": 0, "duration_s": 0.0, "energy_j": 0.0} if expected is None else plain(expected)
        answer({**found, "device": device.name, "listed": [str(point) for point in left]})
        return
    if expected is None:
        print_lines(f"0 points: {file} has all {len(points)} of them; --fresh measures them again")
        return
    print_lines(f"{request.workload.name} {points[0].task} on {device.name}")
    print_lines(*(f"batch {point.batch_size} [{point.mode}]" for point in left[:_SHOWN]))
    if len(left) > _SHOWN:
        print_lines(f"... and {len(left) - _SHOWN} more")
    if len(left) < len(points):
        path = request.target.path
        where = file if path is not None and path.exists() else "the journal of a stopped sweep"
        print_lines(f"{where} has the other {len(points) - len(left)} of {len(points)} points")
    time = "unknown" if expected.duration_s is None else format_duration(expected.duration_s)
    energy = "unknown" if expected.energy_j is None else format_si(expected.energy_j, "J")
    which = counted(expected.points, "point")
    print_folded(f"{which} on {device.name}; time {time}, energy {energy} ({expected.basis})")


def _report_training(request: TrainingRequest, terminal: Terminal) -> None:
    """Print the planned runs, and the most minibatches they take."""
    from edgetune.cli.screen import answer, print_folded, print_lines

    name, dataset, options = request.proxy.workload.name, request.proxy.dataset, request.proxy.options
    sizes, seeds = (list(dict.fromkeys(values)) for values in zip(*request.tasks, strict=True))
    minibatches = sum(dataset.samples // size * options.max_epochs for size, _ in request.tasks)
    if terminal.json:
        facts = {"workload": name, "dataset": dataset.name, "target_accuracy": options.target_accuracy}
        runs = {"batch_sizes": sizes, "seeds": seeds, "runs": len(request.tasks), "jobs": request.jobs}
        answer({**facts, "max_epochs": options.max_epochs, **runs, "minibatches_at_most": minibatches,
                "duration_s": None})  # fmt: skip
        return
    until = f"until {options.target_accuracy:.1%} are right, for {options.max_epochs} epochs at most"
    print_lines(f"{name} on {dataset.samples} samples of {dataset.name}, {until}")
    print_lines(f"batch sizes {', '.join(map(str, sizes))}; seeds {', '.join(map(str, seeds))}")
    print_folded(
        f"{len(request.tasks)} runs, {request.jobs} at a time; {minibatches} minibatches at most; "
        "time unknown (how many it takes is what is measured)"
    )


def _report(table: Profile | Convergence, target: Target, terminal: Terminal) -> None:
    """Show the sections of a table on standard error, or answer in JSON; end with 5 when points or runs failed.

    Raises:
        PartialError: no batch size reached the target accuracy; the table is written all the same.
    """
    from edgetune.artifacts.convergence import Convergence, epochs_of
    from edgetune.artifacts.yaml_document import plain
    from edgetune.cli.screen import answer
    from edgetune.cli.sections import TextSection
    from edgetune.errors import ExitCode, InputError, PartialError
    from edgetune.workflows.profile.profile import last_rows, unfinished
    from edgetune.workflows.report.sections import brief, write_sections

    trains, screen, name = isinstance(table, Convergence), terminal.screen, str(target.path or "the table")
    if terminal.json:
        whole = plain(table) if trains else {**plain(table.header), "rows": [brief(row) for row in table.rows]}
        answer({"file": str(target.path or "-"), **whole})
    if not screen.quiet:
        more = f"edgetune show {target.path or 'FILE'}"
        write_sections(table, TextSection(sys.stderr, most=_SHOWN, more=more))
        for data_warning in () if trains else table.header.warnings:
            if data_warning.code != "no-power":  # the note below the rows gives the reason
                screen.warn(data_warning)
    if isinstance(table, Convergence):
        failed, of = sum(row.status == "failed" for row in table.rows), f"of {len(table.rows)} runs failed"
    else:
        failed, of = len(unfinished(table)), f"of {len(last_rows(table))} points were not measured"
    if failed:
        screen.info(f"{failed} {of}")
        raise typer.Exit(ExitCode.PARTIAL)
    try:
        if isinstance(table, Convergence):
            epochs_of(table, name=name)
    except InputError as error:
        raise PartialError(error.message, f"{name} is written all the same; {error.hint}") from None
