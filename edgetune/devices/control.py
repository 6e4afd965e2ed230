"""What sets a board's knobs: the privileged side, without the journal and the process, which are the guardian's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

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


def same_configuration(then: str, now: str) -> bool:
    """Whether two configurations are one, also where the earlier was noted in fewer words."""
    return then == now or bool(then and now.startswith(f"{then}, "))


def told_change(then: str, now: str) -> str:
    """Return a clause on a changed configuration: the words before the first comma, or all where these are equal."""
    short, shown = then.partition(",")[0], now.partition(",")[0]
    if short == shown:
        short, shown = then, now
    if not now:
        return f"it had {short} then, and nothing tells what it has now"
    return f"it had {short or 'an unknown configuration'} then and has {shown} now"


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a device goes back to.

    Args:
        target: Every setting, by its path.
        note: Why that is not what was found, one clause; empty where it is.
        withheld: Settings that cannot go back now, one sentence each.
        remedy: What lets the withheld ones go back.
    """

    target: Snapshot
    note: str = ""
    withheld: tuple[str, ...] = ()
    remedy: str = ""


@runtime_checkable
class Configured(Protocol):
    """A control of a device whose limits follow a configuration that a user may change at any time."""

    def configuration(self) -> str:
        """Return which configuration is in force, in the device's own words; empty when nothing tells."""
        ...

    def plan_restore(self, found: Snapshot, then: str) -> RestorePlan:
        """Return what settings go back to that were found while ``then`` was the configuration."""
        ...
