"""Set a Jetson's knobs (cores, CPU clock, GPU clock, memory clock) in the order that NVIDIA's nvpmodel uses.

    apply     cores on -> CPU limits -> GPU awake, limits, asleep again -> memory -> other cores off
    restore   memory -> GPU -> cores on -> CPU limits -> cores off

Only limits, the memory's lock and cap, ``power/control``, ``online`` and, if asked for, fan files are written: no
governor, current limit or power-gating mask, so that no change needs a reboot. Source: the configurations of nvpmodel.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from edgetune.artifacts.mode import Mode
from edgetune.devices.board_files import BoardFiles
from edgetune.devices.capabilities import Absent, check_mode
from edgetune.devices.control import BoardControl, RestorePlan, Snapshot
from edgetune.devices.jetson.cpu import CpuClock, choose, online, switch
from edgetune.devices.jetson.knobs import JetsonKnobs, Presets, find_knobs, offered
from edgetune.devices.jetson.restore import BoardRestore, configuration_in_force, plan_restore
from edgetune.devices.jetson.throttle import open_board_throttle
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError

_ATTEMPTS = 2
"""Attempts of a restore: a file that was busy during the first may accept the second."""


class JetsonControl(BoardControl):
    """A ``BoardControl`` of a Jetson.

    Args:
        sysfs: The board's files.
        knobs: The board's knobs; detected by default.
        presets: Modes of the power configuration.
        caps: Highest value of each knob that the active power mode allows; ``None``, or a knob left out, for no cap.
        beyond_caps: Also offer values above the caps, the kernel's own cap on the memory clock included.
        sleep: Waits for seconds; tests replace it.

    Attributes:
        knobs: The board's knobs.
        settable: Every file that is ever opened for writing.

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
        self.knobs = knobs = find_knobs(sysfs) if knobs is None else knobs
        self._fan = fan_at_maximum(sysfs)
        settable = [*self._fan, *(path for paths in knobs.files.values() for path in paths)]
        self._files = BoardFiles(sysfs, settable, sleep)
        self.settable = self._files.settable
        limits = {} if beyond_caps else dict(caps or {})
        if not beyond_caps and knobs.emc is not None:  # the kernel's cap on memory may be below that of the power mode
            kernel, allowed = knobs.emc.capped_hz(self._files) / knobs.emc.per_mhz, limits.get("mem_mhz")
            limits["mem_mhz"] = kernel if allowed is None else min(allowed, kernel)
        self.space = offered(knobs, sysfs, limits, presets or Presets({}, {}))

    def configuration(self) -> str:
        """Return the power mode in force, which sets the board's limits; empty when it is unknown."""
        return configuration_in_force(self._files.sysfs)

    def plan_restore(self, found: Snapshot, then: str) -> RestorePlan:
        """Return the restore targets of settings that were found in the power mode ``then``."""
        return plan_restore(self.knobs, self._files.sysfs, found, then)

    def snapshot(self) -> Snapshot:
        """Return every setting that ``apply`` may change, in the order of a restore.

        The snapshot lacks limits that a cluster hides while it is off; ``apply`` adds them, see ``learnt``.

        Raises:
            DeviceError: a setting cannot be read, or the kernel has lowered limits because of heat, so that the present
                values are not those to restore. Nothing may then be changed.
        """
        knobs, files = self.knobs, self._files
        _require_cool(files.sysfs)
        found: Snapshot = {}
        for clock in (knobs.emc, knobs.gpu):
            if clock is not None:
                found |= clock.snapshot(files)
        switches = {path: files.read(path) for path in knobs.cores.settable}
        found |= {path: value for path, value in switches.items() if value == "1"}
        if knobs.cpu is not None:
            found |= knobs.cpu.snapshot(files)
        return found | {path: value for path, value in reversed(switches.items()) if value != "1"}

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Set ``mode`` and return the mode read back; knobs that ``mode`` leaves out get their values of ``found``.

        Args:
            mode: Values of ``space``.
            found: From ``snapshot``; limits that were hidden are added to it.

        Raises:
            DeviceError: a value is not on offer, or the board refused it, changed it or ignored it.
        """
        knobs, files, asked = self.knobs, self._files, mode.knobs()
        check_mode(asked, self.space, self.name)
        scaled = {knob: round(asked[knob] * clock.per_mhz) for knob, clock in knobs.clocks.items() if knob in asked}
        wanted = choose(mode.cpu_cores, knobs.cores, found)
        switch(files, wanted & set(knobs.cores.switchable), on=True)
        if knobs.cpu is not None:
            knobs.cpu.apply(files, scaled.get("cpu_mhz"), wanted, found, self.learnt)
        if knobs.gpu is not None:
            knobs.gpu.apply(files, scaled.get("gpu_mhz"), found)
        if knobs.emc is not None:
            knobs.emc.apply(files, scaled.get("mem_mhz"), found)
        switch(files, set(knobs.cores.switchable) - wanted, on=False)
        now = self.read(measured=False)
        for knob, value in asked.items():
            back = now.knobs().get(knob)
            if back != value:
                raise DeviceError(
                    f"{knob} was set to {value:g} but reads back {'a range' if back is None else format(back, 'g')}",
                    "another program sets it too: stop nvpmodel, jetson_clocks and power daemons",
                )
        return now

    def fan_to_maximum(self, found: Snapshot) -> None:
        """See ``BoardControl.fan_to_maximum``; NVIDIA's daemon would slow the fan down again within two seconds."""
        sysfs = self._files.sysfs
        if not self._fan:
            super().fan_to_maximum(found)
        if any(sysfs.text(path) == "nvfancontrol" for path in sysfs.glob("proc/[0-9]*/comm")):
            hint = "sudo systemctl stop nvfancontrol, and start it after the run; or measure with the fan as it is"
            raise DeviceError("nvfancontrol sets the fan", hint)
        if not self._fan.keys() <= found.keys():
            found |= {path: self._files.read(path) for path in self._fan}
            self.learnt(found)
        for path, value in self._fan.items():
            self._files.set(path, value)

    def read(self, *, measured: bool = True) -> Mode:
        """Return the present knobs; a clock that is not pinned is ``None``.

        Args:
            measured: Return the real clock of a CPU that is held back, else the one that is set.

        Raises:
            DeviceError: a file cannot be read.
        """
        now: dict[str, float] = {"cpu_cores": len(online(self._files, self.knobs.cores))}
        for knob, clock in self.knobs.clocks.items():
            if (value := clock.read(self._files)) is not None:
                if measured and isinstance(clock, CpuClock):
                    value = clock.measured_khz(self._files, value)
                now[knob] = value / clock.per_mhz
        return Mode.of(now)

    def restore(self, found: Snapshot) -> list[str]:
        """Restore every setting from any state; an error does not stop the others. Idempotent.

        Returns:
            One sentence for each setting that differs from ``found``, naming it and its value.
        """
        return self.carry_out(RestorePlan(found))

    def carry_out(self, plan: RestorePlan) -> list[str]:
        """See ``BoardControl.carry_out``."""
        found, wrong = plan.target, list[str]()
        for _ in range(_ATTEMPTS):
            for path in filter(found.__contains__, self._fan):
                with suppress(DeviceError):  # ``run`` tells of a file that differs
                    self._files.set(path, found[path])
            wrong = BoardRestore(self._files, self.knobs, found, plan.stays).run()
            if not wrong:
                break
        return wrong


def fan_at_maximum(sysfs: Sysfs) -> dict[str, str]:
    """Return the fan's files at its highest speed, in the order of writes (from jetson_clocks and a report of Thor)."""
    files = {"sys/devices/pwm-fan/temp_control": "0", "sys/devices/pwm-fan/target_pwm": "255"}
    for path in sysfs.glob("sys/class/hwmon/hwmon*/pwm1"):
        if sysfs.text(f"{path.rpartition('/')[0]}/name") == "pwmfan":
            files |= {path: "255", f"{path}_enable": "1"}
    return {path: value for path, value in files.items() if sysfs.text(path)}


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
            f"heat holds the clocks down now ({', '.join(slowing)}), so that their limits cannot be recorded as found",
            "let the board cool, or raise the fan: sudo nvpmodel -d cool",
        )
