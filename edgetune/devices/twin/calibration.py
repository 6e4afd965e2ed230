"""Check a twin against published figures, and fit its constants to these figures on one's own operator tables.

The constants depend on how the tables count operators (BatchNorm folded or not, bytes of a layout copy), so they are
valid only for the tables of the fit. The fit has two stages: the roofs on roof figures alone; then, with the roofs
frozen, all other constants. A residual is log(twin / published) over the figure's standard deviation. Bounds and priors
keep constants that few figures constrain at physical values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np

from edgetune.devices.twin.anchors import AnchorEvaluator, Figure, Tables, load_anchors
from edgetune.devices.twin.constants import CalibrationInfo, Constants, LeftOut, TwinFile, as_written
from edgetune.devices.twin.work import Array
from edgetune.errors import InputError


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One published figure and the twin's value.

    Args:
        name: Description.
        published, twin: The two values, in ``unit``.
        unit: ``ratio`` for figures relative to another mode.
        deviation_pct: Deviation of the twin, % of the published value; for ratios hundredths of the ratio.
        tolerance_pct: Tolerance in the same measure; ``None``: compared only.
        within: Whether the deviation is within the tolerance; ``None`` without one.
        note: Role of the figure in the calibration and reason for doubt.
        source: Publication.
    """

    name: str
    published: float
    twin: float
    unit: str
    deviation_pct: float
    tolerance_pct: float | None
    within: bool | None
    note: str
    source: str


def check(twin: TwinFile, tables: Tables) -> list[CheckRow]:
    """Compare every published figure of the board with the twin, in the order of the file.

    Args:
        twin: The twin's constants.
        tables: Returns FP32 operator tables by network, task and batch size.

    Raises:
        InputError: the board has no published figures.
    """
    anchors, _ = load_anchors()
    if anchors.board != twin.board:
        raise InputError(f"there are no published figures for {twin.board!r}", f"only for {anchors.board}")
    values = AnchorEvaluator(anchors.figures, tables, tf32_matmul=twin.tf32_matmul).values(twin.values)
    pairs = zip(anchors.figures, values, strict=True)
    return [_row(figure, float(value), anchors.tolerances[figure.group]) for figure, value in pairs]


def deviation(figure: Figure, twin: float) -> float:
    """Return the twin's deviation from a figure: % of the figure, or hundredths for a ratio."""
    scale = 1.0 if figure.unit == "ratio" else figure.published
    return 100 * (twin - figure.published) / scale


def _row(figure: Figure, twin: float, tolerance_pct: float | None) -> CheckRow:
    deviation_pct = deviation(figure, twin)
    role = {"fitted": "", "target": "a sentence read as a number", "construction": "met by construction"}
    parts = [role.get(figure.use, "not fitted"), figure.note]
    return CheckRow(
        name=f"{figure.name}: {figure.unit}" if figure.network and figure.unit != "ratio" else figure.name,
        published=figure.published,
        twin=twin,
        unit=figure.unit,
        deviation_pct=deviation_pct,
        tolerance_pct=tolerance_pct,
        within=None if tolerance_pct is None else abs(deviation_pct) <= tolerance_pct,
        note="; ".join(part for part in parts if part),
        source=figure.source,
    )


Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ConstantRange:
    """Bounds and prior of a constant.

    Args:
        low, high: Bounds.
        prior, prior_sigma: A log-normal prior, where figures constrain little; a name is another constant's value.
        neutral: Value, or name of a constant with this value, when the only network that constrains it is left out.
    """

    low: float
    high: float
    prior: float | str | None = None
    prior_sigma: float = 0.0
    neutral: float | str | None = None

    @property
    def start(self) -> float:
        """Starting value of a fit, independent of the networks: the prior, else the middle of the bounds."""
        return self.prior if isinstance(self.prior, float) else math.sqrt(self.low * self.high)


