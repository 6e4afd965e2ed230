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
    """Bounds of a constant and what is believed of it before any figure is seen.

    Args:
        low, high: Bounds.
        prior, prior_sigma: A log-normal prior, where figures say little.
        neutral: What one would guess of it had no network shown it; used when the one that does is left out.
    """

    low: float
    high: float
    prior: float | None = None
    prior_sigma: float = 0.0
    neutral: float | None = None


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

_CUDA_CORES_TFLOPS_PER_GHZ = 3.49 / 1.3005
_CUDA_CORES_SHARE = _CUDA_CORES_TFLOPS_PER_GHZ / 13.3
"""Pagoda (2025): FP32 peak without tensor cores; what one would guess of operators never seen."""

REST: Mapping[str, Range] = {
    "conv_half_channels": Range(5, 300, neutral=30),
    "gemm_issue_share": Range(0.03, 0.3, neutral=_CUDA_CORES_SHARE),
    "gemm_feed_share": Range(0.25, 0.6),
    "rnn_issue_share": Range(0.01, 0.3, neutral=_CUDA_CORES_SHARE),
    "depthwise_tflops_per_ghz": Range(0.005, 3, neutral=_CUDA_CORES_TFLOPS_PER_GHZ),
    "matrix_bandwidth_share": Range(0.15, 1.0, neutral=0.7),
    "conv_fp16_speed": Range(0.9, 2.245, neutral=2.0),
    "kernel_latency_us_ghz": Range(2, 25, prior=9.07, prior_sigma=0.6, neutral=9.07),
    "op_launch_us": Range(10, 200),
    "cudnn_launch_us": Range(5, 200),
    "kernel_launch_us": Range(5, 150, neutral=15),
    "launch_memory_share": Range(0.005, 0.2, prior=0.049, prior_sigma=0.75),
    "overlap_norm": Range(1.5, 8, prior=4.0, prior_sigma=0.45),
    "decode_core_ghz_s": Range(0.008, 0.05, prior=0.02, prior_sigma=0.15, neutral=0.02),
    "soc_w": Range(6, 14),
    "gpu_static_w": Range(0.5, 6),
    "mem_static_w": Range(1, 7),
    "cpu_static_w": Range(0.3, 3),
    "host_busy_w": Range(0.9, 4),
    "gpu_active_w": Range(5, 25),
    "latency_activity": Range(0.02, 1.0, prior=0.32, prior_sigma=0.75),
    "tf32_pj": Range(1.5, 3.8),
    "conv_pj": Range(1, 15, neutral=3.0),
    "fp32_pj": Range(5, 40, neutral=10.0),
    "byte_pj": Range(10, 130),
    "gpu_volt_min": Range(0.6, 0.98),
    "gpu_volt_knee_ghz": Range(0.3, 1.1),
    "gpu_volt_exponent": Range(0.7, 3, prior=1.34, prior_sigma=0.45),
}
"""Stage two. Lower bounds of the FP32 feed, the FP16 speed, cores' static power and launching power are choices;
priors are the values that the twin's study found on its own operator tables."""

SIGMA_PER_TOLERANCE = 0.4
SIGMA_COMPARED_ONLY = 0.4
"""How far off a figure may well be, as a share of its tolerance; and of the figure itself where none is promised."""


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
    digest = load_anchors()[1]
    bench = _bench(twin, tables)
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
    bench = _bench(twin, tables)
    return _leave_out_each(bench, twin.values, progress or (lambda _line: None))


def _bench(twin: TwinFile, tables: Tables) -> Bench:
    """Return the figures that drive a calibration, ready to be evaluated."""
    figures = [figure for figure in load_anchors()[0].figures if figure.use in ("fitted", "target")]
    return Bench(figures, tables, tf32_matmul=twin.tf32_matmul)


def _family(figure: Figure) -> str | None:
    """Return what is left out together: a network, and its sizes where they are the same operators (BERT)."""
    return figure.network.partition("_")[0] if figure.network else None


