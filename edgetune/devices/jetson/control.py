"""Set a Jetson's knobs (cores, CPU clock, GPU clock, memory clock) in the order that NVIDIA's nvpmodel uses.

    apply     cores on -> CPU limits -> GPU awake, limits, asleep again -> memory -> other cores off
    restore   memory -> GPU -> cores on -> CPU limits -> cores off

Only limits, the memory's lock and cap, ``power/control`` and ``online`` files are written: no governor, fan, current
limit or power-gating mask, so that no change needs a reboot. Source: the configurations of nvpmodel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from edgetune.artifacts.mode import Mode
from edgetune.devices.board_files import BoardFiles
from edgetune.devices.capabilities import Absent, ModeSpace
from edgetune.devices.control import RestorePlan, Snapshot
from edgetune.devices.jetson import cpu as cpu_cores
from edgetune.devices.jetson.cpu import CpuClock
from edgetune.devices.jetson.emc import EmcClock
from edgetune.devices.jetson.gpu import GpuClock
from edgetune.devices.jetson.knobs import HZ_PER_MHZ, KHZ_PER_MHZ, JetsonKnobs, Presets, find_knobs, offered
from edgetune.devices.jetson.restore import BoardParts, BoardRestore, configuration_in_force, plan_restore
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError

_ATTEMPTS = 2
"""Attempts of a restore: a file that was busy during the first may accept the second."""


class JetsonControl:
    """A ``BoardControl`` of a Jetson.

    Args:
        sysfs: The board's files.
        knobs: The board's knobs; detected by default.
        presets: Modes of the power configuration.
        caps: Highest value of each knob that the active power mode allows; ``None``, or a knob left out, for no cap.
        beyond_caps: Also offer values above the caps, the kernel's own cap on the memory clock included.
        sleep: Waits for seconds; tests replace it.

    Attributes:
        learnt: Called when the snapshot gains the limits of a cluster that hid them while it was off, before ``apply``
            changes those limits; the guardian then rewrites its journal.

    Raises:
        DeviceError: the board does not list its cores.
    """

    def __init__(
        self,
        sysfs: Sysfs,
        *,
        knobs: JetsonKnobs | None = None,
        presets: Presets | None = None,
        caps: Mapping[str, float | None] | None = None,
        beyond_caps: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = "jetson"
        self.learnt: Callable[[Snapshot], None] = _keep_in_memory
        self._knobs = knobs = find_knobs(sysfs) if knobs is None else knobs
        settable = [path for paths in knobs.files.values() for path in paths]
        files = BoardFiles(sysfs, settable, sleep)
        self._parts = BoardParts(
            files,
            knobs.cores,
            None if isinstance(knobs.cpu_khz, str) else CpuClock(files, knobs.cores),
            None if isinstance(knobs.gpu, str) else GpuClock(files, knobs.gpu),
            None if isinstance(knobs.emc, str) else EmcClock(files, knobs.emc),
        )
        limits = {} if beyond_caps else self._with_kernel_cap(caps or {})
        self._beyond = {} if beyond_caps else {knob: table[-1] for knob, table in knobs.tables.items()}
        self._space = offered(knobs, sysfs, limits, presets or Presets({}, {}))

    def _with_kernel_cap(self, caps: Mapping[str, float | None]) -> dict[str, float | None]:
        """Return the caps with the kernel's cap on the memory clock, which may be below that of the power mode."""
        if self._parts.emc is None:
            return dict(caps)
        told = caps.get("mem_mhz")
        return {**caps, "mem_mhz": min(float("inf") if told is None else told, self._parts.emc.capped_hz / HZ_PER_MHZ)}

    @property
    def space(self) -> ModeSpace:
        """The modes that can be set."""
        return self._space

    @property
    def settable(self) -> frozenset[str]:
        """Every file that is ever opened for writing; computed once, in the constructor."""
        return self._parts.files.settable

    def configuration(self) -> str:
        """Return the power mode in force, which sets the board's limits; empty when it is unknown."""
        return configuration_in_force(self._parts.files.sysfs)

    def plan_restore(self, found: Snapshot, then: str) -> RestorePlan:
        """Return the restore targets of settings that were found in the power mode ``then``."""
        return plan_restore(self._knobs, self._parts.files.sysfs, found, then)

    def snapshot(self) -> Snapshot:
        """Return every setting that ``apply`` may change, in the order of a restore.

        The snapshot lacks limits that a cluster hides while it is off; ``apply`` adds them, see ``learnt``.

        Raises:
            DeviceError: a setting cannot be read, or the kernel has lowered limits because of heat, so that the present
                values are not those to restore. Nothing may then be changed.
        """
        _require_cool(self._parts.files.sysfs)
        found: Snapshot = {}
        if self._parts.emc is not None:
            found |= self._parts.emc.snapshot()
        if self._parts.gpu is not None:
            found |= self._parts.gpu.snapshot()
        switches = {path: self._parts.files.read(path) for path in self._parts.cores.settable}
        found |= {path: value for path, value in switches.items() if value == "1"}
        if self._parts.cpu is not None:
            found |= self._parts.cpu.snapshot()
        return found | {path: value for path, value in reversed(switches.items()) if value != "1"}

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Set ``mode`` and return the mode read back; knobs that ``mode`` leaves out get their values of ``found``.

        Args:
            mode: Values of ``space``.
            found: From ``snapshot``; limits that were hidden are added to it.

        Raises:
            DeviceError: a value is not on offer, or the board refused it, changed it or ignored it.
        """
        self._check(mode)
        wanted = self._wanted_cores(mode.cpu_cores, found)
        cpu_cores.switch_on(self._parts.files, wanted & set(self._parts.cores.switchable))
        if self._parts.cpu is not None:
            self._parts.cpu.apply(_scaled(mode.cpu_mhz, KHZ_PER_MHZ), wanted, found, self.learnt)
        if self._parts.gpu is not None:
            self._parts.gpu.apply(_scaled(mode.gpu_mhz, HZ_PER_MHZ), found)
        if self._parts.emc is not None:
            self._parts.emc.apply(_scaled(mode.mem_mhz, HZ_PER_MHZ), found)
        cpu_cores.switch_off(self._parts.files, set(self._parts.cores.switchable) - wanted)
        now = self.read()
        for knob, value in mode.knobs().items():
            back = now.knobs().get(knob)
            if back != value:
                raise DeviceError(
                    f"{knob} was set to {value:g} but reads back {'a range' if back is None else format(back, 'g')}",
                    "something else sets it too: stop nvpmodel, jetson_clocks and power daemons",
                )
        return now

    def _wanted_cores(self, count: int | None, found: Mapping[str, str]) -> frozenset[int]:
        if count is not None:
            return cpu_cores.choose(count, self._parts.cores, found)
        return self._parts.cores.fixed | {
            c for c in self._parts.cores.switchable if found.get(cpu_cores.online_file(c)) == "1"
        }

    def _check(self, mode: Mode) -> None:
        """Raise ``DeviceError`` for a value that is not on offer, before any write."""
        for knob, value in mode.knobs().items():
            if knob in self._space.fixed:
                raise DeviceError(f"{knob} cannot be set here: {self._space.fixed[knob]}", f"leave {knob} out")
            table = self._space.knobs.get(knob, ())
            if value in table:
                continue
            if table and table[-1] < value <= self._beyond.get(knob, 0.0):
                raise DeviceError(
                    f"{knob} of {value:g} is above the {table[-1]:g} that the active power mode allows",
                    "choose another mode with sudo nvpmodel -m, or lower the value",
                )
            known = ", ".join(f"{other:g}" for other in table) or "no such knob"
            raise DeviceError(f"{knob} cannot be {value:g} on this board", f"it has {known}")

    def read(self) -> Mode:
        """Return the present knobs; a clock that is not pinned is ``None``.

        Raises:
            DeviceError: a file cannot be read.
        """
        cpu = None if self._parts.cpu is None else self._parts.cpu.read_khz()
        gpu = None if self._parts.gpu is None else self._parts.gpu.read_hz()
        emc = None if self._parts.emc is None else self._parts.emc.read_hz()
        return Mode(
            cpu_cores=len(cpu_cores.online(self._parts.files, self._parts.cores)),
            cpu_mhz=None if cpu is None else cpu / KHZ_PER_MHZ,
            gpu_mhz=None if gpu is None else gpu / HZ_PER_MHZ,
            mem_mhz=None if emc is None else emc / HZ_PER_MHZ,
        )

    def restore(self, found: Snapshot) -> list[str]:
        """Restore every setting from any state; an error does not stop the others. Idempotent.

        Returns:
            One sentence for each setting that differs from ``found``, naming it and its value.
        """
        wrong: list[str] = []
        for _ in range(_ATTEMPTS):
            wrong = BoardRestore(self._parts, found).run()
            if not wrong:
                break
        return wrong


def _require_cool(sysfs: Sysfs) -> None:
    """Check that the kernel has not lowered limits because of heat: a restore would make such limits permanent.

    Cooling devices of cpufreq and devfreq lower the limits themselves (Linux drivers/thermal/cpufreq_cooling.c); the
    throttling alerts of NVIDIA's boards do not.

    Raises:
        DeviceError: a cooling device has lowered limits.
    """
    throttle = open_board_throttle(sysfs)
    slowing = [] if isinstance(throttle, Absent) else [kind for kind in throttle.active() if "-alert" not in kind]
    if slowing:
        raise DeviceError(
            f"heat holds the clocks down now ({', '.join(slowing)}), so that their limits cannot be noted as found",
            "let the board cool, or raise the fan: sudo nvpmodel -d cool",
        )


def _scaled(mhz: float | None, per_mhz: int) -> int | None:
    return None if mhz is None else round(mhz * per_mhz)


def _keep_in_memory(found: Snapshot) -> None:
    """Do nothing: without a journal, the snapshot alone holds the added limits."""
