"""Figures that follow from those of a measured point; ``None`` where one of them was not measured."""

from __future__ import annotations

import math
from statistics import fmean

from edgetune.artifacts.profile import ProfileRow
from edgetune.stats import percentile

_NO_SPREAD_S = 1.5e-9
"""Clocks count whole nanoseconds: figures of a simulation without noise differ by one, s."""


def mean_minibatch_s(row: ProfileRow) -> float | None:
    """Return the mean time of a steady minibatch, s, from which rates, shares of time and energy follow.

    Without raw times ``minibatch_s`` stands for it.
    """
    steady = (row.times_s or ())[row.warmups or 0 :]
    return _apart(row.minibatch_mean_s or (fmean(steady) if steady else None), row.minibatch_s)


def late_minibatch_s(row: ProfileRow) -> float | None:
    """Return the 95th percentile of minibatch times, s, with which a latency budget is kept.

    Without it ``minibatch_s`` stands for it.
    """
    steady = (row.times_s or ())[row.warmups or 0 :]
    return _apart(row.minibatch_p95_s or (percentile(steady, 95) if steady else None), row.minibatch_s)


def _apart(figure_s: float | None, time_s: float | None) -> float | None:
    """Return a figure of the times, or ``minibatch_s`` where it is missing or the times do not spread, s."""
    if time_s is None or figure_s is None or not _positive(figure_s) or abs(figure_s - time_s) < _NO_SPREAD_S:
        return time_s
    return float(figure_s)


def energy_per_minibatch_j(row: ProfileRow) -> float | None:
    """Return the energy of one minibatch, J: as measured, else mean power times mean time, else ``None``."""
    if row.energy_j is not None and _positive(row.energy_j):
        return float(row.energy_j)
    time_s = mean_minibatch_s(row)
    if row.power_w is None or time_s is None or not _positive(row.power_w * time_s):
        return None
    return float(row.power_w * time_s)


def energy_per_request_j(row: ProfileRow) -> float | None:
    """Return the energy of one sample or request, J."""
    energy_j = energy_per_minibatch_j(row)
    return None if energy_j is None else energy_j / row.batch_size


def energy_per_output_token_j(row: ProfileRow) -> float | None:
    """Return the energy of an answer divided by its tokens, J; the energy of the prompt is in it."""
    energy_j = energy_per_request_j(row)
    return None if energy_j is None or not row.output_tokens else energy_j / row.output_tokens


def tokens_per_j(row: ProfileRow) -> float | None:
    """Return the output tokens per joule."""
    token_j = energy_per_output_token_j(row)
    return None if token_j is None else 1 / token_j


def requests_per_s(row: ProfileRow) -> float | None:
    """Return the samples or requests per second."""
    time_s = mean_minibatch_s(row)
    return row.batch_size / time_s if time_s else None


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
