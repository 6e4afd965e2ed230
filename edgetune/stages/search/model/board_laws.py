"""The laws of time and power that the ``roofline`` strategy fits.

Time of a minibatch is a smooth maximum of the times of the parts of the board: arithmetic on the GPU, memory traffic,
kernel launches by the CPU, loading of data, and a constant. Under a power cap there is one more: the energy of the
minibatch over the power that the cap leaves for it. The parts overlap, so they add up as a p-norm, p between a sum (1)
and a maximum (large). Data are loaded by the cores that do not feed the GPU, but by no more of them than there are
loader workers: one of twelve cores may take five times as long as five, and five as long as twelve. A power of the
number of cores is far off at both ends, and the cheapest modes of a board are those of few cores.

Power is a static part, and for each block its clock times its voltage squared times its utilisation. Voltage rises with
the clock, so clock x voltage squared lies between the clock and its cube; both are terms, and the measurements decide.
The time model gives the utilisation of a block. Under a power cap the board draws the smaller of its power and the cap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetune.stages.search.model.coordinates import Array, Coordinates, Rows
from edgetune.stages.search.model.fit import Law, Prior

COMPUTE, WEIGHTS, TRAFFIC, LAUNCH, DATA, CONSTANT, CAP = range(7)
PARTS = 7
WORKERS = (np.log(4.0), 0.7)
"""Log of the largest number of cores that load data, mean and standard deviation: many training scripts ask for 4."""
_BEND = 4.0
"""Exponent of the smooth minimum at which loading stops getting faster; 19 % below both curves where they cross."""

SHARES = {COMPUTE: 0.60, WEIGHTS: 0.10, TRAFFIC: 0.25, LAUNCH: 0.25, DATA: 0.10, CONSTANT: 0.05, CAP: 0.40}
"""Prior shares of the parts of time in the middle of the space (``DATA`` is the least certain)."""
SHARE_SD = {DATA: 1.3, CAP: 1.3}
"""Standard deviation of the log of a share; 1 for the others."""

SLOPES: dict[tuple[int, str], tuple[float, float]] = {
    (COMPUTE, "gpu_mhz"): (-0.95, 0.12),
    (COMPUTE, "batch_size"): (0.95, 0.08),
    (WEIGHTS, "mem_mhz"): (-0.9, 0.15),
    (TRAFFIC, "mem_mhz"): (-0.9, 0.15),
    (TRAFFIC, "batch_size"): (1.0, 0.05),
    (LAUNCH, "cpu_mhz"): (-1.0, 0.1),
    (LAUNCH, "batch_size"): (0.05, 0.08),
    (DATA, "cpu_mhz"): (-1.0, 0.1),
    (DATA, "cpu_cores"): (-0.9, 0.2),
    (DATA, "batch_size"): (1.0, 0.05),
    (CAP, "power_limit_w"): (-1.0, 0.4),
    (CAP, "batch_size"): (0.95, 0.15),
}
"""Slope of the log of a part over the log of a knob (of cores: of the loading ones): mean and standard deviation."""


@dataclass(frozen=True, slots=True)
class TimeModel:
    """The law of time over some points.

    Args:
        coordinates: The points.
        prior: Prior of the coefficients: overall scale, log p, the log share of each part, the slopes of each part, and
            where cores vary the log of the loader workers.
        centre: Logs of the middle of the space, where the shares hold.
        slopes: The (part, column) that each of the slopes belongs to.
        loading: Which of the slopes is along the loading cores; ``None`` where cores do not vary.
    """

    coordinates: Coordinates
    prior: Prior
    centre: Array
    slopes: tuple[tuple[int, int], ...]
    loading: int | None

    @classmethod
    def of(cls, coordinates: Coordinates) -> TimeModel:
        """Return the law with its prior; parts without a knob in this space belong to the constant."""
        names = coordinates.names
        known = [(key, value) for key, value in SLOPES.items() if key[1] in names]
        shares = dict(SHARES)
        if "power_limit_w" not in names:
            shares[CAP] = 1e-9
        total = sum(share**3 for share in shares.values()) ** (1 / 3)
        mean = [0.0, np.log(3.0), *(np.log(shares[part] / total) for part in range(PARTS))]
        sd = [3.0, 0.4, *(SHARE_SD.get(part, 1.0) for part in range(PARTS))]
        mean += [value[0] for _, value in known]
        sd += [value[1] for _, value in known]
        centre = (coordinates.logs.max(axis=0) + coordinates.logs.min(axis=0)) / 2
        slopes = tuple((part, names.index(name)) for (part, name), _ in known)
        keys = [key for key, _ in known]
        loading = keys.index((DATA, "cpu_cores")) if "cpu_cores" in names else None
        if loading is not None:
            mean.append(WORKERS[0])
            sd.append(WORKERS[1])
        return cls(coordinates, Prior(np.array(mean), np.array(sd)), centre, slopes, loading)

    def law(self, rows: Rows) -> Law:
        """Return the law at these points."""
        x, spare = np.asfortranarray(self.coordinates.logs[rows] - self.centre), self._spare(rows)

        def evaluate(theta: Array) -> tuple[Array, Array]:
            loaders, limited = self._loaders(theta, spare)
            parts, p = self._parts(theta, x, loaders), np.exp(theta[:, 1])
            value, weights = _norm(parts, p)
            jacobian = np.empty((*theta.shape, len(x)))
            jacobian[:, 0] = 1.0
            jacobian[:, 1] = (weights * parts).sum(axis=1) - value
            jacobian[:, 2 : 2 + PARTS] = weights
            for i, (part, column) in enumerate(self.slopes):
                along = loaders if i == self.loading else x[:, column]
                np.multiply(weights[:, part], along, out=jacobian[:, 2 + PARTS + i])
            if self.loading is not None:
                jacobian[:, -1] = weights[:, DATA] * theta[:, 2 + PARTS + self.loading, None] * limited
            return value + theta[:, :1], jacobian

        return evaluate

    def busy(self, theta: Array, rows: Rows) -> Array:
        """Return the utilisation of each part without a power cap, shape (parts, points)."""
        loaders, _ = self._loaders(theta[None], self._spare(rows))
        parts = self._parts(theta[None], self.coordinates.logs[rows] - self.centre, loaders)
        parts[:, CAP] = -np.inf
        value, _ = _norm(parts, np.exp(theta[None, 1]))
        return np.asarray(np.exp(np.minimum(parts[0] - value, 0.0)))

    def _spare(self, rows: Rows) -> Array:
        """Return the log of the cores beside the one that feeds the GPU, at least one; that of the middle first."""
        cores = self.coordinates.cores
        middle = np.sqrt(cores.min() * cores.max())
        return np.asarray(np.log(np.maximum(np.append(middle, cores[rows]) - 1, 1.0)))

    def _loaders(self, theta: Array, spare: Array) -> tuple[Array, Array]:
        """Return the log of the cores that load, over the middle's, and its slope along the log of the workers.

        Both have the shape (members, points). Few cores are limited by themselves, many by the workers.
        """
        if self.loading is None:
            return np.zeros((len(theta), len(spare) - 1)), np.zeros((len(theta), len(spare) - 1))
        workers = theta[:, -1:]
        beyond = np.logaddexp(0.0, _BEND * (spare - workers))
        loading, limited = spare - beyond / _BEND, np.exp(_BEND * (spare - workers) - beyond)
        return loading[:, 1:] - loading[:, :1], limited[:, 1:] - limited[:, :1]

    def _parts(self, theta: Array, x: Array, loaders: Array) -> Array:
        """Return the log of each part relative to the overall scale, shape (members, parts, points)."""
        parts = np.repeat(theta[:, 2 : 2 + PARTS, None], len(x), axis=2)
        for i, (part, column) in enumerate(self.slopes):
            along = loaders if i == self.loading else x[:, column]
            parts[:, part] += theta[:, 2 + PARTS + i, None] * along
        return parts


def _norm(parts: Array, p: Array) -> tuple[Array, Array]:
    """Return the log of the p-norm of the parts and the weight of each part in it, from their logs."""
    top = parts.max(axis=1, keepdims=True)
    powers = np.exp(p[:, None, None] * (parts - top))
    total = powers.sum(axis=1, keepdims=True)
    return top[:, 0] + np.log(total[:, 0]) / p[:, None], powers / total


TERMS: tuple[tuple[float, float], ...] = (
    (0.25, 0.6),  # static
    (0.06, 0.9),  # memory clock
    (0.08, 0.9),  # memory clock x traffic
    (0.05, 0.9),  # GPU clock, idle
    (0.04, 0.9),  # GPU clock cubed, idle
    (0.16, 0.9),  # GPU clock x busy
    (0.16, 0.9),  # GPU clock cubed x busy
    (0.07, 0.9),  # cores x CPU clock
    (0.07, 0.9),  # cores x CPU clock cubed
    (0.06, 0.9),  # CPU clock cubed x launching
)
"""Share of each term of power with every knob at its top and every block busy, and the standard deviation of its log.

