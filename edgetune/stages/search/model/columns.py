"""The chance that a point keeps its budgets on columns, such as the time to the first token.

Each column has a model of time of its own, fitted to the values measured so far as shares of their limit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.special import ndtr

from edgetune.stages.search.model.beliefs import WAVER, Beliefs
from edgetune.stages.search.model.coordinates import Array, Coordinates, Rows

LEAST_SHARE = 1e-9
"""Smallest share of a limit, for its logarithm."""


class ColumnBeliefs:
    """Learns the columns that have a budget.

    Args:
        coordinates: The points.
    """

    def __init__(self, coordinates: Coordinates) -> None:
        self._coordinates = coordinates
        self._shares: dict[str, dict[int, float]] = {}
        self._beliefs: dict[str, Beliefs] = {}

    def tell(self, row: int, shares: Iterable[tuple[str, float]]) -> None:
        """Record the values of a point, as shares of their limits, by the name of the budget."""
        for name, share in shares:
            self._shares.setdefault(name, {})[row] = max(share, LEAST_SHARE)
            self._beliefs.pop(name, None)

    def chance(self, rows: Rows) -> Array:
        """Return the chance that each point keeps all of these budgets; 1 before any value was measured."""
        chance = np.ones(len(rows))
        for name, shares in self._shares.items():
            if name not in self._beliefs:
                beliefs = self._beliefs[name] = Beliefs(self._coordinates, None)
                values = np.array(list(shares.values()))
                beliefs.learn(np.array(list(shares), dtype=np.intp), values, np.full(len(values), np.nan))
            found = self._beliefs[name].about(rows).bold()
            chance = chance * ndtr(-found.log_time / np.hypot(found.time_sd, WAVER))
        return np.asarray(chance)
