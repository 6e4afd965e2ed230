"""The roofline of a device: what it can compute, move and what that costs in energy, for each power mode and precision.

    time      T = max(W / flops_per_s, Q / bytes_per_s)           W in FLOP, Q in bytes
    energy    E = flop_j W + byte_j Q + static_w T

Source: Choi, Bedard, Fowler and Vuduc, "A roofline model of energy" (IPDPS 2013); per power mode as in Pagoda (2025).
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode

KIND = "roofline"
VERSION = 1


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One kernel at one size in one mode, as it was measured; raw, so that a roofline can be fitted again.

    Args:
        kernel: ``matmul``, ``relu``, ``transpose``, ... or ``idle``.
        size: Rows of its square operands; 0 for ``idle``.
        precision: What it computes in, e.g. ``fp32``, ``tf32``, ``fp16``.
        mode: The power mode.
        flops: Floating-point operations of one run.
        bytes_moved: Bytes read and written by one run, each operand once.
        seconds: Median time of one run, s; of an idle run its length.
        power_w: Mean power while it ran again and again, W; ``None`` without a sensor.
    """

    kernel: str
    size: int
    precision: str
    mode: Mode
    flops: float
    bytes_moved: float
    seconds: float
    power_w: float | None = None


@dataclass(frozen=True, slots=True)
class Roof:
    """What one precision reaches in one mode; energy is ``None`` where power was not measured.

    Args:
        mode: The power mode.
        precision: See ``KernelRun``.
        flops_per_s: Peak rate of computing.
        bytes_per_s: Peak rate of moving data to and from memory.
        static_w: Power that flows whether or not anything runs, W.
        flop_j: Energy of one more FLOP, J.
        byte_j: Energy of one more byte, J.
        flop_j_error, byte_j_error: Half their 95 % confidence interval, J; ``None`` with too few kernels to tell.
        residual_share: Root mean square of the fit's relative error in power; ``None`` where nothing was left to err.
        measured: Whether kernels ran in this very mode; else it is inferred from other modes as a function of clocks.
    """

    mode: Mode
    precision: str
    flops_per_s: float
    bytes_per_s: float
    static_w: float | None = None
    flop_j: float | None = None
    byte_j: float | None = None
    flop_j_error: float | None = None
    byte_j_error: float | None = None
    residual_share: float | None = None
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Roofline:
    """The rooflines of a device.

    Args:
        header: Provenance; its conditions name the device.
        device: The device they are of, as its profiles name it.
        roofs: One for each mode and precision.
        runs: What was measured.
    """

    header: Header
    device: str
    roofs: tuple[Roof, ...]
    runs: tuple[KernelRun, ...] = ()