A voltage that falls to 0.6 of its top with the clock makes clock x voltage squared 0.36 f + 0.48 f^2 + 0.16 f^3, which
equal shares of f and f^3 follow to 8 % of the top.
"""
BATCH = (0.05, 0.1)
"""Slope of the log of a busy GPU's power over the log of the batch size, mean and standard deviation: a small batch
leaves some of its cores idle."""
_FILLED = (2, 5, 6)
"""The terms of a busy GPU and its memory traffic."""
POWER_UNDER_CAP = (-0.05, 0.1)
"""Log of (power drawn under a cap / cap): mean and standard deviation. GPUs under a cap draw 85 to 100 % of it."""
SHARPNESS = (2.5, 0.6)
"""Log of the sharpness of the bend of power at the cap: at 12 it is 6 % below both curves where they cross. Power
varies within a minibatch, and a cap clips its peaks long before it limits its mean."""


@dataclass(frozen=True, slots=True)
class PowerModel:
    """The law of power: coefficients are the overall scale, the log of each term's share, the reach of the cap, the
    log of its sharpness, and the growth with the batch size."""

    coordinates: Coordinates
    prior: Prior

    @classmethod
    def of(cls, coordinates: Coordinates) -> PowerModel:
        """Return the law with its prior."""
        shares, deviations = zip(*TERMS, strict=True)
        mean = [0.0, *np.log(np.array(shares) / sum(shares)), POWER_UNDER_CAP[0], SHARPNESS[0], BATCH[0]]
        prior = Prior(np.array(mean), np.array([1.0, *deviations, POWER_UNDER_CAP[1], SHARPNESS[1], BATCH[1]]))
        return cls(coordinates, prior)

    def law(self, rows: Rows, busy: Array, log_cap: Array | None) -> Law:
        """Return the law at these points, from how busy each part is and the log of the cap in W, if there is one."""
        terms = self._terms(rows, busy)
        batch = self.coordinates.log("batch_size", rows)

        def evaluate(theta: Array) -> tuple[Array, Array]:
            logs = terms + theta[:, 1:-3, None]
            logs[:, _FILLED] += theta[:, -1:, None] * batch
            top = logs.max(axis=1, keepdims=True)
            weights = np.exp(logs - top)
            total = weights.sum(axis=1, keepdims=True)
            value = theta[:, :1] + (top + np.log(total))[:, 0]
            jacobian = np.zeros((*theta.shape, terms.shape[1]))
            jacobian[:, 0] = 1.0
            np.divide(weights, total, out=jacobian[:, 1:-3])
            jacobian[:, -1] = (weights[:, _FILLED] / total).sum(axis=1) * batch
            if log_cap is None:
                return value, jacobian
            sharpness, over = np.exp(theta[:, -2:-1]), value - log_cap - theta[:, -3:-2]
            held = np.logaddexp(0.0, sharpness * over) / sharpness
            share = np.exp(-np.logaddexp(0.0, -sharpness * over))  # of the cap in the smooth minimum
            jacobian *= (1 - share)[:, None]
            jacobian[:, -3] = share
            jacobian[:, -2] = held - share * over
            return value - held, jacobian

        return evaluate

    def _terms(self, rows: Rows, busy: Array) -> Array:
        """Return the log of each term relative to the top of every knob, shape (terms, points)."""
        names = ("gpu_mhz", "mem_mhz", "cpu_mhz", "cpu_cores")
        gpu, mem, cpu, cores = (self.coordinates.log(name, rows) for name in names)
        compute = np.log(np.maximum(np.maximum(busy[COMPUTE], 0.5 * busy[TRAFFIC]), 1e-3))
        traffic = np.log(np.maximum(np.maximum(busy[TRAFFIC], busy[WEIGHTS]), 1e-3))
        launch = np.log(np.maximum(busy[LAUNCH], 1e-3))
        zero = np.zeros(len(rows))
        both = cores + cpu
        terms = [zero, mem, mem + traffic, gpu, 3 * gpu, gpu + compute, 3 * gpu + compute]
        return np.stack([*terms, both, both + 2 * cpu, 3 * cpu + launch])
