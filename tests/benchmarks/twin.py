"""Compare the twin of the AGX Orin with every published figure, and fit its constants to these figures.

    python tests/benchmarks/twin.py check [--leave-one-out] [--constants FILE]
    python tests/benchmarks/twin.py fit FILE [--constants FILE]

``check`` prints each figure of ``twin.yaml`` beside the twin's, predictions and fits in separate tables (``Kind``), and
ends with 1 where one is out of its tolerance;
``--leave-one-out`` calibrates without each network in turn (minutes). ``fit`` writes the constants for the operator
tables of this version of edgetune (minutes), which replace those of the package.

``twin.yaml`` holds every published figure with its source and its role. Here each figure is a formula over a few
predictions, so that a check or calibration evaluates all of them in milliseconds.

The constants depend on how the tables count operators (BatchNorm folded or not, bytes of a layout copy), so they are
valid only for the tables of the fit. The fit has two stages: the roofs on roof figures alone; then, with the roofs
frozen, all other constants. A residual is log(twin / published) over the figure's standard deviation. Bounds and priors
keep constants that few figures constrain at physical values.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import yaml
from pydantic import TypeAdapter
from scipy.optimize import least_squares

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.cli.screen import print_lines, table
from edgetune.devices.twin.constants import CalibrationInfo, Constants, LeftOut, TwinFile, load_board, parse
from edgetune.devices.twin.physics import (
    PICO,
    Clocks,
    Prediction,
    cpu_power,
    gpu_voltage,
    peak_bandwidth,
    peak_flops,
    predict,
    static_power,
)
from edgetune.devices.twin.work import Array, Work, work_of
from edgetune.workflows.report.sections import cell
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve


@dataclass(frozen=True, slots=True)
class Microbenchmark:
    """Roofs and energy roofline of power modes, one array element per mode.

    Args:
        flops_per_s, bytes_per_s: Peaks of a TF32 matrix product and of a copy.
        static_w, gemm_w, copy_w: Power at rest, in the product, in the copy, W.
        cpu_idle_w, cpu_busy_w: Power of the cores online, idle and all at work, W.
    """

    flops_per_s: Array
    bytes_per_s: Array
    static_w: Array
    gemm_w: Array
    copy_w: Array
    cpu_idle_w: Array
    cpu_busy_w: Array

    def first(self, count: int) -> Microbenchmark:
        """Return the figures of the first ``count`` modes."""
        return Microbenchmark(**{item.name: getattr(self, item.name)[:count] for item in fields(self)})

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
    base_w = static_power(c, at, 1.0)
    voltage2 = gpu_voltage(c, at.gpu_ghz) ** 2
    active_w = c.gpu_active_w * at.gpu_ghz / c.gpu_max_ghz
    issue_share = peak_flops(c, at) / (1e12 * c.roof_issue_tflops_per_ghz * at.gpu_ghz)
    return Microbenchmark(
        flops_per_s=flops,
        bytes_per_s=moved,
        static_w=static_power(c, at),
        gemm_w=base_w + voltage2 * (active_w * issue_share + PICO * energy * c.tf32_pj * flops),
        copy_w=base_w + voltage2 * active_w + PICO * c.byte_pj * moved,
        cpu_idle_w=cpu_power(c, at),
        cpu_busy_w=cpu_power(c, at, at.cores),
    )


Tables = Callable[[str, Task, int], OpsTable]
Use = Literal["fitted", "target", "construction", "shown"]
Kind = Literal["prediction", "fit", "sentence", "construction", "reprint", "derived"]
KINDS: Mapping[Kind, str] = {
    "prediction": "predictions: nothing was fitted to these",
    "fit": "fits: the calibration is drawn to these",
    "sentence": "sentences read as numbers, which draw the calibration weakly",
    "construction": "met by construction",
    "reprint": "reprints: the study prints the same configuration twice, and the first is fitted",
    "derived": "derived: these follow from other figures",
}
"""What a twin within its tolerance says of each kind of figure, in the order of the tables."""
WorkKey = tuple[str, Task, int, str]
"""Network, task, batch size, precision."""

MAXN = Mode(12, 2201.6, 1300.5, 3199.0)
_CORES, _CPU_MHZ = (8, 12), (422.4, 1036.8, 1651.2, 2201.6)
_GPU_MHZ, _MEM_MHZ = (318.75, 726.75, 1134.75, 1300.5), (665.6, 2133.0, 3199.0)
MODES_96 = tuple(Mode(*values) for values in product(_CORES, _CPU_MHZ, _GPU_MHZ, _MEM_MHZ))
"""The modes of the roofline study; GPU and memory clocks are from the study, which names 8 cores at 1651 MHz and 12 at
2202 among them; the other CPU clocks are our choice."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One published figure.

    Args:
        name: Description for people.
        quantity: The formula; see ``_MICRO``, ``_NETWORK`` and ``_ORDER``.
        published: Published value.
        unit: Of ``published``; ``ratio`` when it is relative to ``versus``.
        group: Names its tolerance and its weight.
        use: ``fitted`` and ``target`` drive the calibration; ``target`` is a verbal statement as a number.
        source: Publication.
        mode: Knobs that differ from the highest mode.
        versus: Reference mode of a relative figure.
        over: Least, greatest or median over the 96 modes (the median over those at its memory clock).
        network, task, batch_size, precision, versus_precision: The network of the figure, if any.
        weight: Relative standard deviation in the calibration, instead of its group's.
        note: Reason for doubt.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    name: str
    quantity: str
    published: float
    unit: str
    group: str
    use: Use
    source: str
    mode: dict[str, float] = field(default_factory=dict)
    versus: dict[str, float] | None = None
    over: Literal["min", "max", "median"] | None = None
    network: str | None = None
    task: Task = "infer"
    batch_size: int = 1
    precision: str = "fp32"
    versus_precision: str | None = None
    weight: float | None = None
    note: str = ""

    def at(self, knobs: Mapping[str, float]) -> Mode:
        """Return the mode with ``knobs`` in place of the highest."""
        return Mode.of({**MAXN.knobs(), **knobs})

    def key(self, precision: str) -> WorkKey:
        """Return the key of the operator table that the figure needs."""
        return (self.network or "", self.task, self.batch_size, precision)


