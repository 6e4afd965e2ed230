"""Priors of the laws from the network's operators and from other networks on the same device.

Two sources may be known before the first measurement. They only move the means of the priors, and measurements correct
them.

- How other networks behaved on this board: the same laws fitted to their rows give the shares of its power.
- The network's operators: operations per byte, against the board's balance, say how long arithmetic takes beside memory
  traffic, and weights are read once per batch however large it is.

Relatives help a little below eight points and hardly at ten; operators have not been shown to help. Both are limited,
so that wrong ones cost little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.search.model.beliefs import Beliefs
from edgetune.stages.search.model.board_laws import COMPUTE, SLOPES, TRAFFIC, WEIGHTS, PowerModel, TimeModel
from edgetune.stages.search.model.coordinates import Coordinates, log_caps
from edgetune.stages.search.model.fit import Prior
from edgetune.stages.search.space import Space
from edgetune.stages.search.strategy import Hints, OperatorTotals

ROWS = 40
"""Number of rows of a relative that are fitted, evenly spread over its rows."""
WIDER = 0.8
"""Factor on a prior's standard deviation where relatives inform it."""
TRUST = 0.5
"""Share of the way that a prior's mean moves from its physical default to the known value."""
LIMIT = 1.0
"""Largest distance of a known value from the physical default, in standard deviations; larger ones are clipped."""
_FIRST_SHARE = 2
"""Coefficients of time before the first share: overall scale and log p."""


def informed_priors(coordinates: Coordinates, hints: Hints) -> tuple[Prior, Prior] | None:
    """Return priors of the coefficients of time and power; ``None`` without prior knowledge."""
    time, power = TimeModel.of(coordinates).prior, PowerModel.of(coordinates).prior
    known = [found for rows in _by_network(hints.relatives) if (found := _coefficients(coordinates, rows)) is not None]
    informed = bool(known)
    if known:
        time = _towards(time, [found[0] for found in known])
        powers = [found[1] for found in known if found[1] is not None]
        power = _towards(power, powers) if powers else power
    if hints.operators and hints.balance_flop_per_byte:
        time, informed = _with_operators(time, coordinates, hints.operators, hints.balance_flop_per_byte), True
    return (time, power) if informed else None


def _by_network(rows: Sequence[ProfileRow]) -> list[list[ProfileRow]]:
    """Return the measured rows of each network and task."""
    found: dict[tuple[str, str], list[ProfileRow]] = {}
    for row in rows:
        if row.status == "ok" and row.minibatch_s is not None and 0 < row.minibatch_s < math.inf:
            found.setdefault((row.workload, row.task), []).append(row)
    return list(found.values())


def _coefficients(coordinates: Coordinates, rows: list[ProfileRow]) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return the coefficients of the laws of time and power fitted to these rows; ``None`` where other knobs vary."""
    unique = {row.point: row for row in rows}
    space = Space.of(unique)
    theirs = Coordinates.of(space)
    if theirs.names != coordinates.names:
        return None
    chosen = np.unique(np.linspace(0, len(space.points) - 1, ROWS).round().astype(np.intp))
    picked = [unique[space.points[row]] for row in chosen]
    times_s = np.array([row.minibatch_s for row in picked], dtype=float)
    powers_w = np.array([math.nan if row.power_w is None else row.power_w for row in picked], dtype=float)
    beliefs = Beliefs(theirs, log_caps(space))
    beliefs.learn(chosen, times_s, powers_w)
    return beliefs.likeliest()


def _towards(prior: Prior, known: list[np.ndarray]) -> Prior:
    """Return a prior around the coefficients of other networks, with its own overall scale."""
    found = np.array(known)
    moved = np.clip((found.mean(axis=0) - prior.mean) / prior.sd, -LIMIT, LIMIT)
    mean = prior.mean + TRUST * moved * prior.sd
    sd = np.maximum(WIDER * prior.sd, found.std(axis=0))
    mean[0], sd[0] = prior.mean[0], prior.sd[0]
    return Prior(mean, sd)


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
