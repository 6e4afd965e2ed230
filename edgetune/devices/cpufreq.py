"""The CPU clock as a knob: pin Linux cpufreq policies to one frequency, verify them, and restore their limits.

The guardian sets the clock of a host, because the limits of cpufreq policies outlive the process that sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.control import Snapshot
from edgetune.devices.guardian.client import GuardianModes, guardian_command
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import DeviceError, NotRestoredError

_POLICIES = "sys/devices/system/cpu/cpufreq/policy*"
_STEP_KHZ = 100_000
"""Drivers that list no frequencies (intel_pstate) take any multiple of the bus clock, 100 MHz since Sandy Bridge."""


@dataclass(frozen=True, slots=True)
class FrequencyLimits:
    """Lowest and highest frequency a policy allows its governor, kHz."""

    low_khz: int
    high_khz: int


class Frequency(Protocol):
    """The clock of all cores, as one knob."""

    @property
    def choices_mhz(self) -> tuple[float, ...]:
        """Frequencies on offer, MHz, ascending."""
        ...

    def set_mhz(self, mhz: float) -> None:
        """Pin the clock, or raise ``DeviceError``."""
        ...

    def read_mhz(self) -> float | None:
        """Return the pinned frequency, MHz; ``None`` when the clock is not pinned."""
        ...

    def restore(self) -> None:
        """Restore the clock limits, or raise ``NotRestoredError``."""
        ...


class CpuFrequency:
    """All policies of the CPU, set to one frequency together.

    Args:
        sysfs: The kernel's files.
        policies: Folders of the policies.
        found: Limits of each policy to restore; the present limits by default.
    """

    def __init__(self, sysfs: Sysfs, policies: list[str], found: Mapping[str, FrequencyLimits] | None = None) -> None:
        self._sysfs = sysfs
        self._policies = policies
        self._found = {policy: self._limits(policy) for policy in policies} if found is None else dict(found)

    @property
    def found(self) -> Mapping[str, FrequencyLimits]:
        """The limits that ``restore`` puts back, by policy."""
        return self._found

    def _limits(self, policy: str) -> FrequencyLimits:
        return FrequencyLimits(*(int(self._sysfs.read(f"{policy}/scaling_{end}_freq")) for end in ("min", "max")))

    @property
    def choices_mhz(self) -> tuple[float, ...]:
        """Frequencies that every policy offers, MHz, ascending."""
        offered = [self._offered_khz(policy) for policy in self._policies]
        return tuple(khz / 1000 for khz in sorted(set.intersection(*offered)))

    def _offered_khz(self, policy: str) -> set[int]:
        try:
            return {int(word) for word in self._sysfs.read(f"{policy}/scaling_available_frequencies").split()}
        except OSError:
            low = int(self._sysfs.read(f"{policy}/cpuinfo_min_freq"))
            high = int(self._sysfs.read(f"{policy}/cpuinfo_max_freq"))
            return {low, high, *range(-(-low // _STEP_KHZ) * _STEP_KHZ, high, _STEP_KHZ)}

    def set_mhz(self, mhz: float) -> None:
        """Pin every policy to ``mhz`` and read it back.

        Raises:
            DeviceError: the frequency is not on offer, or the kernel refused or changed it; earlier writes stay until
                ``restore``.
        """
        if mhz not in self.choices_mhz:
            offered = ", ".join(f"{choice:g}" for choice in self.choices_mhz)
            raise DeviceError(f"the CPU has no clock of {mhz:g} MHz", f"it has {offered}")
        khz = round(mhz * 1000)
        for policy in self._policies:
            try:
                self._write(policy, FrequencyLimits(khz, khz))
            except OSError as error:
                raise DeviceError(
                    f"the CPU clock could not be set to {mhz:g} MHz: {policy}: {why(error)}", "run it as root"
                ) from None
        if self.read_mhz() != mhz:
            raise DeviceError(
                f"the CPU clock was set to {mhz:g} MHz but reads back as {_text(self.read_mhz())}",
                "choose a clock that the device lists, and look for a power daemon that sets it too",
            )

    def read_mhz(self) -> float | None:
        """Return the frequency all policies are pinned to, MHz, or ``None`` when they are not."""
        limits = {self._limits(policy) for policy in self._policies}
        pinned = limits.pop()
        return None if limits or pinned.low_khz != pinned.high_khz else pinned.low_khz / 1000

    def restore(self) -> None:
        """Restore the limits that were found.

        Raises:
            NotRestoredError: a policy has other limits.
        """
        wrong: list[str] = []
        for policy, limits in self._found.items():
            try:
                if self._limits(policy) != limits:
                    self._write(policy, limits)
                if self._limits(policy) != limits:
                    wrong.append(f"{policy}: reads back otherwise")
            except OSError as error:
                wrong.append(f"{policy}: {why(error)}")
        if wrong:
            raise NotRestoredError(
                f"the CPU clock was not put back: {'; '.join(wrong)}",
                "write "
                + ", ".join(f"{limits.low_khz}..{limits.high_khz} to /{p}" for p, limits in self._found.items()),
            )

    def _write(self, policy: str, limits: FrequencyLimits) -> None:
        """Write both limits in the order that keeps low <= high at every moment, as the kernel demands."""
        low, high = (
            (f"{policy}/scaling_min_freq", str(limits.low_khz)),
            (f"{policy}/scaling_max_freq", str(limits.high_khz)),
        )
        for path, value in (high, low) if limits.high_khz >= self._limits(policy).low_khz else (low, high):
            self._sysfs.write(path, value)


def _text(mhz: float | None) -> str:
    return "a range" if mhz is None else f"{mhz:g} MHz"


def open_cpu_frequency(sysfs: Sysfs) -> CpuFrequency | str:
    """Return the knob, or the reason why it cannot be set here."""
    policies = sysfs.glob(_POLICIES)
    if not policies:
        return "this kernel offers no cpufreq (a virtual machine, or a fixed clock)"
    for policy in policies:
        for name in ("scaling_min_freq", "scaling_max_freq"):
            if not sysfs.writable(f"{policy}/{name}"):
                return f"/{policy}/{name} is not writable; setting clocks needs root"
    try:
        knob = CpuFrequency(sysfs, policies)
        return knob if knob.choices_mhz else "the CPU's clusters have no clock in common"
    except (OSError, ValueError) as error:
        return f"cpufreq cannot be read: {why(error) if isinstance(error, OSError) else error}"


_LOW, _HIGH = "scaling_min_freq", "scaling_max_freq"


class HostControl:
    """Control of the CPU clock, the only knob of a host that needs a restore; cores need no privilege.

    Args:
        sysfs: The kernel's files.

    Raises:
        DeviceError: this machine's clock cannot be set.
    """

    name = "host"

    def __init__(self, sysfs: Sysfs) -> None:
        knob = _open_frequency(sysfs)
        if isinstance(knob, str):
            raise DeviceError(f"the clock of this host cannot be set: {knob}", "leave out cpu_mhz")
        self._sysfs = sysfs
        self._knob = knob
        self.space = ModeSpace(knobs={"cpu_mhz": knob.choices_mhz})

    def snapshot(self) -> Snapshot:
        """Return both present limits of every policy."""
        try:
            found = CpuFrequency(self._sysfs, list(self._knob.found)).found
        except (OSError, ValueError) as error:
            raise DeviceError(f"the limits of the CPU's clock cannot be read: {error}", "leave out cpu_mhz") from None
        return {
            f"{policy}/{end}": str(khz)
            for policy, limits in found.items()
            for end, khz in ((_LOW, limits.low_khz), (_HIGH, limits.high_khz))
        }

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Pin the clock, or restore its limits when the mode names no clock; return the mode read back."""
        if mode.cpu_mhz is None:
            if wrong := self.restore(found):
                raise DeviceError(wrong[0], "look for a power daemon that sets it too")
        else:
            self._knob.set_mhz(mode.cpu_mhz)
        return self.read()

    def read(self) -> Mode:
        """Return the clock if it is pinned."""
        return Mode(cpu_mhz=self._knob.read_mhz())

    def restore(self, found: Snapshot) -> list[str]:
        """Restore every limit, and return a sentence for each failure."""
        wrong: list[str] = []
        limits: dict[str, FrequencyLimits] = {}
        for policy in sorted({path.rpartition("/")[0] for path in found}):
            low, high = (found.get(f"{policy}/{end}", "") for end in (_LOW, _HIGH))
            if policy in self._knob.found and low.isdecimal() and high.isdecimal():
                limits[policy] = FrequencyLimits(int(low), int(high))
            else:
                values = " and ".join(value for path, value in found.items() if path.startswith(f"{policy}/"))
                wrong.append(f"/{policy} is not put back to {values}: this kernel shows no such setting")
        try:
            CpuFrequency(self._sysfs, list(limits), limits).restore()
        except NotRestoredError as error:
            wrong.append(str(error))
        return wrong


