"""An ordinary Python script that trains, measured as it is: a command that reports its steps."""

import ast
import re
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.devices.recorded import PREFIX as RECORDED
from edgetune.errors import InputError
from edgetune.workflows.profile.options import ProfileCommandOptions
from edgetune.workflows.reporting import Reporter
from edgetune.workloads.command import PREFIX
from edgetune.workloads.foreign_files import is_script
from edgetune.workloads.model_file import require_file

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
            option = found.option if sizes is not None or found.default is not None else None
            if sizes is None and found.default is not None:
                sizes = [found.default]
                reporter.info(f"note: batch size {found.default}, the default of {found.option} of {opts.model}")
        model = command_of(opts.model, option, opts.python)
        return replace(opts, model=model, steps=True, task=opts.task or "train", batch_sizes=sizes)
    if opts.batch_option is not None:
        raise InputError("--batch-option is for Python scripts without make(batch_size)", "write {batch} in a command")
    return opts


def command_of(script: str, option: str | None, python: str | None = None) -> str:
    """Return the command that runs a script, with an option for its batch size, as a reference."""
    words = [python or sys.executable, script, *(() if option is None else (option, "{batch}"))]
    return PREFIX + shlex.join(words)


@dataclass(frozen=True, slots=True)
class BatchOption:
    """The option by which a script takes its batch size; its default, if that is written as a number."""

    option: str
    default: int | None


def batch_option(path: Path) -> BatchOption | None:
    """Return the option of a script for its batch size, as it declares it to argparse or click.

    The script is not executed. Of several candidates the one named most plainly counts.
    """
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Call) and _called(node.func) in _DECLARES:
            default = next((_whole(each.value) for each in node.keywords if each.arg == "default"), None)
            names = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
            found += [BatchOption(name, default) for name in names if _BATCH.fullmatch(name)]
    return min(found, key=lambda each: len(each.option), default=None)


def _whole(value: ast.expr) -> int | None:
    """Return the number above zero that an expression writes."""
    number = value.value if isinstance(value, ast.Constant) else None
    return number if isinstance(number, int) and number > 0 else None


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
