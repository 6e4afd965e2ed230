"""What a request holds, and what it will need at the most, by which of its layers have been executed.

executed   1 1 1 0 0 0        held     outputs that are still to be read
                 ^            needed   the most, weights included, that is held at once from here to the answer,
                                       a layer at a time in the order of layers
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from edgetune.schedule.network import LayeredNetwork, consumers
from edgetune.units import NS


class Footprint:
    """The arithmetic of one network. Layers executed are the bits of an integer: bit 0 is the first.

    Args:
        network: Whose.
    """

    def __init__(self, network: LayeredNetwork) -> None:
        layers = network.layers
        self.network = network
        self.all_executed = (1 << len(layers)) - 1
        self.load_ns = tuple(round(layer.load_s * NS) if layer.weight_bytes else 0 for layer in layers)
        self.execute_ns = tuple(round(layer.execute_s * NS) for layer in layers)
        self.before_ns = tuple(accumulate(self.execute_ns, initial=0))
        """What executing the layers before each takes, and at the end what all of them take."""
        self._readers = [sum(1 << reader for reader in readers) for readers in consumers(network)]
        self._sources = sum(1 << index for index, layer in enumerate(layers) if not layer.after)
        self._known: dict[int, tuple[int, int, int]] = {}

    def held(self, executed: int) -> int:
        """Return the bytes that a request holds between executions."""
        return self._of(executed)[0]

    def needed(self, executed: int) -> int:
        """Return the most bytes that it holds at once from here on, weights included."""
        return self._of(executed)[1]

    def growth(self, executed: int) -> int:
        """Return by how many bytes it grows at the most from here on, weights left out."""
        return self._of(executed)[2]

    def growth_until(self, executed: int, layer: int) -> int:
        """Return by how many bytes it grows at the most until a layer has executed, weights left out."""
        begin = self.held(executed)
        most, now = 0, executed
        for index in range(self.first_left(executed), layer + 1):
            if not now >> index & 1:
                each = self.network.layers[index]
                input_bytes = 0 if now else self.network.input_bytes
                most = max(most, self.held(now) + input_bytes + each.output_bytes + each.scratch_bytes - begin)
                now |= 1 << index
        return most

    def first_left(self, executed: int) -> int:
        """Return the first layer that has not been executed; the number of layers if all have."""
        return (~executed & (executed + 1)).bit_length() - 1

    def _of(self, executed: int) -> tuple[int, int, int]:
        known = self._known.get(executed)
        if known is None:
            known = self._known[executed] = self._walk(executed)
        return known

    def _walk(self, executed: int) -> tuple[int, int, int]:
        layers, now = self.network.layers, executed
        begin = held = sum(layer.output_bytes for index, layer in enumerate(layers) if self._is_held(index, now))
        begin_input = input_bytes = self.network.input_bytes if now and self._sources & ~now else 0
        most = most_active = held + input_bytes
        for index, layer in enumerate(layers):
            if now >> index & 1:
                continue
            input_bytes = self.network.input_bytes if self._sources & ~now else 0
            active = held + input_bytes + layer.output_bytes + layer.scratch_bytes
            most_active, most = max(most_active, active), max(most, active + layer.weight_bytes)
            now |= 1 << index
            held += layer.output_bytes
            held -= sum(layers[read].output_bytes for read in layer.after if not self._is_held(read, now))
        return begin + begin_input, most, most_active - begin - begin_input

    def _is_held(self, index: int, executed: int) -> bool:
        """Return whether the outputs of a layer are there and still to be read, or an answer."""
        readers = self._readers[index]
        return bool(executed >> index & 1) and (not readers or bool(readers & ~executed))


def can_all_finish(holds: Iterable[tuple[int, int]], budget_bytes: int) -> bool:
    """Return whether requests can finish one after another, whatever weights are resident now.

    Weights can be unloaded and loaded again; what has been computed cannot. This is the banker's algorithm (Dijkstra,
    EWD 623) for one resource: who needs the least beyond what it holds goes first, and returns everything.

    Args:
        holds: For each request what it holds and what it needs at the most, bytes.
        budget_bytes: What may be held.
    """
    holds = list(holds)
    free = budget_bytes - sum(held for held, _ in holds)
    for held, needed in sorted(holds, key=lambda each: each[1] - each[0]):
        if needed - held > free:
            return False
        free += held
    return True
