"""Which clocks and power limits a GPU offers, from its own tables, and why the rest cannot be set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetune.artifacts.mode import Mode
from edgetune.devices.device import ModeSpace
from edgetune.devices.nvml.binding import NotSupportedError
from edgetune.devices.nvml.gpu import AMPERE, VOLTA, Gpu

NEEDS_ROOT = "setting it needs root: edgetune doctor"
_STEP_MW = 5000
"""NVML takes any milliwatt between two ends; 5 W is 2 % of a 250 W card, below what two measurements tell apart."""


def mode_space(gpu: Gpu, *, may_set: bool) -> ModeSpace:
    """Return the knobs of a GPU: its own clocks, and power limits every 5 W, both ends and the default among them.

    Args:
        gpu: Whose.
        may_set: Whether this process is root: NVML refuses all its settings to others.
    """
    tables: dict[str, tuple[float, ...] | str] = {
        "gpu_mhz": _or_why(lambda: _graphics_clocks(gpu), "this driver does not list the clocks of this GPU"),
        "mem_mhz": _or_why(lambda: _memory_clocks(gpu), "this driver does not list the memory clocks of this GPU"),
        "power_limit_w": _or_why(lambda: _limits_w(gpu), "this GPU does not let its power limit be set"),
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
    except NotSupportedError:
        return reason


def _graphics_clocks(gpu: Gpu) -> tuple[float, ...] | str:
    """Return the graphics clocks at the highest memory clock, MHz; nvmlDeviceSetGpuLockedClocks came with Volta."""
    if (gpu.architecture or VOLTA) < VOLTA:
        return "locking the GPU clock needs a GPU of the Volta generation or newer"
    return _ascending(_graphics_at_top(gpu))


def _memory_clocks(gpu: Gpu) -> tuple[float, ...] | str:
    """Return the memory clocks that go with every graphics clock, MHz; locking them came with Ampere.

    The lowest are idle states with a few low graphics clocks of their own (GeForce): every value of a knob must be free
    to be joined with every value of another.
    """
    if (gpu.architecture or AMPERE) < AMPERE:
        return "locking the memory clock needs a GPU of the Ampere generation or newer"
    clocks = gpu.ask("nvmlDeviceGetSupportedMemoryClocks")
    every = set(_graphics_at_top(gpu))
    return _ascending([mhz for mhz in clocks if set(_graphics_at(gpu, mhz)) >= every])


def _limits_w(gpu: Gpu) -> tuple[float, ...] | str:
    low_mw, high_mw = gpu.ask("nvmlDeviceGetPowerManagementLimitConstraints")
    if low_mw == high_mw:
        return f"its power limit is {low_mw / 1e3:g} W and no other"
    default_mw = gpu.maybe("nvmlDeviceGetPowerManagementDefaultLimit")
    steps = range(-(-low_mw // _STEP_MW) * _STEP_MW, high_mw + 1, _STEP_MW)
    ends = (low_mw, high_mw, *(() if default_mw is None else (default_mw,)))
    return _ascending([limit_mw / 1e3 for limit_mw in (*steps, *ends) if low_mw <= limit_mw <= high_mw])


def _graphics_at_top(gpu: Gpu) -> Sequence[int]:
    clocks: Sequence[int] = gpu.ask("nvmlDeviceGetSupportedMemoryClocks")
    return _graphics_at(gpu, max(clocks)) if clocks else ()


def _graphics_at(gpu: Gpu, memory_mhz: int) -> Sequence[int]:
    clocks: Sequence[int] = gpu.ask("nvmlDeviceGetSupportedGraphicsClocks", memory_mhz)
    return clocks


def _ascending(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in sorted(set(values)) if value > 0)
