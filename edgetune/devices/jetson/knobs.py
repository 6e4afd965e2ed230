"""Which knobs a Jetson has, with the values of its own tables, and which of them are on offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.devices.device import ModeSpace
from edgetune.devices.jetson.cores import FOLDER, Cores, find_cores, online_file
from edgetune.devices.jetson.cpu_clock import common_table, policies, possible_limits
from edgetune.devices.jetson.emc_files import Cap, EmcFiles, find_emc
from edgetune.devices.jetson.gpu import GpuFiles, find_gpu
from edgetune.devices.jetson.presets import Presets
from edgetune.devices.sysfs import Sysfs

KHZ_PER_MHZ = 1_000
HZ_PER_MHZ = 1_000_000


@dataclass(frozen=True, slots=True)
class JetsonKnobs:
    """What can be set on a board, whoever may set it.

    Args:
        cores: Its cores.
        cpu_khz: Clocks that all clusters have, kHz, ascending, or why there are none.
        gpu: Where the GPU is set, or why it cannot be.
        emc: Where the memory is set, or why it cannot be.
    """

    cores: Cores
    cpu_khz: tuple[int, ...] | str
    gpu: GpuFiles | str
    emc: EmcFiles | str

    @property
    def emc_cap(self) -> Cap | None:
        """What caps the memory clock, where that can be set and a file does."""
        return None if isinstance(self.emc, str) else self.emc.cap

    @property
    def tables(self) -> dict[str, tuple[float, ...]]:
        """Every value that the board lists, by knob, ascending; clocks in MHz, caps not regarded."""
        tables: dict[str, tuple[float, ...]] = {"cpu_cores": tuple(map(float, self.cores.counts))}
        if not isinstance(self.cpu_khz, str):
            tables["cpu_mhz"] = tuple(khz / KHZ_PER_MHZ for khz in self.cpu_khz)
        if not isinstance(self.gpu, str):
            tables["gpu_mhz"] = tuple(hz / HZ_PER_MHZ for hz in self.gpu.table_hz)
        if not isinstance(self.emc, str):
            tables["mem_mhz"] = tuple(hz / HZ_PER_MHZ for hz in self.emc.table_hz)
        return tables

    @property
    def reasons(self) -> dict[str, str]:
        """Why a knob cannot be set, by knob."""
        told = {"cpu_mhz": self.cpu_khz, "gpu_mhz": self.gpu, "mem_mhz": self.emc}
        return {knob: reason for knob, reason in told.items() if isinstance(reason, str)}

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """Every file that setting a knob may write, by knob; limits of clusters that hide theirs included."""
        limits = [path for pair in possible_limits(self.cores) for path in pair.paths]
        return {
            "cpu_cores": self.cores.settable,
            "cpu_mhz": () if isinstance(self.cpu_khz, str) else tuple(limits),
            "gpu_mhz": () if isinstance(self.gpu, str) else self.gpu.settable,
            "mem_mhz": () if isinstance(self.emc, str) else self.emc.settable,
        }


def find_knobs(sysfs: Sysfs) -> JetsonKnobs:
    """Look for what can be set on a board; nothing is written.

    Raises:
        DeviceError: its cores are not listed.
    """
    return JetsonKnobs(find_cores(sysfs), _cpu(sysfs), find_gpu(sysfs), find_emc(sysfs))


def _cpu(sysfs: Sysfs) -> tuple[int, ...] | str:
    if not policies(sysfs):
        return f"/{FOLDER}/cpufreq shows no policy: this kernel does not set the CPU clock"
    return common_table(sysfs) or "the clusters list no clock that all of them have"


def limits_in_force(knobs: JetsonKnobs, sysfs: Sysfs) -> dict[str, float | None]:
    """Return the highest values that the kernel allows now, for a board that does not tell its power mode.

    What a mode allows is then not known; what is in force is what somebody chose, and nothing goes beyond it unasked.
    """
    cpu = [khz for policy in policies(sysfs) if (khz := sysfs.read_int(policy.limits.high)) is not None]
    gpu_hz = None if isinstance(knobs.gpu, str) else sysfs.read_int(knobs.gpu.limits.high)
    on = [core for core in knobs.cores.switchable if sysfs.read_int(online_file(core)) == 1]
    return {
        "cpu_cores": float(len(knobs.cores.fixed) + len(on)),
        "cpu_mhz": max(cpu) / KHZ_PER_MHZ if cpu else None,
        "gpu_mhz": None if gpu_hz is None else gpu_hz / HZ_PER_MHZ,
    }


def offered(knobs: JetsonKnobs, sysfs: Sysfs, caps: Mapping[str, float | None], presets: Presets) -> ModeSpace:
    """Return the values on offer: of the board's tables, within the caps, where its files may be written.

    Args:
        knobs: The board's.
        sysfs: Where its files are.
        caps: Highest value of each knob; ``None``, or a knob that is left out, for no cap.
        presets: Named modes; those that need a reboot, or are above the caps, are withheld.
    """
    values: dict[str, tuple[float, ...]] = {}
    fixed = dict(knobs.reasons)
    for knob, table in knobs.tables.items():
        within = tuple(value for value in table if _within(value, caps.get(knob)))
        locked = [path for path in knobs.files[knob] if _shut(sysfs, path)]
        if locked:
            fixed[knob] = f"/{locked[0]} is not writable; setting it needs root, and no container around it"
        elif not within:
            fixed[knob] = f"the active power mode allows {caps[knob]:g} at most, below its lowest value {table[0]:g}"
        else:
            values[knob] = within
    withheld = {name: reason for name, mode in presets.modes.items() if (reason := _obstacle(mode, values, fixed))}
    withheld |= presets.needs_reboot
    return ModeSpace(
        knobs={knob: values[knob] for knob in KNOBS if knob in values},
        presets={name: mode for name, mode in presets.modes.items() if name not in withheld},
        fixed={knob: fixed[knob] for knob in KNOBS if knob in fixed},
        withheld=withheld,
        limited={
            knob: f"the active power mode allows {within[-1]:g} at most; jetson?beyond-caps=on offers more"
            for knob, within in values.items()
            if within[-1] < knobs.tables[knob][-1]
        },
    )


def _obstacle(mode: Mode, values: Mapping[str, tuple[float, ...]], fixed: Mapping[str, str]) -> str:
    """Say why a named mode cannot be set, empty when it can."""
    for knob, value in mode.knobs().items():
        if knob in fixed:
            return f"{knob} cannot be set: {fixed[knob]}"
        if value not in values.get(knob, ()):
            return f"its {knob} of {value:g} is above what the active power mode allows; see jetson?beyond-caps=on"
    return ""


def _within(value: float, cap: float | None) -> bool:
    return cap is None or value <= cap * (1 + 1e-9)


def _shut(sysfs: Sysfs, path: str) -> bool:
    """Whether a file is there and may not be written; one that is hidden now, as its cores are off, may show later."""
    return bool(sysfs.glob(path)) and not sysfs.writable(path)