@dataclass(frozen=True, slots=True)
class Anchors:
    """Every published figure of one board, and the tolerance of each group, %; ``None`` means compared only."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    board: str
    tolerances: dict[str, float | None]
    figures: tuple[Figure, ...]


@lru_cache(maxsize=1)
def load_anchors() -> tuple[Anchors, str]:
    """Return the published figures and the SHA-256 of their file."""
    data = Path(__file__).with_suffix(".yaml").read_bytes()
    return TypeAdapter(Anchors).validate_python(yaml.safe_load(data)), hashlib.sha256(data).hexdigest()


_MICRO: Mapping[str, Callable[[Microbenchmark], Array]] = {
    "tflops": lambda m: m.flops_per_s / 1e12,
    "gbs": lambda m: m.bytes_per_s / 1e9,
    "balance": lambda m: m.balance,
    "static_w": lambda m: m.static_w,
    "gemm_w": lambda m: m.gemm_w,
    "cpu_idle_w": lambda m: m.cpu_idle_w,
    "cpu_busy_w": lambda m: m.cpu_busy_w,
    "eps_flop_pj": lambda m: m.flop_j * 1e12,
    "eps_mop_pj": lambda m: m.byte_j * 1e12,
    "peak_tflop_per_j": lambda m: m.flops_per_j / 1e12,
    "peak_tflop_per_j_dynamic": lambda m: 1 / m.flop_j / 1e12,
    "energy_balance": lambda m: m.energy_balance,
    "energy_balance_dynamic": lambda m: m.energy_balance_dynamic,
}


def total_flops(work: Work) -> float:
    """Return the FLOP of all operators, without waste."""
    return float(sum(values.sum() for values in work.flops.values()))


_NETWORK: Mapping[str, Callable[[Prediction, Work, int], Array]] = {
    "minibatch_ms": lambda p, _w, _b: p.minibatch_s * 1e3,
    "power_w": lambda p, _w, _b: p.power_w,
    "energy_j": lambda p, _w, _b: p.minibatch_s * p.power_w,
    "samples_per_s": lambda p, _w, b: b / p.minibatch_s,
    "achieved_tflops": lambda p, w, _b: total_flops(w) / p.minibatch_s / 1e12,
    "achieved_gflop_per_j": lambda p, w, _b: total_flops(w) / (p.minibatch_s * p.power_w) / 1e9,
}


def _gpu_700_best(m: Microbenchmark) -> float:
    """Count the sets of equal cores, CPU and memory clocks whose most efficient GPU clock is 0.7 GHz."""
    best: dict[tuple[object, ...], tuple[float, float]] = {}
    for mode, efficiency in zip(MODES_96, m.flops_per_j, strict=True):
        key = (mode.cpu_cores, mode.cpu_mhz, mode.mem_mhz)
        best[key] = max(best.get(key, (0.0, 0.0)), (float(efficiency), mode.gpu_mhz or 0.0))
    return float(sum(gpu_mhz == 726.75 for _, gpu_mhz in best.values()))


def _memory_2100_better(m: Microbenchmark) -> float:
    """Count the sets of equal cores, CPU and GPU clocks that are more efficient with memory at 2.1 than at 3.2 GHz."""
    efficiency = dict(zip(MODES_96, m.flops_per_j, strict=True))
    return float(sum(efficiency[at] > efficiency[replace(at, mem_mhz=3199.0)] for at in MODES_96 if at.mem_mhz == 2133))


_ORDER: Mapping[str, Callable[[Microbenchmark], float]] = {
    "best_gpu_mhz": lambda m: MODES_96[int(np.argmax(m.flops_per_j))].gpu_mhz or 0.0,
    "best_mem_mhz": lambda m: MODES_96[int(np.argmax(m.flops_per_j))].mem_mhz or 0.0,
    "gpu_700_best": _gpu_700_best,
    "memory_2100_better": _memory_2100_better,
    "time_implies_energy": lambda m: float(np.sum(m.energy_balance <= m.balance)),
    "time_implies_energy_fails_dynamic": lambda m: float(np.sum(m.energy_balance_dynamic > m.balance)),
}


class AnchorEvaluator:
    """Evaluates a list of figures for any constants; it gathers the required modes and tables once.

    Args:
        figures: The figures.
        tables: Returns FP32 operator tables; called once per network, task and batch size.
        tf32_matmul: As in ``physics.rates``.
    """

    def __init__(self, figures: Sequence[Figure], tables: Tables, *, tf32_matmul: bool = False) -> None:
        self.figures, self._tf32_matmul = tuple(figures), tf32_matmul
        self._modes: dict[WorkKey | None, dict[Mode, int]] = {None: {mode: i for i, mode in enumerate(MODES_96)}}
        self._works: dict[WorkKey, Work] = {}
        for figure in self.figures:
            self._need(figure, tables)
        self._clocks = {key: Clocks.of(list(modes)) for key, modes in self._modes.items()}

    def _need(self, figure: Figure, tables: Tables) -> None:
        precisions = {figure.precision, figure.versus_precision or figure.precision}
        for key in [figure.key(p) for p in precisions] if figure.network else [None]:
            if key is not None and key not in self._works:
                self._works[key] = work_of(tables(key[0], key[1], key[2]), precision=key[3])
            modes = self._modes.setdefault(key, {})
            for knobs in (figure.mode, figure.versus or {}):
                modes.setdefault(figure.at(knobs), len(modes))

    def values(self, constants: Constants) -> Array:
        """Return the twin's value of each figure, in the figure's unit."""
        micro = {p: microbenchmark(constants, self._clocks[None], p) for p in ("fp32", "fp16")}
        predicted = {
            key: predict(constants, work, self._clocks[key], tf32_matmul=self._tf32_matmul)
            for key, work in self._works.items()
        }
        return np.array([self._value(figure, micro, predicted) for figure in self.figures])

    def _value(
        self, figure: Figure, micro: Mapping[str, Microbenchmark], predicted: Mapping[WorkKey, Prediction]
    ) -> float:
        if figure.quantity in _ORDER:
            return _ORDER[figure.quantity](micro["fp32"].first(len(MODES_96)))
        if figure.quantity == "slope_ms_per_w":
            return self._slope(figure, predicted[figure.key(figure.precision)])

        def at(knobs: Mapping[str, float], precision: str) -> float:
            mode = figure.at(knobs)
            if figure.network:
                key = figure.key(precision)
                series = _NETWORK[figure.quantity](predicted[key], self._works[key], figure.batch_size)
                return float(series[self._modes[key][mode]])
            series = _MICRO[figure.quantity](micro[precision])
            return _reduce(figure.over, series, mode) if figure.over else float(series[self._modes[None][mode]])

        value = at(figure.mode, figure.precision)
        if figure.versus is None:
            return value
        return value / at(figure.versus, figure.versus_precision or figure.precision)

    def _slope(self, figure: Figure, predicted: Prediction) -> float:
        """Return ms saved per W spent from ``versus`` to ``mode``."""
        modes = self._modes[figure.key(figure.precision)]
        high, middle = modes[figure.at(figure.mode)], modes[figure.at(figure.versus or {})]
        saved_ms = 1e3 * (predicted.minibatch_s[middle] - predicted.minibatch_s[high])
        return float(saved_ms / (predicted.power_w[high] - predicted.power_w[middle]))


def _reduce(over: Literal["min", "max", "median"], series: Array, mode: Mode) -> float:
    among = series[: len(MODES_96)]
    if over == "median":
        return float(np.median(among[[other.mem_mhz == mode.mem_mhz for other in MODES_96]]))
    return float(among.min() if over == "min" else among.max())


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
        note: Reason for doubt.
        source: Publication.
        kind: Role of the figure in the calibration.
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
    kind: Kind


def check(twin: TwinFile, tables: Tables) -> list[CheckRow]:
    """Compare every published figure of the board with the twin, in the order of the file.

    Args:
        twin: The twin's constants.
        tables: Returns FP32 operator tables by network, task and batch size.
    """
    anchors, _ = load_anchors()
    values = AnchorEvaluator(anchors.figures, tables, tf32_matmul=twin.tf32_matmul).values(twin.values)
    pairs = zip(anchors.figures, values, strict=True)
    return [_row(figure, float(value), anchors.tolerances[figure.group]) for figure, value in pairs]


def deviation(figure: Figure, twin: float) -> float:
    """Return the twin's deviation from a figure: % of the figure, or hundredths for a ratio."""
    scale = 1.0 if figure.unit == "ratio" else figure.published
    return 100 * (twin - figure.published) / scale


