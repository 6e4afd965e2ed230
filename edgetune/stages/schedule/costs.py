"""Networks from tables of layer costs and from prepared folders, to simulate them or to know how long layers take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.errors import InputError
from edgetune.stages.schedule.executor import FORMS, Form
from edgetune.stages.schedule.machine import Machine
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.workloads.prepared import Prepared

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


def wholes_of(costs: LayerCosts, form: Form) -> dict[str, LayeredNetwork]:
    """Return the networks that were measured as a whole, in one of their forms, each as one layer.

    Its weights are what it takes while it is loaded; what loading it takes beside that is gone once it is loaded.
    """
    return {
        row.network: LayeredNetwork(row.network, (_whole(row),), row.input_bytes)
        for row in costs.rows
        if row.form == form and row.status == "ok"
    }


def _whole(row: LayerCostRow) -> Layer:
    held_bytes = max(row.weight_bytes if row.resident_bytes is None else row.resident_bytes - row.output_bytes, 0)
    stored = row.cold_load_s is not None
    return Layer(
        row.layer, "other", held_bytes, row.output_bytes, 0, (row.cold_load_s if stored else row.load_s) or 0.0,
        (row.cold_execute_s if stored else row.execute_s) or 0.0, (), unload_s=row.unload_s or 0.0,
        load_scratch_bytes=max((row.peak_bytes or 0) - held_bytes, 0),
        mapped_load_s=row.load_s if row.form == "external" else None,
    )  # fmt: skip


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
        wholes: Networks that were measured as a whole, by form and name.
    """

    machine: Machine
    base_bytes: int | None = None
    base_anonymous_bytes: int | None = None
    sessions_bytes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    wholes: Mapping[str, Mapping[str, LayeredNetwork]] = field(default_factory=lambda: MappingProxyType({}))

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
        {form: wholes_of(costs, form) for form in FORMS},
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


def with_safety(network: LayeredNetwork, factor: float = SAFETY) -> LayeredNetwork:
    """Return a network as the runtime takes it, with a margin: all bytes and times times ``factor``."""
    layers = []
    for layer in network.layers:
        scaled = {each.name: _scaled(getattr(layer, each.name), factor) for each in fields(layer)}
        shared = tuple((file, round(size_bytes * factor)) for file, size_bytes in layer.shared)
        layers.append(replace(layer, **{**scaled, "shared": shared}))
    return LayeredNetwork(network.name, tuple(layers), round(network.input_bytes * factor))


def _scaled(value: Any, factor: float) -> Any:
    """Return a number of bytes or seconds times a factor, and anything else as it is."""
    if isinstance(value, int):
        return round(value * factor)
    return value * factor if isinstance(value, float) else value


def with_times_of(network: LayeredNetwork, other: LayeredNetwork) -> LayeredNetwork:
    """Return a network with its own bytes and the times of another, which has the same layers.

    A plan that is to be as good as it says keeps to the bytes that the runtime holds tasks for, safety included, and
    knows how long they really take.
    """
    pairs = zip(network.layers, other.layers, strict=True)
    layers = tuple(replace(layer, load_s=each.load_s, execute_s=each.execute_s) for layer, each in pairs)
    return replace(network, layers=layers)


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
