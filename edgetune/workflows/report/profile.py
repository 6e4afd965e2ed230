"""A profile in a report: settings and figures of every point, answers of a server, soaks, and time against power.

The answers of a language-model server in a report: their times, rates and energy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.repeats import (
    energy_per_minibatch_j,
    energy_per_output_token_j,
    energy_per_request_j,
    mean_minibatch_s,
    requests_per_s,
)
from edgetune.plotting.page import SectionWriter
from edgetune.stages.profiling.boards import BOARDS
from edgetune.stages.profiling.disturbances import OTHERS
from edgetune.units import format_bytes, format_duration, format_si
from edgetune.workflows.figures import draw_view
from edgetune.workflows.report.comparison import column_name, setting_cell, settings_cells, write_common
from edgetune.workflows.report.sections import cell, own_figure, rows_of, si_cell

if TYPE_CHECKING:
    from edgetune.artifacts.profile import Profile, ProfileRow
    from edgetune.stages.profiling.energy import TokenEnergy

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
    from edgetune.stages.profiling.energy import token_energies

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


def profile_section(table: Profile, out: SectionWriter) -> None:
    """Write every row, below the values that all rows share, above remarks; draw time against power, and soaks."""
    rows = table.rows
    if not rows:
        out.note("no rows")
        return
    varying = write_common(rows, out)
    if any(row.energy_j is None and energy_per_minibatch_j(row) is not None for row in rows):
        out.note("energy: power times time, where the table has none")
    settings = {column_name(name): partial(setting_cell, name) for name in varying}
    out.table(*_rows(rows, settings), keys=range(len(rows)))
    reasons = "; ".join(row.reason for row in rows if row.status == "ok" and row.reason)
    warned = any(each.code == "points-busy" for each in table.header.warnings)  # of all points at once
    for note in dict.fromkeys(filter(None, reasons.split("; "))):
        if not (warned and note.startswith(OTHERS)):
            out.note(f"note: {note}")
    _write_boards(table, out)
    write_answers(rows, settings, out)
    _write_long(rows, varying, out)
    out.figure(partial(draw_view, "profile.points", table), "time against power")
    if any(row.look_s is not None for row in rows):
        out.figure(partial(draw_view, "profile.soak", table), "soak")


def _write_boards(table: Profile, out: SectionWriter) -> None:
    """Write the boards of a sweep over several: their factors relative to the common one, and their drift."""
    told = table.header.conditions.get(BOARDS)
    if not told:
        return
    out.note(f"boards, relative to {told['common']} at the anchors")
    cells = [[name, each["points"], *_factors(each)] for name, each in told["of"].items()]
    names = [
        "board",
        "points>",
        "time>",
        "time ci95>",
        "power>",
        "power ci95>",
        "drift of time>",
        "drift of power>",
        "note",
    ]
    out.table(names, cells)


def _factors(board: Mapping[str, Any]) -> list[object]:
    found: list[object] = []
    for ratio in (board["time"], board["power"]):
        low, high = (ratio or {}).get("low"), (ratio or {}).get("high")
        found += [cell((ratio or {}).get("ratio"), ".3f"), f"{low:.3f} to {high:.3f}" if low and high else None]
    found += [
        cell(None if change is None else change - 1, "+.1%") for change in (board["drift_time"], board["drift_power"])
    ]
    return [*found, "left out" if board["left_out"] else None]


def _rows(rows: Sequence[ProfileRow], settings: _Figures) -> tuple[list[str], list[list[object]]]:
    """Return the table of the rows; of what few rows have, only columns that are not empty."""
    figures: _Figures = {
        **settings,
        "minibatch>": lambda row: si_cell(row.minibatch_s, "s"),
        "ci95>": _interval,
        "power>": lambda row: si_cell(row.power_w, "W"),
        "energy>": lambda row: si_cell(energy_per_minibatch_j(row), "J"),
        "timed>": lambda row: row.minibatches,
    }
    whole = any(row.status != "ok" for row in rows)
    columns, cells = rows_of(
        {
            "mean>": lambda row: si_cell(_unlike_median_s(row), "s"),
            "its own>": own_figure,
            "memory>": lambda row: cell(row.memory_peak_bytes, format_bytes),
            "built in>": lambda row: si_cell(row.build_s, "s"),
            "engine>": lambda row: cell(row.engine_bytes, format_bytes),
            "status": lambda row: (
                (row.status if row.status == "ok" else f"{row.status}: {row.reason}") if whole else None
            ),
        },
        rows,
    )
    found = [[figure(row) for figure in figures.values()] for row in rows]
    return [*figures, *columns], [[*of, *more] for of, more in zip(found, cells or [[]] * len(rows), strict=True)]


_UNLIKE = 0.05
"""Share from which the mean time, which the energy follows from, is shown beside the median."""


def _unlike_median_s(row: ProfileRow) -> float | None:
    """Return the mean time of a minibatch where it is not about ``minibatch_s``, s."""
    mean_s, time_s = mean_minibatch_s(row), row.minibatch_s
    return mean_s if mean_s and time_s and abs(mean_s / time_s - 1) > _UNLIKE else None


def _interval(row: ProfileRow) -> str | None:
    """Return half the width of the interval relative to the median."""
    low, high = row.minibatch_ci95_low_s, row.minibatch_ci95_high_s
    if low is None or high is None or not row.minibatch_s:
        return None
    return f"+-{(high - low) / 2 / row.minibatch_s:.1%}"


def _write_long(rows: Sequence[ProfileRow], varying: Sequence[str], out: SectionWriter) -> None:
    """Write what soaks showed, and the first minibatches after idling."""
    from edgetune.stages.profiling.soak import soak_sentence

    for row in rows:
        cells = zip(varying, settings_cells(row, varying), strict=True)
        which = ", ".join(f"{column_name(name).rstrip('>')} {value}" for name, value in cells)
        head = f"{which}: " if which else ""
        if (soak := soak_sentence(row)) is not None:
            out.note(f"{head}{soak}")
        gaps = zip(row.idle_gap_s or (), row.idle_minibatch_s or (), strict=True)
        said = [
            f"{format_si(first_s, 's')} after {format_duration(gap_s)} ({first_s / row.minibatch_s:.2g} x)"
            for gap_s, first_s in gaps
            if row.minibatch_s
        ]
        if said:
            out.note(f"{head}first minibatch after idling: {', '.join(said)}")
