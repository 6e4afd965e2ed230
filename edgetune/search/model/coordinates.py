"""The points of a space as arrays: logs of knobs for the physics, places between 0 and 1 for distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetune.search.space import Space

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
"""Which points, by their place in the space."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Every point of a space, as arrays of one row per point.

    Args:
        names: What varies, in the order of the columns.
        levels: Place of each point on each axis, counted from 0, shape (points, axes).
        logs: Natural log of each value over the largest on its axis, so at most 0, shape (points, axes).
        unit: Place between 0 and 1, the mean of a linear and a logarithmic scale, shape (points, axes). Times change
            with ratios of clocks and powers with differences; between the two, neither is badly stretched.
        cores: CPU cores of each point, shape (points,); ones where they do not vary.
    """

    names: tuple[str, ...]
    levels: NDArray[np.int32]
    logs: Array
    unit: Array
    cores: Array

    @classmethod
    def of(cls, space: Space) -> Coordinates:
        """Return the coordinates of a space's points, in their order."""
        count = len(space.points)
        levels = np.array(list(space.levels.values()), dtype=np.int32).reshape(count, -1)  # in the order of the points
        logs, unit, cores = np.zeros(levels.shape), np.zeros(levels.shape), np.ones(count)
        for i, axis in enumerate(space.axes):
            values = np.array(axis.values, dtype=float)
            # A core count of 0 or a clock read as 0 has no log: the floor keeps it finite and below all others.
            log = np.log(np.maximum(values, values[-1] * 1e-3) / values[-1])
            linear = (values - values[0]) / (values[-1] - values[0])
            logs[:, i] = log[levels[:, i]]
            unit[:, i] = ((linear + 1 - log / log[0]) / 2)[levels[:, i]]
            if axis.name == "cpu_cores":
                cores = values[levels[:, i]]
        return cls(tuple(axis.name for axis in space.axes), levels, logs, unit, cores)

    def log(self, name: str, rows: Rows) -> Array:
        """Return the logs of a knob in these rows, zeros where it does not vary."""
        return self.logs[rows, self.names.index(name)] if name in self.names else np.zeros(len(rows))


def log_caps(space: Space) -> Array | None:
    """Return the log of each point's power limit, W; ``None`` where it does not vary."""
    if all(axis.name != "power_limit_w" for axis in space.axes):
        return None
    logs: Array = np.log(np.array([point.mode.power_limit_w for point in space.points], dtype=float))
    return logs
