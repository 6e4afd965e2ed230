"""Set a GPU's clock locks and power limit: values from its own tables, verified as far as NVML allows, and restored.

The power limit is verified and restored to the milliwatt. NVML sets and resets clock locks but cannot read them. A lock
therefore counts as obeyed while the clock is not above it (an idle or capped GPU is below it). A restore resets the
locks that edgetune set: an earlier lock of another program is then lost. What no mode has set is not restored either,
since others move it (Dynamic Boost of laptops moves the power limit).

Neither setting outlives the driver (NVML API reference). MIG, persistence mode, compute mode and ECC are never touched.
"""

from collections.abc import Callable, Sequence

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Clock, ModeSpace, MonotonicClock, check_mode
from edgetune.devices.control import BoardControl, Snapshot
from edgetune.devices.nvml import gpu as nvml
from edgetune.devices.nvml.gpu import AMPERE, VOLTA, Gpu, GpuLostError, NoPermissionError, NotSupportedError
from edgetune.errors import DeviceError

NEEDS_ROOT = "setting it needs root: edgetune doctor"
_STEP_MW = 5000
"""Step of offered limits; NVML accepts any milliwatt. 5 W is 2 % of a 250 W card, below the measurement error."""


def mode_space(gpu: Gpu, *, may_set: bool) -> ModeSpace:
    """Return the knobs of a GPU: its own clocks, and power limits every 5 W, with both ends and the default.

    Args:
        gpu: The GPU.
        may_set: Whether this process is root, which every NVML setting requires.
    """
    tables: dict[str, tuple[float, ...] | str] = {
        "gpu_mhz": _or_why(lambda: _graphics_clocks(gpu), "this driver does not list the clocks of this GPU"),
        "mem_mhz": _or_why(lambda: _memory_clocks(gpu), "this driver does not list the memory clocks of this GPU"),
        "power_limit_w": _or_why(lambda: _limits_w(gpu, may_set), "this GPU does not let its power limit be set"),
    }
    if gpu.mig:
        tables |= dict.fromkeys(tables, "MIG is on: its other instances share the clocks and the power limit")
    elif not may_set:
        tables |= {knob: NEEDS_ROOT for knob, values in tables.items() if not isinstance(values, str)}
    return ModeSpace(
        knobs={knob: values for knob, values in tables.items() if not isinstance(values, str)},
        presets={"default": Mode()},
        fixed={knob: reason for knob, reason in tables.items() if isinstance(reason, str)},
    )


def _or_why(table: Callable[[], tuple[float, ...] | str], reason: str) -> tuple[float, ...] | str:
    try:
        return table() or reason
    except (NotSupportedError, NoPermissionError):
        return reason
    except GpuLostError:
        raise
    except DeviceError as error:
        return f"{reason} ({error.message})"


def _graphics_clocks(gpu: Gpu) -> tuple[float, ...] | str:
    """Return the graphics clocks at the highest memory clock, MHz; nvmlDeviceSetGpuLockedClocks came with Volta."""
    if (gpu.architecture or VOLTA) < VOLTA:
        return "locking the GPU clock needs a GPU of the Volta generation or newer"
    clocks: Sequence[int] = gpu.ask("nvmlDeviceGetSupportedMemoryClocks")
    return _ascending(gpu.ask("nvmlDeviceGetSupportedGraphicsClocks", max(clocks)) if clocks else ())


def _memory_clocks(gpu: Gpu) -> tuple[float, ...] | str:
    """Return the memory clocks that support every graphics clock, MHz; locking them came with Ampere.

    The lowest memory clocks of GeForce are idle states with only a few low graphics clocks. They are left out, because
    every value of a knob must combine with every value of another.
    """
    if (gpu.architecture or AMPERE) < AMPERE:
        return "locking the memory clock needs a GPU of the Ampere generation or newer"
    clocks = gpu.ask("nvmlDeviceGetSupportedMemoryClocks")
    graphics = {mhz: set(gpu.ask("nvmlDeviceGetSupportedGraphicsClocks", mhz)) for mhz in clocks}
    return _ascending([mhz for mhz in clocks if graphics[mhz] >= graphics[max(clocks)]])


