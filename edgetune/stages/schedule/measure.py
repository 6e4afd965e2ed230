"""Layer costs measured: a process for each network, a row for each layer, failures included.

for each prepared network      one process: loads, executions and peak of its layers, in order
        layer crashes, hangs   -> its row says so, and those after it lack what it would have made
        each whole form        one process, one row
for the machine                one process: the memory that it takes before it has a network
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from edgetune.artifacts.layer_costs import LayerCostRow
from edgetune.errors import EdgetuneError
from edgetune.processes.child import Child
from edgetune.processes.memory import counter_bytes
from edgetune.stages.schedule.costs import network_of
from edgetune.stages.schedule.executor import Form, environment_of
from edgetune.stages.schedule.network import as_one_layer
from edgetune.stats import StoppingRule, find_warmup, summarise
from edgetune.units import format_duration
from edgetune.workloads.prepared import Prepared, PreparedLayer

_LAYERS = "edgetune.stages.schedule.layer_worker"
_OPEN_TIMEOUT_S = 120.0
"""Weights are read whole to be checked: 400 MB take 20 s from a slow card."""


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """The settings of measuring layers.

    Args:
        rule: Decides when a figure has enough samples.
        longest_s: Time limit of a figure, s, even if the rule wants more.
        timeout_s: Time limit of a layer, s.
        cold: Whether to load from storage too.
        whole: Whether to measure whole networks too.
        seed: Of the inputs.
    """

    rule: StoppingRule
    longest_s: float = 1.0
    timeout_s: float = 300.0
    cold: bool = False
    whole: bool = False
    seed: int = 0


OnLayer = Callable[[LayerCostRow], None]


def measure_network(prepared: Prepared, options: LayerOptions, on_layer: OnLayer) -> tuple[LayerCostRow, ...]:
    """Return a row for each layer of a network.

    Args:
        prepared: Its folder.
        options: The settings.
        on_layer: Called with every row.

    Raises:
        DeviceError: no process can be started.
    """
    rows: list[LayerCostRow] = []
    with closing(Child(_LAYERS, environment=environment_of("layers"))) as child:
        opened, lost = _asked(child, {"command": "open", **_common(prepared, options)}, _OPEN_TIMEOUT_S)
        for index, layer in enumerate(prepared.layers):
            row = replace(_row(prepared, index), sessions_bytes=opened.get("sessions_bytes"))
            if lost is None:
                command = {"command": "layer", "index": index, **_how(options)}
                reply, failure = _asked(child, command, options.timeout_s)
                row = _measured(row, reply) if failure is None else _lost(row, failure)
                lost = failure and f"layer {layer.name} before it failed"
            else:
                row = _lost(row, lost)
            rows.append(row)
            on_layer(row)
    if options.whole:
        for form in prepared.whole:
            rows.append(_whole(prepared, cast("Form", form), options))
            on_layer(rows[-1])
    return tuple(rows)


def measure_machine(networks: Sequence[Prepared], options: LayerOptions) -> dict[str, int]:
    """Return the memory of the process that runs networks before it has any, its own part, and the machine's swap.

    All in bytes, each missing where it is unknown: layers are known without it.

    Args:
        networks: That can be measured on; it is the smallest one.
        options: The settings.

    Raises:
        DeviceError: no process can be started.
    """
    smallest = min(networks, key=lambda each: each.weight_bytes)
    with closing(Child(_LAYERS, environment=environment_of("layers"))) as child:
        opened = _asked(child, {"command": "open", **_common(smallest, options)}, _OPEN_TIMEOUT_S)[0]
    swap_bytes = counter_bytes(Path("/proc/meminfo"), "SwapTotal")
    sizes = {name: opened.get(name) for name in ("base_bytes", "base_anonymous_bytes")} | {"swap_bytes": swap_bytes}
    return {name: size for name, size in sizes.items() if size is not None}


def _common(prepared: Prepared, options: LayerOptions) -> dict[str, Any]:
    return {"folder": str(prepared.folder.absolute()), "seed": options.seed}


def _asked(child: Child, command: dict[str, Any], timeout_s: float) -> tuple[dict[str, Any], str | None]:
    """Return the reply, or why there is none."""
    try:
        return child.ask(command, deadline_s=time.monotonic() + timeout_s), None
    except EdgetuneError as error:
        return {}, error.message
    except TimeoutError:
        return {}, f"it took longer than {format_duration(timeout_s)}"


def _how(options: LayerOptions) -> dict[str, Any]:
    return {"rule": asdict(options.rule), "longest_s": options.longest_s, "cold": options.cold}


def _whole(prepared: Prepared, form: Form, options: LayerOptions) -> LayerCostRow:
    """Return the row of a whole network."""
    sizes = as_one_layer(network_of(prepared)).layers[0]
    row = LayerCostRow(
        prepared.network, prepared.network, "other", prepared.weight_bytes, sizes.output_bytes, None, None, 0, (), 0,
        prepared.input_bytes, form=form,
    )  # fmt: skip
    with closing(Child(_LAYERS, environment=environment_of(form))) as child:
        command = {"command": "whole", **_common(prepared, options), **_how(options), "form": form}
        reply, failure = _asked(child, command, options.timeout_s)
    return _lost(row, failure) if failure is not None else _measured(row, reply)


def _row(prepared: Prepared, index: int) -> LayerCostRow:
    """Return the row of a layer before it is measured."""
    layer: PreparedLayer = prepared.layers[index]
    files, sizes = zip(*prepared.shared_by(layer), strict=True) if prepared.shared_by(layer) else ((), ())
    return LayerCostRow(
        prepared.network, layer.name, layer.kind, layer.weight_bytes, layer.output_bytes, None, None, index,
        layer.after, layer.scratch_bytes, prepared.input_bytes, shared_files=files, shared_bytes=sizes,
    )  # fmt: skip


def _lost(row: LayerCostRow, reason: str) -> LayerCostRow:
    return replace(row, status="failed", reason=reason)


def _measured(row: LayerCostRow, reply: dict[str, Any]) -> LayerCostRow:
    """Return the row with its columns, and with the figures of which there are samples."""
    figures = {column: v for name, of in reply["samples"].items() if of for column, v in _figures(name, of).items()}
    return replace(row, **{**reply["columns"], **figures})


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
