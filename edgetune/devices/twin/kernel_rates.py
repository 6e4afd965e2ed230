"""What a power mode of a twin makes of single kernels: clocks, bandwidth, and the power of running them.

The GPU's arithmetic outside tensor cores goes with its clock; memory as a large copy; launches with the CPU's clock and
some with that of memory, all as in ``physics``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetune.artifacts.mode import Mode
from edgetune.devices.twin.constants import TwinFile
from edgetune.devices.twin.physics import (
    PICO,
    Clocks,
    busy_host_power,
    gpu_voltage,
    launch_slowdown,
    peak_bandwidth,
    static_power,
)


@dataclass(frozen=True, slots=True)
class KernelRates:
    """Of one power mode.

    Args:
        gpu_speed: GPU clock over the highest.
        bandwidth_bytes_per_s: Of device memory.
        launch_slowdown: Time of a launch over that in the highest mode.
        rest_w: Power with an idle GPU and a core that launches, W.
        active_w: More while the multiprocessors are active, W.
        flop_j, byte_j: Energy of a FP32 operation and of a byte moved, J.
    """

    gpu_speed: float
    bandwidth_bytes_per_s: float
    launch_slowdown: float
    rest_w: float
    active_w: float
    flop_j: float
    byte_j: float


def kernel_rates(twin: TwinFile, modes: Sequence[Mode]) -> list[KernelRates]:
    """Return the rates of complete modes (all four knobs set), in their order."""
    c, at = twin.values, Clocks.of(modes)
    voltage = gpu_voltage(c, at.gpu_ghz)
    columns = (
        at.gpu_ghz / c.gpu_max_ghz,
        peak_bandwidth(c, at),
        launch_slowdown(c, at),
        static_power(c, at) + busy_host_power(c, at),
        voltage**2 * c.gpu_active_w * at.gpu_ghz / c.gpu_max_ghz,
        voltage**2 * PICO * c.fp32_pj,
        0.0 * at.gpu_ghz + PICO * c.byte_pj,
    )
    return [KernelRates(*map(float, row)) for row in zip(*columns, strict=True)]
