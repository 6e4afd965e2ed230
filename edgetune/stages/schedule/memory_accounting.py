"""The memory that is held, by kind: entered when a task begins, returned when the last task that needs it ends.

    weights      [-- load --][---------------- resident ----------------] unload
    input             [-- first execution --|-- until all layers that read it have executed --]
    outputs                        [-- execute --|-- ... -- last consumer --]
    scratch                        [-- execute --]

The loop accounts for estimates with it, the simulator for what is really held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.tasks import LayerTask

Kind = Literal["weights", "activations", "scratch", "inputs"]
"""The purpose of held memory; activations are the outputs of layers."""


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
            each copy counts.
    """

    def __init__(self, networks: Mapping[str, LayeredNetwork], *, maps_weights: bool = False) -> None:
        self.held_bytes = 0
        self.peak_bytes = 0
        """The most that was held at once."""
        self.by_kind: dict[Kind, int] = {"weights": 0, "activations": 0, "scratch": 0, "inputs": 0}
        self._networks, self._maps_weights = networks, maps_weights
        self._weights: dict[tuple[str, int], tuple[str, int]] = {}
        """By copy and layer, what the bytes belong to: the copy, or the network whose files are mapped; and the bytes.
        """
        self._copies: Counter[tuple[str, int]] = Counter()
        """The number of copies that are there, by what they belong to and layer."""
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
            owner = task.network if self._maps_weights else task.copy
            self._weights[key] = owner, layer.weight_bytes
            self._copies[owner, task.layer] += 1
            if self._copies[owner, task.layer] == 1:
                self._add("weights", layer.weight_bytes)
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
        owner, size_bytes = self._weights.pop((copy, layer))
        self._copies[owner, layer] -= 1
        if not self._copies[owner, layer]:
            del self._copies[owner, layer]
            self._add("weights", -size_bytes)

    def close(self, request: int) -> None:
        """Return all memory of a request, if it executed anything."""
        account = self._accounts.pop(request, None)
        if account is not None:
            self._add("inputs", -account.input_bytes)
            self._add("activations", -sum(account.outputs.values()))
            self._add("scratch", -sum(account.scratch.values()))

    def weights_bytes(self, copy: str, layer: int) -> int:
        """Return the bytes that leave with the weights of a layer; 0 where they are not there, or mapped elsewhere."""
        owner, size_bytes = self._weights.get((copy, layer), ("", 0))
        return size_bytes if self._copies[owner, layer] == 1 else 0

    def load_bytes(self, network: str, layer: int) -> int:
        """Return the bytes that loading a layer for one more request takes; 0 where its weights are mapped already."""
        mapped = self._maps_weights and self._copies[network, layer]
        return 0 if mapped else self._networks[network].layers[layer].weight_bytes

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
