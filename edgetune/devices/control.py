"""Interfaces of the privileged control of a board's knobs; the guardian adds the journal and the process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace

Snapshot: TypeAlias = dict[str, str]
"""Found values of every setting that may change, by path, in the order of a restore; plain JSON."""


class BoardControl(Protocol):
    """Sets modes on a board and restores a snapshot; needs the privilege that the board requires."""

    @property
    def name(self) -> str:
        """Device name, e.g. ``jetson``."""
        ...

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set: values of the board's own tables, within its active caps."""
        ...

    def snapshot(self) -> Snapshot:
        """Return the present value of every setting that ``apply`` may change.

        Raises:
            DeviceError: a setting cannot be read and so not be restored; nothing may then be changed.
        """
        ...

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Set ``mode`` and return the mode read back; knobs that ``mode`` leaves out get their values of ``found``.

        Raises:
            DeviceError: a value is not on offer, or the board refused it, changed it or ignored it. Earlier writes
                stay until ``restore``.
        """
        ...

    def read(self) -> Mode:
        """Return the present knobs; a clock that is not pinned is ``None``."""
        ...

    def restore(self, found: Snapshot) -> list[str]:
        """Restore every setting; an error does not stop the others. Idempotent.

        Returns:
            One sentence for each setting that differs from ``found``, naming it and its value.
        """
        ...


def same_configuration(then: str, now: str) -> bool:
    """Whether two configurations are the same, also where the earlier has a shorter description."""
    return then == now or bool(then and now.startswith(f"{then}, "))


def told_change(then: str, now: str) -> str:
    """Return a clause about a changed configuration: the parts before the first comma, or all if these are equal."""
    short, shown = then.partition(",")[0], now.partition(",")[0]
    if short == shown:
        short, shown = then, now
    if not now:
        return f"it had {short} then, and nothing tells what it has now"
    return f"it had {short or 'an unknown configuration'} then and has {shown} now"


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The values that a device is restored to.

    Args:
        target: Value of every setting, by path.
        note: Reason why the target differs from the snapshot, one clause; empty where it does not.
        withheld: Settings that cannot be restored now, one sentence each.
        remedy: Advice to restore the withheld settings.
    """

    target: Snapshot
    note: str = ""
    withheld: tuple[str, ...] = ()
    remedy: str = ""


@runtime_checkable
class Configured(Protocol):
    """A control of a device whose limits depend on a configuration that a user may change at any time."""

    def configuration(self) -> str:
        """Return a description of the configuration in force; empty when it is unknown."""
        ...

    def plan_restore(self, found: Snapshot, then: str) -> RestorePlan:
        """Return the restore plan for settings found while ``then`` was the configuration."""
        ...
