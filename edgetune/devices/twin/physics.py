"""The equations: time and power of a network in a power mode, from clocks, roofs and launch costs.

Picture a GPU fed by one CPU thread. The thread issues operators one after another (launches); the GPU works through
kernels, each limited by arithmetic or by memory, plus a fixed start-up; other cores decode images. The slowest of the
three sets the pace and nearly hides the others, but for a part of the convolutions that nothing hides: it is why
ResNet-50 slows with the GPU clock while it waits for launches, and MobileNetV3 does not (Pagoda, 2025, section 9.1,
names its compute-bound layers). Power is what the clocks cost at rest plus what the work costs. Everything is an array
over power modes. Clocks are GHz inside; results are s, W, FLOP/s, B/s.

The equations are the simplified ones of the study that defines the constants' symbols: hard max of compute and memory
time, hard min in the bandwidth roof, stalled matrix products fully clock-gated. Norms are evaluated scaled, because
powers of FLOP/s overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetune.artifacts.layers import LayerTime, LayerTimes
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.devices.twin.constants import Constants
from edgetune.devices.twin.work import Array, Work, work_of

TERA, GIGA, MICRO, PICO = 1e12, 1e9, 1e-6, 1e-12


@dataclass(frozen=True, slots=True)
class Clocks:
    """Power modes as arrays: cores online, and CPU, GPU and memory clocks in GHz."""

    cores: Array
    cpu_ghz: Array
    gpu_ghz: Array
    mem_ghz: Array

    @classmethod
    def of(cls, modes: Sequence[Mode]) -> Clocks:
        """Return complete modes (all four knobs set) as arrays."""
        knobs = ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz")
        columns = np.array([[getattr(mode, knob) for knob in knobs] for mode in modes], dtype=np.float64).T
        return cls(columns[0], columns[1] / 1e3, columns[2] / 1e3, columns[3] / 1e3)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted time and power of one network, per power mode.

    Args:
        minibatch_s, power_w: Time of one steady minibatch and mean power over it.
        gpu_s, launch_s, load_s: The three activities that overlap, each as if alone.
        static_w: Power of the mode at rest.
    """

    minibatch_s: Array
    power_w: Array
    gpu_s: Array
    launch_s: Array
    load_s: Array
    static_w: Array


def norm(power: float, *parts: Array) -> Array:
    """Return (sum parts^p)^(1/p), scaled by the largest part so that nothing overflows; zeros stay zero."""
    largest = np.maximum.reduce(parts)
    scale = np.where(largest > 0, largest, 1.0)
    total = np.add.reduce([(part / scale) ** power for part in parts])
    result: Array = largest * total ** (1 / power)
    return result


def soft_min(power: float, one: Array, other: Array) -> Array:
    """Return (one^-p + other^-p)^(-1/p) for positive arrays: the smaller limit, rounded at the corner."""
    smaller, larger = np.minimum(one, other), np.maximum(one, other)
    result: Array = smaller * (1 + (smaller / larger) ** power) ** (-1 / power)
    return result


def peak_flops(c: Constants, at: Clocks, precision: str = "fp32") -> Array:
    """Return the compute roof of a large matrix product on tensor cores (TF32 unless said), FLOP/s: F(f, m)."""
    issue = c.roof_issue_tflops_per_ghz * at.gpu_ghz
    feed = c.roof_feed_tflops_per_ghz * at.mem_ghz
    factor = {"fp32": 1.0, "fp16": c.roof_fp16, "int8": c.roof_int8}[precision]
    return TERA * factor * soft_min(c.roof_norm, issue, feed)


def peak_bandwidth(c: Constants, at: Clocks, precision: str = "fp32") -> Array:
    """Return the bandwidth roof of a large copy, B/s: B(f, m) = min(gB f, D)."""
    steps = (0.6656, 2.133, 3.199)
    efficiency = np.interp(at.mem_ghz, steps, (c.dram_efficiency_665, c.dram_efficiency_2133, c.dram_efficiency_3199))
    dram_s_per_gb = 1 / (efficiency * c.dram_bytes_per_cycle * at.mem_ghz)
    latency_s_per_gb = c.dram_latency_ps_ghz_per_byte * PICO * GIGA / at.gpu_ghz
    factor = 1.0 if precision == "fp32" else c.copy_fp16
    result: Array = (
        GIGA * factor * np.minimum(c.copy_issue_gbs_per_ghz * at.gpu_ghz, 1 / (dram_s_per_gb + latency_s_per_gb))
    )
    return result


