"""The roofline of a device in a report: peaks and energy of every mode and precision, and their figure.

A table of training runs in a report: epochs to an accuracy by batch size.

Costs of layers in a report: of each network together, then of each layer.

Files that people write, in a report: their text.

An operator table in a report: the ledger of operators, the totals, and the rows they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from edgetune.artifacts.document import Document
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.plotting.page import SectionWriter
from edgetune.stages.roofline.balance import EnergyBalance, balance, sentences, statements
from edgetune.stages.roofline.clocks import correlations
from edgetune.stages.roofline.figures.roofs import roof_figure
from edgetune.units import format_bytes, format_duration, format_si
from edgetune.workflows.report.sections import cell, rows_of, si_cell

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence, ConvergenceRow
    from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
    from edgetune.artifacts.ops import By, OperatorCosts, OpsTable


def roofline_section(roofline: Roofline, out: SectionWriter) -> None:
    """Write the roofs of a device below a line on the measurements, their energy, and what holds in all modes."""
    roofs = roofline.roofs
    varying = [knob for knob in KNOBS if len({getattr(roof.mode, knob) for roof in roofs}) > 1]
    fixed = Mode.of({knob: value for knob, value in roofs[0].mode.knobs().items() if knob not in varying})
    modes = len({run.mode for run in roofline.runs})
    kernels = f"{len(roofline.runs)} kernels measured at {modes} mode{'' if modes == 1 else 's'}"
    out.note(", ".join([roofline.device, *([str(fixed)] if fixed.knobs() else []), kernels]))
    named: dict[str, Callable[[Roof], object]] = {
        **{f"{knob}>": lambda roof, knob=knob: cell(getattr(roof.mode, knob), "g") for knob in varying},  # type: ignore[misc]
        "precision": lambda roof: roof.precision,
    }
    peaks: dict[str, Callable[[Roof], object]] = {
        "computing>": lambda roof: si_cell(roof.flops_per_s, "FLOP/s"),
        "memory>": lambda roof: si_cell(roof.bytes_per_s, "B/s"),
        "balance>": lambda roof: f"{roof.flops_per_s / roof.bytes_per_s:.4g} FLOP/byte",
        "from": lambda roof: "measured" if roof.measured else "inferred",
    }
    out.table(*rows_of({**named, **peaks}, roofs), keys=range(len(roofs)))
    if any(roof.flop_j is not None for roof in roofs):
        out.note("energy beyond static power, balance with it and without, most GFLOP per joule")
        out.table(*rows_of({**named, **_ENERGIES}, roofs))
    for precision in dict.fromkeys(roof.precision for roof in roofs):
        _write_laws([roof for roof in roofs if roof.precision == precision], out)
    draw = partial(roof_figure, roofs, device=roofline.device, simulated=roofline.header.simulated)
    out.figure(draw, "rooflines of the device")


_ENERGIES: dict[str, Callable[[Roof], object]] = {
    "static>": lambda roof: si_cell(roof.static_w, "W"),
    "pJ/FLOP>": lambda roof: _picojoules(roof.flop_j, roof.flop_j_error),
    "pJ/byte>": lambda roof: _picojoules(roof.byte_j, roof.byte_j_error),
    "residual>": lambda roof: cell(roof.residual_share, ".1%"),
    "balance>": lambda roof: _balanced(balance(roof).energy),
    "without>": lambda roof: _balanced(balance(roof).dynamic),
    "GFLOP/J>": lambda roof: _balanced(balance(roof).energy, peak=True),
}
"""Columns on the energy of a roof."""


def _picojoules(value_j: float | None, error_j: float | None) -> str | None:
    within = "" if error_j is None or not value_j else f" +-{error_j / value_j:.0%}"
    return None if value_j is None else f"{1e12 * value_j:.4g}{within}"


def _balanced(found: EnergyBalance | None, *, peak: bool = False) -> str | None:
    value = None if found is None else found.peak_flops_per_j if peak else found.flop_per_byte
    return None if value is None else f"{value / 1e9:.4g}" if peak else f"{value:.4g}"


def _write_laws(roofs: Sequence[Roof], out: SectionWriter) -> None:
    """Write what holds in all modes of a precision, and how its peaks change with each knob, if there are several."""
    holds = statements(roofs) if len(roofs) > 1 else None
    for sentence in () if holds is None else sentences(holds):
        out.note(f"{roofs[0].precision}: {sentence}")
    rows: dict[str, dict[str, str | None]] = {}
    for one in correlations(roofs):
        values = [getattr(roof, one.peak) for roof in roofs]
        moves = one.pearson is not None and min(values) < _STILL * max(values)
        rows.setdefault(one.knob, {})[one.peak] = f"{one.pearson:+.2f}" if moves else None
    if rows:
        out.note(f"correlation of the peaks in {roofs[0].precision} with each knob, 1 for a straight line upwards")
        out.table(("knob", "computing>", "memory>"), [(knob, *peaks.values()) for knob, peaks in rows.items()])


_STILL = 0.95
"""A peak that stays above this share of its highest value counts as constant: it has no correlation."""


def convergence_section(table: Convergence, out: SectionWriter) -> None:
    """Write a row per batch size, below the facts that all runs share."""
    rows = table.rows
    if not rows:
        out.note("no rows")
        return
    groups: dict[tuple[object, ...], list[ConvergenceRow]] = {}
    for row in rows:
        groups.setdefault((row.workload, row.dataset, row.target_accuracy, row.batch_size), []).append(row)
    for task in dict.fromkeys(key[:3] for key in groups):
        own = {key[3]: runs for key, runs in groups.items() if key[:3] == task}
        aim = "" if task[2] is None else f", until {task[2]:g}"
        out.note(f"{task[0]} on {task[1] or 'unnamed data'}{aim}")
        means = {size: _mean(runs) for size, runs in own.items()}
        least = min((mean for mean in means.values() if mean is not None), default=None)
        out.table(
            ("batch>", "rate>", "reached>", "epochs>", "from-to>", "ratio>", "best accuracy>", "took>"),
            [_line(size, runs, means[size], least) for size, runs in own.items()],
        )


def _mean(runs: Sequence[ConvergenceRow]) -> float | None:
    """Return the mean epochs of the runs that reached the target, where most did."""
    reached = [row.epochs for row in runs if row.epochs is not None]
    counted = [row for row in runs if row.status != "failed"]
    return sum(reached) / len(reached) if 2 * len(reached) > len(counted) else None


def _line(size: object, runs: Sequence[ConvergenceRow], mean: float | None, least: float | None) -> tuple[object, ...]:
    reached = sorted(row.epochs for row in runs if row.epochs is not None)
    accuracies = [row.accuracy for row in runs if row.accuracy is not None]
    took = [row.duration_s for row in runs if row.duration_s is not None]
    rate = runs[0].learning_rate
    return (
        size, cell(rate, ".3g"), f"{len(reached)}/{len(runs)}",
        cell(mean, ".3g"), f"{reached[0]:.3g}-{reached[-1]:.3g}" if reached else None,
        None if mean is None or least is None else f"{mean / least:.2f}",
        f"{max(accuracies):.1%}" if accuracies else None, format_duration(sum(took)) if took else None,
    )  # fmt: skip


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


def document_section(document: Document, out: SectionWriter) -> None:
    """Write the document as YAML."""
    out.command(document.to_bytes().decode())


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
    from edgetune.artifacts.yaml_document import plain

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
