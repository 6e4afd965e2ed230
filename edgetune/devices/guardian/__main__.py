"""``python -I -m edgetune.devices.guardian DEVICE [--restore] [--root DIR]``: the one program that is run as root.

``-I`` keeps what the caller's environment and folder hold out of it. It imports nothing heavy, so that it is there at
once and stays small beside the network that is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from edgetune.devices.guardian.controls import open_control
from edgetune.devices.guardian.program import complain, run
from edgetune.errors import EdgetuneError, InputError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, "usage: python -I -m edgetune.devices.guardian DEVICE [--restore] [--root DIR]")


def main(arguments: list[str]) -> int:
    """Guard the device that is named, and return the exit code."""
    parser = _Parser(prog="edgetune.devices.guardian", add_help=False)
    parser.add_argument("device")
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--root", type=Path, default=Path("/"))
    try:
        asked = parser.parse_args(arguments)
        if "SUDO_UID" in os.environ and asked.root != Path("/"):
            raise InputError("--root cannot be had through sudo", "it is for trees that are not the system's")
        return run(asked.device, open_control, asked.root.resolve(), only_restore=asked.restore)
    except EdgetuneError as error:
        return complain(error.message, error.hint, error.exit_code)


def hold_standard_streams() -> None:
    """Put ``/dev/null`` where a standard stream is closed, lest the journal be opened in its place and written into."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def shun_oom_killer() -> None:
    """Ask the kernel to end any other process first when memory runs out: networks take all of it, this one puts back.

    Source: proc(5), ``oom_score_adj``: -1000 takes a process out of the choice; only root may ask for that.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-1000")


def program() -> NoReturn:
    """Be the program; also of the script ``edgetune-guardian``, where sudo keeps the environment out."""
    hold_standard_streams()
    shun_oom_killer()
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    program()
