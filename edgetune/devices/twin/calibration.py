"""Fitting a twin's constants to published figures, on one's own operator tables.

How operators are counted (BatchNorm folded or not, bytes of a layout copy) shifts what the constants must be, so they
belong to the tables they were fitted on. Two stages: the roofs on roof figures alone, then, with those frozen, all
the rest. Residuals are logarithms of twin over published, each over how far off a figure may well be; bounds and
priors keep constants that few figures see at physical values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np

from edgetune.devices.twin.anchors import Bench, Figure, Tables, load_anchors
from edgetune.devices.twin.checking import deviation
from edgetune.devices.twin.constants import Constants, Fit, LeftOut, TwinFile
from edgetune.devices.twin.work import Array

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a constant and, where figures say little, a log-normal prior around a value."""

    low: float
    high: float
    prior: float | None = None
    prior_sigma: float = 0.0


ROOFS: Mapping[str, Range] = {
    "roof_issue_tflops_per_ghz": Range(8, 16.3),
    "roof_feed_tflops_per_ghz": Range(3, 10),
    "roof_norm": Range(1.5, 12),
    "copy_issue_gbs_per_ghz": Range(150, 260),
    "dram_latency_ps_ghz_per_byte": Range(0.3, 4),
    "dram_efficiency_665": Range(0.7, 1.0),
    "dram_efficiency_2133": Range(0.7, 1.0),
    "dram_efficiency_3199": Range(0.7, 1.0),
}
"""Stage one. An efficiency above one would be more than the interface carries; 16.3 is the theoretical peak."""

REST: Mapping[str, Range] = {
    "conv_half_channels": Range(5, 300),
    "gemm_issue_share": Range(0.03, 0.3),
    "gemm_feed_share": Range(0.25, 0.6),
    "depthwise_tflops_per_ghz": Range(0.005, 0.5),
    "matrix_bandwidth_share": Range(0.15, 1.0),
    "conv_fp16_speed": Range(0.9, 2.245),
    "kernel_latency_us_ghz": Range(2, 25),
    "op_launch_us": Range(10, 200),
    "cudnn_launch_us": Range(5, 200),
    "kernel_launch_us": Range(5, 15),
    "launch_memory_share": Range(0.005, 0.2),
    "overlap_norm": Range(1.5, 8),
    "decode_core_ghz_s": Range(0.008, 0.05, prior=0.02, prior_sigma=0.15),
    "soc_w": Range(6, 14),
    "gpu_static_w": Range(0.5, 6),
    "mem_static_w": Range(1, 7),
    "cpu_static_w": Range(0.3, 3),
    "host_busy_w": Range(0.9, 4),
    "gpu_active_w": Range(5, 25),
    "latency_activity": Range(0.02, 1.0),
    "tf32_pj": Range(1.5, 3.8),
    "conv_pj": Range(1, 15),
    "fp32_pj": Range(5, 40),
    "byte_pj": Range(10, 130),
    "gpu_volt_min": Range(0.6, 0.98),
    "gpu_volt_knee_ghz": Range(0.3, 1.1),
    "gpu_volt_exponent": Range(0.7, 3),
}
"""Stage two. Lower bounds of the FP32 feed, the FP16 speed, cores' static power and launching power are choices."""

SIGMA: Mapping[str, float] = {
    "roof": 0.012, "energy_maxn": 0.005, "energy": 0.06, "time": 0.07, "power": 0.05, "power_wide": 0.12,
    "low_time": 0.12, "low_power": 0.02, "sweep": 0.03, "sweep_mem_power": 0.06, "none": 0.4,
}  # fmt: skip
"""How far off a figure of each group may well be, as a share of it; targets half as much again."""


