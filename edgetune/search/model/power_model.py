"""Power of a board: a static part, and for each block its clock times its voltage squared times how busy it is.

Voltage rises with the clock, so clock x voltage squared lies between the clock and its cube; both are there and the
measurements decide. How busy a block is, the time model says. Under a power cap the board draws what it would draw, or
the cap, whichever is less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetune.search.model.coordinates import Array, Coordinates, Rows
from edgetune.search.model.fit import Law, Prior
from edgetune.search.model.time_model import COMPUTE, LAUNCH, TRAFFIC, WEIGHTS

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
"""Share of each term with every knob at its top and every block busy, and the standard deviation of its log.

A voltage that falls to 0.6 of its top with the clock makes clock x voltage squared 0.36 f + 0.48 f^2 + 0.16 f^3, which
equal shares of f and f^3 follow to 8 % of the top.
"""
BATCH = (0.05, 0.1)
"""How the log of what a busy GPU draws grows with the log of the batch size, mean and standard deviation: a small batch
leaves some of its cores without work for as long as it runs."""
_FILLED = (2, 5, 6)
"""The terms of a busy GPU and its memory traffic."""
CAP = (-0.05, 0.1)
"""Log of (power drawn under a cap / cap): mean and standard deviation. GPUs under a cap draw 85 to 100 % of it."""
SHARPNESS = (2.5, 0.6)
"""Log of how sharply power bends where it meets the cap: at 12 it is 6 % below both where they cross. Power wavers
within a minibatch, and a cap clips its peaks long before it holds its mean."""


@dataclass(frozen=True, slots=True)
class PowerModel:
    """The law of power: coefficients are the overall scale, the log of each term's share, the reach of the cap, the
    log of its sharpness, and the growth with the batch size."""

    coordinates: Coordinates
    prior: Prior
    capped: bool

    @classmethod
    def of(cls, coordinates: Coordinates) -> PowerModel:
        """Return the law before anything is measured."""
        shares, deviations = zip(*TERMS, strict=True)
        mean = [0.0, *np.log(np.array(shares) / sum(shares)), CAP[0], SHARPNESS[0], BATCH[0]]
        capped = "power_limit_w" in coordinates.names
        prior = Prior(np.array(mean), np.array([1.0, *deviations, CAP[1], SHARPNESS[1], BATCH[1]]))
        return cls(coordinates, prior, capped)

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
