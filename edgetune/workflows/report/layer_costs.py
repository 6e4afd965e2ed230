"""Costs of layers in a report: of each network together, then of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgetune.plotting.page import SectionWriter
from edgetune.units import format_bytes, format_si
from edgetune.workflows.cells import cell

if TYPE_CHECKING:
    from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts


_TIMES = ("load_s", "cold_load_s", "execute_s")


def layer_costs_section(costs: LayerCosts, out: SectionWriter) -> None:
    """Write a line for each network, with its layer of the largest memory, then one for each layer."""
    out.table(
        ("network", "layers>", "weights>", "load>", "from storage>", "execute>", "hungriest layer", "holds>"),
        [
            _network(name, form, [row for row in costs.rows if (row.network, row.form) == (name, form)])
            for name, form in dict.fromkeys((row.network, row.form) for row in costs.rows)
        ],
    )
    out.space()
    out.table(
        ("network", "layer", "kind", "after", "weights>", "outputs>", "peak>", "load>", "from storage>", "execute>",
         "ci95>", "samples>", "status"),
        [
            (
                row.network, row.layer if row.form == "layers" else row.form, row.kind,
                " ".join(map(str, row.after or ())) or None,
                format_bytes(row.weight_bytes), format_bytes(row.output_bytes),
                cell(row.peak_bytes, format_bytes),
                *(_total([getattr(row, column)]) for column in _TIMES),
                _interval(row), len(row.execute_samples_s) or None,
                row.status if row.reason is None else f"{row.status}: {row.reason}",
            )
            for row in costs.rows
        ],
    )  # fmt: skip


def _network(name: str, form: str, layers: Sequence[LayerCostRow]) -> tuple[object, ...]:
    """Return the totals of a network; without times where a layer has none."""
    whole = all(row.status == "ok" for row in layers)
    shared = [dict(zip(row.shared_files, row.shared_bytes, strict=True)) for row in layers]  # which count once
    own_bytes = sum(row.weight_bytes - sum(of.values()) for row, of in zip(layers, shared, strict=True))
    weight_bytes = own_bytes + sum({file: size for of in shared for file, size in of.items()}.values())
    hungriest = max(layers, key=_held_bytes)
    return (
        name if form == "layers" else f"{name}, {form}", len(layers), format_bytes(weight_bytes),
        *(_total([getattr(row, column) for row in layers if whole]) for column in _TIMES),
        hungriest.layer, format_bytes(_held_bytes(hungriest)),
    )  # fmt: skip


def _held_bytes(row: LayerCostRow) -> int:
    """Return the bytes of an executing layer without its inputs; the peak of a whole network includes its weights."""
    if row.form != "layers" and row.peak_bytes is not None:
        return row.peak_bytes
    return row.weight_bytes + max(row.output_bytes + row.scratch_bytes, row.peak_bytes or 0)


def _total(values_s: Sequence[float | None]) -> str | None:
    """Return the sum of the known times; a layer without weights has no time of loading from storage."""
    known = [value_s for value_s in values_s if value_s is not None]
    return format_si(sum(known), "s") if known else None


def _interval(row: LayerCostRow) -> str | None:
    """Return half the interval of the execution time as a share of it."""
    low, high, middle = row.execute_ci95_low_s, row.execute_ci95_high_s, row.execute_s
    if low is None or high is None or not middle:
        return None
    return f"{(high - low) / (2 * middle):.1%}"