def _limits_w(gpu: Gpu, may_set: bool) -> tuple[float, ...] | str:
    """Return the power limits, W, where the present one can be read and, at the default, set again."""
    now_mw = gpu.ask("nvmlDeviceGetPowerManagementLimit")
    low_mw, high_mw = gpu.ask("nvmlDeviceGetPowerManagementLimitConstraints")
    if low_mw == high_mw:
        return f"its power limit is {low_mw / 1e3:g} W and no other"
    default_mw = gpu.maybe("nvmlDeviceGetPowerManagementDefaultLimit")
    if may_set and not gpu.mig and now_mw == default_mw:
        gpu.ask("nvmlDeviceSetPowerManagementLimit", now_mw)
    steps = range(-(-low_mw // _STEP_MW) * _STEP_MW, high_mw + 1, _STEP_MW)
    ends = (low_mw, high_mw, *(() if default_mw is None else (default_mw,)))
    return _ascending([limit_mw / 1e3 for limit_mw in (*steps, *ends) if low_mw <= limit_mw <= high_mw])


def _ascending(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in sorted(set(values)) if value > 0)


LOCK_UNKNOWN = "unknown: NVML cannot read it; put back by unlocking"
_LIMIT = "power_limit_mw"
_SAME_W = 0.5  # tolerance of a limit read back, because a driver may round it
_ABOVE = 1.02  # tolerance of a locked clock read back, as in the profiler: drivers round to their steps
_OBEYED_WITHIN_S = 1.0
_POLL_S = 0.02


LOCKS = {"mem_mhz": ("Memory", nvml.MEMORY_CLOCK), "gpu_mhz": ("Gpu", nvml.GRAPHICS_CLOCK)}
"""The clocks that can be locked, by knob: the word for each in the functions of NVML, and its ``nvmlClockType_t``."""


def lock_setting(knob: str) -> str:
    """Return the name of a lock in snapshots, e.g. ``gpu_clock_lock``."""
    return f"{LOCKS[knob][0].lower()}_clock_lock"


class NvmlControl(BoardControl):
    """Sets modes of one GPU.

    Args:
        gpu: The GPU.
        may_set: Whether this process is root.
        clock: Clock of the wait until a lock takes effect.
    """

    def __init__(self, gpu: Gpu, *, may_set: bool, clock: Clock | None = None) -> None:
        self._gpu = gpu
        self._clock = clock or MonotonicClock()
        self.name = f"nvidia:{gpu.index}"
        self.space = mode_space(gpu, may_set=may_set)
        self._ours: dict[str, float] = {}
        """Locks set by edgetune, MHz."""

    def snapshot(self) -> Snapshot:
        """Return nothing: ``apply`` adds each setting before it first changes it."""
        return {}

    def apply(self, mode: Mode, found: Snapshot) -> Mode:
        """Set ``mode``; for missing knobs, reset edgetune's clock locks and restore the power limit that it changed.

        Raises:
            DeviceError: a value is not on offer, this process lacks permission, or the driver refused or ignored it.
        """
        wanted = mode.knobs()
        check_mode(wanted, self.space, self.name)
        new = {lock_setting(knob): LOCK_UNKNOWN for knob in LOCKS if knob in wanted and lock_setting(knob) not in found}
        if "power_limit_w" in wanted and _LIMIT not in found:
            new[_LIMIT] = str(self._limit_mw())
        if new:
            found |= new
            self.learnt(found)
        for knob in LOCKS:
            if knob in wanted:
                self._set_lock(knob, wanted[knob])
            elif knob in self._ours:
                self._reset_lock(knob)
        if "power_limit_w" in wanted:
            self._set_limit(round(wanted["power_limit_w"] * 1e3))
        elif _LIMIT in found:
            self._set_limit(int(found[_LIMIT]))
        return self.read()

    def read(self) -> Mode:
        """Return the power limit, and each of edgetune's locks that the present clock does not contradict."""
        knobs = {knob: mhz for knob in LOCKS if (mhz := self._ours.get(knob)) and not self._is_above(knob, mhz)}
        limit_mw = self._gpu.maybe("nvmlDeviceGetPowerManagementLimit")
        if limit_mw is not None:
            knobs["power_limit_w"] = limit_mw / 1e3
        return Mode.of(knobs)

    def restore(self, found: Snapshot) -> list[str]:
        """Reset locks and restore the power limit, those that the snapshot names; return failures as sentences."""
        wrong: list[str] = []
        for knob in LOCKS:
            if (setting := lock_setting(knob)) in found:
                try:
                    self._reset_lock(knob)
                except DeviceError as error:
                    wrong.append(f"the {setting.replace('_', ' ')} of {self.name} is not reset: {error.message}")
        if _LIMIT in found:
            try:
                self._set_limit(int(found[_LIMIT]), exactly=True)
            except DeviceError as error:
                wrong.append(f"the power limit of {self.name} is not {int(found[_LIMIT]) / 1e3:g} W: {error.message}")
        return wrong

    def _change(self, knob: str, function: str, *arguments: int) -> None:
        """Call an NVML function that changes a setting; ``knob`` is for the message."""
        try:
            self._gpu.ask(function, *arguments)
        except DeviceError as error:
            reason = NEEDS_ROOT if isinstance(error, NoPermissionError) else error.message
            raise type(error)(f"{self.name} cannot set {knob}: {reason}", error.hint) from None

    def _set_lock(self, knob: str, mhz: float) -> None:
        self._ours[knob] = mhz  # before the call: a driver may report a failure and still set the lock
        self._change(knob, f"nvmlDeviceSet{LOCKS[knob][0]}LockedClocks", round(mhz), round(mhz))
        waited_s = 0.0
        while self._is_above(knob, mhz):
            if waited_s >= _OBEYED_WITHIN_S:
                hint = "look for another program that sets the clocks, e.g. a DCGM policy"
                raise DeviceError(f"{self.name} was locked to {knob}={mhz:g} but runs at {self._mhz(knob):g} MHz", hint)
            self._clock.sleep_s(_POLL_S)
            waited_s += _POLL_S

    def _reset_lock(self, knob: str) -> None:
        self._change(knob, f"nvmlDeviceReset{LOCKS[knob][0]}LockedClocks")
        self._ours.pop(knob, None)

    def _mhz(self, knob: str) -> float | None:
        now = self._gpu.maybe("nvmlDeviceGetClockInfo", LOCKS[knob][1])
        return None if now is None else float(now)

    def _is_above(self, knob: str, mhz: float) -> bool:
        """Whether the clock is above its lock; false for an unreadable clock."""
        now = self._mhz(knob)
        return now is not None and now > _ABOVE * mhz

    def _limit_mw(self) -> int:
        return int(self._gpu.ask("nvmlDeviceGetPowerManagementLimit"))

    def _set_limit(self, limit_mw: int, *, exactly: bool = False) -> None:
        """Set the power limit unless already set, and read it back."""
        if self._limit_mw() != limit_mw:
            self._change("power_limit_w", "nvmlDeviceSetPowerManagementLimit", limit_mw)
        now_mw = self._limit_mw()
        if abs(now_mw - limit_mw) > (0 if exactly else _SAME_W * 1e3):
            raise DeviceError(
                f"the power limit of {self.name} was set to {limit_mw / 1e3:g} W but reads back {now_mw / 1e3:g} W",
                "look for another program that sets it, e.g. nvidia-powerd or a DCGM policy",
            )
        if exactly:
            return
        enforced_mw = self._gpu.maybe("nvmlDeviceGetEnforcedPowerLimit")
        if enforced_mw is not None and enforced_mw < limit_mw - _SAME_W * 1e3:
            raise DeviceError(
                f"the power limit of {self.name} is {limit_mw / 1e3:g} W, but another limit of "
                f"{enforced_mw / 1e3:g} W holds it down",
                "ask whoever manages this machine; lower limits can be set",
            )
