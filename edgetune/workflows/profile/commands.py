"""Measures commands once, in the power mode that is: from the options of ``edgetune measure`` to a table."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgetune.artifacts.file_names import storable
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.devices.capabilities import Absent
from edgetune.errors import InputError
from edgetune.stages.profiling.profiler import open_profiler
from edgetune.stages.profiling.sweep import SweepProgress, request_header
from edgetune.workflows.device_option import open_named
from edgetune.workflows.load_warning import warn_of_load
from edgetune.workflows.output import Target, choose_target
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import MeasureCommandOptions, MeasuringOptions
from edgetune.workflows.profile.subject import check_command
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.stopping import STOPS, reporting_saved
from edgetune.workloads.command import PREFIX
from edgetune.workloads.resolve import resolve


def measure_commands(
    opts: MeasureCommandOptions, reporter: Reporter, on_row: Callable[[ProfileRow], None]
) -> tuple[Profile, Target | None]:
    """Measure every command and return a row for each, and where the table was written, if anywhere.

    Args:
        opts: The options.
        reporter: Shows the progress.
        on_row: Takes each row at once, those of failures with the first that was measured.

    Raises:
        InputError: a command or an option cannot be used, or every command failed: the error of the last.
        DeviceError: the device is absent.
    """
    options = profile_options(
        MeasuringOptions(
            point_timeout=opts.point_timeout,
            target_ci=opts.target_ci,
            minibatches=opts.runs,
            step_pattern=opts.step_pattern,
            steps=opts.steps,
        )
    )
    commands = [words.removeprefix(PREFIX).strip() for words in opts.commands]
    try:
        workloads = [replace(resolve(PREFIX + words), name=storable(words)) for words in commands]
    except InputError as refusal:
        if len(commands) > 1 and not any(" " in words for words in commands):
            one = shlex.join(commands)
            raise InputError(refusal.message, f"for one command of several words: edgetune measure -- {one}") from None
        raise
    if len({workload.name for workload in workloads}) < len(workloads):
        raise InputError("the same command is given twice", "give each command once")
    device = open_named(opts.device, opts.root)
    check_command(device, workloads[0], (), options)
    device = replace(device, modes=Absent("a command is measured in the mode that is"))
    target = None if opts.output is None else choose_target(opts.output, "", stdout=reporter.stdout)
    if target is not None:
        target.check("profile")
    label = SimulationLabel(device.simulated, reporter)
    label.announce()
    warn_of_load(device, reporter)
    rows: list[ProfileRow] = []
    held: list[ProfileRow] = []
    error = None
    with reporting_saved(reporter, lambda: _kept(rows, len(workloads), target)):
        try:
            for workload in workloads:
                with (
                    reporter.sweep(label) as on_progress,
                    open_profiler(device, workload, "infer", options, reporter.points) as profiler,
                ):
                    on_progress(SweepProgress(len(rows), len(workloads), 0))
                    rows.append(profiler.attempts(Point(workload.name, "infer", 1, Mode()))[-1].row)
                    error = profiler.last_error or error
                held.append(rows[-1])
                while held and any(row.minibatch_s is not None for row in rows):
                    on_row(held.pop(0))
        except STOPS:
            if target is not None and rows:
                target.write(Profile(request_header(device, workloads[0], options), tuple(rows)))
            raise
    if error is not None and held:
        raise error
    table = Profile(request_header(device, workloads[0], options), tuple(rows))
    if target is not None:
        target.write(table)
    return table, target


def _kept(rows: Sequence[ProfileRow], commands: int, target: Target | None) -> str:
    """Return a sentence on the commands that had ended when the measurement was stopped."""
    if not rows:
        return "no command was measured to its end, and nothing is kept"
    written = "" if target is None else f", and {target.file or 'standard output'} has them"
    return f"{len(rows)} of {commands} commands had ended{written}"
