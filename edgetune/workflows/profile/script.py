"""An ordinary Python script that trains, measured as it is: a command that reports its steps."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

from edgetune.devices.recorded import PREFIX as RECORDED
from edgetune.errors import InputError
from edgetune.workflows.profile.options import ProfileCommandOptions
from edgetune.workloads.command import PREFIX
from edgetune.workloads.foreign_files import is_script
from edgetune.workloads.model_file import require_file


def as_command(opts: ProfileCommandOptions) -> ProfileCommandOptions:
    """Return the options with a Python script that defines no ``make`` as a command; others unchanged.

    A recorded device and an operator table take the name of a network, and no file.

    Raises:
        InputError: the file is missing, or ``--batch-option`` is given for something else.
    """
    named = opts.ops is not None or opts.device.startswith(RECORDED) or opts.model.startswith(PREFIX)
    if Path(opts.model).suffix == ".py" and not named and is_script(require_file(opts.model)):
        words = [opts.python or sys.executable, opts.model]
        if opts.batch_option is not None:
            words += [opts.batch_option, "{batch}"]
        return replace(opts, model=PREFIX + shlex.join(words), steps=True, task=opts.task or "train")
    if opts.batch_option is not None:
        raise InputError("--batch-option is for Python scripts without make(batch_size)", "write {batch} in a command")
    return opts
