"""Putting a Jetson back as found, from any state: after a killed run, after half a restore, after a power cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetune.devices.control import Snapshot
from edgetune.devices.jetson import cores as cpu_cores
from edgetune.devices.jetson.cores import Cores, online_file
from edgetune.devices.jetson.cpu_clock import CpuClock, possible_limits
from edgetune.devices.jetson.emc import EmcClock
from edgetune.devices.jetson.gpu import GpuClock
from edgetune.devices.jetson.verified_write import BoardFiles
from edgetune.errors import DeviceError


@dataclass(frozen=True, slots=True)
class BoardParts:
    """What is set on a board; ``None`` for a clock that cannot be."""

    files: BoardFiles
    cores: Cores
    cpu: CpuClock | None
    gpu: GpuClock | None
    emc: EmcClock | None


class BoardRestore:
    """One attempt.

    Args:
        parts: What is set on the board.
        found: What to go back to.
    """

    def __init__(self, parts: BoardParts, found: Snapshot) -> None:
        self._parts = parts
        self._found = dict(found) if parts.emc is None else parts.emc.meant(found)
        self._trouble: list[str] = []
        self._seen_right: set[str] = set()

    def run(self) -> list[str]:
        """Go through all settings, then read each: return a sentence for each that is not as found."""
        if self._parts.emc is not None:
            self._attempt(self._parts.emc.restore_found, self._found)
        if self._parts.gpu is not None:
            self._attempt(self._parts.gpu.apply, None, self._found)
        for core in self._parts.cores.switchable:
            if self._found.get(online_file(core)) == "1":
                self._attempt(cpu_cores.switch_on, self._parts.files, [core])
        if self._parts.cpu is not None:
            for pair, core in possible_limits(self._parts.cores).items():
                if self._attempt(self._parts.cpu.restore_found, pair, core, self._found):
                    self._seen_right.update(pair.paths)
        for core in reversed(self._parts.cores.switchable):
            if self._found.get(online_file(core)) == "0":
                self._attempt(cpu_cores.switch_off, self._parts.files, [core])
        return [told for path, value in self._found.items() if (told := self._difference(path, value))]

    def _attempt(self, action: Callable[..., None], *arguments: object) -> bool:
        """Do something, or keep in mind why it cannot be done; return whether it could."""
        try:
            action(*arguments)
        except DeviceError as error:
            self._trouble.append(error.message)
            return False
        return True

    def _difference(self, path: str, value: str) -> str | None:
        """Return what is wrong with a setting, ``None`` if nothing is."""
        if path not in self._parts.files.settable:
            return f"/{path} is not put back to {value}: the board shows no such setting now"
        try:
            now = self._parts.files.read(path) if self._parts.emc is None else self._parts.emc.now(path, value)
        except DeviceError as error:
            # limits of a cluster that is off again were seen right while it ran
            return None if path in self._seen_right else f"{error.message}; it was {value}"
        if now == value:
            return None
        reason = next((message for message in self._trouble if f"/{path} " in message), None)
        return f"/{path} reads {now}, not {value} as found" + (f" ({reason})" if reason else "")
