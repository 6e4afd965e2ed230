"""The guardian's work: note what was found, set modes, and put everything back whatever ends the work.

requests --> apply: snapshot --> journal (synced) --> first write ... --> restore, verified --> journal removed
                                      |                                        ^
                                      +--- killed, power lost --- next start --+
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from edgetune.artifacts.mode import Mode
from edgetune.devices.control import BoardControl, Snapshot
from edgetune.devices.guardian.journal import Entry, Journals, State
from edgetune.devices.guardian.lines import Lines
from edgetune.devices.guardian.protocol import (
    PROTOCOL,
    Apply,
    check_mode,
    failure,
    parse_request,
    space_to_plain,
    success,
)
from edgetune.devices.guardian.stop import Stopped, StopSignals
from edgetune.errors import EdgetuneError, NotRestoredError


@runtime_checkable
class Learning(Protocol):
    """A control that may find more to put back while it sets a mode: limits that a cluster shows only once it runs."""

    learnt: Callable[[Snapshot], None]
    """To be called with the snapshot, grown by them, before it changes them."""


@runtime_checkable
class Configured(Protocol):
    """A control of a device whose settings, each time it starts, follow a configuration that somebody may change."""

    def configuration(self) -> str:
        """Return which configuration that is, in the device's own words; empty when nothing tells."""
        ...


class Session:
    """One guardian's hold on a device: what was found on it, once something was changed.

    Args:
        control: Sets and puts back.
        journals: Where what was found is kept.
        stop: Signals, which may interrupt the setting of a mode and nothing else.
    """

    def __init__(self, control: BoardControl, journals: Journals, stop: StopSignals) -> None:
        self._control = control
        self._journals = journals
        self._stop = stop
        self._found: Snapshot | None = None
        self.device, self.space = control.name, control.space
        if isinstance(control, Learning):
            control.learnt = self._note

    def _note(self, found: Snapshot) -> None:
        self._journals.begin(found)
        self._found = found

    def apply(self, mode: Mode) -> Mode:
        """Set a mode; the first one notes what was found, on the disk, before anything is written.

        Raises:
            DeviceError: see ``BoardControl.apply``, or the journal cannot be written.
        """
        if self._found is None:
            self._note(self._control.snapshot())
        assert self._found is not None
        with self._stop.interruptible():
            return self._control.apply(mode, self._found)

    def read(self) -> Mode:
        """Return the knobs as they are now."""
        return self._control.read()

    def restore(self) -> None:
        """Put back what was found, and forget it once that is verified; harmless when repeated.

        Raises:
            NotRestoredError: something is not as it was; the journal stays.
        """
        if self._found is not None:
            put_back(self._control, self._found)
            self._journals.end()
            self._found = None

    def keep(self) -> None:
        """Leave the mode in place until ``undo``."""
        if self._found is not None:
            self._journals.keep(self._found)
            self._found = None

    def undo(self) -> list[str]:
        """Put back what was found before ``keep``, and return what was done, one sentence or none.

        Raises:
            NotRestoredError: something is not as it was, or the journal is damaged; it stays.
        """
        self.restore()
        return recover(self._control, self._journals, "kept")


def serve(session: Session, lines: Lines, recovered: list[str]) -> None:
    """Answer requests until the input ends, nobody reads the replies or a signal comes; then put everything back.

    Args:
        session: What carries them out.
        lines: Where they come from and replies go to.
        recovered: What was put back before, to be told.

    Raises:
        NotRestoredError: the device is not as it was found.
        Exception: whatever went wrong inside, after everything was put back.
    """
    try:
        with suppress(Stopped, BrokenPipeError):
            _answer_all(session, lines, recovered)
    finally:
        session.restore()


def _answer_all(session: Session, lines: Lines, recovered: list[str]) -> None:
    while True:
        number: int | None = None
        try:
            line = lines.read()
            if line is None:
                return
            request = parse_request(line)
            number = request.id
            if isinstance(request, Apply):
                mode = check_mode(request.mode, session.space, session.device)
                reply = success(number, mode=session.apply(mode).knobs())
            else:
                reply = success(number, **_carry_out(request.request, session, recovered))
        except EdgetuneError as error:
            reply = failure(number, error)
        lines.write(reply)


def _carry_out(request: str, session: Session, recovered: list[str]) -> dict[str, Any]:
    """Carry out a request without arguments and return what its reply tells."""
    if request == "hello":
        space = space_to_plain(session.space)
        return {"protocol": PROTOCOL, "device": session.device, "space": space, "recovered": recovered}
    if request == "read":
        return {"mode": session.read().knobs()}
    if request == "undo":
        return {"recovered": session.undo()}
    if request == "restore":
        session.restore()
    else:
        session.keep()
    return {}


def put_back(control: BoardControl, found: Snapshot) -> None:
    """Put every setting back.

    Raises:
        NotRestoredError: something is not as it was, one sentence each.
    """
    try:
        wrong = control.restore(found)
    except Exception as error:  # a defect in the control must not pass for a board that is as it was found
        wrong = [f"putting it back failed: {type(error).__name__}: {error}"]
    if wrong:
        raise NotRestoredError(
            f"{control.name} is not as it was found: {'; '.join(wrong)}",
            f"run `edgetune device restore {control.name}`; a restart of the machine undoes every setting too",
        )


def recover(control: BoardControl, journals: Journals, state: State = "run") -> list[str]:
    """Put back what a journal of an earlier guardian says, and return what was done, one sentence or none.

    Where the machine has started anew since, which undoes every setting, and the device is configured otherwise now,
    nothing is put back: the old limits may be above what the new configuration allows.

    Raises:
        NotRestoredError: the journal is damaged, or something could not be put back; the journal stays.
    """
    entry = journals.read(state)
    if entry is None:
        return []
    restarted, now = journals.restarted_since(entry), journals.configuration()
    outdated = restarted and bool(entry.configuration and now) and entry.configuration != now
    if not outdated:
        put_back(control, entry.snapshot)
    journals.end(state)
    done = f"{entry.device} was put back as it was found"
    if outdated:
        done = f"nothing of {entry.device} was put back, for it had {entry.configuration} then and has {now} now"
    return [f"{_told(entry)}{'; the machine has been restarted since' if restarted else ''}: {done}"]


def _told(entry: Entry) -> str:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.started_s))
    what = f"an earlier run, process {entry.pid} of {began}, was killed"
    if entry.state == "kept":
        what = f"a mode was left in place on {began}"
    return what
