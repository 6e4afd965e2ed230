"""A network as a scheduler sees it: layers that hold memory and take time, and which needs the output of which.

    image -> [conv1] -> [conv2] ---------> [add] -> [fc]        layer 2 (add) is after layers 0 and 1
                   \\______________________/

Plain nouns, standard library only: the process that runs networks under a memory limit imports this.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from edgetune.units import NS

LayerKind = Literal["conv", "fc", "other"]
"""The kind of a layer: DeepEye treats convolutions and fully connected layers differently."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: a node with weights and the weightless ones that follow it.

    Args:
        name: Unique in its network.
        kind: See ``LayerKind``.
        weight_bytes: Held from when loading begins until it is unloaded.
        output_bytes: Of all its outputs; held from when it begins to execute until its last consumer has executed.
        scratch_bytes: Held beside weights, inputs and outputs while it executes.
        load_s: Time to load alone, s.
        execute_s: Time to execute alone, s.
        after: Indices of the layers whose outputs it reads, ascending; each is less than its own.
        unload_s: Time to give its weights back, s.
        first_execute_s: Time of the first execution in a run, s; ``None`` where that is no different.
        mapped_load_s: Time to load another copy while one is there, s: files that are mapped again share the memory.
            ``None`` where every copy has memory of its own.
        shared: Files among its weights that other layers read too, which are in memory once, and their bytes.
    """

    name: str
    kind: LayerKind
    weight_bytes: int
    output_bytes: int
    scratch_bytes: int
    load_s: float
    execute_s: float
    after: tuple[int, ...]
    unload_s: float = 0.0
    first_execute_s: float | None = None
    mapped_load_s: float | None = None
    shared: tuple[tuple[str, int], ...] = ()

    @property
    def own_weight_bytes(self) -> int:
        """Bytes of the weights that no other layer reads."""
        return max(self.weight_bytes - sum(size_bytes for _, size_bytes in self.shared), 0)

    @property
    def load_ns(self) -> int:
        """Time to load the weights alone, ns; 0 for a layer without weights."""
        return round(self.load_s * NS) if self.weight_bytes else 0

    @property
    def execute_ns(self) -> int:
        """Time to execute alone, ns."""
        return round(self.execute_s * NS)


@dataclass(frozen=True)
class LayeredNetwork:
    """Layers in a topological order. What is looked up at every step of a run is computed once.

    Args:
        name: Unique among the networks of a scenario.
        layers: Not empty. The output of a layer that no other is after is an output of the network.
        input_bytes: Held from when the first layer of a request executes until every layer that is after no other has.
    """

    name: str
    layers: tuple[Layer, ...]
    input_bytes: int = 0

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights; shared ones count once."""
        return sum(layer.own_weight_bytes for layer in self.layers) + sum(self._shared.values())

    @property
    def loading_s(self) -> float:
        """Time to load all weights once, a layer at a time, s; layers that share weights load them once."""
        all_bytes = sum(layer.weight_bytes for layer in self.layers)
        once = self.weight_bytes / all_bytes if self._shared else 1.0
        return once * sum(layer.load_s for layer in self.layers if layer.weight_bytes)

    @property
    def service_s(self) -> float:
        """Time of one request alone, a layer at a time, s."""
        return self.loading_s + sum(layer.execute_s for layer in self.layers)

    @cached_property
    def _shared(self) -> dict[str, int]:
        """Bytes of shared files by name."""
        return {file: size_bytes for layer in self.layers for file, size_bytes in layer.shared}

    @cached_property
    def sharing(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, itself and the layers that share weights with it."""
        files = [{file for file, _ in layer.shared} for layer in self.layers]
        return (
            tuple(
                tuple(other for other, theirs in enumerate(files) if other == index or own & theirs)
                for index, own in enumerate(files)
            )
            if self._shared
            else tuple((index,) for index in range(len(files)))
        )

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of the layers that read its outputs, ascending."""
        found: list[list[int]] = [[] for _ in self.layers]
        for index, layer in enumerate(self.layers):
            for producer in layer.after:
                found[producer].append(index)
        return tuple(tuple(each) for each in found)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The layers that read the network's input."""
        return tuple(index for index, layer in enumerate(self.layers) if not layer.after)

    @cached_property
    def load_ns(self) -> tuple[int, ...]:
        """Time to load each layer alone, ns."""
        return tuple(layer.load_ns for layer in self.layers)

    @cached_property
    def execute_ns(self) -> tuple[int, ...]:
        """Time to execute each layer alone, ns."""
        return tuple(layer.execute_ns for layer in self.layers)

    @cached_property
    def execution_bytes(self) -> tuple[int, ...]:
        """Outputs and scratch of each layer."""
        return tuple(layer.output_bytes + layer.scratch_bytes for layer in self.layers)


def least_budget_bytes(network: LayeredNetwork) -> int:
    """Return the least memory in which a network runs one layer at a time: what its hungriest layer needs.

    A layer is held with its weights, its outputs and scratch, and with every output that is still to be read.
    """
    sources, most = network.sources, 0
    for index, (layer, alive_bytes) in enumerate(zip(network.layers, _alive_bytes(network), strict=False)):
        input_bytes = network.input_bytes if sources and index <= sources[-1] else 0
        most = max(most, alive_bytes + input_bytes + layer.weight_bytes + network.execution_bytes[index])
    return most


def _alive_bytes(network: LayeredNetwork) -> list[int]:
    """Return the bytes of outputs that are still to be read before each layer executes, and at the end."""
    alive: dict[int, int] = {}
    found = [0]
    for index, layer in enumerate(network.layers):
        alive[index] = layer.output_bytes
        for producer in layer.after:
            if network.readers[producer][-1] == index:
                del alive[producer]
        found.append(sum(alive.values()))
    return found


def as_one_layer(network: LayeredNetwork) -> LayeredNetwork:
    """Return a network as one layer that takes as long as all of them, one after another.

    While it executes it holds what its hungriest layer holds: outputs that are still to be read, its own, and scratch
    (``network.least_budget_bytes`` without weights and input). All weights stay: a whole has no parts.
    """
    *before_bytes, output_bytes = _alive_bytes(network)
    peak_bytes = max(
        alive_bytes + layer.output_bytes + layer.scratch_bytes
        for layer, alive_bytes in zip(network.layers, before_bytes, strict=True)
    )
    layer = Layer(
        name=network.name, kind="other", weight_bytes=network.weight_bytes, output_bytes=output_bytes,
        scratch_bytes=peak_bytes - output_bytes,
        load_s=network.loading_s,
        execute_s=sum(layer.execute_s for layer in network.layers), after=(),
        unload_s=sum(layer.unload_s for layer in network.layers),
    )  # fmt: skip
    return LayeredNetwork(network.name, (layer,), network.input_bytes)