def gpu_voltage(c: Constants, gpu_ghz: Array) -> Array:
    """Return GPU voltage relative to its highest: flat up to the knee, then a power of the clock."""
    above = np.maximum(0.0, (gpu_ghz - c.gpu_volt_knee_ghz) / (c.gpu_max_ghz - c.gpu_volt_knee_ghz))
    result: Array = c.gpu_volt_min + (1 - c.gpu_volt_min) * above**c.gpu_volt_exponent
    return result


def cpu_voltage(c: Constants, cpu_ghz: Array) -> Array:
    """Return CPU voltage relative to its highest: flat up to the knee, then linear."""
    above = np.maximum(0.0, (cpu_ghz - c.cpu_volt_knee_ghz) / (c.cpu_max_ghz - c.cpu_volt_knee_ghz))
    result: Array = c.cpu_volt_min + (1 - c.cpu_volt_min) * above
    return result


def cpu_power(c: Constants, at: Clocks, busy: Array | float = 0.0) -> Array:
    """Return the power of the cores online, of which ``busy`` work, W."""
    full_w = c.cpu_static_w * at.cores / c.cores_max + c.host_busy_w * busy
    return full_w * at.cpu_ghz / c.cpu_max_ghz * cpu_voltage(c, at.cpu_ghz) ** 2


def static_power(c: Constants, at: Clocks, busy: Array | float = 0.0) -> Array:
    """Return the power of a mode at rest, W (pi_0), or with ``busy`` cores at work."""
    gpu = c.gpu_static_w * at.gpu_ghz / c.gpu_max_ghz * gpu_voltage(c, at.gpu_ghz) ** 2
    memory = c.mem_static_w * (at.mem_ghz / c.mem_max_ghz) ** c.mem_static_exponent
    return c.soc_w + gpu + memory + cpu_power(c, at, busy)


@dataclass(frozen=True, slots=True)
class Rates:
    """Compute rate of one group of operators, the part of the issue limit it uses, its energy per FLOP, its share of
    the bandwidth, and the rate of the part that neither launches nor loading hide."""

    flops_per_s: Array
    issue_share: Array
    pj_per_flop: float
    bandwidth_share: float
    exposed_flops_per_s: Array | float = np.inf


def rates(c: Constants, at: Clocks, precision: str, *, tf32_matmul: bool) -> dict[str, Rates]:
    """Return the rates of each group of ``work.GROUPS``; streams are limited by memory alone.

    FP32 means TF32 for convolutions and true FP32 on CUDA cores for matrix products and recurrent layers, as in
    PyTorch since 1.12; ``tf32_matmul`` moves those to tensor cores, for which nothing published gives a rate. Saturated
    products run at the roofs.
    """
    peak, share = peak_flops(c, at), c.matrix_bandwidth_share
    used = peak / (TERA * c.roof_issue_tflops_per_ghz * at.gpu_ghz)
    energy = {"fp32": 1.0, "fp16": c.energy_fp16, "int8": c.energy_int8}[precision]
    speed = {"fp32": 1.0, "fp16": c.conv_fp16_speed, "int8": c.conv_int8_speed}[precision]
    if tf32_matmul or precision != "fp32":
        gemm = rnn = Rates(c.gemm_tensor_share * peak_flops(c, at, precision), used, energy * c.tf32_pj, share)
    else:
        gemm, rnn = (_cuda_core_rates(c, at, part) for part in (c.gemm_issue_share, c.rnn_issue_share))
    always = np.ones_like(peak)
    exposed = TERA * c.conv_exposed_tflops_per_ghz * at.gpu_ghz * peak_flops(c, at, precision) / peak
    return {
        "conv": Rates(speed * peak, used, energy * c.conv_pj, share, exposed),
        "gemm": gemm,
        "rnn": rnn,
        "saturated": Rates(peak_flops(c, at, precision), used, energy * c.tf32_pj, 1.0),
        "depthwise": Rates(TERA * c.depthwise_tflops_per_ghz * at.gpu_ghz, always, energy * c.fp32_pj, share),
        "stream": Rates(np.full_like(peak, np.inf), always, 0.0, 1.0),
    }


def _cuda_core_rates(c: Constants, at: Clocks, issue_share: float) -> Rates:
    """Return the rates of true FP32 products: ((eg gF f)^-p + (em kF m)^-p)^(-1/p)."""
    issue = issue_share * c.roof_issue_tflops_per_ghz * at.gpu_ghz
    rate = soft_min(c.roof_norm, issue, c.gemm_feed_share * c.roof_feed_tflops_per_ghz * at.mem_ghz)
    return Rates(TERA * rate, rate / issue, c.fp32_pj, c.matrix_bandwidth_share)


