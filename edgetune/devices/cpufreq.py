"""The CPU clock of a host: pin all cpufreq policies to one frequency, verify them, and restore their limits.

The guardian sets this clock, because the limits of cpufreq policies outlive the process that sets them.
"""

from __future__ import annotations

import time

from edgetune.artifacts.mode import Mode
from edgetune.devices.board_files import BoardFiles, ClockLimits, limit_files
from edgetune.devices.capabilities import ModeSpace, check_mode
from edgetune.devices.control import BoardControl, Snapshot
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError

_POLICIES = "sys/devices/system/cpu/cpufreq/policy*"
_STEP_KHZ = 100_000
"""Drivers that list no frequencies (intel_pstate) take any multiple of the bus clock, 100 MHz since Sandy Bridge."""


class HostControl(BoardControl):
    """Control of the CPU clock, the only knob of a host that needs a restore; cores need no privilege.

    Where the clock cannot be set, ``space`` has the reason. A Jetson's clock is left to the board's own guardian: two
    guardians would each restore values set by the other, and this one does not know the limits of the power mode.

    Args:
        sysfs: The kernel's files.
    """

    def __init__(self, sysfs: Sysfs) -> None:
        self.name = "host"
        self._on_jetson = detect_jetson(sysfs) is not None
        self._policies = {} if self._on_jetson else {folder: limit_files(folder) for folder in sysfs.glob(_POLICIES)}
        self._files = BoardFiles(sysfs, [path for pair in self._policies.values() for path in pair.paths], time.sleep)
        choices = self._choices_mhz()
        if isinstance(choices, str):
            self.space = ModeSpace({}, fixed={"cpu_mhz": choices})
        else:
            self.space = ModeSpace({"cpu_mhz": choices})

    def _choices_mhz(self) -> tuple[float, ...] | str:
        """Return the frequencies that every policy offers, MHz, ascending, or the reason why none can be set."""
        if self._on_jetson:
            return "this is a Jetson, whose clocks are set with --device jetson"
        if not self._policies:
            return "this kernel offers no cpufreq (a virtual machine, or a fixed clock)"
        locked = [path for path in sorted(self._files.settable) if not self._files.sysfs.writable(path)]
        if locked:
            return f"/{locked[0]} is not writable; setting clocks needs root"
        try:
            self.read()
            common = set.intersection(*map(self._offered_khz, self._policies))
        except DeviceError as error:
            return f"cpufreq cannot be read: {error.message}"
        except ValueError as error:
            return f"cpufreq cannot be read: {error}"
        return tuple(khz / 1000 for khz in sorted(common)) or "the CPU's clusters have no clock in common"

    def _offered_khz(self, policy: str) -> set[int]:
        listed = self._files.sysfs.text(f"{policy}/scaling_available_frequencies")
        if listed:
            return set(map(int, listed.split()))
        low, high = (self._files.number(f"{policy}/cpuinfo_{end}_freq") for end in ("min", "max"))
        return {low, high, *range(-(-low // _STEP_KHZ) * _STEP_KHZ, high, _STEP_KHZ)}

    def snapshot(self) -> Snapshot:
        """Return both present limits of every policy."""
        return {path: text for pair in self._policies.values() for path, text in pair.snapshot(self._files).items()}

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Pin the clock, or restore its limits when the mode names no clock; return the mode read back."""
        check_mode(mode.knobs(), self.space, self.name)
        if mode.cpu_mhz is not None:
            khz = round(mode.cpu_mhz * 1000)
            for pair in self._policies.values():
                pair.set(self._files, ClockLimits(khz, khz))
        elif wrong := self.restore(found):
            raise DeviceError(wrong[0], "look for a power daemon that also sets it")
        now = self.read()
        if mode.cpu_mhz is not None and now != mode:  # a later write may change what an earlier one set
            back = "a range" if now.cpu_mhz is None else f"{now.cpu_mhz:g} MHz"
            raise DeviceError(
                f"the CPU clock was set to {mode.cpu_mhz:g} MHz but reads back {back}",
                "look for a power daemon that also sets it",
            )
        return now

    def read(self) -> Mode:
        """Return the clock if all policies are pinned to it."""
        clocks = {pair.pinned(self._files) for pair in self._policies.values()}
        khz = clocks.pop() if len(clocks) == 1 else None
        return Mode(cpu_mhz=None if khz is None else khz / 1000)

    def restore(self, found: Snapshot) -> list[str]:
        """Restore every limit, then read each; return a sentence for each policy that differs."""
        folders = sorted({path.rpartition("/")[0] for path in found})
        trouble = {folder: self._attempt(folder, found) for folder in folders}
        return [trouble[folder] or wrong for folder in folders if (wrong := self._difference(folder, found))]

    def _attempt(self, folder: str, found: Snapshot) -> str:
        """Restore the limits of a policy if this kernel has it; return the message of an error, or nothing."""
        pair = self._policies.get(folder)
        try:
            limits = None if pair is None else pair.in_snapshot(found)
            if pair is not None and limits is not None:
                pair.set(self._files, limits)
        except DeviceError as error:
            return error.message
        return ""

    def _difference(self, folder: str, found: Snapshot) -> str:
        """Return a sentence about a policy whose limits are not those of the snapshot, else nothing."""
        values = " and ".join(value for path, value in found.items() if path.startswith(f"{folder}/"))
        reason = self.space.fixed.get("cpu_mhz", "this kernel shows no such setting")
        pair = self._policies.get(folder)
        try:
            limits = None if pair is None else pair.in_snapshot(found)
            if pair is not None and limits is not None:
                now = pair.read(self._files)  # after all writes: one may have changed what an earlier one set
                if now == limits:
                    return ""
                reason = f"it reads back {now}"
        except DeviceError as error:
            return error.message
        return f"/{folder} is not put back to {values}: {reason}"
