"""``python -I -m edgetune.devices.guardian DEVICE [--restore] [--root DIR]``: the one program that is run as root.

``-I`` keeps what the caller's environment and folder hold out of it. It imports nothing heavy, so that it is there at
once and stays small beside the network that is measured.
"""

from __future__ import annotations

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
    """Guard the device that is named, and return the exit code.

    Args:
        arguments: The words of the command line.
        through_sudo: Whether sudo started it for another user.
    """
    parser = _Parser(prog="edgetune.devices.guardian", add_help=False)
    parser.add_argument("device")
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--root", type=Path, default=Path("/"))
    try:
        asked = parser.parse_args(arguments)
        if through_sudo and asked.root != Path("/"):
            raise InputError("--root cannot be had through sudo", "it is for trees that are not the system's")
        return run(asked.device, open_control, asked.root.resolve(), only_restore=asked.restore)
    except EdgetuneError as error:
        return complain(error.message, error.hint, error.exit_code)


def program() -> NoReturn:
    """Be the program: isolated, or not at all, and with no more rights than the device asks for."""
    if not sys.flags.isolated:
        hint = "start it with `python -I -m edgetune.devices.guardian`, or by the script edgetune-guardian"
        sys.exit(complain("the guardian was started with the caller's environment and modules", hint, ExitCode.USAGE))
    arguments, through_sudo = sys.argv[1:], "SUDO_UID" in os.environ
    confine({CAP_SYS_ADMIN} if any(argument.startswith("nvidia") for argument in arguments) else ())
    sys.exit(main(arguments, through_sudo=through_sudo))


if __name__ == "__main__":
    program()
