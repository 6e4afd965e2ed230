"""Published figures of a board, and the twin's values of them.

``anchors.yaml`` holds every published figure with its source and its role. Here each figure is a formula over a few
predictions, so that a check or calibration evaluates all of them in milliseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.devices.twin.constants import Constants
from edgetune.devices.twin.physics import Clocks, Microbenchmark, Prediction, microbenchmark, predict
from edgetune.devices.twin.work import Array, Work, work_of

Tables = Callable[[str, Task, int], OpsTable]
Use = Literal["fitted", "target", "construction", "shown"]
WorkKey = tuple[str, Task, int, str]
"""Network, task, batch size, precision."""

MAXN = Mode(12, 2201.6, 1300.5, 3199.0)
_CORES, _CPU_MHZ = (4, 12), (422.4, 1036.8, 1651.2, 2201.6)
_GPU_MHZ, _MEM_MHZ = (318.75, 726.75, 1134.75, 1300.5), (665.6, 2133.0, 3199.0)
MODES_96 = tuple(Mode(*values) for values in product(_CORES, _CPU_MHZ, _GPU_MHZ, _MEM_MHZ))
"""The modes of the roofline study; GPU and memory clocks are from the study, cores and CPU clocks are our choice."""


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
    import yaml
    from pydantic import TypeAdapter

    data = (resources.files(__package__) / "anchors.yaml").read_bytes()
    return TypeAdapter(Anchors).validate_python(yaml.safe_load(data)), hashlib.sha256(data).hexdigest()


_MICRO: Mapping[str, Callable[[Microbenchmark], Array]] = {
    "tflops": lambda m: m.flops_per_s / 1e12,
    "gbs": lambda m: m.bytes_per_s / 1e9,
    "balance": lambda m: m.balance,
    "static_w": lambda m: m.static_w,
    "gemm_w": lambda m: m.gemm_w,
    "eps_flop_pj": lambda m: m.flop_j * 1e12,
    "eps_mop_pj": lambda m: m.byte_j * 1e12,
    "peak_tflop_per_j": lambda m: m.flops_per_j / 1e12,
    "peak_tflop_per_j_dynamic": lambda m: 1 / m.flop_j / 1e12,
    "energy_balance": lambda m: m.energy_balance,
    "energy_balance_dynamic": lambda m: m.energy_balance_dynamic,
}

_NETWORK: Mapping[str, Callable[[Prediction, Work, int], Array]] = {
    "minibatch_ms": lambda p, _w, _b: p.minibatch_s * 1e3,
    "power_w": lambda p, _w, _b: p.power_w,
    "energy_j": lambda p, _w, _b: p.minibatch_s * p.power_w,
    "samples_per_s": lambda p, _w, b: b / p.minibatch_s,
    "achieved_tflops": lambda p, w, _b: w.total_flops / p.minibatch_s / 1e12,
    "achieved_gflop_per_j": lambda p, w, _b: w.total_flops / (p.minibatch_s * p.power_w) / 1e9,
}


def _gpu_700_best(m: Microbenchmark) -> float:
    """Count the sets of equal cores, CPU and memory clocks whose most efficient GPU clock is 0.7 GHz."""
    best: dict[tuple[object, ...], tuple[float, float]] = {}
    for mode, efficiency in zip(MODES_96, m.flops_per_j, strict=True):
        key = (mode.cpu_cores, mode.cpu_mhz, mode.mem_mhz)
        best[key] = max(best.get(key, (0.0, 0.0)), (float(efficiency), mode.gpu_mhz or 0.0))
    return float(sum(gpu_mhz == 726.75 for _, gpu_mhz in best.values()))


_ORDER: Mapping[str, Callable[[Microbenchmark], float]] = {
    "best_gpu_mhz": lambda m: MODES_96[int(np.argmax(m.flops_per_j))].gpu_mhz or 0.0,
    "best_mem_mhz": lambda m: MODES_96[int(np.argmax(m.flops_per_j))].mem_mhz or 0.0,
    "gpu_700_best": _gpu_700_best,
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
