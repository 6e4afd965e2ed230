"""Measures commands once, in the power mode that is: from the options of ``edgetune measure`` to a table.

An ordinary Python script that trains, measured as it is: a command that reports its steps.
"""

import ast
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from edgetune.artifacts.files import storable
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.devices.capabilities import Absent
from edgetune.devices.recorded import PREFIX as RECORDED
from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.profiling.sweep import SweepProgress, request_header
from edgetune.workflows.device_option import open_named, warn_of_load
from edgetune.workflows.output import Target, choose_target
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import MeasureCommandOptions, MeasuringOptions, ProfileCommandOptions
from edgetune.workflows.profile.subject import check_command
from edgetune.workflows.reporting import STOPS, OnProgress, Reporter, SimulationLabel, reporting_saved
from edgetune.workloads.command import PREFIX
from edgetune.workloads.foreign_files import is_script, require_file
from edgetune.workloads.resolve import resolve


def measure_commands(
    opts: MeasureCommandOptions, reporter: Reporter, on_table: Callable[[Profile], None]
) -> tuple[Profile, Target | None]:
    """Measure every command and return their rows, and where the table was written, if anywhere.

    Args:
        opts: The options.
        reporter: Shows the progress.
        on_table: Takes the table.

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

    def keep() -> Profile:
        """Report every command and write the table of what is measured."""
        found = Profile(request_header(device, workloads[0], options), tuple(rows))
        if found.rows:
            on_table(found)
        if target is not None and found.rows:
            target.write(found)
        return found

    with reporting_saved(reporter, lambda: _kept(rows, len(workloads), target)):
        try:
            with ExitStack() as stack:
                on_progress = stack.enter_context(reporter.sweep(label))
                profilers = {
                    each.name: stack.enter_context(Profiler(device, each, "infer", options, reporter.points))
                    for each in workloads
                }
                error = _measure(profilers, rows, on_progress)
        except STOPS:
            keep()
            raise
    if error is not None and not any(row.minibatch_s is not None for row in rows):
        raise error
    return keep(), target


def _measure(
    profilers: Mapping[str, Profiler], rows: list[ProfileRow], on_progress: OnProgress
) -> EdgetuneError | None:
    """Measure the commands one after the other; return the error of the last failure."""
    error = None
    for place, (name, profiler) in enumerate(profilers.items()):
        on_progress(SweepProgress(place, len(profilers), 0))
        attempt = profiler.attempts(Point(name, "infer", 1, Mode()))[-1]
        error = attempt.error or error
        rows.append(attempt.row)
    return error


def _kept(rows: Sequence[ProfileRow], count: int, target: Target | None) -> str:
    """Return a sentence on the commands, of ``count``, that had been measured when the measurement was stopped."""
    if not rows:
        return "no command was measured, and nothing is kept"
    written = "" if target is None else f", and {target.file or 'standard output'} has them"
    return f"{len(rows)} of {count} commands had been measured{written}"


_DECLARES = {"add_argument", "option"}
_BATCH = re.compile(r"--((per[-_]device[-_])?train(ing)?[-_]|mini[-_]?)?(batch([-_]?size)?|bs)")


def as_command(opts: ProfileCommandOptions, reporter: Reporter) -> ProfileCommandOptions:
    """Return the options with a Python script that defines no ``make`` as a command; others unchanged.

    The script's own option for its batch size is found unless it is given. Without ``--batch-sizes`` the batch size is
    that option's default. A recorded device and an operator table take the name of a network, and no file.

    Raises:
        InputError: the file is missing, or ``--batch-option`` is given for something else.
    """
    named = opts.ops is not None or opts.device.startswith(RECORDED) or opts.model.startswith(PREFIX)
    if Path(opts.model).suffix == ".py" and not named and is_script(require_file(opts.model)):
        option, sizes = opts.batch_option, opts.batch_sizes
        if option is None and (found := batch_option(Path(opts.model))) is not None:
            name, default = found
            option = name if sizes is not None or default is not None else None
            if sizes is None and default is not None:
                sizes = [default]
                reporter.info(f"note: batch size {default}, the default of {name} of {opts.model}")
        model = command_of(opts.model, option, opts.python)
        return replace(opts, model=model, steps=True, task=opts.task or "train", batch_sizes=sizes)
    if opts.batch_option is not None:
        raise InputError("--batch-option is for Python scripts without make(batch_size)", "write {batch} in a command")
    return opts


def command_of(script: str, option: str | None, python: str | None = None) -> str:
    """Return the command that runs a script, with an option for its batch size, as a reference."""
    words = [python or sys.executable, script, *(() if option is None else (option, "{batch}"))]
    return PREFIX + shlex.join(words)


def batch_option(path: Path) -> tuple[str, int | None] | None:
    """Return the option of a script for its batch size, as it declares it to argparse or click, and its default.

    The script is not executed. Of several candidates the one named most plainly counts.
    """
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Call) and _called(node.func) in _DECLARES:
            default = next((_whole(each.value) for each in node.keywords if each.arg == "default"), None)
            names = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            found += [(name, default) for name in names if _BATCH.fullmatch(name)]
    return min(found, key=lambda each: len(each[0]), default=None)


def _whole(value: ast.expr) -> int | None:
    """Return the number above zero that an expression writes."""
    number = value.value if isinstance(value, ast.Constant) else None
    return number if isinstance(number, int) and number > 0 else None


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