def _leave_out_each(bench: Bench, fitted: Constants, say: Progress) -> tuple[LeftOut, ...]:
    """Fit without each family and compare with its absolute times and powers."""
    rows = []
    for family in dict.fromkeys(_family(figure) for figure in bench.figures if figure.network):
        say(f"fitting without {family}")
        keep = [figure.group != "roof" and _family(figure) != family for figure in bench.figures]
        start, ranges = _forget(bench, fitted, keep)
        values = bench.values(fit(bench, start, ranges, keep))
        unseen = [
            (figure.quantity, abs(deviation(figure, value)))
            for figure, value in zip(bench.figures, values, strict=True)
            if _family(figure) == family and figure.versus is None
        ]
        time_pct, power_pct = (
            float(np.mean([off for quantity, off in unseen if quantity == wanted]))
            for wanted in ("minibatch_ms", "power_w")
        )
        guessed = ", ".join(name for name in REST if name not in ranges)
        note = f"shown by nothing else, so guessed: {guessed}" if guessed else ""
        rows.append(LeftOut(str(family), round(time_pct, 1), round(power_pct, 1), note))
    return tuple(rows)


def _forget(bench: Bench, fitted: Constants, keep: Sequence[bool]) -> tuple[Constants, dict[str, Range]]:
    """Return ``fitted`` with the constants that the kept figures hardly see set to neutral, and the ranges of the rest.

    A constant is seen when multiplying it by e would move the kept figures by more than one standard deviation in
    all; of the others the fit would keep what the left-out network had taught it.
    """
    misfit, step = _Misfit(bench, keep), 0.02
    before, neutral, seen = misfit(fitted), {}, dict(REST)
    for name, r in REST.items():
        after = misfit(replace(fitted, **{name: getattr(fitted, name) * float(np.exp(step))}))
        if r.neutral is not None and np.linalg.norm(after - before) / step <= 1:
            neutral[name] = r.neutral
            del seen[name]
    return replace(fitted, **neutral), seen


class _Misfit:
    """Logarithms of twin over published for the kept figures, each over its standard deviation."""

    def __init__(self, bench: Bench, keep: Sequence[bool]) -> None:
        tolerances = load_anchors()[0].tolerances
        self._bench, self._kept = bench, np.array(keep, dtype=bool)
        self._published = np.array([figure.published for figure in bench.figures])[self._kept]
        sigma = np.array([_sigma(figure, tolerances[figure.group]) for figure in bench.figures])
        self._sigma = sigma[self._kept]

    def __call__(self, constants: Constants) -> Array:
        values = self._bench.values(constants)[self._kept]
        result: Array = np.log(values / self._published) / self._sigma
        return result


def fit(bench: Bench, start: Constants, ranges: Mapping[str, Range], keep: Sequence[bool]) -> Constants:
    """Return ``start`` with the constants named in ``ranges`` fitted to the kept figures by least squares.

    Constants vary in the logarithm, within bounds. Figures that contradict the others are not among them
    (``use: shown``), so that squares will do.
    """
    from scipy.optimize import least_squares

    names, misfit = list(ranges), _Misfit(bench, keep)
    priors = [(i, r.prior, r.prior_sigma) for i, r in enumerate(ranges.values()) if r.prior is not None]

    def with_logs(logs: Array) -> Constants:
        return replace(start, **dict(zip(names, np.exp(logs).tolist(), strict=True)))

    def residuals(logs: Array) -> Array:
        return np.concatenate([misfit(with_logs(logs)), [(logs[i] - np.log(mean)) / sd for i, mean, sd in priors]])

    low, high = np.log([r.low for r in ranges.values()]), np.log([r.high for r in ranges.values()])
    inside = np.clip(np.log([getattr(start, name) for name in names]), low + 1e-6, high - 1e-6)
    best = least_squares(residuals, inside, bounds=(low, high), x_scale=0.1, max_nfev=100)
    return with_logs(best.x)


def _sigma(figure: Figure, tolerance_pct: float | None) -> float:
    """Return the relative standard deviation that a figure has in the fit."""
    if figure.weight is not None:
        return figure.weight
    return SIGMA_COMPARED_ONLY if tolerance_pct is None else SIGMA_PER_TOLERANCE * tolerance_pct / 100
