"""The guardian as a program: its lock, its journal, its signals, and how it ends.

It ends with 0 when the device is as it was found, 6 when it is not, 4 when it could not begin; what went wrong is two
lines on standard error, as the command's own errors are.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.journal import STATES, Journals
from edgetune.devices.guardian.lines import LineChannel
from edgetune.devices.guardian.lock import hold_journal, share
from edgetune.devices.guardian.protocol import ENDED
from edgetune.devices.guardian.server import Session, recover, serve
from edgetune.devices.guardian.stop import StopSignals
from edgetune.errors import EdgetuneError, ExitCode
from edgetune.visible import one_line

PATIENCE_S = 10.0
"""How long a guardian waits for that of a killed run, which has some 50 settings to put back: 1 s or so (estimate)."""

OpenControl = Callable[[str, Path], BoardControl]
"""Opens what sets a device's knobs, by the device's name and the root of the file system."""


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
        device: Its name.
        open_control: Opens what sets it.
        root: Where the file system starts.
        only_restore: Put back what an earlier run or ``keep`` left behind, print that, and end.
        requests: Descriptor to read from.
        replies: Descriptor to write to.
    """
    with StopSignals() as stop:
        lines = LineChannel(requests, replies, stop)
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
        _tell_end(replies, code, said)
    return code


def _tell_end(replies: int, code: int, said: list[str]) -> None:
    """Where the replies go to a socket, which hands on neither standard error nor an exit code, tell both there."""
    with suppress(OSError):
        if stat.S_ISSOCK(os.fstat(replies).st_mode):
            os.set_blocking(replies, False)  # nobody who does not read keeps it from ending
            os.write(replies, json.dumps({ENDED: code, "said": said}).encode() + b"\n")


def _guard(
    device: str, open_control: OpenControl, root: Path, stop: StopSignals, lines: LineChannel | None
) -> list[str]:
    """Guard a device and return what there is to note at the end, a sentence each."""
    control = open_control(device, root)
    journals = Journals(control.name, root)
    journals.prepare()
    with suppress(OSError):  # it is advice for whoever measures: a guardian works without it
        share(control.name, root)
    with hold_journal(journals.lock, PATIENCE_S, lambda: stop.received) as held:
        if not held:
            return []
        if lines is None:
            told = [told for state in STATES for told in recover(control, journals, state)]
            print(json.dumps({"recovered": told}))  # noqa: T201 -- escapes all that is not ASCII
            return []
        session = Session(control, journals, stop)
        serve(session, lines)
        return session.notes


def complain(message: str, hint: str, code: int) -> int:
    """Write an error as two lines to standard error, and return its exit code."""
    _say(_complaint(message, hint))
    return code


def _complaint(message: str, hint: str) -> list[str]:
    return [f"error: {message}", f"hint: {hint}"]


def _say(lines: list[str]) -> None:
    """Write lines to standard error; where nobody can read them, the exit code still tells."""
    with suppress(OSError):
        for line in lines:
            print(one_line(line), file=sys.stderr, flush=True)  # noqa: T201
