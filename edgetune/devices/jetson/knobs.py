"""The knobs of a board with the values of its own tables, and NVIDIA's power modes as values of these knobs.

An nvpmodel configuration has lines such as ``CPU_A78_0 MAX_FREQ 1728000`` for each cluster, ``-1`` for no limit, and
values that the board's tables lack. This module converts them as nvpmodel does:

* CPU and GPU: the nearest value of the board's table ("silently rounded" in NVIDIA's guide; on a Nano 918000 kHz became
  921600 and 640000000 Hz became 614400000). On a tie, the lower value.
* Memory: the limit is written unchanged, and the memory runs at its highest rate up to the limit. (Kernels of JetPack 6
  and later round the limit themselves; that they round down is not verified.)
* No limit: the highest value. A memory limit of 0 also means no limit in ``emc_iso_cap`` (JetPack 4 and 5). In
  ``nvpmodel_clk_cap`` (JetPack 6 and later) the driver reads 0 as the *lowest* rate, which is neither intended nor
  observed; the memory clock is then unknown.
* CPU clock: one number for the whole board, the lowest limit of all clusters with a core online, so that no cluster
  exceeds its own limit.
* Cores: all that the mode does not switch off.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.jetson.cpu import Cores, CpuClock, find_cores, find_cpu, online_file, policies
from edgetune.devices.jetson.emc import Cap, EmcClock, find_emc
from edgetune.devices.jetson.gpu import GpuClock, find_gpu
from edgetune.devices.jetson.nvpmodel import Nvpmodel, is_mask
from edgetune.devices.jetson.nvpmodel_grammar import UNCAPPED, Param, PowerModel
from edgetune.devices.sysfs import Sysfs

Tables = Mapping[str, tuple[float, ...]]
"""Values that the board offers for each knob, ascending, MHz for clocks; knobs that the board lacks are left out."""

_CPU_OF_CLOCK = re.compile(r"/cpu/(?:cpufreq/policy|cpu)([0-9]+)/")
_CPU_OF_CORE = re.compile(r"/cpu/cpu([0-9]+)/online\Z")


@dataclass(frozen=True, slots=True)
class Presets:
    """The modes of a configuration.

    Args:
        modes: Modes by their name in the file; a repeated name gets its number, ``NAME#ID``.
        needs_reboot: Modes that switch parts of the GPU on or off and so need a reboot, with the reason.
    """

    modes: Mapping[str, Mode]
    needs_reboot: Mapping[str, str]


def presets_of(nvpmodel: Nvpmodel, tables: Tables, masks: Mapping[str, str]) -> Presets:
    """Return the configuration's modes with the board's values; a knob that a mode does not set is ``None``.

    Args:
        nvpmodel: The configuration in force.
        tables: The board's own values, ``cpu_cores`` included.
        masks: The masks of switched-off GPU parts that are in force, from ``present_masks``.
    """
    modes: dict[str, Mode] = {}
    needs_reboot: dict[str, str] = {}
    for model in nvpmodel.config.models:
        name = model.name if model.name not in modes else f"{model.name}#{model.id}"
        limits = _limits(nvpmodel, model, tables)
        modes[name] = Mode.of({knob: value for knob, value in limits.items() if value is not None})
        reasons = _changed_masks(model, masks)
        if reasons:
            needs_reboot[name] = f"needs a reboot: {'; '.join(reasons)}"
    return Presets(modes, needs_reboot)


def caps_of(nvpmodel: Nvpmodel, tables: Tables) -> dict[str, float | None]:
    """Return the highest value of each knob that the active mode allows; ``None`` where unknown.

    No limit means the highest value of the table. The kernel may cap the memory lower (some Orin Nano Super boards at
    2133 MHz in ``MAXN_SUPER``); ``JetsonControl`` reads that cap.
    """
    model = nvpmodel.active_model
    if model is None:
        return dict.fromkeys(("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"))
    return _limits(nvpmodel, model, tables)


def _limits(nvpmodel: Nvpmodel, model: PowerModel, tables: Tables) -> dict[str, float | None]:
    off, cores = _cores_off(nvpmodel, model), tables.get("cpu_cores")
    gpu, gpus = _clock(model, nvpmodel.config.params.get("GPU")), tables.get("gpu_mhz", ())
    return {
        "cpu_cores": float(sum(cpu not in off for cpu in range(int(cores[-1])))) if cores else None,
        "cpu_mhz": _cpu_mhz(nvpmodel, model, tables.get("cpu_mhz", ()), off),
        "gpu_mhz": None if gpu is None or not gpus else _nearest(gpu, GpuClock.per_mhz, gpus),
        "mem_mhz": _mem_mhz(nvpmodel, model, tables.get("mem_mhz", ())),
    }


def _cores_off(nvpmodel: Nvpmodel, model: PowerModel) -> set[int]:
    """Return the cores that the mode switches off; never core 0, which the kernel keeps online."""
    off = set()
    for name, param in nvpmodel.config.params.items():
        for argument, path in param.paths.items():
            cpu = _CPU_OF_CORE.search(path)
            if cpu and model.get(name, argument) == "0":
                off.add(int(cpu[1]))
    return off - {0}


def _cpu_mhz(nvpmodel: Nvpmodel, model: PowerModel, table: tuple[float, ...], off: set[int]) -> float | None:
    found = []
    for param in nvpmodel.config.params.values():
        cpu = _CPU_OF_CLOCK.search(" ".join(param.declared("MAX_FREQ")))
        limit = _clock(model, param)
        if cpu and int(cpu[1]) not in off and limit is not None and table:
            found.append(_nearest(limit, CpuClock.per_mhz, table))
    return min(found, default=None)


def _mem_mhz(nvpmodel: Nvpmodel, model: PowerModel, table: tuple[float, ...]) -> float | None:
    limit = _clock(model, nvpmodel.config.params.get("EMC"))
    if limit is None or not table:
        return None
    if limit == 0:
        path = nvpmodel.paths.get(("EMC", "MAX_FREQ"), "")
        return table[-1] if path.endswith("/emc_iso_cap") else None
    if limit >= UNCAPPED:
        return table[-1]
    below = [mhz for mhz in table if round(mhz * EmcClock.per_mhz) <= limit]
    return below[-1] if below else table[0]


def _clock(model: PowerModel, param: Param | None) -> int | None:
    value = model.get(param.name, "MAX_FREQ") if param else None
    return value if isinstance(value, int) else None


def _nearest(limit: int, per_mhz: int, table: tuple[float, ...]) -> float:
    return table[-1] if limit >= UNCAPPED else min(table, key=lambda mhz: (abs(mhz * per_mhz - limit), mhz))


def _changed_masks(model: PowerModel, masks: Mapping[str, str]) -> list[str]:
    """Return the GPU masks that the mode would change, e.g. ``TPC mask 248, now 240``."""
    reasons = []
    for setting in (each for each in model.settings if is_mask(each.argument)):
        now, wanted = masks.get(setting.argument), str(setting.value)
        if now is None or _number(now) != _number(wanted):
            part = setting.argument.removesuffix("_PG_MASK")
            reasons.append(f"{part} mask {wanted}, now {'unknown' if now is None else now}")
    return reasons


def _number(text: str) -> int | str:
    """Parse a mask in any base; return other text unchanged."""
    try:
        return int(text, 0)
    except ValueError:
        return int(text) if text.isascii() and text.isdecimal() else text


@dataclass(frozen=True, slots=True)
class JetsonKnobs:
    """The knobs of a board, whether or not this user may set them; ``None`` for a clock that the kernel does not set.

    Args:
        cores: The cores.
        cpu, gpu, emc: The clocks.
        reasons: Reason why a knob cannot be set, by knob.
    """

    cores: Cores
    cpu: CpuClock | None
    gpu: GpuClock | None
    emc: EmcClock | None
    reasons: Mapping[str, str]

    @property
    def clocks(self) -> dict[str, CpuClock | GpuClock | EmcClock]:
        """The clocks that can be set, by knob."""
        clocks = {"cpu_mhz": self.cpu, "gpu_mhz": self.gpu, "mem_mhz": self.emc}
        return {knob: clock for knob, clock in clocks.items() if clock is not None}

    @property
    def emc_cap(self) -> Cap | None:
        """The cap on the memory clock; ``None`` without a settable memory clock or without a cap file."""
        return None if self.emc is None else self.emc.cap

    @property
    def tables(self) -> dict[str, tuple[float, ...]]:
        """Every value that the board lists, by knob, ascending; clocks in MHz, caps ignored."""
        clocks = {knob: tuple(value / clock.per_mhz for value in clock.table) for knob, clock in self.clocks.items()}
        return {"cpu_cores": tuple(map(float, self.cores.counts)), **clocks}

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """Every file that setting a knob may write, by knob."""
        return {"cpu_cores": self.cores.settable, **{knob: clock.settable for knob, clock in self.clocks.items()}}


def find_knobs(sysfs: Sysfs) -> JetsonKnobs:
    """Find the knobs of a board without writing anything.

    Raises:
        DeviceError: the kernel does not list the cores.
    """
    cores = find_cores(sysfs)
    cpu, gpu, emc = find_cpu(sysfs, cores), find_gpu(sysfs), find_emc(sysfs)
    found = {"cpu_mhz": cpu, "gpu_mhz": gpu, "mem_mhz": emc}
    return JetsonKnobs(
        cores,
        None if isinstance(cpu, str) else cpu,
        None if isinstance(gpu, str) else gpu,
        None if isinstance(emc, str) else emc,
        {knob: reason for knob, reason in found.items() if isinstance(reason, str)},
    )


def limits_in_force(knobs: JetsonKnobs, sysfs: Sysfs) -> dict[str, float | None]:
    """Return the highest values that the kernel allows now, for a board with an unknown power mode.

    The limits in force replace the unknown limits of the mode; only an explicit option exceeds them.
    """
    cpu = [khz for policy in policies(sysfs) if (khz := sysfs.read_int(policy.limits.high)) is not None]
    gpu_hz = None if knobs.gpu is None else sysfs.read_int(knobs.gpu.limits.high)
    on = [core for core in knobs.cores.switchable if sysfs.read_int(online_file(core)) == 1]
    return {
        "cpu_cores": float(len(knobs.cores.fixed) + len(on)),
        "cpu_mhz": max(cpu) / CpuClock.per_mhz if cpu else None,
        "gpu_mhz": None if gpu_hz is None else gpu_hz / GpuClock.per_mhz,
    }


def offered(knobs: JetsonKnobs, sysfs: Sysfs, caps: Mapping[str, float | None], presets: Presets) -> ModeSpace:
    """Return the values on offer: those of the board's tables within the caps, for knobs whose files are writable.

    Args:
        knobs: The board's knobs.
        sysfs: The board's files.
        caps: Highest value of each knob; ``None``, or a missing knob, means no cap.
        presets: Named modes; those that need a reboot, or are above the caps, are withheld.
    """
    values: dict[str, tuple[float, ...]] = {}
    fixed = dict(knobs.reasons)
    for knob, table in knobs.tables.items():
        cap = caps.get(knob)
        within = tuple(value for value in table if cap is None or value <= cap * (1 + 1e-9))
        # a missing file may be that of an offline cluster
        locked = [path for path in knobs.files[knob] if sysfs.glob(path) and not sysfs.writable(path)]
        if locked:
            fixed[knob] = f"/{locked[0]} is not writable; setting it needs root, and no container around it"
        elif not within:
            fixed[knob] = f"the active power mode allows {cap:g} at most, below its lowest value {table[0]:g}"
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
    """Return the reason why a named mode cannot be set, empty when it can."""
    for knob, value in mode.knobs().items():
        if knob in fixed:
            return f"{knob} cannot be set: {fixed[knob]}"
        if value not in values.get(knob, ()):
            return f"its {knob} of {value:g} is above what the active power mode allows; see jetson?beyond-caps=on"
    return ""
