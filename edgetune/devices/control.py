"""Interface of the privileged control of a board's knobs; the guardian adds the journal and the process.

``DirectModes`` sets modes in this process, without a guardian.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace
from edgetune.errors import DeviceError, NotRestoredError

Snapshot: TypeAlias = dict[str, str]
"""Found values of every setting that may change, by path, in the order of a restore; plain JSON."""


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The values that a device is restored to.

    Args:
        target: Value of every setting, by path.
        note: Reason why the target differs from the snapshot, one clause; empty where it does not.
        withheld: Settings that cannot be restored now, one sentence each.
        remedy: Advice to restore the withheld settings.
        stays: Values of settings that are hidden now, which stay where they turn out to be in place.
    """

    target: Snapshot
    note: str = ""
    withheld: tuple[str, ...] = ()
    remedy: str = ""
    stays: tuple[Snapshot, ...] = ()


def _keep_in_memory(found: Snapshot) -> None:
    """Do nothing: without a journal, the snapshot alone holds the added settings."""


class BoardControl(ABC):
    """Sets modes on a board and restores a snapshot; needs the privilege that the board requires.

    Attributes:
        name: Device name, e.g. ``jetson``.
        space: The modes that can be set: values of the board's own tables, within its active caps.
        learnt: Called when ``apply`` adds settings to the snapshot (limits that a cluster hides while it is off),
            before it changes them; the guardian then rewrites its journal.
    """

    name: str
    space: ModeSpace
    learnt: Callable[[Snapshot], None] = staticmethod(_keep_in_memory)

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the present value of every setting that ``apply`` may change.

        Raises:
            DeviceError: a setting cannot be read and so not be restored; nothing may then be changed.
        """

    @abstractmethod
    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Set ``mode`` and return the mode read back; knobs that ``mode`` leaves out get their values of ``found``.

        Raises:
            DeviceError: a value is not on offer, or the board refused it, changed it or ignored it. Earlier writes
                stay until ``restore``.
        """

    def fan_to_maximum(self, found: Snapshot) -> None:  # noqa: ARG002 - for boards with a fan
        """Set the fan to its highest speed, its settings first added to ``found`` (``learnt``); errors as ``apply``."""
        raise DeviceError(f"the kernel shows no fan of {self.name} that can be set", "measure with the fan as it is")

    @abstractmethod
    def read(self) -> Mode:
        """Return the present knobs; a clock that is not pinned is ``None``."""

    @abstractmethod
    def restore(self, found: Snapshot) -> list[str]:
        """Restore every setting; an error does not stop the others. Idempotent.

        Returns:
            One sentence for each setting that differs from ``found``, naming it and its value.
        """

    def carry_out(self, plan: RestorePlan) -> list[str]:
        """Restore the settings of a plan; see ``restore``."""
        return self.restore(plan.target)

    def configuration(self) -> str:
        """Return the configuration in force, on which the board's limits depend; empty when unknown or none."""
        return ""

    def plan_restore(self, found: Snapshot, then: str) -> RestorePlan:  # noqa: ARG002 - for boards with configurations
        """Return the restore plan for settings found while ``then`` was the configuration."""
        return RestorePlan(found)


def same_configuration(then: str, now: str) -> bool:
    """Whether two configurations are the same, also where the earlier has a shorter description."""
    return then == now or bool(then and now.startswith(f"{then}, "))


def describe_change(then: str, now: str) -> str:
    """Return a clause about a changed configuration: the parts before the first comma, or all if these are equal."""
    short, shown = then.partition(",")[0], now.partition(",")[0]
    if short == shown:
        short, shown = then, now
    if not now:
        return f"it had {short} then, and nothing tells what it has now"
    return f"it had {short or 'an unknown configuration'} then and has {shown} now"


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
