"""The memory that is held, by kind: entered when a task begins, returned when the last task that needs it ends.

    weights      [-- load --][---------------- resident ----------------] unload
    input             [-- first execution --|-- until all layers that read it have executed --]
    outputs                        [-- execute --|-- ... -- last consumer --]
    scratch                        [-- execute --]

The loop accounts for estimates with it, the simulator for what is really held.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.tasks import LayerTask

Kind = Literal["weights", "activations", "scratch", "inputs"]
"""The purpose of held memory; activations are the outputs of layers."""
_Part = tuple[str, int | str]
"""Weights that are in memory once: what they belong to, and the layer, or the file that layers share."""


@dataclass(slots=True)
class _Account:
    """The memory of a request, and the number of executions that have still to read it."""

    network: LayeredNetwork
    to_read: list[int]
    sources_left: int
    outputs: dict[int, int] = field(default_factory=dict)
    scratch: dict[int, int] = field(default_factory=dict)
    input_bytes: int = 0


class MemoryAccounting:
    """Bytes held for the tasks of some networks.

    Every entry is checked: nothing is held twice or returned twice, so no sum falls below zero.

    Args:
        networks: By name; their bytes are what is entered.
        maps_weights: Whether copies of the same weights count once, as files do that are mapped more than once; else
            each copy counts. ``None``: those of layers that are mapped count once.
    """

    def __init__(self, networks: Mapping[str, LayeredNetwork], *, maps_weights: bool | None = False) -> None:
        self.held_bytes = 0
        self.peak_bytes = 0
        """The most that was held at once."""
        self.by_kind: dict[Kind, int] = {"weights": 0, "activations": 0, "scratch": 0, "inputs": 0}
        self._networks, self._maps_weights = networks, maps_weights
        self._weights: dict[tuple[str, int], dict[_Part, int]] = {}
        """By copy and layer, the parts of its weights and their bytes."""
        self._holders: Counter[_Part] = Counter()
        """The number of layers of copies that hold a part; it counts once."""
        self._accounts: dict[int, _Account] = {}

    def begin(self, task: LayerTask) -> None:
        """Enter the memory of a load or an execution.

        Raises:
            ValueError: the memory is held already.
        """
        layer = self._networks[task.network].layers[task.layer]
        if task.kind == "load":
            key = (task.copy, task.layer)
            if key in self._weights:
                raise ValueError(f"the weights of layer {task.layer} of {task.copy} are held already")
            self._weights[key] = parts = self._parts(task.copy, task.network, task.layer)
            self._add("weights", self._new_bytes(parts))
            self._holders.update(parts.keys())
            return
        account = self._accounts.get(task.request) or self._open(task)
        if task.layer in account.outputs:
            raise ValueError(f"layer {task.layer} of request {task.request} has been executed already")
        account.outputs[task.layer] = layer.output_bytes
        account.scratch[task.layer] = layer.scratch_bytes
        self._add("activations", layer.output_bytes)
        self._add("scratch", layer.scratch_bytes)

    def end(self, task: LayerTask) -> None:
        """Return the memory that only an execution needed: its scratch, and outputs that it was the last to read.

        Raises:
            ValueError: the execution has not begun.
        """
        account = self._accounts.get(task.request)
        if account is None or task.layer not in account.scratch:
            raise ValueError(f"layer {task.layer} of request {task.request} is not being executed")
        self._add("scratch", -account.scratch.pop(task.layer))
        after = account.network.layers[task.layer].after
        for producer in after:
            account.to_read[producer] -= 1
            if account.to_read[producer] == 0:
                self._add("activations", -account.outputs[producer])
                account.outputs[producer] = 0
        if not after:
            account.sources_left -= 1
            if account.sources_left == 0:
                self._add("inputs", -account.input_bytes)
                account.input_bytes = 0

    def unload(self, copy: str, layer: int) -> None:
        """Return weights, loaded or half loaded.

        Raises:
            ValueError: the weights are not held.
        """
        if (copy, layer) not in self._weights:
            raise ValueError(f"the weights of layer {layer} of {copy} are not held")
        parts = self._weights.pop((copy, layer))
        self._holders.subtract(parts.keys())
        self._holders = +self._holders
        self._add("weights", -self._new_bytes(parts))

    def close(self, request: int) -> None:
        """Return all memory of a request, if it executed anything."""
        account = self._accounts.pop(request, None)
        if account is not None:
            self._add("inputs", -account.input_bytes)
            self._add("activations", -sum(account.outputs.values()))
            self._add("scratch", -sum(account.scratch.values()))

    def freed_bytes(self, weights: Iterable[tuple[str, int]]) -> int:
        """Return the bytes that leave with the weights of some copies and layers, without what others hold too."""
        leaving: dict[_Part, list[int]] = {}
        for key in weights:
            for part, size_bytes in self._weights.get(key, {}).items():
                leaving.setdefault(part, []).append(size_bytes)
        return sum(sizes[0] for part, sizes in leaving.items() if self._holders[part] == len(sizes))

    def load_bytes(self, copy: str, network: str, layer: int) -> int:
        """Return the bytes that loading a layer takes, without weights that are there for another layer or copy."""
        return self._new_bytes(self._parts(copy, network, layer))

    def _parts(self, copy: str, network: str, index: int) -> dict[_Part, int]:
        """Return the parts of a layer's weights, which belong to the copy or to the network whose files are mapped."""
        layer = self._networks[network].layers[index]
        mapped = layer.mapped_load_s is not None if self._maps_weights is None else self._maps_weights
        owner = network if mapped else copy
        return {(owner, index): layer.own_weight_bytes, **{(owner, file): size for file, size in layer.shared}}

    def _new_bytes(self, parts: Mapping[_Part, int]) -> int:
        """Return the bytes of the parts that nothing holds."""
        return sum(size_bytes for part, size_bytes in parts.items() if not self._holders[part])

    @property
    def settled(self) -> bool:
        """Whether everything was returned."""
        return not self._weights and not self._accounts and self.held_bytes == 0

    def _open(self, task: LayerTask) -> _Account:
        network = self._networks[task.network]
        to_read = list(map(len, network.readers))
        account = _Account(network, to_read, len(network.sources), input_bytes=network.input_bytes)
        self._accounts[task.request] = account
        self._add("inputs", account.input_bytes)
        return account

    def _add(self, kind: Kind, size_bytes: int) -> None:
        self.by_kind[kind] += size_bytes
        self.held_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