def calibrate(tables: Tables, name: str = "twin:orin-agx", *, progress: Progress | None = None) -> TwinFile:
    """Return the twin ``name`` with constants fitted to ``tables``, and its leave-one-network-out errors.

    Args:
        tables: Gives FP32 operator tables by network, task and batch size.
        name: The twin to start from, as for ``open_twin``.
        progress: Told in a line what is being done.
    """
    from edgetune.devices.twin.device import load_twin

    say = progress or (lambda _line: None)
    twin, _ = load_twin(name)
    anchors, digest = load_anchors()
    bench = Bench([f for f in anchors.figures if f.use in ("fitted", "target")], tables, tf32_matmul=twin.tf32_matmul)
    say("fitting the roofs")
    start = fit(bench, twin.values, ROOFS, [f.group == "roof" for f in bench.figures])
    say("fitting the rest")
    fitted = fit(bench, start, REST, [f.group != "roof" for f in bench.figures])
    left_out = _leave_out_each(bench, fitted, say)
    cnns = [row for row in left_out if row.network in ("resnet18", "resnet50", "yolov8n")]
    origin = Fit(
        date=datetime.now(timezone.utc).date().isoformat(),
        anchors_sha256=digest,
        tables="edgetune operator costs of its zoo",
        leave_one_out=left_out,
        claim_time_pct=round(max(row.time_pct for row in cnns)),
        claim_power_pct=round(max(row.power_pct for row in cnns)),
        claim_note="for a convolutional network the twin has not seen; depthwise, FP32 matrix product and recurrent "
        "layers occur in one network each and are calibrated, not predicted",
    )
    return twin.with_values(fitted, origin)


def leave_one_out(
    tables: Tables, name: str = "twin:orin-agx", *, progress: Progress | None = None
) -> tuple[LeftOut, ...]:
    """Return how far the twin is from each network's figures when refitted without them."""
    from edgetune.devices.twin.device import load_twin

    twin, _ = load_twin(name)
    anchors, _ = load_anchors()
    bench = Bench([f for f in anchors.figures if f.use in ("fitted", "target")], tables, tf32_matmul=twin.tf32_matmul)
    return _leave_out_each(bench, twin.values, progress or (lambda _line: None))


def _leave_out_each(bench: Bench, fitted: Constants, say: Progress) -> tuple[LeftOut, ...]:
    networks = dict.fromkeys(figure.network for figure in bench.figures if figure.network)
    rows = []
    for network in networks:
        say(f"fitting without {network}")
        keep = [figure.group != "roof" and figure.network != network for figure in bench.figures]
        values = bench.values(fit(bench, fitted, REST, keep))
        errors = {
            quantity: [
                abs(deviation(figure, value))
                for figure, value in zip(bench.figures, values, strict=True)
                if figure.network == network and figure.quantity == quantity and figure.versus is None
            ]
            for quantity in ("minibatch_ms", "power_w")
        }
        time_pct, power_pct = (float(np.mean(e)) if e else float("nan") for e in errors.values())
        rows.append(LeftOut(network, round(time_pct, 1), round(power_pct, 1)))
    return tuple(rows)


def fit(bench: Bench, start: Constants, ranges: Mapping[str, Range], keep: Sequence[bool]) -> Constants:
    """Return ``start`` with the constants named in ``ranges`` fitted to the kept figures.

    Constants vary in the logarithm, within bounds; the loss is soft, so that a figure that cannot be met (the sources
    contradict each other) does not drag the rest along.
    """
    from scipy.optimize import least_squares

    names = list(ranges)
    kept = np.array(keep, dtype=bool)
    published = np.array([figure.published for figure in bench.figures])[kept]
    sigma = np.array([_sigma(figure) for figure in bench.figures])[kept]
    priors = [(i, r.prior, r.prior_sigma) for i, r in enumerate(ranges.values()) if r.prior is not None]

    def residuals(logs: Array) -> Array:
        constants = replace(start, **dict(zip(names, np.exp(logs).tolist(), strict=True)))
        off = np.log(bench.values(constants)[kept] / published) / sigma
        return np.concatenate([off, [(logs[i] - np.log(prior)) / width for i, prior, width in priors]])

    low, high = np.log([r.low for r in ranges.values()]), np.log([r.high for r in ranges.values()])
    inside = np.clip(np.log([getattr(start, name) for name in names]), low + 1e-6, high - 1e-6)
    best = least_squares(residuals, inside, bounds=(low, high), loss="soft_l1", f_scale=1.5, x_scale=0.1, max_nfev=60)
    return replace(start, **dict(zip(names, np.exp(best.x).tolist(), strict=True)))


def _sigma(figure: Figure) -> float:
    return (figure.weight or SIGMA[figure.group]) * (1.5 if figure.use == "target" else 1.0)