ROOFS: Mapping[str, ConstantRange] = {
    "roof_issue_tflops_per_ghz": ConstantRange(8, 16.3),
    "roof_feed_tflops_per_ghz": ConstantRange(3, 10),
    "roof_norm": ConstantRange(1.5, 12),
    "copy_issue_gbs_per_ghz": ConstantRange(150, 260),
    "dram_latency_ps_ghz_per_byte": ConstantRange(0.3, 4),
    "dram_efficiency_665": ConstantRange(0.7, 1.0),
    "dram_efficiency_2133": ConstantRange(0.7, 1.0),
    "dram_efficiency_3199": ConstantRange(0.7, 1.0),
}
"""Stage one. An efficiency above one would exceed the interface; 16.3 is the theoretical peak."""

_CUDA_CORES_TFLOPS_PER_GHZ = 3.49 / 1.3005
_CUDA_CORES_SHARE = _CUDA_CORES_TFLOPS_PER_GHZ / 13.3
"""Pagoda (2025): FP32 peak without tensor cores. It bounds every operator on these cores. A
network's products reach a share of the peak between 0 and 1; the prior is one half, as for tensor cores
(``gemm_tensor_share``)."""

REST: Mapping[str, ConstantRange] = {
    "conv_half_channels": ConstantRange(5, 300, neutral=30.0),
    "gemm_issue_share": ConstantRange(
        0.03, _CUDA_CORES_SHARE, prior=_CUDA_CORES_SHARE / 2, prior_sigma=0.5, neutral=_CUDA_CORES_SHARE / 2
    ),
    "gemm_feed_share": ConstantRange(0.25, 0.6),
    "rnn_issue_share": ConstantRange(0.01, _CUDA_CORES_SHARE, neutral="gemm_issue_share"),
    "depthwise_tflops_per_ghz": ConstantRange(0.005, _CUDA_CORES_TFLOPS_PER_GHZ, neutral=_CUDA_CORES_TFLOPS_PER_GHZ),
    "matrix_bandwidth_share": ConstantRange(0.15, 1.0, neutral=0.7),
    "conv_fp16_speed": ConstantRange(0.9, 2.245, neutral=2.0),
    "kernel_latency_us_ghz": ConstantRange(2, 25, prior=9.07, prior_sigma=0.6, neutral=9.07),
    "op_launch_us": ConstantRange(10, 200),
    "cudnn_launch_us": ConstantRange(5, 200, prior="op_launch_us", prior_sigma=0.5),
    "kernel_launch_us": ConstantRange(5, 150, neutral=15.0),
    "launch_memory_share": ConstantRange(0.005, 0.2, prior=0.049, prior_sigma=0.75),
    "overlap_norm": ConstantRange(1.5, 8, prior=4.0, prior_sigma=0.45),
    "decode_core_ghz_s": ConstantRange(0.008, 0.05, prior=0.02, prior_sigma=0.15, neutral=0.02),
    "soc_w": ConstantRange(6, 14),
    "gpu_static_w": ConstantRange(0.5, 6),
    "mem_static_w": ConstantRange(1, 7),
    "cpu_static_w": ConstantRange(0.3, 3),
    "host_busy_w": ConstantRange(0.9, 4),
    "gpu_active_w": ConstantRange(5, 25),
    "latency_activity": ConstantRange(0.02, 1.0, prior=0.32, prior_sigma=0.75),
    "tf32_pj": ConstantRange(1.5, 3.8),
    "conv_pj": ConstantRange(1, 15, neutral=3.0),
    "fp32_pj": ConstantRange(5, 40, neutral=10.0),
    "byte_pj": ConstantRange(10, 130),
    "gpu_volt_min": ConstantRange(0.6, 0.98),
    "gpu_volt_knee_ghz": ConstantRange(0.3, 1.1),
    "gpu_volt_exponent": ConstantRange(0.7, 3, prior=1.34, prior_sigma=0.45),
}
"""Stage two. Lower bounds of the FP32 feed, the FP16 speed, cores' static power and launching power are choices.

Priors: the FP32 share, see above; a cuDNN call costs as much again as any operator, because convolutional networks,
where a third of the operators are cuDNN calls, do not separate the two costs; decoding takes the time of a JPEG of that
size; a launch takes 15 us, Miriam's figure for another board. The others (start-up, memory share, overlap, activity,
voltage) are the results of the twin's study on its own operator tables, with wide sigmas: without them no leave-one-out
error moves by more than three points.
"""

