"""Modes set by the measuring process itself, for a library that is passed in: another process could not reach it."""

from __future__ import annotations

from edgetune.artifacts.mode import Mode
from edgetune.devices.control import BoardControl, Snapshot
from edgetune.devices.device import ModeSpace
from edgetune.errors import NotRestoredError


class DirectModes:
    """A ``ModeControl`` over a ``BoardControl`` in the same process; if that is killed, nothing is put back.

    Args:
        control: Sets the board's knobs.
    """

    def __init__(self, control: BoardControl) -> None:
        self._control = control
        self._found: Snapshot | None = None

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set."""
        return self._control.space

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode``, having noted before the first one how things were found.

        Raises:
            DeviceError: the board refused it or reads back otherwise.
        """
        if self._found is None:
            self._found = self._control.snapshot()
        return self._control.apply(mode, self._found)

    def read(self) -> Mode:
        """Return the knobs as they are now."""
        return self._control.read()

    def restore(self) -> None:
        """Put everything back.

        Raises:
            NotRestoredError: something is not as it was found.
        """
        wrong = [] if self._found is None else self._control.restore(self._found)
        if wrong:
            raise NotRestoredError("; ".join(wrong), "restart the machine, which resets every GPU")
