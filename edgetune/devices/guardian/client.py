"""Modes set by a guardian: the side of the measuring process, which has no privilege."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.control import BoardControl
from edgetune.devices.device import ModeSpace
from edgetune.devices.guardian.conversation import GuardianEnded, GuardianProcess
from edgetune.devices.guardian.protocol import space_from_plain
from edgetune.errors import DeviceError, ExitCode, NotRestoredError
from edgetune.processes.privilege import RootCommand, holds_root

_PATIENCE_S = 60.0
"""How long setting a mode may take: 10 s of waiting for another guardian, cores that come and go, and a slow disk."""

_SYSTEM = Path("/")

LAUNCHER = Path("/opt/edgetune/bin/edgetune-guardian")
"""The guardian of an installation that only root can change, where there is one; the one program that a line of sudoers
may allow. It is a script, which sudo starts by the path in that line. A line for a Python would allow much more: sudo
takes any link to the same file for it and hands on the name as typed, by which Python finds the user's own modules."""


SOCKETS = Path("/run/edgetune")
"""Where systemd listens for members of a group, each of whom then speaks to a guardian of their own; see ``units``."""


def guardian_socket(device: str) -> Path | None:
    """Return the socket of a device's guardian, where there is one that this user may use."""
    path = SOCKETS / f"guardian-{device.replace(':', '-')}.sock"
    return path if path.is_socket() and os.access(path, os.R_OK | os.W_OK) else None


def guardian_command(device: str, root: Path = _SYSTEM) -> list[str]:
    """Return the command line of a device's guardian: as root, through ``sudo`` unless this process holds root already.

    Without root it is the device's socket where this user may use that, else ``sudo`` with ``LAUNCHER`` where that is
    installed, else with the guardian of this installation.

    Args:
        device: As the user names it.
        root: Where the file system starts; a tree that is not the system's needs no privilege.
    """
    command = [sys.executable, "-I", "-m", "edgetune.devices.guardian", device]
    if root != _SYSTEM:
        return [*command, "--root", str(root.resolve())]
    if holds_root():
        return RootCommand(command)
    if path := guardian_socket(device):
        return [sys.executable, "-I", "-m", "edgetune.devices.guardian.relay", str(path)]
    return ["sudo", "-n", *([str(LAUNCHER), device] if os.path.exists(LAUNCHER) else command)]


