"""How this program starts Python again: without modules of the working folder, where another user may write.

``python -m`` and ``python -c`` put the working folder first on the module path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_WITHOUT_FIRST = "import sys; del sys.path[0], sys.argv[1]; import runpy; "
_LAUNCHER = _WITHOUT_FIRST + "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module of edgetune as a program."""
    safely = ["-P"] if sys.version_info >= (3, 11) else ["-c", _LAUNCHER]
    return [sys.executable, *safely, "-m", module, *arguments]


def forget_working_folder() -> None:
    """Remove the working folder from the module path of this process, where ``python -m edgetune`` puts it first."""
    with suppress(OSError):
        if sys.path[0] in ("", os.getcwd()):
            del sys.path[0]


@contextmanager
def in_root_folder() -> Iterator[None]:
    """Work in ``/`` for a moment, for a library that reads or starts something in the working folder."""
    try:
        before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # it is gone, or may not be read: nothing is found in it
        yield
        return
    try:
        os.chdir("/")
        yield
    finally:
        os.fchdir(before)
        os.close(before)
