"""``python -I -m edgetune.devices.guardian DEVICE [--restore] [--root DIR]``: the only program that runs as root.

``-I`` isolates it from modules and variables of the caller's environment and folder. It imports nothing heavy, so that
it starts quickly and stays small beside the measured network.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from edgetune.devices.guardian.controls import open_control
from edgetune.devices.guardian.program import CAP_SYS_ADMIN, complain, confine, run
from edgetune.errors import EdgetuneError, ExitCode, InputError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, "usage: python -I -m edgetune.devices.guardian DEVICE [--restore] [--root DIR]")


def main(arguments: list[str], *, through_sudo: bool = False) -> int:
    """Guard the device of the command line, and return the exit code.

    Args:
        arguments: The command line without the program name.
        through_sudo: Whether sudo started it for another user.
    """
    parser = _Parser(prog="edgetune.devices.guardian", add_help=False)
    parser.add_argument("device")
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--root", type=Path, default=Path("/"))
    try:
        asked = parser.parse_args(arguments)
        if through_sudo and asked.root != Path("/"):
            hint = "use it without sudo, for a fake or copied file system"
            raise InputError("--root is not allowed through sudo", hint)
        return run(asked.device, open_control, asked.root.resolve(), only_restore=asked.restore)
    except EdgetuneError as error:
        return complain(error.message, error.hint, error.exit_code)


def program() -> NoReturn:
    """Run the program, only in isolated mode and with no more capabilities than the device needs."""
    if not sys.flags.isolated:
        hint = "start it with `python -I -m edgetune.devices.guardian`, or by the script edgetune-guardian"
        sys.exit(complain("the guardian was started with the caller's environment and modules", hint, ExitCode.USAGE))
    arguments, through_sudo = sys.argv[1:], "SUDO_UID" in os.environ
    confine({CAP_SYS_ADMIN} if any(argument.startswith("nvidia") for argument in arguments) else ())
    sys.exit(main(arguments, through_sudo=through_sudo))


if __name__ == "__main__":
    program()