class GuardianModes:
    """Sets modes through a guardian, which is started when the first one is set and ends when they are put back.

    Args:
        command: The guardian's command line, see ``guardian_command``.
        control: Of the same device, without privilege: tells what it offers and how it is set. Without it, the guardian
            is started to tell.
        space: What the guardian offers, where that is known already and ``control`` may not look.
        patience_s: How long the guardian may take to answer.
    """

    def __init__(
        self,
        command: Sequence[str],
        control: BoardControl | None = None,
        *,
        space: ModeSpace | None = None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self.command = command
        self._control = control
        self._patience_s = patience_s
        self._guardian: GuardianProcess | None = None
        self._changed = False
        self._space = control.space if space is None and control is not None else space
        self.recovered: tuple[str, ...] = ()
        """What the guardian put back of an earlier run, or could not put back as found of this one; a sentence each."""

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set."""
        if self._space is None:
            self._start()
        assert self._space is not None
        return self._space

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode`` and return it as read back; to leave everything as found needs no guardian.

        Raises:
            DeviceError: there is no privilege, the mode is not on offer, or the device reads back otherwise.
            NotRestoredError: the guardian ended, and the board may not be as it was found.
        """
        if self._guardian is None and not mode.knobs():
            return self.read()
        guardian = self._start()
        self._changed = True
        return Mode.of(self._ask(guardian, "apply", mode=mode.knobs()))

    def read(self) -> Mode:
        """Return the knobs as they are now."""
        if self._guardian is None and self._control is not None:
            return self._control.read()
        return Mode.of(self._ask(self._start(), "read"))

    def keep(self) -> None:
        """Leave the present mode in place when the guardian ends; ``restore_through_guardian`` undoes it.

        Raises:
            DeviceError: it could not be noted what is to be put back: nothing is kept.
        """
        self._ask(self._start(), "keep")
        self._changed = False
        self.restore()

    def restore(self) -> None:
        """Put everything back and let the guardian end; harmless when repeated.

        Raises:
            NotRestoredError: something is not as it was found.
            DeviceError: everything is, but the guardian ended badly.
        """
        if self._guardian is None:
            return
        guardian, changed = self._guardian, self._changed
        code = guardian.end()
        self._guardian, self._changed = None, False
        self.recovered += guardian.notes
        if code == ExitCode.DONE:
            return
        if code != ExitCode.NOT_RESTORED and changed:  # it was killed: the next one restores from its journal
            self._restore_anew(guardian, code)
        elif code == ExitCode.NOT_RESTORED:
            raise guardian.explain(code)

    def _restore_anew(self, dead: GuardianProcess, code: int) -> None:
        """Start another guardian, whose first act is to put back what the journal of the dead one says."""
        try:
            self.recovered += _visit(self.command, "hello", patience_s=self._patience_s)
        except NotRestoredError:
            raise
        except DeviceError as error:
            raise NotRestoredError(
                f"{dead.explain(code).message}, and the board could not be put back: {error.message}",
                "run `edgetune device restore`; a restart of the machine undoes every setting too",
            ) from None

    def _start(self) -> GuardianProcess:
        """Return the guardian, started if need be."""
        if self._guardian is None:
            guardian = GuardianProcess(self.command, self._patience_s)
            self._guardian = guardian
            try:
                facts = guardian.hello()
            except GuardianEnded as end:
                self._guardian = None
                raise end.error from None
            self.recovered += tuple(facts["recovered"])
            if self._space is None:
                self._space = space_from_plain(facts["space"])
        return self._guardian

    def _ask(self, guardian: GuardianProcess, request: str, **arguments: object) -> dict[str, float]:
        """Return the mode in the guardian's reply, empty when the request has none."""
        try:
            return dict(guardian.ask(request, **arguments).get("mode", {}))
        except GuardianEnded as end:
            self.restore()
            raise end.error from None


def open_guardian_modes(command: Sequence[str], control: BoardControl, *, ask: bool) -> GuardianModes:
    """Return the modes as the guardian offers them; without privilege, as this process sees them: none to be set.

    Args:
        command: The guardian's command line, see ``guardian_command``.
        control: Of the same device, without privilege.
        ask: Whether the guardian must be asked what can be set, because this process may not look.
    """
    if not ask or shutil.which(command[0]) is None:
        return GuardianModes(command, control)
    privileged = GuardianModes(command)
    try:
        space = privileged.space
        privileged.restore()
    except DeviceError:
        return GuardianModes(command, control)
    modes = GuardianModes(command, control, space=space)
    modes.recovered = privileged.recovered
    return modes


def restore_through_guardian(command: Sequence[str], *, forget: bool = False) -> tuple[str, ...]:
    """Put back what a killed run or ``keep`` left behind, and return what was done, a sentence each; none if nothing.

    Args:
        command: The guardian's command line, see ``guardian_command``.
        forget: Give up what cannot be put back, and what a damaged journal hides; the sentences tell it.

    Raises:
        NotRestoredError: something is not as it was found, or its journal is damaged.
        DeviceError: there is no privilege, or the device is not here.
    """
    return _visit(command, "forget") if forget else _visit(command, "hello", "undo")


def left_behind(command: Sequence[str]) -> tuple[str, ...]:
    """Return what ``restore_through_guardian`` would do, a sentence each; nothing is changed.

    Raises:
        DeviceError: there is no privilege, or the device is not here.
    """
    return _visit(command, "left")


def _visit(command: Sequence[str], *requests: str, patience_s: float = _PATIENCE_S) -> tuple[str, ...]:
    """Start a guardian, ask it the requests, and return the sentences of its replies."""
    guardian = GuardianProcess(command, patience_s)
    told: list[str] = []
    try:
        for request in requests:
            told += (guardian.hello() if request == "hello" else guardian.ask(request))["recovered"]
    except GuardianEnded as end:
        raise end.error from None
    finally:
        code = guardian.end()
    if code != ExitCode.DONE:
        raise guardian.explain(code)
    return tuple(told)
