"""The measured passes of a language model at a server, from a profile of its answers.

    |--- prefill: time to the first token ---|- decode: one token -|- decode: one token -|

With several streams the prompts of some are read while others are answered, so that only one stream tells the time of a
prefill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgetune.artifacts.io import read_profile
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.repeats import knob_key, one_per_point
from edgetune.stages.roofline.placement import operating_point


def rows_of_server(source: str) -> tuple[ProfileRow, ...]:
    """Return the measured answers in a profile; none if it is not of a server.

    Raises:
        InputError: the file is no profile.
    """
    rows = one_per_point(read_profile(source).rows).rows
    return tuple(row for row in rows if row.status == "ok" and row.prompt_tokens and row.tokens_per_s)


def contexts_of(rows: Sequence[ProfileRow]) -> str | None:
    """Return the lengths of the prompts as ``--context`` writes them; ``None`` without rows."""
    lengths = dict.fromkeys(round(row.prompt_tokens or 0) for row in rows)
    return ",".join(map(str, lengths)) or None


def pass_measured(rows: Sequence[ProfileRow], table: OpsTable, mode: Mode) -> ProfileRow | None:
    """Return the row of a pass, its time as that of a minibatch, without power; ``None`` if it was not measured."""
    point = operating_point(table)
    if point is None:
        return None
    for row in rows:
        prompt, output = round(row.prompt_tokens or 0), round(row.output_tokens or 0)
        if row.batch_size != table.batch_size or knob_key(row.mode) != knob_key(mode):
            continue
        time_s = None
        if point.phase == "prefill" and point.context == prompt and row.batch_size == 1:
            time_s = row.ttft_s
        if point.phase == "decode" and prompt <= point.context <= prompt + output:
            time_s = row.token_s
        if time_s:
            return replace(row, minibatch_s=time_s, times_s=None, minibatch_mean_s=None, power_w=None, energy_j=None)
    return None
