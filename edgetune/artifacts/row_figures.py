"""Figures that follow from those of a measured point; ``None`` where one of them was not measured."""

from __future__ import annotations

import math

from edgetune.artifacts.profile import ProfileRow


def energy_per_minibatch_j(row: ProfileRow) -> float | None:
    """Return the energy of one minibatch, J: as measured, else mean power times time, else ``None``."""
    if row.energy_j is not None and _positive(row.energy_j):
        return float(row.energy_j)
    if row.power_w is None or row.minibatch_s is None or not _positive(row.power_w * row.minibatch_s):
        return None
    return float(row.power_w * row.minibatch_s)


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
    return row.batch_size / row.minibatch_s if row.minibatch_s else None


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
