"""An operator table in a report: the ledger of operators, the totals, and the rows they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgetune.plotting.page import SectionWriter
from edgetune.units import format_si
from edgetune.workflows.cells import cell

if TYPE_CHECKING:
    from edgetune.artifacts.ops import By, OperatorCosts, OpsTable

_WORDS = {"modelled": "modelled", "zero": "zero by definition", "unmodelled": "unmodelled"}
_NAMED = 8
"""Operator types named in a line of the ledger; more are counted."""


def ops_section(table: OpsTable, out: SectionWriter, by: By = "op") -> None:
    """Write ledger, totals and rows."""
    from edgetune.artifacts.ops import grouped, ledger, totals

    out.note(
        f"{table.workload} {table.task}, batch size {table.batch_size}, {table.precision}{_operating_point(table)}"
    )
    for sentence in types_of(table):
        out.note(sentence)
    out.space()
    out.heading("ledger")
    rows = [
        (
            _WORDS[entry.ledger],
            entry.nodes,
            f"{entry.share:.1%}",
            "" if entry.ledger == "modelled" else _some(entry.ops),
        )
        for entry in ledger(table)
    ]
    out.table(("", "nodes>", "share>", "operators"), rows)
    if any(entry.ledger == "unmodelled" and entry.nodes for entry in ledger(table)):
        out.note("totals leave unmodelled operators out: they are lower bounds")
    for data_warning in table.header.warnings:
        if data_warning.code != "unmodelled-operators":
            out.note(f"warning: {data_warning.code}: {data_warning.advice}")
    whole = totals(table)
    out.space()
    out.heading("totals")
    out.table(("", "value>"), _totals(table, whole))
    out.space()
    _write_groups(out, grouped(table, by), whole, by, phases=table.task == "train")


def ops_answer(table: OpsTable, by: By, file: str | None) -> dict[str, Any]:
    """Return ledger, totals and rows for machines."""
    from edgetune.artifacts.ops import flops_by_precision, grouped, ledger, totals
    from edgetune.artifacts.plain import plain

    def costs(cost: OperatorCosts) -> dict[str, Any]:
        return {**plain(cost), "intensity_flop_per_byte": cost.intensity}

    return {
        "file": file,
        "workload": table.workload,
        "task": table.task,
        "batch_size": table.batch_size,
        "precision": table.precision,
        "flops_by_precision": flops_by_precision(table),
        "parameters": table.parameters,
        "ledger": plain(ledger(table)),
        "totals": costs(totals(table)),
        "conditions": plain(table.header.conditions),
        "by": by,
        "rows": [costs(cost) for cost in grouped(table, by)],
        "warnings": plain(table.header.warnings),
    }


def types_of(table: OpsTable) -> list[str]:
    """Return sentences about the types that a network computes in, if there are several."""
    from edgetune.artifacts.ops import flops_by_precision

    found, quantised = flops_by_precision(table), table.header.conditions.get("quantised_operators")
    told = []
    if len(found) > 1:
        shares = [f"{flops / table.flops:.1%} in {precision}" for precision, flops in found.items()]
        told.append(f"operations: {', '.join(shares)}")
    if quantised:
        told.append(
            f"{quantised} operators between DequantizeLinear and QuantizeLinear are counted as the 8-bit kernels that "
            "run in their place with TensorRT, and with ONNX Runtime on ARM (on x86 if unsigned; with CUDA alone not)"
        )
    return told


def _totals(table: OpsTable, whole: OperatorCosts) -> list[tuple[str, str]]:
    intensity = "-" if whole.intensity is None else f"{whole.intensity:.3g} FLOP/byte"
    return [
        ("multiply-accumulates", format_si(whole.macs, "MAC", 4)),
        ("operations", format_si(whole.flops, "FLOP", 4)),
        ("bytes read and written", format_si(whole.bytes_moved, "B", 4)),
        ("of which weights read", format_si(whole.weight_bytes, "B", 4)),
        ("parameters", format_si(table.parameters, "", 4).rstrip()),
        ("intensity", intensity),
        *_saved(table, whole),
    ]


def _operating_point(table: OpsTable) -> str:
    """Return the phase of a language model, in words."""
    conditions = table.header.conditions
    words = {
        "prefill": "prefill of {context} tokens",
        "decode": "decoding a token on a cache of {context}",
        "extend": "{tokens} more tokens on a cache of {context}",
    }
    words_of_phase = words.get(str(conditions.get("phase")))
    return "" if words_of_phase is None else ", " + words_of_phase.format_map(dict(conditions))


def _saved(table: OpsTable, whole: OperatorCosts) -> list[tuple[str, str]]:
    """Return the savings of the fused view over single operators, or the additions of the eager view."""
    unfused = table.header.conditions.get("unfused")
    if not isinstance(unfused, Mapping):
        return []
    moved, kernels = unfused.get("bytes_moved", 0), unfused.get("kernels", 0)
    left = sum(row.kernels for row in table.rows)
    if table.header.conditions.get("eager"):
        more = f"{format_si(whole.bytes_moved - moved, 'B', 4)} on {format_si(moved, 'B', 4)}"
        return [("bytes more by parts", more), ("kernels more by parts", f"{left - kernels} on {kernels}")]
    return [
        ("bytes saved by fusing", f"{format_si(moved - whole.bytes_moved, 'B', 4)} of {format_si(moved, 'B', 4)}"),
        ("kernels saved by fusing", f"{kernels - left} of {kernels}"),
    ]


def _write_groups(
    out: SectionWriter, groups: Sequence[OperatorCosts], whole: OperatorCosts, by: By, *, phases: bool
) -> None:
    """Write the rows, with the phase if there are several, and with a count unless each row is a node."""
    columns = [{"op": "operator", "class": "class", "node": "node"}[by]]
    columns += ["phase"] * phases + ["n>"] * (by != "node")
    columns += ["MAC>", "FLOP>", "FLOP %>", "bytes>", "bytes %>", "FLOP/byte>"]
    rows = []
    for cost in groups:
        first: list[object] = [cost.name, *([cost.phase] * phases), *([cost.rows] * (by != "node"))]
        flops, moved = _percent(cost.flops, whole.flops), _percent(cost.bytes_moved, whole.bytes_moved)
        work = (_count(cost.macs), _count(cost.flops), flops, format_si(cost.bytes_moved, "B"), moved)
        rows.append([*first, *work, cell(cost.intensity, ".3g")])
    out.table(columns, rows)


def _count(number: int) -> str:
    return format_si(number, "").rstrip()


def _percent(part: int, whole: int) -> str | None:
    return f"{100 * part / whole:.1f}" if whole else None


def _some(ops: Sequence[str]) -> str:
    more = len(ops) - _NAMED
    return ", ".join(ops[:_NAMED]) + (f" and {more} more" if more > 0 else "")
