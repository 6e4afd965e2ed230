"""The guardian program: drop privileges, take the lock, serve requests, and report the outcome as an exit code.

The exit code is 0 when the device is as it was found, 6 when it is not, 4 when the guardian could not begin. An error
is two lines on standard error, like the errors of the command.

The guardian drops unneeded capabilities before it reads any input. Root without capabilities still owns the files of
sysfs and debugfs and the journal, which suffices for a board or a host. NVIDIA's driver requires
CAP_SYS_ADMIN. Source: capabilities(7); NV_IS_SUSER in open-gpu-kernel-modules.
"""

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.journal import STATES, Journals
from edgetune.devices.guardian.lock import hold_journal, share
from edgetune.devices.guardian.protocol import SILENCE_S, LineChannel, StopSignals
from edgetune.devices.guardian.server import Session, recover, serve
from edgetune.errors import DeviceError, EdgetuneError, ExitCode
from edgetune.visible import one_line

PATIENCE_S = 10.0
"""How long to wait for the guardian of a killed run, s: restoring some 50 settings takes about 1 s (estimate)."""

OpenControl = Callable[[str, Path], BoardControl]
"""Opens a device's control, by device name and root of the file system."""


def run(
    device: str,
    open_control: OpenControl,
    root: Path,
    *,
    only_restore: bool = False,
    requests: int = 0,
    replies: int = 1,
) -> int:
    """Guard a device until the requests end, and return the exit code.

    Args:
        device: Device name.
        open_control: Opens the device's control.
        root: Root of the file system.
        only_restore: Restore what an earlier run or ``keep`` left behind, print that, and end.
        requests: Descriptor of the requests.
        replies: Descriptor of the replies.
    """
    with StopSignals() as stop:
        lines = LineChannel(requests, replies, stop, SILENCE_S)
        said: list[str] = []
        code: int = ExitCode.DONE
        try:
            said = [
                f"note: {note}" for note in _guard(device, open_control, root, stop, None if only_restore else lines)
            ]
        except EdgetuneError as error:
            said, code = _complaint(error.message, error.hint), error.exit_code
        except Exception as error:
            hint = "edgetune device restore puts back what may be left; please report this"
            said = _complaint(f"unexpected in the guardian: {type(error).__name__}: {error}", hint)
            code = ExitCode.UNEXPECTED
        _say(said)
    return code


def _guard(
    device: str, open_control: OpenControl, root: Path, stop: StopSignals, lines: LineChannel | None
) -> list[str]:
    """Guard a device and return the notes for the end, one sentence each."""
    control = open_control(device, root)
    journals = Journals(control.name, root)
    journals.prepare()
    with suppress(OSError):  # advisory lock of measuring processes: a guardian works without it
        share(control.name, root)
    with hold_journal(journals.lock, PATIENCE_S, lambda: stop.received) as held:
        if not held:
            return []
        if lines is None:
            sentences = [each for state in STATES for each in recover(control, journals, state)]
            print(json.dumps({"recovered": sentences}))  # noqa: T201 -- escapes all that is not ASCII
            return []
        session = Session(control, journals, stop)
        serve(session, lines)
        if lines.silent:
            raise DeviceError(
                f"{control.name} was put back: nothing was heard of the command that set its mode for {SILENCE_S:g} s",
                "run the command again: it was stopped, or could not go on",
            )
        return session.notes


def complain(message: str, hint: str, code: int) -> int:
    """Write an error as two lines to standard error, and return its exit code."""
    _say(_complaint(message, hint))
    return code


def _complaint(message: str, hint: str) -> list[str]:
    return [f"error: {message}", f"hint: {hint}"]


def _say(lines: list[str]) -> None:
    """Write lines to standard error if it is open; the exit code reports the outcome in any case."""
    with suppress(OSError):
        for line in lines:
            print(one_line(line), file=sys.stderr, flush=True)  # noqa: T201


CAP_SYS_ADMIN = 21
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Word(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def confine(keep: Collection[int] = ()) -> None:
    """Start a new session, and drop descriptors, environment, working folder, core dumps and capabilities.

    Steps that the kernel does not support are skipped, so that a guardian can restore a board anywhere.

    Args:
        keep: Numbers of the capabilities to keep.
    """
    hold_standard_streams()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(PATH=SYSTEM_PATH, LANG="C.UTF-8")
    os.chdir("/")
    os.umask(0o077)
    with suppress(OSError):  # already a group leader: terminal signals do not reach that group
        os.setsid()
    shun_oom_killer()
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, AttributeError):
        _give_up_capabilities(keep)


def hold_standard_streams() -> None:
    """Open ``/dev/null`` for closed standard streams, so that the journal never gets the number of one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def shun_oom_killer() -> None:
    """Exempt this process from the out-of-memory killer, because a network may use all memory.

    Source: proc(5), ``oom_score_adj``: -1000 exempts a process; only root may set it.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-1000")


def _give_up_capabilities(keep: Collection[int]) -> None:
    """Drop all capabilities except ``keep``, also for child programs, including setuid programs.

    Raises:
        OSError: the kernel refuses.
        AttributeError: this system has no capabilities.
    """
    library = ctypes.CDLL(None, use_errno=True)
    words = (_Word * 2)()
    for number in keep:
        bit = 1 << number % 32
        words[number // 32].effective |= bit
        words[number // 32].permitted |= bit
    refused = library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if library.capset(ctypes.byref(_Header(_CAPABILITY_VERSION_3, 0)), words) or refused:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
