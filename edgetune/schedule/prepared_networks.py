"""A prepared folder as a scheduler sees it: layers that hold memory and take time."""

from __future__ import annotations

from edgetune.schedule.network import Layer, LayeredNetwork
from edgetune.workloads.prepared import Prepared


def network_of(prepared: Prepared, name: str | None = None) -> LayeredNetwork:
    """Return the network in a prepared folder.

    Args:
        prepared: From ``open_prepared``.
        name: What jobs call it; ``None`` for its own name. Times that were never measured are zero: see ``is_timed``.
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
        )
        for layer in prepared.layers
    )
    return LayeredNetwork(name or prepared.network, layers, prepared.input_bytes)


def is_timed(prepared: Prepared) -> bool:
    """Return whether every layer's times have been measured."""
    return all(layer.load_s is not None and layer.execute_s is not None for layer in prepared.layers)
