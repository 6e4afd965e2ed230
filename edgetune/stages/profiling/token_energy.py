"""The energy of a prompt's token and of an answer's token, from measurements with several lengths.

A request of p prompt tokens and o output tokens takes p x prompt_j + o x output_j. With at least two pairs of lengths,
least squares of the relative errors give both; the residual says how well they describe all pairs. The share of idle
power is in both figures: it grows with the time of each phase.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.row_figures import energy_per_request_j

_LEAST_ANGLE = 1e-3
"""Sine of the angle between two pairs of lengths below which they do not separate prompts from answers."""


@dataclass(frozen=True, slots=True)
class TokenEnergy:
    """The energy of tokens in one mode with one number of streams.

    Args:
        row: The first of the measurements, which names mode and number of streams.
        prompt_j: Energy of a token of a prompt, J.
        output_j: Energy of a token of an answer, J.
        residual: Root mean square of the relative errors of the energy of a request; 0 with two pairs of lengths.
        pairs: Number of pairs of lengths.
    """

    row: ProfileRow
    prompt_j: float
    output_j: float
    residual: float
    pairs: int


def token_energies(rows: Iterable[ProfileRow]) -> list[TokenEnergy]:
    """Return the energy of tokens of each mode and number of streams, where the measurements tell it.

    There is none without power, without the server's count of prompt tokens, or if the lengths are too much alike.
    """
    groups: dict[tuple[object, ...], dict[str, ProfileRow]] = {}
    for row in rows:
        if row.status == "ok" and row.prompt_tokens and row.output_tokens and energy_per_request_j(row) is not None:
            server = row.workload.rsplit(":", 2)[0]
            groups.setdefault((server, row.device, row.batch_size, row.mode), {})[row.workload] = row
    return [found for group in groups.values() if (found := _fit(list(group.values()))) is not None]


def _fit(rows: Sequence[ProfileRow]) -> TokenEnergy | None:
    """Solve the normal equations of prompt_j x p / E + output_j x o / E = 1."""
    scaled = [(row.prompt_tokens or 0.0, row.output_tokens or 0.0, energy_per_request_j(row) or 0.0) for row in rows]
    points = [(prompt / energy_j, output / energy_j) for prompt, output, energy_j in scaled]
    pp, oo = sum(p * p for p, _ in points), sum(o * o for _, o in points)
    po, p_sum, o_sum = sum(p * o for p, o in points), sum(p for p, _ in points), sum(o for _, o in points)
    determinant = pp * oo - po * po
    if determinant <= _LEAST_ANGLE**2 * pp * oo:
        return None
    prompt_j, output_j = (oo * p_sum - po * o_sum) / determinant, (pp * o_sum - po * p_sum) / determinant
    if prompt_j <= 0 or output_j <= 0:
        return None
    errors = [prompt_j * p + output_j * o - 1 for p, o in points]
    return TokenEnergy(rows[0], prompt_j, output_j, math.sqrt(sum(e * e for e in errors) / len(errors)), len(rows))
