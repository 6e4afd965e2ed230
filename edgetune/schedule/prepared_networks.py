"""Prepared folders as the scheduler sees them."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.errors import InputError
from edgetune.schedule.network import Layer, Network
from edgetune.workloads.prepared import Prepared, PreparedLayer

Times = Mapping[str, tuple[float, float]]
"""What loading and executing a layer take, s, by its name."""


def network_of(prepared: Prepared, times: Times | None = None, *, name: str | None = None) -> Network:
    """Return a prepared network with its layers' bytes and times.

    Args:
        prepared: The folder.
        times: As measured; without them, those in the folder.
        name: What it is called; the folder's own name for it without one.

    Raises:
        InputError: a layer has not been measured.
    """
    layers = tuple(_layer(prepared, layer, times) for layer in prepared.layers)
    return Network(name or prepared.network, layers, prepared.input_bytes)


def _layer(prepared: Prepared, layer: PreparedLayer, times: Times | None) -> Layer:
    load_s, execute_s = (layer.load_s, layer.execute_s) if times is None else times.get(layer.name, (None, None))
    if load_s is None or execute_s is None:
        raise InputError(
            f"nobody has measured how long layer {layer.name} of {prepared.folder} takes",
            f"edgetune schedule profile {prepared.folder} -o costs.parquet measures it",
        )
    return Layer(
        layer.name,
        layer.kind,
        layer.weight_bytes,
        layer.output_bytes,
        layer.scratch_bytes,
        load_s,
        execute_s,
        layer.after,
    )
