"""Seeded measurement noise: repeatable wherever and in whatever order points are measured.

Two measurements of one point on a real board differ by one or two per cent as a whole (temperature, what else runs),
and the minibatches within one measurement scatter a little around it. Every factor is a function of the seed, the
point, and its ordinal: the how-manieth visit to that point, the how-manieth minibatch of the visit. It does not depend
on what was measured before, nor on how a measurement was cut into calls.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from edgetune.devices.twin.constants import Sensing
from edgetune.devices.twin.work import Array


@dataclass(frozen=True, slots=True)
class NoiseFactors:
    """One measurement of a point: factors on its time and power, each with mean one."""

    time: float
    power: float
    key: int
    time_jitter: float
    power_jitter: float

    def minibatch_factors(self, first: int, count: int) -> Array:
        """Return the factor on the time of each minibatch ``first`` to ``first + count - 1`` of this visit."""
        if self.time_jitter == 0:
            return np.full(count, self.time)
        # One block of Philox counters gives four values and is skipped in whole, so that cutting changes nothing.
        generator = np.random.Generator(np.random.Philox(key=self.key, counter=0).advance(first // 4))
        uniform = generator.random(count + first % 4)[first % 4 :]
        return self.time * _log_normal(_normal(uniform), self.time_jitter)

    def reading_factor(self, index: int) -> float:
        """Return the factor on the ``index``-th power reading of this visit."""
        if self.power_jitter == 0:
            return 1.0
        normal = np.random.Generator(np.random.Philox(key=self.key + 1, counter=index)).standard_normal(1)
        return float(_log_normal(normal, self.power_jitter)[0])


SILENT = NoiseFactors(1.0, 1.0, 0, 0.0, 0.0)


def visit(sensing: Sensing, seed: int, point: str, ordinal: int) -> NoiseFactors:
    """Return the noise of the ``ordinal``-th measurement of ``point`` under ``seed``."""
    digest = hashlib.sha256(f"{seed}|{point}|{ordinal}".encode()).digest()
    key = int.from_bytes(digest[:8], "little") & ~1
    normal = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[8:16], "little"))).standard_normal(2)
    return NoiseFactors(
        time=float(_log_normal(normal[:1], sensing.time_repeat)[0]),
        power=float(_log_normal(normal[1:], sensing.power_repeat)[0]),
        key=key,
        time_jitter=sensing.time_jitter,
        power_jitter=sensing.power_jitter,
    )


def _log_normal(normal: Array, sigma: float) -> Array:
    result: Array = np.exp(sigma * normal - sigma * sigma / 2)
    return result


def _normal(uniform: Array) -> Array:
    """Return standard normal values from uniform ones by the inverse distribution, one for one."""
    from scipy.special import ndtri

    result: Array = ndtri(np.clip(uniform, 1e-16, 1 - 1e-16))
    return result
