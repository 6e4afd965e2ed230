"""Time of a minibatch: a smooth maximum of what each part of the board needs for it.

A minibatch waits for whatever is slowest: arithmetic on the GPU, memory traffic, kernel launches by the CPU, loading of
data, or something that no knob changes. Under a power cap there is one more: the energy of the minibatch over what the
cap leaves for it. They overlap in part, so they add up as a p-norm, p between a sum (1) and a maximum (large).

Data are loaded by the cores that do not feed the GPU, by no more of them than there are loader workers. One of twelve
cores may so take five times as long as five, and five as long as twelve: a power of the number of cores is far off at
both ends, and the cheapest modes of a board are those of few cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetune.search.model.coordinates import Array, Coordinates, Rows
from edgetune.search.model.fit import Law, Prior

COMPUTE, WEIGHTS, TRAFFIC, LAUNCH, DATA, CONSTANT, CAP = range(7)
PARTS = 7
WORKERS = (np.log(4.0), 0.7)
"""Log of the number of cores that load data at most, mean and standard deviation: 4 is what many training scripts ask
for; with 8 in its place the search did as well."""
_BEND = 4.0
"""How sharply loading stops getting faster there, as the exponent of a smooth minimum; 19 % below both where they
cross."""

SHARES = {COMPUTE: 0.60, WEIGHTS: 0.10, TRAFFIC: 0.25, LAUNCH: 0.25, DATA: 0.10, CONSTANT: 0.05, CAP: 0.40}
"""Shares of the parts in the middle of the space, before anything is measured (``DATA`` the least sure)."""
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
"""How the log of a part grows with the log of a knob (of cores: of those that load): mean and standard deviation."""


@dataclass(frozen=True, slots=True)
class TimeModel:
    """The law of time over some points.

    Args:
        coordinates: The points.
        prior: Of the coefficients: overall scale, log p, the log share of each part, the slopes of each part, and
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
        """Return the law before anything is measured: parts without a knob in this space are part of the rest."""
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
        """Return the share of the time that each part is busy when no cap holds it back, shape (parts, points)."""
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
