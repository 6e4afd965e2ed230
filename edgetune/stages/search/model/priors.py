"""Priors of the laws from the network's operators.

Operations per byte, against the board's balance, say how long arithmetic takes beside memory traffic, and weights are
read once per batch however large it is. This moves the means of the priors, and measurements correct them. Operators
have not been shown to help: how far they move a prior is limited, so that wrong ones cost little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgetune.stages.search.model.board_laws import COMPUTE, SLOPES, TRAFFIC, WEIGHTS, TimeModel
from edgetune.stages.search.model.coordinates import Coordinates
from edgetune.stages.search.model.fit import Prior
from edgetune.stages.search.strategy import Hints, OperatorTotals

TRUST = 0.5
"""Share of the way that a prior's mean moves from its physical default to the known value."""
LIMIT = 1.0
"""Largest distance of a known value from the physical default, in standard deviations; larger ones are clipped."""
_FIRST_SHARE = 2
"""Coefficients of time before the first share: overall scale and log p."""


def informed_time_prior(coordinates: Coordinates, hints: Hints) -> Prior | None:
    """Return the prior of the coefficients of time; ``None`` without knowledge of the operators."""
    if not hints.operators or not hints.balance_flop_per_byte:
        return None
    prior = TimeModel.of(coordinates).prior
    return _with_operators(prior, coordinates, hints.operators, hints.balance_flop_per_byte)


def _with_operators(
    prior: Prior, coordinates: Coordinates, operators: Sequence[OperatorTotals], balance_flop_per_byte: float
) -> Prior:
    """Return a prior whose shares of arithmetic, traffic and weights have the ratios of the operators' costs.

    The ratios hold at the top of every knob, the shares in the middle of the space, so the prior's slopes carry them.
    """
    names, model = coordinates.names, TimeModel.of(coordinates)
    middle = dict(zip(names, model.centre, strict=True))
    largest = max(totals.batch_size for totals in operators)
    wanted = math.log(largest) + middle.get("batch_size", 0.0)
    totals = min(operators, key=lambda totals: abs(math.log(totals.batch_size) - wanted))
    others = max(totals.bytes_moved - totals.weight_bytes, 1)
    to_middle = SLOPES[COMPUTE, "gpu_mhz"][0] * middle.get("gpu_mhz", 0.0)
    to_middle -= SLOPES[TRAFFIC, "mem_mhz"][0] * middle.get("mem_mhz", 0.0)
    compute = math.log(max(totals.flops, 1) / others / balance_flop_per_byte) + to_middle
    weights = math.log(max(totals.weight_bytes, 1) / others)
    mean = prior.mean.copy()
    parts = [_FIRST_SHARE + part for part in (COMPUTE, TRAFFIC, WEIGHTS)]
    top = mean[parts].max()
    shares = np.array([compute, 0.0, weights])
    moved = np.clip((shares - shares.max() + top - mean[parts]) / prior.sd[parts], -LIMIT, LIMIT)
    mean[parts] += TRUST * moved * prior.sd[parts]
    return Prior(mean, prior.sd)
