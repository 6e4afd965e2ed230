"""The CPU clock of a host: pin all cpufreq policies, verify them, and restore their limits.

The guardian sets this clock, because the limits of cpufreq policies outlive the process that sets them.

``cpu_mhz`` is the clock of the fastest cluster; clusters with other clocks run at their nearest below. A clock that the
limits name but the CPU need not run at is not offered: the highest of acpi-cpufreq stands for every boost clock (Linux
drivers/cpufreq/acpi-cpufreq.c), and intel_pstate runs none above ``max_perf_pct`` or, without turbo, above the base
clock (Linux Documentation/admin-guide/pm/intel_pstate.rst).
"""

import time

from edgetune.artifacts.mode import Mode
from edgetune.devices.board_files import BoardFiles, ClockLimits, limit_files
from edgetune.devices.capabilities import ModeSpace, check_mode
from edgetune.devices.control import BoardControl, Snapshot
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError

_POLICIES = "sys/devices/system/cpu/cpufreq/policy*"
_BOOST = "sys/devices/system/cpu/cpufreq/boost"
_PSTATE = "sys/devices/system/cpu/intel_pstate"
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
        self._tables: dict[str, list[int]] = {}
        self._bounds: set[str] = set()
        choices = self._choices_mhz()
        if isinstance(choices, str):
            self.space = ModeSpace({}, fixed={"cpu_mhz": choices})
        else:
            fastest = self._tables[self._fastest]
            names = [policy.rpartition("/")[2] for policy, table in self._tables.items() if table != fastest]
            slower = [f"{' and '.join(names)} with other clocks: each runs at its nearest below"] if names else []
            why = "; ".join([*sorted(self._bounds), *slower])
            withheld = {"max": f"the highest clock cannot be held: {why}"} if self._bounds else {}
            self.space = ModeSpace({"cpu_mhz": choices}, withheld=withheld, limited={"cpu_mhz": why} if why else {})

    def _choices_mhz(self) -> tuple[float, ...] | str:
        """Return the frequencies of the fastest policy, MHz, ascending, or the reason why none can be set."""
        if self._on_jetson:
            return "this is a Jetson, whose clocks are set with --device jetson"
        if not self._policies:
            return "this kernel offers no cpufreq (a virtual machine, or a fixed clock)"
        locked = [path for path in sorted(self._files.settable) if not self._files.sysfs.writable(path)]
        if locked:
            return f"/{locked[0]} is not writable; setting clocks needs root"
        try:
            self.read()
            self._tables = {policy: self._offered_khz(policy) for policy in self._policies}
        except DeviceError as error:
            return f"cpufreq cannot be read: {error.message}"
        except ValueError as error:
            return f"cpufreq cannot be read: {error}"
        fastest = self._tables[self._fastest]
        return tuple(khz / 1000 for khz in fastest) or f"no clock can be held: {'; '.join(sorted(self._bounds))}"

    @property
    def _fastest(self) -> str:
        return max(self._tables, key=lambda policy: self._tables[policy][-1:])

    def _offered_khz(self, policy: str) -> list[int]:
        """Return the frequencies that a policy can be held at, kHz, ascending."""
        sysfs = self._files.sysfs
        found = {*map(int, sysfs.text(f"{policy}/scaling_available_frequencies").split())}
        if not found:
            low, high = (self._files.number(f"{policy}/cpuinfo_{end}_freq") for end in ("min", "max"))
            found = {low, high, *range(-(-low // _STEP_KHZ) * _STEP_KHZ, high, _STEP_KHZ)}
        most: dict[str, float] = {}
        if sysfs.text(f"{policy}/scaling_driver") == "acpi-cpufreq" and sysfs.read_int(_BOOST) == 1:
            most[f"{max(found) / 1000:g} MHz stands for any boost clock while /{_BOOST} is 1"] = max(found) - 1
        if (percent := sysfs.read_int(f"{_PSTATE}/max_perf_pct")) is not None:
            most[f"/{_PSTATE}/max_perf_pct is {percent}"] = max(found) * percent / 100
        if sysfs.read_int(f"{_PSTATE}/no_turbo") == 1 and (base := sysfs.read_int(f"{policy}/base_frequency")):
            most[f"/{_PSTATE}/no_turbo is 1"] = base
        self._bounds |= {why for why, khz in most.items() if khz < max(found)}
        return sorted(khz for khz in found if khz <= min(most.values(), default=khz))

    def _shares(self, khz: int) -> dict[str, int]:
        """Return the clock of each policy, kHz, where the fastest runs at ``khz``."""
        return {policy: max((k for k in table if k <= khz), default=table[0]) for policy, table in self._tables.items()}

    def snapshot(self) -> Snapshot:
        """Return both present limits of every policy."""
        return {path: text for pair in self._policies.values() for path, text in pair.snapshot(self._files).items()}

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Pin the clock, or restore its limits when the mode names no clock; return the mode read back."""
        check_mode(mode.knobs(), self.space, self.name)
        if mode.cpu_mhz is not None:
            for policy, khz in self._shares(round(mode.cpu_mhz * 1000)).items():
                self._policies[policy].set(self._files, ClockLimits(khz, khz))
        elif wrong := self.restore(found):
            raise DeviceError(wrong[0], "look for a power daemon that also sets it")
        now = self.read()
        if mode.cpu_mhz is not None and now != mode:  # a later write may change what an earlier one set
            back = "a range" if now.cpu_mhz is None else f"{now.cpu_mhz:g} MHz"
            hint = "look for a power daemon that also sets it"
            raise DeviceError(f"the CPU clock was set to {mode.cpu_mhz:g} MHz but reads back {back}", hint)
        return now

    def read(self) -> Mode:
        """Return the clock of the fastest policy if all are pinned as ``apply`` does."""
        clocks = {policy: pair.pinned(self._files) for policy, pair in self._policies.items()}
        khz = clocks.get(self._fastest) if self._tables else None
        return Mode(cpu_mhz=None if khz is None or clocks != self._shares(khz) else khz / 1000)

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
