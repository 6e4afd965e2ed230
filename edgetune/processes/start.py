"""How this program starts Python again: without modules of the working folder, where another user may write.

``python -m`` and ``python -c`` put the working folder first on the module path.

CPU affinity of a process.
"""

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

from edgetune.errors import InputError

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


def pin(cpus: Collection[int], process: int | None = None) -> None:
    """Bind every thread of a process, by default this one, to ``cpus``; new threads inherit the affinity.

    Raises:
        InputError: the kernel refuses the CPUs.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    for task in os.listdir(f"/proc/{process or 'self'}/task"):
        try:
            os.sched_setaffinity(int(task), cpus)
        except ProcessLookupError:  # the thread has just ended
            continue
        except OSError as error:
            raise InputError(f"cannot run on CPUs {sorted(cpus)}: {error}", "ask for fewer cpu_cores") from None