def _row(figure: Figure, twin: float, tolerance_pct: float | None) -> CheckRow:
    deviation_pct = deviation(figure, twin)
    return CheckRow(
        name=f"{figure.name}: {figure.unit}" if figure.network and figure.unit != "ratio" else figure.name,
        published=figure.published,
        twin=twin,
        unit=figure.unit,
        deviation_pct=deviation_pct,
        tolerance_pct=tolerance_pct,
        within=None if tolerance_pct is None else abs(deviation_pct) <= tolerance_pct,
        note=figure.note,
        source=figure.source,
        kind=kind_of(figure),
    )


_KIND_OF_USE: Mapping[Use, Kind] = {"fitted": "fit", "target": "sentence", "construction": "construction"}


def kind_of(figure: Figure) -> Kind:
    """Return what a twin within the tolerance of a figure says."""
    if figure.use != "shown":
        return _KIND_OF_USE[figure.use]
    if figure.name.endswith(", again"):
        return "reprint"
    if figure.quantity.startswith("achieved_") or (figure.quantity, figure.precision) == ("balance", "fp16"):
        return "derived"
    return "prediction"


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
    "conv_exposed_tflops_per_ghz": ConstantRange(1, 60, neutral=13.0),
    "conv_fp16_speed": ConstantRange(0.9, 2.245, neutral=2.0),
    "kernel_latency_us_ghz": ConstantRange(2, 25, prior=9.07, prior_sigma=0.6, neutral=9.07),
    "op_launch_us": ConstantRange(10, 200),
    "cudnn_launch_us": ConstantRange(5, 200, prior="op_launch_us", prior_sigma=0.5),
    "kernel_launch_us": ConstantRange(5, 150, neutral=15.0),
    "launch_memory_share": ConstantRange(0.005, 0.2, prior=0.049, prior_sigma=0.75),
    "overlap_norm": ConstantRange(1.5, 8, prior=4.0, prior_sigma=0.45),
    "soc_w": ConstantRange(6, 14),
    "gpu_static_w": ConstantRange(0.5, 6),
    "mem_static_w": ConstantRange(1, 7),
    "mem_static_exponent": ConstantRange(1, 3),
    "cpu_static_w": ConstantRange(0.3, 3),
    "host_busy_w": ConstantRange(0.5, 4),
    "cpu_volt_min": ConstantRange(0.5, 0.95),
    "cpu_volt_knee_ghz": ConstantRange(0.3, 1.8),
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
"""Stage two. Lower bounds of the FP32 feed and the FP16 speed are choices; static power of memory falls at most as its
clock times the square of a voltage in step with it.

Priors: the FP32 share, see above; a cuDNN call costs as much again as any operator, because convolutional networks,
where a third of the operators are cuDNN calls, do not separate the two costs; a launch takes 15 us, as in the model of
elastic kernels. The others (start-up, memory share, overlap, activity, voltage) are the results of the twin's study on
its own operator tables, with wide sigmas.
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


def calibrate(twin: TwinFile, tables: Tables) -> TwinFile:
    """Return the twin with constants fitted to ``tables``, and its leave-one-network-out errors.

    Args:
        twin: The twin whose board, knobs and assumed constants to keep.
        tables: Returns FP32 operator tables by network, task and batch size.
    """
    digest = load_anchors()[1]
    bench = _bench(twin, tables)
    say("fitting the roofs")
    roofs = as_written(fit(bench, fresh(twin.values, ROOFS), ROOFS, [f.group == "roof" for f in bench.figures]))
    say("fitting the rest")
    fitted = as_written(fit(bench, fresh(roofs, REST), REST, [f.group != "roof" for f in bench.figures]))
    left_out = _leave_out_each(bench, fitted)
    cnns = [row for row in left_out if row.network in ("resnet18", "resnet50", "yolov8n")]
    origin = CalibrationInfo(
        date=datetime.now(timezone.utc).date().isoformat(),
        anchors_sha256=digest,
        tables="edgetune operator costs of its zoo",
        leave_one_out=left_out,
        claim_time_pct=round(max(row.time_pct for row in cnns)),
        claim_power_pct=round(max(row.power_pct for row in cnns)),
        claim_slowdown_points=slowdown_error(bench, fitted),
        claim_note="for a convolutional network the twin has not seen; depthwise, FP32 matrix product and recurrent "
        "layers occur in one network each and are calibrated, not predicted",
    )
    return with_values(twin, fitted, origin)


def slowdown_error(bench: AnchorEvaluator, constants: Constants) -> float:
    """Return the largest deviation from a published slowdown at lower clocks, in points, rounded up."""
    pairs = zip(bench.figures, bench.values(constants), strict=True)
    return math.ceil(max(abs(deviation(f, v)) for f, v in pairs if f.quantity == "minibatch_ms" and f.versus == {}))


def leave_one_out(twin: TwinFile, tables: Tables) -> tuple[LeftOut, ...]:
    """Return the twin's deviations from each network's figures after a fit without them."""
    return _leave_out_each(_bench(twin, tables), twin.values)


def _bench(twin: TwinFile, tables: Tables) -> AnchorEvaluator:
    """Return the figures that drive a calibration, ready to be evaluated."""
    figures = [figure for figure in load_anchors()[0].figures if figure.use in ("fitted", "target")]
    return AnchorEvaluator(figures, tables, tf32_matmul=twin.tf32_matmul)


def _family(figure: Figure) -> str | None:
    """Return the name of figures that are left out together: a network, or its sizes with equal operators (BERT)."""
    return figure.network.partition("_")[0] if figure.network else None


def _leave_out_each(bench: AnchorEvaluator, fitted: Constants) -> tuple[LeftOut, ...]:
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


def with_values(twin: TwinFile, values: Constants, fit: CalibrationInfo) -> TwinFile:
    """Return a twin with other values of the constants, from ``fit``."""
    updated = {name: replace(old, value=float(getattr(values, name))) for name, old in twin.constants.items()}
    return replace(twin, constants=updated, fit=fit)


def as_written(values: Constants) -> Constants:
    """Return ``values`` rounded to six digits as in a file, so that reported errors are valid for the file."""
    return Constants(**{item.name: _six_digits(getattr(values, item.name)) for item in fields(Constants)})


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")


def dump(twin: TwinFile) -> str:
    """Return ``twin`` as the YAML that ``parse`` reads."""
    document = TypeAdapter(TwinFile).dump_python(twin, mode="json")
    for entry in document["constants"].values():
        entry["value"] = _six_digits(entry["value"])
    text: str = yaml.safe_dump(document, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    return text


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@cache
def tables(network: str, task: Task, batch_size: int) -> OpsTable:
    """Return the operator table of a network of the zoo."""
    return operator_table(resolve(f"zoo:{network}"), task, batch_size)


def report(twin: TwinFile, figures: Sequence[CheckRow], left_out: Sequence[LeftOut]) -> bool:
    """Print every published figure beside the twin's; return whether each is within its tolerance."""
    for kind, meaning in KINDS.items():
        of_kind = [row for row in figures if row.kind == kind]
        promised = [row for row in of_kind if row.within is not None]
        held = sum(bool(row.within) for row in promised)
        within = f"{held} of {len(promised)} within their tolerance, {len(of_kind) - len(promised)} compared only"
        print_lines(f"{meaning}; {within}")
        table(
            ("figure", "published>", "twin>", "unit", "off by>", "allowed>", "ok", "note"),
            [_cells(row) for row in of_kind],
        )
        print_lines("")
    print_lines("calibrated without the network: mean absolute deviations")
    rows = [(each.network, f"{each.time_pct:.1f}", f"{each.power_pct:.1f}", each.note) for each in left_out]
    table(("network", "time %>", "power %>", "note"), rows)
    if (claim := twin.fit).claim_time_pct is not None:
        figures_claimed = f"time within {claim.claim_time_pct:g} %, power within {claim.claim_power_pct:g} %,"
        print_lines("", f"claimed: {figures_claimed} {claim.claim_note}")
        print_lines(f"a slowdown at lower clocks, of those fitted: within {claim.claim_slowdown_points:g} points")
    promised = [row for row in figures if row.within is not None]
    held, others = sum(bool(row.within) for row in promised), len(figures) - len(promised)
    say(f"{held} of {len(promised)} figures within what is allowed; {others} compared only")
    return held == len(promised)


