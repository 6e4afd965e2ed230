"""A network taken as one layer: all of its weights are loaded, it is executed as a whole, and all of them go."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.schedule.network import Layer, LayeredNetwork, consumers
from edgetune.schedule.view import SchedulePolicy


def as_one_layer(network: LayeredNetwork) -> LayeredNetwork:
    """Return a network as one layer that takes as long as all of them, one after another.

    While it executes it holds what its hungriest layer holds: outputs that are still to be read, its own, and scratch
    (``network.least_budget_bytes`` without weights and input). All weights stay: a whole has no parts.
    """
    readers, peak_bytes = consumers(network), 0
    alive: dict[int, int] = {}
    for index, layer in enumerate(network.layers):
        peak_bytes = max(peak_bytes, sum(alive.values()) + layer.output_bytes + layer.scratch_bytes)
        alive[index] = layer.output_bytes
        for producer in layer.after:
            if readers[producer][-1] == index:
                del alive[producer]
    output_bytes = sum(alive.values())
    layer = Layer(
        name=network.name,
        kind="other",
        weight_bytes=network.weight_bytes,
        output_bytes=output_bytes,
        scratch_bytes=peak_bytes - output_bytes,
        load_s=sum(layer.load_s for layer in network.layers if layer.weight_bytes),
        execute_s=sum(layer.execute_s for layer in network.layers),
        after=(),
        unload_s=sum(layer.unload_s for layer in network.layers),
    )
    return LayeredNetwork(network.name, (layer,), network.input_bytes)


def taken_by(policy: SchedulePolicy, networks: Mapping[str, LayeredNetwork]) -> dict[str, LayeredNetwork]:
    """Return networks as a policy takes them: for the loop and for its stage alike."""
    return {name: as_one_layer(network) if policy.whole else network for name, network in networks.items()}
