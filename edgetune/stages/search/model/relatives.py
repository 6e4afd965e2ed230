"""What other networks on the same board measured, as curves over the points of a search.

A relative may have been measured on another grid, or at other batch sizes: where it lacks a point, its neighbours are
interpolated.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import mean_minibatch_s
from edgetune.stages.search.model.coordinates import Array, Coordinates
from edgetune.stages.search.space import Space, without_network
from edgetune.stages.search.strategy import LEAST_POINTS

MOST_ROWS = 4096
"""Rows of a relative that are looked at, spread over all of them."""
NEIGHBOURS = 24
"""How many of the nearest rows a point between them is interpolated from."""


@dataclass(frozen=True, slots=True)
class Relatives:
    """Curves of the relatives, each at every point of a space.

    Args:
        log_times: Log of s per minibatch, shape (relatives, points).
        log_powers: Log of W, shape (relatives that measured power, points).
    """

    log_times: Array
    log_powers: Array


NO_RELATIVES = Relatives(np.zeros((0, 0)), np.zeros((0, 0)))


def relative_curves(points: Sequence[Point], rows: Iterable[ProfileRow]) -> Relatives:
    """Return the curves of every network and task of some rows at these points.

    A network with too few rows, or whose rows do not vary the knobs of the points, has none.
    """
    log_times, log_powers, networks = [], [], by_network(rows)
    places = [without_network(point) for point in points] if networks else []
    for found in networks.values():
        curve = _curve(places, found)
        if curve is None:
            continue
        log_times.append(curve[:, 0])
        if np.isfinite(curve[:, 1]).all():
            log_powers.append(curve[:, 1])
    if not log_times:
        return NO_RELATIVES
    powers = np.array(log_powers) if log_powers else np.zeros((0, len(places)))
    return Relatives(np.array(log_times), powers)


def by_network(rows: Iterable[ProfileRow]) -> dict[str, list[ProfileRow]]:
    """Return the measured rows of each network and task, by their names."""
    found: dict[str, list[ProfileRow]] = {}
    for row in rows:
        if row.status == "ok" and row.minibatch_s is not None and 0 < row.minibatch_s < math.inf:
            found.setdefault(f"{row.workload} {row.task}", []).append(row)
    return found


def _curve(places: Sequence[Point], rows: list[ProfileRow]) -> Array | None:
    """Return log time and log power at some places, shape (places, 2), or ``None`` if the rows do not say."""
    known = {without_network(row.point): row for row in rows}
    wanted = set(places)
    exact = [place for place in known if place in wanted]
    if len(exact) < len(wanted):
        spread = np.linspace(0, len(known) - 1, min(len(known), MOST_ROWS)).round().astype(int)
        every = list(known)
        known = {every[i]: known[every[i]] for i in np.unique(spread)} | {place: known[place] for place in exact}
    if len(known) < LEAST_POINTS:
        return None
    values = np.array([[_log(mean_minibatch_s(row)), _log(row.power_w)] for row in known.values()])
    if len(exact) == len(wanted):
        index = {place: i for i, place in enumerate(known)}
        return values[[index[place] for place in places]]
    if Space.of(known).names != Space.of(places).names:
        return None
    from scipy.interpolate import RBFInterpolator  # takes as long to load as numpy, for tables on another grid only

    space = Space.of([*places, *known])
    unit = dict(zip(space.points, Coordinates.of(space).unit, strict=True))
    at = np.array([unit[place] for place in known])
    interpolate = RBFInterpolator(at, values, neighbors=min(NEIGHBOURS, len(known)), kernel="linear")
    return np.asarray(interpolate(np.array([unit[place] for place in places])))


def _log(value: float | None) -> float:
    return math.log(value) if value is not None and 0 < value < math.inf else math.nan