def _cells(row: CheckRow) -> tuple[object, ...]:
    measure = "pt" if row.unit == "ratio" else "%"  # hundredths of a ratio are points, not per cent of it
    allowed = cell(row.tolerance_pct, lambda percent: f"{percent:g} {measure}")
    verdict = {True: "yes", False: "NO", None: None}[row.within]
    off_by = f"{row.deviation_pct:+.1f} {measure}"
    return row.name, f"{row.published:.4g}", f"{row.twin:.4g}", row.unit, off_by, allowed, verdict, row.note


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    checking, fitting = commands.add_parser("check"), commands.add_parser("fit")
    checking.add_argument("--leave-one-out", action="store_true")
    fitting.add_argument("file", type=Path)
    for each in (checking, fitting):
        each.add_argument("--constants", metavar="FILE", help="those of another calibration")
    asked = parser.parse_args(words)
    twin, _ = load_board(load_anchors()[0].board)
    if asked.constants is not None:
        twin = parse(Path(asked.constants).read_bytes(), asked.constants)
    if asked.command == "fit":
        asked.file.write_text(dump(calibrate(twin, tables)))
        say(f"wrote {asked.file}; it replaces edgetune/devices/twin/constants/{twin.board}.yaml")
        return 0
    left_out = leave_one_out(twin, tables) if asked.leave_one_out else twin.fit.leave_one_out
    return 0 if report(twin, check(twin, tables), left_out) else 1


if __name__ == "__main__":
    sys.exit(main())
