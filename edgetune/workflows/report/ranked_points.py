"""The table of the best points of a search, and why each of them lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from edgetune.artifacts.mode import SETTINGS
from edgetune.plotting.page import Table
from edgetune.units import format_bytes
from edgetune.workflows.cells import cell, rows_of, si_cell

if TYPE_CHECKING:
    from edgetune.stages.search.ranking import RankedPoint


def ranked_table(top: Sequence[RankedPoint]) -> Table:
    """Return the table of the answer and the nearest points: settings that differ, figures, why each lost."""
    varied = [name for name in (*SETTINGS, "batch") if len({_setting(name, each) for each in top}) > 1]
    speeds: dict[str, Callable[[RankedPoint], object]] = {
        "samples/s>": lambda each: cell(each.measured.throughput_per_s, ".4g"),
        "latency>": lambda each: si_cell(each.measured.latency_s, "s"),
        "time>": lambda each: si_cell(each.measured.minibatch_s, "s"),
    }
    best = top[0].measured
    shown = ["samples/s>", "latency>"]  # of two workloads
    if best.minibatch_s is not None:
        shown = ["latency>" if best.latency_s is not None else "samples/s>" if "batch" in varied else "time>"]
    figures: dict[str, Callable[[RankedPoint], object]] = {
        **{f"{name}>": partial(_setting, name) for name in varied},
        **{name: speeds[name] for name in shown},
        "tokens/s>": lambda each: cell(each.measured.tokens_per_s, ".4g"),
        "tokens/J>": lambda each: cell(each.measured.tokens_per_j, ".4g"),
        "power>": lambda each: si_cell(each.measured.power_w, "W"),
        "memory>": lambda each: cell(each.measured.memory_peak_bytes, format_bytes),
        "why it lost": lambda each: each.lost or "the answer",
    }
    return rows_of(figures, top)


def _setting(name: str, point: RankedPoint) -> object:
    """Return a setting of the mode, or the batch size."""
    chosen = point.configuration
    value = chosen.batch_size or chosen.infer_batch_size if name == "batch" else getattr(chosen.mode, name)
    return f"{value:g}" if isinstance(value, float) else value
