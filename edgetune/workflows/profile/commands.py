"""Measures commands once, in the power mode that is: from the options of ``edgetune measure`` to a table.

An ordinary Python script that trains, measured as it is: a command that reports its steps.
"""

import ast
import math
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
from edgetune.artifacts.repeats import standing, together
from edgetune.devices.capabilities import Absent
from edgetune.devices.recorded import PREFIX as RECORDED
from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.profiler import Profiler
from edgetune.stages.profiling.sweep import SweepProgress, request_header
from edgetune.stats import summarise
from edgetune.workflows.device_option import open_named, warn_of_load
from edgetune.workflows.output import Target, choose_target
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import MeasureCommandOptions, MeasuringOptions, ProfileCommandOptions
from edgetune.workflows.profile.subject import check_command
from edgetune.workflows.reporting import STOPS, OnProgress, Reporter, SimulationLabel, reporting_saved
from edgetune.workloads.command import PREFIX
from edgetune.workloads.foreign_files import is_script, require_file
from edgetune.workloads.resolve import resolve

_TURNS = 5
"""Turns of each of several commands: what changes on a machine within seconds then changes for all of them."""


def measure_commands(
    opts: MeasureCommandOptions, reporter: Reporter, on_table: Callable[[Profile], None]
) -> tuple[Profile, Target | None]:
    """Measure every command and return its rows, one a turn, and where the table was written, if anywhere.

    Args:
        opts: The options.
        reporter: Shows the progress.
        on_table: Takes a table with each command in one row.

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
    rows: dict[str, list[ProfileRow]] = {workload.name: [] for workload in workloads}

    def keep() -> Profile:
        """Report every command and write the table of what is measured."""
        found = Profile(
            request_header(device, workloads[0], options), tuple(row for own in rows.values() for row in own)
        )
        if found.rows:
            on_table(replace(found, rows=tuple(in_one(own) for own in rows.values() if own)))
        if target is not None and found.rows:
            target.write(found)
        return found

    with reporting_saved(reporter, lambda: _kept(rows, target)):
        try:
            with ExitStack() as stack:
                on_progress = stack.enter_context(reporter.sweep(label))
                profilers = {
                    each.name: stack.enter_context(Profiler(device, each, "infer", options, reporter.points))
                    for each in workloads
                }
                turns = _turns(options) if len(workloads) > 1 else [options]
                error = _measure(profilers, turns, rows, on_progress)
        except STOPS:
            keep()
            raise
    if error is not None and not any(row.minibatch_s is not None for own in rows.values() for row in own):
        raise error
    return keep(), target


def _measure(
    profilers: Mapping[str, Profiler], turns: Sequence[ProfileOptions], rows: Mapping[str, list[ProfileRow]],
    on_progress: OnProgress,
) -> EdgetuneError | None:  # fmt: skip
    """Measure the commands in turns, which share what changes on the machine; return the error of the last failure."""
    error, total = None, len(turns) * len(profilers)
    for number, turn in enumerate(turns, 1):
        for place, (name, profiler) in enumerate(profilers.items()):
            on_progress(SweepProgress((number - 1) * len(profilers) + place, total, 0))
            if profiler.last_error is not None:
                continue
            attempt = profiler.attempts(Point(name, "infer", 1, Mode()), options=turn)[-1]
            if attempt.error is not None:
                rows[name].clear()  # a command that fails now and then has no time
                error = attempt.error
            rows[name].append(replace(attempt.row, round=number if len(turns) > 1 else None))
    return error


def _turns(options: ProfileOptions) -> list[ProfileOptions]:
    """Return the options of each turn: together they take as long as one measurement with ``options``."""
    if options.minibatches is not None:
        runs = [len(range(turn, options.minibatches, _TURNS)) for turn in range(_TURNS)]
        return [replace(options, minibatches=count) for count in runs if count]
    marked = options.steps or options.step_pattern is not None  # each start has its own warm-up
    turn = replace(
        options, target_ci=min(options.target_ci * math.sqrt(_TURNS), 0.9),
        least_minibatches=options.least_minibatches // (1 if marked else _TURNS),
        max_minibatches=options.max_minibatches // _TURNS, max_sampling_s=options.max_sampling_s / _TURNS,
    )  # fmt: skip
    return [turn] * _TURNS


def in_one(rows: Sequence[ProfileRow]) -> ProfileRow:
    """Return the turns of a command as one row, with all its steady runs."""
    used = standing(rows)
    row = together(used)
    if len(used) == 1:
        return row
    times_s = [time_s for each in used for time_s in (each.times_s or ())[each.warmups or 0 :]]
    runs = summarise(times_s, mean=row.is_mean)
    return replace(
        row, minibatch_s=runs.median, minibatch_p95_s=runs.p95, minibatch_ci95_low_s=runs.low,
        minibatch_ci95_high_s=runs.high, minibatches=runs.count, warmups=0, times_s=tuple(times_s),
    )  # fmt: skip


def _kept(rows: Mapping[str, Sequence[ProfileRow]], target: Target | None) -> str:
    """Return a sentence on the commands that had been measured when the measurement was stopped."""
    measured = sum(bool(own) for own in rows.values())
    if not measured:
        return "no command was measured, and nothing is kept"
    written = "" if target is None else f", and {target.file or 'standard output'} has them"
    return f"{measured} of {len(rows)} commands had been measured{written}"


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
