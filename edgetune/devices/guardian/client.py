"""Set modes through a guardian from the unprivileged measuring process."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.conversation import GuardianProcess, RootCommand
from edgetune.devices.guardian.protocol import space_from_plain
from edgetune.errors import DeviceError, EdgetuneError, ExitCode, NotRestoredError
from edgetune.processes.privilege import has_helper

_PATIENCE_S = 60.0
"""How long setting a mode may take, s: 10 s wait for another guardian, switching of cores, and a slow disk."""

_SYSTEM = Path("/")

LAUNCHER = Path("/opt/edgetune/bin/edgetune-guardian")
"""Script of an optional installation that only root can change; the only program that a line of sudoers may allow. sudo
starts a script by the path in that line. A line for a Python would allow much more: sudo accepts any link to the same
file and passes on the typed name, by which Python finds the user's own modules."""


def guardian_command(device: str, root: Path = _SYSTEM) -> list[str]:
    """Return the command line that starts a device's guardian as root.

    A process without root uses ``sudo`` with ``LAUNCHER`` if installed, else with the guardian of this installation.

    Args:
        device: Device name.
        root: Root of the file system; a tree other than ``/`` needs no privilege.
    """
    command = [sys.executable, "-I", "-m", "edgetune.devices.guardian", device]
    if root != _SYSTEM:
        return [*command, "--root", str(root.resolve())]
    if os.geteuid() == 0:
        return command
    if has_helper():
        return RootCommand(command)
    return ["sudo", "-n", *([str(LAUNCHER), device] if os.path.exists(LAUNCHER) else command)]


class GuardianModes:
    """Sets modes through a guardian, which starts with the first mode and ends with the restore.

    Args:
        command: The guardian's command line, see ``guardian_command``.
        control: Unprivileged control of the same device, which reads its space and mode. Without it the guardian does.
        space: The guardian's space, where it is known already and ``control`` may not read it.
        patience_s: How long the guardian may take to answer, s.
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
        self.fan_to_maximum = False
        self.recovered: tuple[str, ...] = ()
        """Sentences: what the guardian restored of an earlier run, and restored of this run other than as found."""

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set."""
        if self._space is None:
            self._start()
        assert self._space is not None
        return self._space

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode`` and return the mode read back; a mode without knobs starts no guardian.

        Raises:
            DeviceError: no privilege, a mode not on offer, or a different mode read back.
            NotRestoredError: the guardian ended, and the board may not be as it was found.
        """
        if self._guardian is None and not mode.knobs() and not self.fan_to_maximum:
            return self.read()
        guardian, fan = self._start(), {"fan": True} if self.fan_to_maximum else {}
        self._changed = True
        return Mode.of(self._ask(guardian, "apply", mode=mode.knobs(), **fan))

    def read(self) -> Mode:
        """Return the present knobs."""
        if self._guardian is None and self._control is not None:
            return self._control.read()
        return Mode.of(self._ask(self._start(), "read"))

    def keep(self) -> None:
        """Leave the present mode in place when the guardian ends; ``restore_through_guardian`` undoes it.

        Raises:
            DeviceError: the journal could not be written; the mode is not kept.
        """
        self._ask(self._start(), "keep")
        self._changed = False
        self.restore()

    def restore(self) -> None:
        """Restore every setting and end the guardian; idempotent.

        Raises:
            NotRestoredError: a setting is not as it was found.
            DeviceError: the guardian could not be reached or ended with an error.
        """
        if self._guardian is None:
            return
        guardian, changed = self._guardian, self._changed
        code = guardian.end()
        self._guardian, self._changed = None, False
        self.recovered += guardian.notes
        if code == ExitCode.DONE:
            return
        if code != ExitCode.NOT_RESTORED and changed:  # killed: the next guardian restores from its journal
            self._restore_anew(guardian, code)
        elif code == ExitCode.NOT_RESTORED:
            raise guardian.explain(code)

    def _restore_anew(self, dead: GuardianProcess, code: int) -> None:
        """Start another guardian, which first restores from the journal of the dead one."""
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
        """Return the guardian; start it if it does not run."""
        if self._guardian is None:
            guardian = GuardianProcess(self.command, self._patience_s)
            self._guardian = guardian
            try:
                facts = guardian.hello()
            except EdgetuneError:
                if guardian.ended:
                    self._guardian = None
                raise
            self.recovered += tuple(facts["recovered"])
            if self._space is None:
                self._space = space_from_plain(facts["space"])
        return self._guardian

    def _ask(self, guardian: GuardianProcess, request: str, **arguments: object) -> dict[str, float]:
        """Send a request and return the mode in the reply, empty where the reply has none."""
        try:
            return dict(guardian.ask(request, **arguments).get("mode", {}))
        except EdgetuneError:
            if guardian.ended:
                self.restore()
            raise


def open_guardian_modes(command: Sequence[str], control: BoardControl, *, ask: bool) -> GuardianModes:
    """Return the guardian's modes; without privilege, those that this process can read, none of them settable.

    Args:
        command: The guardian's command line, see ``guardian_command``.
        control: Unprivileged control of the same device.
        ask: Whether to ask the guardian for the settable modes, because this process may not read them.
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
    """Restore what a killed run or ``keep`` left behind, and return one sentence per journal.

    Args:
        command: The guardian's command line, see ``guardian_command``.
        forget: Give up settings that cannot be restored, and damaged journals; the sentences report them.

    Raises:
        NotRestoredError: a setting is not as it was found, or a journal is damaged.
        DeviceError: no privilege, or the device is missing.
    """
    return _visit(command, "forget") if forget else _visit(command, "hello", "undo")


def left_behind(command: Sequence[str]) -> tuple[str, ...]:
    """Return what ``restore_through_guardian`` would do, one sentence per journal, without changing anything.

    Raises:
        DeviceError: no privilege, or the device is missing.
    """
    return _visit(command, "left")


def _visit(command: Sequence[str], *requests: str, patience_s: float = _PATIENCE_S) -> tuple[str, ...]:
    """Start a guardian, send the requests, and return the sentences of its replies."""
    guardian = GuardianProcess(command, patience_s)
    sentences: list[str] = []
    try:
        for request in requests:
            sentences += (guardian.hello() if request == "hello" else guardian.ask(request))["recovered"]
    finally:
        code = guardian.end()
    if code != ExitCode.DONE:
        raise guardian.explain(code)
    return tuple(sentences)