def launch_time(c: Constants, work: Work, at: Clocks) -> Array:
    """Return the time the CPU needs to issue every operator, s: L."""
    extra = work.kernels - work.operators
    full_s = MICRO * (
        work.operators * c.op_launch_us + work.cudnn_calls * c.cudnn_launch_us + extra * c.kernel_launch_us
    )
    slower: Array = c.cpu_max_ghz / at.cpu_ghz * (1 + c.launch_memory_share * (c.mem_max_ghz / at.mem_ghz - 1))
    return full_s * slower


def _rates_by_group(c: Constants, at: Clocks, work: Work, *, tf32_matmul: bool) -> dict[str, Rates]:
    """Return the rates of each of the work's groups, of those in other precisions too."""
    found = {}
    for precision in work.precisions:
        for name, rate in rates(c, at, precision, tf32_matmul=tf32_matmul).items():
            key = work.key_of(name, precision)
            if key in work.flops:
                found[key] = rate
    return found


def predict(c: Constants, work: Work, at: Clocks, *, tf32_matmul: bool = False) -> Prediction:
    """Return time and power of ``work`` in each mode of ``at``."""
    bandwidth = peak_bandwidth(c, at)
    roof_s, active_s, exposed_s, flop_j = (np.zeros_like(bandwidth) for _ in range(4))
    groups = work.groups(c)
    for key, rate in _rates_by_group(c, at, work, tf32_matmul=tf32_matmul).items():
        time_s, compute_s = groups[key].roof_s(rate.flops_per_s, rate.bandwidth_share * bandwidth)
        roof_s = roof_s + time_s
        # An SM whose matrix product waits for operands gates its clock; a streaming kernel keeps it running.
        active_s = active_s + time_s - compute_s * (1 - rate.issue_share)
        exposed_s = exposed_s + groups[key].nominal_flops / rate.exposed_flops_per_s
        flop_j = flop_j + PICO * rate.pj_per_flop * groups[key].nominal_flops
    latency_s = work.kernels * MICRO * c.kernel_latency_us_ghz / at.gpu_ghz
    decode_core_s = work.images * c.decode_core_ghz_s / at.cpu_ghz
    loads_too = np.where(at.cores < 2, decode_core_s, 0.0)  # the only core launches and loads in turn
    gpu_s, launch_s = roof_s + latency_s, launch_time(c, work, at) + loads_too
    load_s = decode_core_s / np.minimum(c.loader_workers, np.maximum(at.cores - 1, 1))
    exposed_s = np.minimum(exposed_s, gpu_s)
    total_s = exposed_s + norm(c.overlap_norm, gpu_s - exposed_s, launch_s, load_s)

    active_w = c.gpu_active_w * at.gpu_ghz / c.gpu_max_ghz * (active_s + c.latency_activity * latency_s) / total_s
    moved_bytes = sum(float(group.bytes_below[-1]) for group in groups.values())
    power_w = (
        static_power(c, at, 1 + decode_core_s / total_s)
        + gpu_voltage(c, at.gpu_ghz) ** 2 * (active_w + flop_j / total_s)
        + PICO * c.byte_pj * moved_bytes / total_s
    )
    return Prediction(total_s, power_w, gpu_s, launch_s, load_s, static_power(c, at))


def layer_times(c: Constants, ops: OpsTable, at: Clocks, *, tf32_matmul: bool = False) -> LayerTimes:
    """Return the GPU time of each row; launches and image decoding are not included.

    Args:
        c: The twin's constants.
        ops: The operator table.
        at: One power mode.
        tf32_matmul: See ``physics.rates``.

    Raises:
        InputError: see ``work_of``.
    """
    whole = predict(c, work_of(ops), at, tf32_matmul=tf32_matmul)
    launched = [row for row in ops.rows if row.op_class != "view" and row.kernels > 0]

    def gpu_s(row: OpRow) -> float:
        alone = work_of(replace(ops, rows=(row,)))
        return float(predict(c, alone, at, tf32_matmul=tf32_matmul).gpu_s[0])

    times = tuple(LayerTime(row.name, row.op, row.phase, (row.name,), gpu_s(row), "simulated") for row in launched)
    return LayerTimes(f"the twin's model of {ops.workload}", True, 1, float(whole.minibatch_s[0]), times)
