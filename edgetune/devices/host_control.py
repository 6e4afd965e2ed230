"""The host's clock as the guardian sets it: the limits of cpufreq policies, which outlive who sets them."""

from __future__ import annotations

from edgetune.artifacts.mode import Mode
from edgetune.devices.control import Snapshot
from edgetune.devices.cpufreq import CpuFrequency, Frequency, FrequencyLimits, open_cpu_frequency
from edgetune.devices.device import ModeSpace
from edgetune.devices.guardian.client import GuardianModes, guardian_command
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError, NotRestoredError

_LOW, _HIGH = "scaling_min_freq", "scaling_max_freq"


class HostControl:
    """The one knob of a host that has to be put back; its cores are the measuring process's own affair.

    Args:
        sysfs: Where the policies are.

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
        """Return both limits of every policy, as they are now."""
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
        """Pin the clock, or put it back when the mode names none."""
        if mode.cpu_mhz is None:
            if wrong := self.restore(found):
                raise DeviceError(wrong[0], "look for a power daemon that sets it too")
        else:
            self._knob.set_mhz(mode.cpu_mhz)
        return self.read()

    def read(self) -> Mode:
        """Return the clock, when it is pinned."""
        return Mode(cpu_mhz=self._knob.read_mhz())

    def restore(self, found: Snapshot) -> list[str]:
        """Put every limit back that this kernel shows, and return a sentence for each of the rest."""
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
    """The clock of all cores, set by a guardian, so that it is put back also when this process is killed.

    Args:
        knob: Reads it.
        guardian: Sets it.
    """

    def __init__(self, knob: CpuFrequency, guardian: GuardianModes) -> None:
        self._knob = knob
        self._guardian = guardian

    @property
    def choices_mhz(self) -> tuple[float, ...]:
        """Frequencies on offer, MHz, ascending."""
        return self._knob.choices_mhz

    def set_mhz(self, mhz: float) -> None:
        """Pin it.

        Raises:
            DeviceError: it is not on offer, or the kernel refused it or set something else.
        """
        self._guardian.apply(Mode(cpu_mhz=mhz))

    def read_mhz(self) -> float | None:
        """Return the frequency it is pinned to, MHz."""
        return self._knob.read_mhz()

    def restore(self) -> None:
        """Put it back as found.

        Raises:
            NotRestoredError: it is not as it was.
        """
        self._guardian.restore()


def _open_frequency(sysfs: Sysfs) -> CpuFrequency | str:
    """Return the knob, or why it cannot be set here.

    On a Jetson it is set as a part of the board, by the board's own guardian: two that do not know of each other would
    each put back what the other has set, and this one knows nothing of the board's power mode and its limits.
    """
    if detect_jetson(sysfs) is not None:
        return "this is a Jetson, whose clocks are set with --device jetson"
    return open_cpu_frequency(sysfs)


def open_guarded_frequency(sysfs: Sysfs) -> Frequency | str:
    """Return the knob as the guardian sets it, or why it cannot be set here."""
    knob = _open_frequency(sysfs)
    if isinstance(knob, str):
        return knob
    return GuardedFrequency(knob, GuardianModes(guardian_command("host", sysfs.root), HostControl(sysfs)))
