"""Networks from tables of layer costs and from prepared folders, to simulate them or to know how long layers take.

Layer costs measured: a process for each network, a row for each layer, failures included.

for each prepared network      one process: loads, executions and peak of its layers, in order
        layer crashes, hangs   -> its row says so, and those after it lack what it would have made
for the machine                one process: the memory that it takes before it has a network
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.child import Child
from edgetune.processes.families import counter_bytes
from edgetune.stages.schedule.executor import environment_of
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.stages.schedule.tasks import Machine
from edgetune.stats import StoppingRule, find_warmup, summarise
from edgetune.units import format_duration
from edgetune.workloads.prepared import Prepared, PreparedLayer

SAFETY = 1.1
"""Default factor on bytes and times, as a margin: medians of one machine differ by a tenth from day to day."""


def networks_of(costs: LayerCosts) -> dict[str, LayeredNetwork]:
    """Return the networks in a table of layer costs by name, as measured.

    Memory that executing takes beside the outputs is what was measured or what was counted, whichever is more: the
    first knows the kernels' own workspaces, the second is exact where the kernel's count is coarse. Loads come from
    storage where that was measured: a memory limit leaves no room for files that the system caches.

    Raises:
        InputError: a layer could not be measured, so that the costs of its network are unknown.
    """
    by_network: dict[str, list[LayerCostRow]] = {}
    for row in costs.rows:
        if row.form != "layers":
            continue
        if row.status != "ok":
            message = (
                f"layer {row.layer} of {row.network} could not be measured: {row.reason or 'no reason was recorded'}"
            )
            raise InputError(message, "measure it again with edgetune schedule profile")
        by_network.setdefault(row.network, []).append(row)
    return {
        name: LayeredNetwork(name, tuple(map(_layer, rows)), rows[0].input_bytes) for name, rows in by_network.items()
    }


def _layer(row: LayerCostRow) -> Layer:
    measured = 0 if row.peak_bytes is None else row.peak_bytes - row.output_bytes
    load_s = row.load_s if row.cold_load_s is None else row.cold_load_s
    return Layer(
        row.layer, row.kind, row.weight_bytes, row.output_bytes, max(row.scratch_bytes, measured), load_s or 0.0,
        row.execute_s or 0.0, row.after or (), row.unload_s or 0.0, row.first_execute_s, mapped_load_s=row.load_s,
        shared=tuple(zip(row.shared_files, row.shared_bytes, strict=True)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    """The machine of a table of layer costs, and the process there that ran networks.

    Args:
        machine: The resources that tasks share.
        base_bytes: Memory of the process before it has sessions; ``None`` where the table does not say.
        base_anonymous_bytes: Of these what is no page of a file, as a control group is charged where libraries are in
            use elsewhere; ``None`` where the table does not say.
        sessions_bytes: Of all layers of a network, by its name.
    """

    machine: Machine
    base_bytes: int | None = None
    base_anonymous_bytes: int | None = None
    sessions_bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def taken_bytes(self, form: str) -> int:
        """Return the bytes that the process takes before anything is loaded; 0 where that is unknown."""
        base_bytes = self.base_bytes if self.base_anonymous_bytes is None else self.base_anonymous_bytes
        return (base_bytes or 0) + (sum(self.sessions_bytes.values()) if form == "layers" else 0)


def host_of(costs: LayerCosts) -> Host:
    """Return the host of a table; two cores where the table does not say how many.

    Raises:
        InputError: a size of the machine is no finite number of zero or more.
    """
    conditions = costs.header.conditions
    cores = conditions.get("usable_cores")
    return Host(
        Machine(cores if isinstance(cores, int) else 2, swap_bytes=_size_bytes(conditions, "swap_bytes")),
        _size_bytes(conditions, "base_bytes"),
        _size_bytes(conditions, "base_anonymous_bytes"),
        {row.network: row.sessions_bytes for row in costs.rows if row.sessions_bytes is not None},
    )


def _size_bytes(conditions: Mapping[str, Any], name: str) -> int | None:
    """Return a size of the measuring machine; ``None`` where the table does not say."""
    told = conditions.get("machine")
    if not isinstance(told, Mapping) or name not in told:
        return None
    value = told[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise InputError(
            f"the costs say that {name} of the machine is {value!r}", "measure it again with edgetune schedule profile"
        )
    return round(value)


def with_safety(network: LayeredNetwork, factor: float = SAFETY, *, times: bool = True) -> LayeredNetwork:
    """Return a network as the runtime takes it: all bytes times ``factor``, as a margin, and with ``times`` all times.

    A plan that is to be as good as it says keeps to the bytes that the runtime holds tasks for, and knows how long they
    really take.
    """

    def scaled(value: Any) -> Any:
        if isinstance(value, int):
            return round(value * factor)
        return value * factor if times and isinstance(value, float) else value

    layers = []
    for layer in network.layers:
        shared = tuple((file, round(size_bytes * factor)) for file, size_bytes in layer.shared)
        figures = {each.name: scaled(getattr(layer, each.name)) for each in fields(layer)}
        layers.append(replace(layer, **{**figures, "shared": shared}))
    return LayeredNetwork(network.name, tuple(layers), round(network.input_bytes * factor))


def network_of(prepared: Prepared, name: str | None = None) -> LayeredNetwork:
    """Return the network in a prepared folder.

    Args:
        prepared: From ``open_prepared``.
        name: Its name in the jobs; ``None`` for its own name. Times never measured are zero: see ``is_timed``.
    """
    layers = tuple(
        Layer(
            layer.name,
            layer.kind,
            layer.weight_bytes,
            layer.output_bytes,
            layer.scratch_bytes,
            layer.load_s or 0.0,
            layer.execute_s or 0.0,
            layer.after,
            shared=prepared.shared_by(layer),
        )
        for layer in prepared.layers
    )
    return LayeredNetwork(name or prepared.network, layers, prepared.input_bytes)


def is_timed(prepared: Prepared) -> bool:
    """Return whether every layer's times have been measured."""
    return all(layer.load_s is not None and layer.execute_s is not None for layer in prepared.layers)


_LAYERS = "edgetune.stages.schedule.layer_worker:LayerBench"
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
            reply, failure = dict[str, Any](), lost
            if lost is None:
                command = {"command": "layer", "index": index, "rule": asdict(options.rule)}
                command |= {"longest_s": options.longest_s, "cold": options.cold}
                reply, failure = _asked(child, command, options.timeout_s)
                lost = failure and f"layer {layer.name} before it failed"
            row = _measured(row, reply) if failure is None else replace(row, status="failed", reason=failure)
            rows.append(row)
            on_layer(row)
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


def _row(prepared: Prepared, index: int) -> LayerCostRow:
    """Return the row of a layer before it is measured."""
    layer: PreparedLayer = prepared.layers[index]
    files, sizes = zip(*prepared.shared_by(layer), strict=True) if prepared.shared_by(layer) else ((), ())
    return LayerCostRow(
        prepared.network, layer.name, layer.kind, layer.weight_bytes, layer.output_bytes, None, None, index,
        layer.after, layer.scratch_bytes, prepared.input_bytes, shared_files=files, shared_bytes=sizes,
    )  # fmt: skip


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
