"""A table of layer costs as networks, to simulate them or to know which layer takes how long."""

from __future__ import annotations

from dataclasses import replace

from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.errors import InputError
from edgetune.schedule.network import Layer, Network

SAFETY = 1.1
"""What bytes and times are multiplied by, where nobody says, for a runtime that must not be surprised: a tenth is what
medians of one machine differ by from day to day."""


def networks_of(costs: LayerCosts, *, warm: bool = False) -> dict[str, Network]:
    """Return the networks in a table of layer costs by name, as measured.

    Memory that executing takes beside the outputs is what was measured or what was counted, whichever is more: the
    first knows the kernels' own workspaces, the second is exact where the kernel's count is coarse.

    Args:
        costs: From a file.
        warm: Whether files of weights are cached by the system when they are loaded. A memory limit leaves no room for
            that, so loads come from storage otherwise, where that was measured.

    Raises:
        InputError: a layer could not be measured, so that nobody knows what its network takes.
    """
    by_network: dict[str, list[LayerCostRow]] = {}
    for row in costs.rows:
        if row.status != "ok":
            message = f"layer {row.layer} of {row.network} could not be measured: {row.reason or 'nobody said why'}"
            raise InputError(message, "measure it again with edgetune schedule profile")
        by_network.setdefault(row.network, []).append(row)
    return {
        name: Network(name, tuple(_layer(row, warm=warm) for row in rows), rows[0].input_bytes)
        for name, rows in by_network.items()
    }


def _layer(row: LayerCostRow, *, warm: bool) -> Layer:
    measured = 0 if row.peak_bytes is None else row.peak_bytes - row.output_bytes
    load_s = row.load_s if warm or row.cold_load_s is None else row.cold_load_s
    return Layer(
        row.layer,
        row.kind,
        row.weight_bytes,
        row.output_bytes,
        max(row.scratch_bytes, measured),
        load_s or 0.0,
        row.execute_s or 0.0,
        row.after or (),
    )


def with_safety(network: Network, factor: float = SAFETY) -> Network:
    """Return what a runtime takes a network for, so that it is not surprised: all bytes and times times ``factor``."""
    layers = tuple(
        replace(
            layer,
            weight_bytes=round(layer.weight_bytes * factor),
            output_bytes=round(layer.output_bytes * factor),
            scratch_bytes=round(layer.scratch_bytes * factor),
            load_s=layer.load_s * factor,
            execute_s=layer.execute_s * factor,
        )
        for layer in network.layers
    )
    return Network(network.name, layers, round(network.input_bytes * factor))


def with_times_of(network: Network, other: Network) -> Network:
    """Return a network with its own bytes and the times of another, which has the same layers.

    A plan that is to be as good as it says keeps to the bytes that the runtime holds tasks for, safety included, and
    knows how long they really take.
    """
    pairs = zip(network.layers, other.layers, strict=True)
    layers = tuple(replace(layer, load_s=each.load_s, execute_s=each.execute_s) for layer, each in pairs)
    return replace(network, layers=layers)