REMARKS: Mapping[str, str] = {
    "lstm": "how many words were read is not published: 8 are assumed, as in the study's notebook",
    "mobilenet": "no other network has depthwise layers",
    "bert": "an LSTM's decoder only bounds its products' rate from below, the rest is a prior; time too short is power "
    "too high",
    "resnet18": "the only one measured while training and loading images; with it the fit is hardly nearer in time: "
    "ResNet-50 wants faster convolutions and YOLOv8n slower ones",
}
"""Remarks on the errors of a left-out network, by ``_family``."""

SIGMA_PER_TOLERANCE = 0.4
SIGMA_COMPARED_ONLY = 0.4
"""Standard deviation of a figure: as a share of its tolerance, and of the figure itself where it has none."""


def calibrate(twin: TwinFile, tables: Tables, *, progress: Progress | None = None) -> TwinFile:
    """Return the twin with constants fitted to ``tables``, and its leave-one-network-out errors.

    Args:
        twin: The twin whose board, knobs and assumed constants to keep.
        tables: Returns FP32 operator tables by network, task and batch size.
        progress: Called with one line per step.
    """
    say = progress or (lambda _line: None)
    digest = load_anchors()[1]
    bench = _bench(twin, tables)
    say("fitting the roofs")
    roofs = as_written(fit(bench, fresh(twin.values, ROOFS), ROOFS, [f.group == "roof" for f in bench.figures]))
    say("fitting the rest")
    fitted = as_written(fit(bench, fresh(roofs, REST), REST, [f.group != "roof" for f in bench.figures]))
    left_out = _leave_out_each(bench, fitted, say)
    cnns = [row for row in left_out if row.network in ("resnet18", "resnet50", "yolov8n")]
    origin = CalibrationInfo(
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


def leave_one_out(twin: TwinFile, tables: Tables, *, progress: Progress | None = None) -> tuple[LeftOut, ...]:
    """Return the twin's deviations from each network's figures after a fit without them."""
    return _leave_out_each(_bench(twin, tables), twin.values, progress or (lambda _line: None))


def _bench(twin: TwinFile, tables: Tables) -> AnchorEvaluator:
    """Return the figures that drive a calibration, ready to be evaluated."""
    figures = [figure for figure in load_anchors()[0].figures if figure.use in ("fitted", "target")]
    return AnchorEvaluator(figures, tables, tf32_matmul=twin.tf32_matmul)


def _family(figure: Figure) -> str | None:
    """Return the name of figures that are left out together: a network, or its sizes with equal operators (BERT)."""
    return figure.network.partition("_")[0] if figure.network else None


def _leave_out_each(bench: AnchorEvaluator, fitted: Constants, say: Progress) -> tuple[LeftOut, ...]:
    """Fit without each family and compare with its absolute times and powers."""
    rows = []
    for family in dict.fromkeys(_family(figure) for figure in bench.figures if figure.network):
        say(f"fitting without {family}")
        keep = [figure.group != "roof" and _family(figure) != family for figure in bench.figures]
        unseen = _unseen(bench, fitted, keep)
        values = bench.values(fit(bench, fresh(fitted, REST), REST, keep, unseen=unseen))
        off = [
            (figure.quantity, abs(deviation(figure, value)))
            for figure, value in zip(bench.figures, values, strict=True)
            if _family(figure) == family and figure.versus is None
        ]
        time_pct, power_pct = (
            float(np.mean([pct for quantity, pct in off if quantity == wanted]))
            for wanted in ("minibatch_ms", "power_w")
        )
        guess = f"shown by nothing else, so guessed: {', '.join(unseen)}" if unseen else ""
        note = "; ".join(part for part in (guess, REMARKS.get(str(family), "")) if part)
        rows.append(LeftOut(str(family), round(time_pct, 1), round(power_pct, 1), note))
    return tuple(rows)


def fresh(constants: Constants, ranges: Mapping[str, ConstantRange]) -> Constants:
    """Return ``constants`` with those in ``ranges`` reset to their starting values.

    A fit from fitted values would keep information of a left-out network in weakly constrained constants.
    """
    return replace(constants, **{name: r.start for name, r in ranges.items()})


def _unseen(bench: AnchorEvaluator, fitted: Constants, keep: Sequence[bool]) -> tuple[str, ...]:
    """Return the constants with a neutral value that the kept figures hardly constrain.

    A constant is constrained when multiplying it by e moves the kept figures by more than one standard deviation in
    all; a fit leaves the others at their starting values.
    """
    misfit, step = _Misfit(bench, keep), 0.02
    before = misfit(fitted)

    def seen(name: str) -> bool:
        after = misfit(replace(fitted, **{name: getattr(fitted, name) * float(np.exp(step))}))
        return bool(np.linalg.norm(after - before) / step > 1)

    return tuple(name for name, r in REST.items() if r.neutral is not None and not seen(name))


class _Misfit:
    """Residuals of the kept figures: log(twin / published) over the standard deviation."""

    def __init__(self, bench: AnchorEvaluator, keep: Sequence[bool]) -> None:
        tolerances = load_anchors()[0].tolerances
        self._bench, self._kept = bench, np.array(keep, dtype=bool)
        self._published = np.array([figure.published for figure in bench.figures])[self._kept]
        sigma = np.array([_sigma(figure, tolerances[figure.group]) for figure in bench.figures])
        self._sigma = sigma[self._kept]

    def __call__(self, constants: Constants) -> Array:
        values = self._bench.values(constants)[self._kept]
        result: Array = np.log(values / self._published) / self._sigma
        return result


def fit(
    bench: AnchorEvaluator,
    start: Constants,
    ranges: Mapping[str, ConstantRange],
    keep: Sequence[bool],
    *,
    unseen: Sequence[str] = (),
) -> Constants:
    """Return ``start`` with the constants named in ``ranges`` fitted to the kept figures by least squares.

    The fit varies the logarithm of each constant within its bounds; ``unseen`` constants are neutral. Contradictory
    figures are excluded (``use: shown``), so that squares need no robust loss.
    """
    from scipy.optimize import least_squares

    free = {name: r for name, r in ranges.items() if name not in unseen}
    misfit, names = _Misfit(bench, keep), list(free)

    def with_logs(logs: Array) -> Constants:
        constants = replace(start, **dict(zip(names, np.exp(logs).tolist(), strict=True)))
        return replace(constants, **{name: _believed(ranges[name].neutral, constants) for name in unseen})

    def residuals(logs: Array) -> Array:
        constants = with_logs(logs)
        return np.concatenate([misfit(constants), _surprise(free, constants)])

    low, high = np.log([r.low for r in free.values()]), np.log([r.high for r in free.values()])
    inside = np.clip(np.log([getattr(start, name) for name in names]), low + 1e-6, high - 1e-6)
    best = least_squares(residuals, inside, bounds=(low, high), x_scale=0.1, max_nfev=200)
    return with_logs(best.x)


def _believed(belief: float | str | None, constants: Constants) -> float:
    """Return a prior or neutral value as a number; a name means the value of that constant."""
    if belief is None:
        raise ValueError("nothing is believed of it")
    return float(getattr(constants, belief)) if isinstance(belief, str) else belief


def _surprise(ranges: Mapping[str, ConstantRange], constants: Constants) -> list[float]:
    """Return the distance of each constant from its prior, in standard deviations of the logarithm."""
    return [
        math.log(getattr(constants, name) / _believed(r.prior, constants)) / r.prior_sigma
        for name, r in ranges.items()
        if r.prior is not None
    ]


def _sigma(figure: Figure, tolerance_pct: float | None) -> float:
    """Return the relative standard deviation that a figure has in the fit."""
    if figure.weight is not None:
        return figure.weight
    return SIGMA_COMPARED_ONLY if tolerance_pct is None else SIGMA_PER_TOLERANCE * tolerance_pct / 100