class GuardedFrequency:
    """The clock of all cores, set by a guardian, which restores it also when this process is killed.

    Args:
        knob: Reads the clock.
        guardian: Sets the clock.
    """

    def __init__(self, knob: CpuFrequency, guardian: GuardianModes) -> None:
        self._knob = knob
        self._guardian = guardian

    @property
    def choices_mhz(self) -> tuple[float, ...]:
        """Frequencies on offer, MHz, ascending."""
        return self._knob.choices_mhz

    def set_mhz(self, mhz: float) -> None:
        """Pin the clock.

        Raises:
            DeviceError: the frequency is not on offer, or the kernel refused or changed it.
        """
        self._guardian.apply(Mode(cpu_mhz=mhz))

    def read_mhz(self) -> float | None:
        """Return the pinned frequency, MHz; ``None`` when the clock is not pinned."""
        return self._knob.read_mhz()

    def restore(self) -> None:
        """Restore the clock limits.

        Raises:
            NotRestoredError: the limits are not as found.
        """
        self._guardian.restore()


def _open_frequency(sysfs: Sysfs) -> CpuFrequency | str:
    """Return the knob, or the reason why it cannot be set here.

    On a Jetson the board's own guardian sets the clock. Two independent guardians would each restore values set by the
    other, and this one does not know the limits of the board's power mode.
    """
    if detect_jetson(sysfs) is not None:
        return "this is a Jetson, whose clocks are set with --device jetson"
    return open_cpu_frequency(sysfs)


def open_guarded_frequency(sysfs: Sysfs) -> Frequency | str:
    """Return the knob set by the guardian, or the reason why it cannot be set here."""
    knob = _open_frequency(sysfs)
    if isinstance(knob, str):
        return knob
    return GuardedFrequency(knob, GuardianModes(guardian_command("host", sysfs.root), HostControl(sysfs)))
