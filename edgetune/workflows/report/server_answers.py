"""The answers of a language-model server in a report: their times, rates and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from edgetune.artifacts.row_figures import energy_per_output_token_j, energy_per_request_j, requests_per_s
from edgetune.plotting.page import SectionWriter
from edgetune.workflows.cells import cell, rows_of, si_cell

if TYPE_CHECKING:
    from edgetune.artifacts.profile import ProfileRow
    from edgetune.stages.profiling.token_energy import TokenEnergy

_Figures = Mapping[str, "Callable[[ProfileRow], object]"]

_TIMES: _Figures = {
    "ttft>": lambda row: si_cell(row.ttft_s, "s"),
    "ttft p95>": lambda row: si_cell(row.ttft_p95_s, "s"),
    "own ttft>": lambda row: si_cell(row.own_ttft_s, "s"),
    "token>": lambda row: si_cell(row.token_s, "s"),
    "token p95>": lambda row: si_cell(row.token_p95_s, "s"),
    "own token>": lambda row: si_cell(row.own_token_s, "s"),
    "bunched>": lambda row: cell(row.bunched_share or None, ".0%"),
}
_RATES: _Figures = {
    "requests/s>": lambda row: cell(requests_per_s(row), ".4g"),
    "tokens/s>": lambda row: cell(row.tokens_per_s, ".4g"),
    "energy/request>": lambda row: si_cell(energy_per_request_j(row), "J"),
    "energy/token>": lambda row: si_cell(energy_per_output_token_j(row), "J"),
}

_COUNTED = {
    "estimated": "each chunk of an answer counts as one",
    "tokenizer": "its tokenizer counted those of a prompt and of a chunk of an answer",
}


def _write_energies(rows: Sequence[ProfileRow], settings: _Figures, out: SectionWriter) -> None:
    """Write the energy of a token of prompts and of answers, if the lengths of requests tell it."""
    from edgetune.stages.profiling.token_energy import token_energies

    found = token_energies(rows)
    if not found:
        return
    out.note("energy of a token by least squares over the lengths, and the residual of a request")
    figures: Mapping[str, Callable[[TokenEnergy], object]] = {
        **{name: partial(_of_row, cell_of) for name, cell_of in settings.items() if name != "workload"},
        "of a prompt>": lambda each: si_cell(each.prompt_j, "J"),
        "of an answer>": lambda each: si_cell(each.output_j, "J"),
        "residual>": lambda each: f"{each.residual:.1%}" if each.pairs > 2 else None,
        "lengths>": lambda each: each.pairs,
    }
    out.table(*rows_of(figures, found))


def _of_row(cell_of: Callable[[ProfileRow], object], each: TokenEnergy) -> object:
    return cell_of(each.row)


def write_answers(rows: Sequence[ProfileRow], settings: _Figures, out: SectionWriter) -> None:
    """Write times, rates and energy of the answers of a server; nothing if no row is of a server.

    Args:
        rows: The rows of a profile.
        settings: The first columns of each table.
        out: Takes the tables.
    """
    found = [row for row in rows if row.tokens_per_s is not None]
    if not found:
        return
    own = any(row.own_ttft_s is not None or row.own_token_s is not None for row in found)
    text = "answers: time to the first token (ttft) and of each token after it" + (
        ", own: by the server" if own else ""
    )
    out.note(text)
    out.table(*rows_of({**settings, **_TIMES}, found))
    out.table(*rows_of({**settings, **_RATES}, found))
    _write_energies(rows, settings, out)
    if any(row.bunched_share for row in found):
        text = "bunched: share of the answers whose tokens arrived together; they have no ttft and no time of a token"
        out.note(text)
    for counted, how in _COUNTED.items():
        if any(row.tokens_counted == counted for row in found):
            out.note(f"the server does not count tokens: {how}")
