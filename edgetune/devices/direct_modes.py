"""Set a device's modes in this process, without a guardian."""

from edgetune.artifacts.mode import Mode
from edgetune.devices.control import BoardControl, Snapshot
from edgetune.errors import NotRestoredError


class DirectModes:
    """A ``ModeControl`` over a ``BoardControl`` in the same process; nothing is restored if the process is killed.

    Args:
        control: Sets the board's knobs.
    """

    def __init__(self, control: BoardControl) -> None:
        self._control = control
        self._found: Snapshot | None = None
        self.space = control.space
        self.read = control.read

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode`` and return the mode read back; the first call takes the snapshot for the restore.

        Raises:
            DeviceError: the device refused the mode, or reads back another.
        """
        if self._found is None:
            self._found = self._control.snapshot()
        return self._control.apply(mode, self._found)

    def restore(self) -> None:
        """Restore every setting.

        Raises:
            NotRestoredError: a setting is not as it was found.
        """
        wrong = [] if self._found is None else self._control.restore(self._found)
        if wrong:
            raise NotRestoredError("; ".join(wrong), "restart the machine, which undoes every setting")
