"""Costs of layers in a report: sizes and times of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.plotting.page import SectionWriter
from edgetune.units import format_bytes, format_si
from edgetune.workflows.cells import cell

if TYPE_CHECKING:
    from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts


def section(costs: LayerCosts, out: SectionWriter) -> None:
    """Write a line for each layer."""
    out.table(
        ("network", "layer", "kind", "after", "weights>", "outputs>", "peak>", "load>", "from storage>", "execute>",
         "ci95>", "samples>", "status"),
        [
            (
                row.network, row.layer if row.form == "layers" else row.form, row.kind,
                " ".join(map(str, row.after or ())) or None,
                format_bytes(row.weight_bytes), format_bytes(row.output_bytes),
                cell(row.peak_bytes, format_bytes),
                *(total_cell([value_s]) for value_s in (row.load_s, row.cold_load_s, row.execute_s)),
                _interval(row), len(row.execute_samples_s) or None,
                row.status if row.reason is None else f"{row.status}: {row.reason}",
            )
            for row in costs.rows
        ],
    )  # fmt: skip


def total_cell(values_s: Sequence[float | None]) -> str | None:
    """Return the sum of the known times; a layer without weights has no time of loading from storage."""
    known = [value_s for value_s in values_s if value_s is not None]
    return format_si(sum(known), "s") if known else None


def _interval(row: LayerCostRow) -> str | None:
    """Return half the interval of the execution time as a share of it."""
    low, high, middle = row.execute_ci95_low_s, row.execute_ci95_high_s, row.execute_s
    if low is None or high is None or not middle:
        return None
    return f"{(high - low) / (2 * middle):.1%}"
