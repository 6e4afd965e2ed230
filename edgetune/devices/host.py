"""``host``: the CPU of the local machine, with a chosen number of cores and, where the kernel permits, a chosen clock.

Cores stay online: the child process of the workload binds itself to the chosen cores and uses as many threads, so no
restore is needed. The guardian sets the CPU clock for the whole machine and restores it on ``restore`` and also when
this process is killed.
"""

import os
import platform
from pathlib import Path

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import ModeSpace, MonotonicClock, check_mode
from edgetune.devices.control import DirectModes
from edgetune.devices.cpu import CpuLoad, MachineMemory, cpu_model, usable_cpus
from edgetune.devices.cpufreq import HostControl
from edgetune.devices.device import Device, DeviceKind, Listing, LiveSource
from edgetune.devices.guardian.client import GuardianModes, guardian_command
from edgetune.devices.host_sensors import HostTelemetry, open_rapl, open_thermometer, open_throttle_events
from edgetune.devices.software import software_versions
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import InputError
from edgetune.processes.cgroup import cpu_quota


class HostModes:
    """Number of cores for the workload, and the CPU clock where it can be set.

    Args:
        cores: Cores the workload may have.
        clock: Sets the clock.
    """

    def __init__(self, cores: int, clock: GuardianModes | DirectModes) -> None:
        self._cores = cores
        self._clock = clock
        self._cores_now = cores
        offered = clock.space
        highest = {knob: values[-1] for knob, values in offered.knobs.items()}
        named = {"default": Mode(cpu_cores=cores), "max": Mode.of({"cpu_cores": cores, **highest})}
        self.space = ModeSpace(
            {"cpu_cores": tuple(float(n) for n in range(1, cores + 1)), **offered.knobs},
            presets={name: mode for name, mode in named.items() if name not in offered.withheld},
            fixed=offered.fixed,
            withheld=offered.withheld,
            limited=offered.limited,
        )
        """The modes that can be set; ``default`` leaves the clock to the governor."""

    def apply(self, mode: Mode) -> Mode:
        """Set ``mode``; without a core count all cores are used, and without a clock its limits are as found.

        Raises:
            DeviceError: the host lacks a knob or the number of cores, or the kernel refused the clock.
        """
        check_mode(mode.knobs(), self.space, "host")
        if mode.cpu_mhz is None:
            self._clock.restore()
        else:
            self._clock.apply(Mode(cpu_mhz=mode.cpu_mhz))
        self._cores_now = self._cores if mode.cpu_cores is None else mode.cpu_cores
        return self.read()

    def read(self) -> Mode:
        """Return the present mode; the clock is ``None`` while the governor moves it, and where it cannot be set."""
        settable = "cpu_mhz" in self.space.knobs
        return Mode(cpu_cores=self._cores_now, cpu_mhz=self._clock.read().cpu_mhz if settable else None)

    def restore(self) -> None:
        """Restore the clock limits.

        Raises:
            NotRestoredError: the limits could not be restored.
        """
        self._cores_now = self._cores
        self._clock.restore()


def open_host(root: Path = Path("/")) -> Device:
    """Open this machine's CPU as a device; its clock is set by the guardian.

    Args:
        root: Root of the file system with ``sys`` and ``proc``.
    """
    sysfs = Sysfs(root)
    return host_device(sysfs, GuardianModes(guardian_command("host", root), HostControl(sysfs)))


def host_device(sysfs: Sysfs, frequency: GuardianModes | None = None) -> Device:
    """Return the host whose kernel files are in ``sysfs``.

    Args:
        sysfs: The kernel's files.
        frequency: Sets the CPU clock; by default this process does.
    """
    clock = MonotonicClock()
    cores, quota = len(usable_cpus(sysfs)), cpu_quota(sysfs.root)
    model = cpu_model(sysfs)
    power, temperature, throttle = open_rapl(sysfs, clock), open_thermometer(sysfs), open_throttle_events(sysfs)
    modes = HostModes(cores, frequency or DirectModes(HostControl(sysfs)))
    return Device(
        name="host",
        description=f"{model}, {cores} usable core{'s' if cores > 1 else ''}"
        + ("" if quota is None else f", of which a CPU quota gives the time of {quota:.3g}"),
        simulated=False,
        source=LiveSource(ort_providers=("CPUExecutionProvider",), torch_device="cpu"),
        clock=clock,
        power=power,
        modes=modes,
        temperature=temperature,
        throttle=throttle,
        conditions={**_conditions(sysfs, model, cores), "cpu_quota": quota},
        telemetry=HostTelemetry(sysfs, modes, power, temperature, throttle),
        load=CpuLoad(sysfs),
        memory=MachineMemory(sysfs),
    )


def _conditions(sysfs: Sysfs, model: str, cores: int) -> dict[str, object]:
    """Return the conditions of a result on this machine, without importing the libraries named in them."""
    return {
        "cpu": model,
        "usable_cores": cores,
        "cpus_online": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        **software_versions(),
        "governor": sysfs.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "load_average_1min": round(os.getloadavg()[0], 2),
    }


def _open(name: str, seed: int) -> Device:  # noqa: ARG001 - every kind is opened alike
    if name != "host":
        raise InputError(f"unknown device {name!r}", "write host")
    return open_host()


KIND = DeviceKind("host", True, lambda: [Listing("host", "the CPU of this machine")], _open)
