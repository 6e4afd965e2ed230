"""Layer costs measured: a process for each network, a row for each layer, failures included.

for each prepared network      one process: loads, executions and peak of its layers, in order
        layer crashes, hangs   -> its row says so, and those after it lack what it would have made
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgetune.artifacts.layer_costs import LayerCostRow
from edgetune.errors import EdgetuneError
from edgetune.processes.child import Child
from edgetune.stats import StoppingRule, find_warmup, summarise
from edgetune.units import format_duration
from edgetune.workloads.prepared import Prepared, PreparedLayer

_WORKER = "edgetune.schedule.layer_worker"
_OPEN_TIMEOUT_S = 120.0
"""Weights are read whole to be checked: 400 MB take 20 s from a slow card."""


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """How layers are measured.

    Args:
        rule: When a figure has been sampled enough.
        longest_s: After which it is left as it is, s, even if the rule wants more.
        timeout_s: After which a layer is given up, s.
        cold: Whether to load from storage too.
        seed: Of the inputs.
    """

    rule: StoppingRule
    longest_s: float = 1.0
    timeout_s: float = 300.0
    cold: bool = False
    seed: int = 0


OnLayer = Callable[[LayerCostRow], None]


def measure_network(prepared: Prepared, options: LayerOptions, on_layer: OnLayer) -> tuple[LayerCostRow, ...]:
    """Return a row for each layer of a network.

    Args:
        prepared: Its folder.
        options: How.
        on_layer: Told every row once there is one.

    Raises:
        DeviceError: no process can be started.
    """
    rows: list[LayerCostRow] = []
    with closing(Child(_WORKER)) as child:
        opening = {"command": "open", "folder": str(prepared.folder.absolute()), "seed": options.seed}
        lost = _asked(child, opening, _OPEN_TIMEOUT_S)[1]
        for index, layer in enumerate(prepared.layers):
            row = _row(prepared, index)
            if lost is None:
                reply, failure = _asked(child, _measuring(index, options), options.timeout_s)
                row = _measured(row, reply) if failure is None else _lost(row, failure)
                lost = failure and f"layer {layer.name} before it failed"
            else:
                row = _lost(row, lost)
            rows.append(row)
            on_layer(row)
    return tuple(rows)


def _asked(child: Child, command: dict[str, Any], timeout_s: float) -> tuple[dict[str, Any], str | None]:
    """Return the reply, or why there is none."""
    try:
        return child.ask(command, deadline_s=time.monotonic() + timeout_s), None
    except EdgetuneError as error:
        return {}, error.message
    except TimeoutError:
        return {}, f"it took longer than {format_duration(timeout_s)}"


def _measuring(index: int, options: LayerOptions) -> dict[str, Any]:
    command = {"command": "layer", "index": index, "rule": asdict(options.rule)}
    return {**command, "longest_s": options.longest_s, "cold": options.cold}


def _row(prepared: Prepared, index: int) -> LayerCostRow:
    """Return what is known of a layer before it is measured."""
    layer: PreparedLayer = prepared.layers[index]
    return LayerCostRow(
        prepared.network, layer.name, layer.kind, layer.weight_bytes, layer.output_bytes, None, None, index,
        layer.after, layer.scratch_bytes, prepared.input_bytes,
    )  # fmt: skip


def _lost(row: LayerCostRow, reason: str) -> LayerCostRow:
    return replace(row, status="failed", reason=reason)


def _measured(row: LayerCostRow, reply: dict[str, Any]) -> LayerCostRow:
    """Return the row with its figures; a layer without weights takes no time to load."""
    peak = reply["peak_bytes"]
    reason = "; ".join(filter(None, (reply["cold_reason"], "peak: not told" if peak is None else None)))
    known = replace(row, load_s=0.0, peak_bytes=peak, reason=reason or None)
    for figure, samples in (
        ("load", reply["loads_s"]), ("cold_load", reply["cold_loads_s"]), ("execute", reply["executions_s"]),
    ):  # fmt: skip
        if samples:
            known = replace(known, **_figures(figure, samples))
    return known


def _figures(figure: str, samples: Sequence[float]) -> dict[str, Any]:
    """Return the columns of one figure, warm-up left out of the median."""
    warmups = find_warmup(samples).length
    summary = summarise(samples[warmups:])
    return {
        f"{figure}_s": summary.median,
        f"{figure}_ci95_low_s": summary.low,
        f"{figure}_ci95_high_s": summary.high,
        f"{figure}_samples_s": tuple(samples),
        f"{figure}_warmups": warmups,
    }
