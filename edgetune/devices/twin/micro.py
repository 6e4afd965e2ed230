"""Microbenchmarks on the twin: a saturated matrix product, a saturated copy, and the energy roofline they make.

These are the figures that studies print per power mode: peaks, balance points, energy per FLOP and per byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetune.devices.twin.constants import Constants
from edgetune.devices.twin.physics import (
    PICO,
    Clocks,
    busy_host_power,
    gpu_voltage,
    peak_bandwidth,
    peak_flops,
    static_power,
)
from edgetune.devices.twin.work import Array


@dataclass(frozen=True, slots=True)
class Microbenchmark:
    """Roofs and energy roofline of power modes, one array element per mode.

    Args:
        flops_per_s, bytes_per_s: Peaks of a TF32 matrix product and of a copy.
        static_w, gemm_w, copy_w: Power at rest, in the product, in the copy, W.
    """

    flops_per_s: Array
    bytes_per_s: Array
    static_w: Array
    gemm_w: Array
    copy_w: Array

    def first(self, count: int) -> Microbenchmark:
        """Return the figures of the first ``count`` modes."""
        parts = (self.flops_per_s, self.bytes_per_s, self.static_w, self.gemm_w, self.copy_w)
        return Microbenchmark(*(part[:count] for part in parts))

    @property
    def balance(self) -> Array:
        """Time balance point, FLOP per byte."""
        return self.flops_per_s / self.bytes_per_s

    @property
    def flop_j(self) -> Array:
        """Energy per FLOP above static power, J: eps_flop."""
        return (self.gemm_w - self.static_w) / self.flops_per_s

    @property
    def byte_j(self) -> Array:
        """Energy per byte above static power, J: eps_mop."""
        return (self.copy_w - self.static_w) / self.bytes_per_s

    @property
    def flops_per_j(self) -> Array:
        """Peak efficiency with static power, FLOP/J: 1 / (eps_flop + pi_0 / peak)."""
        return self.flops_per_s / self.gemm_w

    @property
    def energy_balance_dynamic(self) -> Array:
        """Energy balance point without static power, FLOP per byte: eps_mop / eps_flop."""
        return self.byte_j / self.flop_j

    @property
    def energy_balance(self) -> Array:
        """Intensity with half the peak efficiency, static power included, FLOP per byte.

        Left of the time balance (eps_mop + pi_0/BW) / (eps_flop + 2 pi_0/peak), right of it
        eps_mop / (eps_flop + pi_0/peak): the branch that lies on its own side.
        """
        per_flop_j = self.static_w / self.flops_per_s
        left = (self.byte_j + self.static_w / self.bytes_per_s) / (self.flop_j + 2 * per_flop_j)
        right = self.byte_j / (self.flop_j + per_flop_j)
        result: Array = np.where(left <= self.balance, left, right)
        return result


def microbenchmark(c: Constants, at: Clocks, precision: str = "fp32") -> Microbenchmark:
    """Return the microbenchmark figures of each mode; sizes are large, so that launches do not count."""
    flops, moved = peak_flops(c, at, precision), peak_bandwidth(c, at, precision)
    energy = {"fp32": 1.0, "fp16": c.energy_fp16, "int8": c.energy_int8}[precision]
    static_w = static_power(c, at)
    base_w = static_w + busy_host_power(c, at)
    voltage2 = gpu_voltage(c, at.gpu_ghz) ** 2
    active_w = c.gpu_active_w * at.gpu_ghz / c.gpu_max_ghz
    issue_share = peak_flops(c, at) / (1e12 * c.roof_issue_tflops_per_ghz * at.gpu_ghz)
    return Microbenchmark(
        flops_per_s=flops,
        bytes_per_s=moved,
        static_w=static_w,
        gemm_w=base_w + voltage2 * (active_w * issue_share + PICO * energy * c.tf32_pj * flops),
        copy_w=base_w + voltage2 * active_w + PICO * c.byte_pj * moved,
    )
