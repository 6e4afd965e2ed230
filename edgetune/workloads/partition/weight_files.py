"""The weights of a network as files: one per layer, and one for each weight that several layers read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from edgetune.workloads.partition.cut import CutLayer
from edgetune.workloads.partition.optimised import StoredGraph
from edgetune.workloads.prepared import PreparedWeight

ALIGNMENT_BYTES = 64
"""Alignment of each tensor: a cache line, and the width of the widest vector loads (AVX-512)."""


@dataclass(slots=True)
class AlignedFile:
    """A file being written, one tensor after another.

    Args:
        stream: Binary stream at offset 0; a mapped file starts on a page boundary.
    """

    stream: IO[bytes]
    size_bytes: int = 0

    def append(self, data: Any) -> int:
        """Write the bytes of one tensor and return their offset.

        Args:
            data: Bytes, or a contiguous array.
        """
        padding = bytes(-self.size_bytes % ALIGNMENT_BYTES)
        offset_bytes = self.size_bytes + len(padding)
        self.stream.write(padding)
        self.stream.write(data)
        self.size_bytes = offset_bytes + memoryview(data).nbytes
        return offset_bytes


def write_weights(
    layers: Sequence[CutLayer], stems: Sequence[str], graph: StoredGraph, folder: Path
) -> list[tuple[PreparedWeight, ...]]:
    """Write the weights of each layer and return their places in files, in the order of the layer's graph.

    Args:
        layers: The layers of the network.
        stems: File names of the layers, without suffix.
        graph: The graph with the weights.
        folder: An existing folder.
    """
    readers = Counter(name for layer in layers for name in layer.weights)
    shared = [name for name, count in readers.items() if count > 1]
    places: dict[str, PreparedWeight] = {}
    for number, name in enumerate(shared):
        places |= _write_aligned([name], graph, folder / f"shared-{number:03d}.weights")
    for layer, stem in zip(layers, stems, strict=True):
        own = [name for name in layer.weights if name not in places]
        if own:
            places |= _write_aligned(own, graph, folder / f"{stem}.weights")
    return [tuple(places[name] for name in layer.weights) for layer in layers]


def _write_aligned(names: Sequence[str], graph: StoredGraph, path: Path) -> dict[str, PreparedWeight]:
    places = {}
    with path.open("wb") as stream:
        file = AlignedFile(stream)
        for name in names:
            array: Any = graph.weights[name]
            offset = file.append(np.ascontiguousarray(array))
            places[name] = PreparedWeight(name, path.name, offset, str(array.dtype), tuple(map(int, array.shape)))
    return places
