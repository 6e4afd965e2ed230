"""What sets a board's knobs: the privileged side, without journal or process; those are the guardian's."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from edgetune.artifacts.mode import Mode
from edgetune.devices.device import ModeSpace

Snapshot: TypeAlias = dict[str, str]
"""Every setting that may be changed, as found, by its path, in the order in which it is put back; plain JSON."""


class BoardControl(Protocol):
    """Sets modes on a board and puts back what a snapshot says; needs whatever privilege the board asks for."""

    @property
    def name(self) -> str:
        """The device, as the user names it, e.g. ``jetson``."""
        ...

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set: values of the board's own tables, within its active caps."""
        ...

    def snapshot(self) -> Snapshot:
        """Return every setting that ``apply`` may ever change, as it is now.

        Raises:
            DeviceError: one of them cannot be read, so that it could not be put back: nothing may then be changed.
        """
        ...

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Set ``mode``, knobs that it leaves out as in ``found``, and return it as read back.

        Raises:
            DeviceError: a value is not on offer, or the board refused it, changed it or ignored it. What was set so far
                stays until ``restore``.
        """
        ...

    def read(self) -> Mode:
        """Return the knobs as they are now; a clock that is not pinned is ``None``."""
        ...

    def restore(self, found: Snapshot) -> list[str]:
        """Put every setting back, as many as possible whatever fails, and return what is not as it was; harmless twice.

        Returns:
            One sentence for each setting that is not as found, naming it and its value; none when all is.
        """
        ...
