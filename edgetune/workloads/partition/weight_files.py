"""The weights of a network as files: one per layer, and one for each weight that several layers read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgetune.workloads.partition.aligned_file import AlignedFile
from edgetune.workloads.partition.layer_graph import CutLayer
from edgetune.workloads.partition.stored_graph import StoredGraph
from edgetune.workloads.prepared import PreparedWeight


def write_weights(
    layers: Sequence[CutLayer], stems: Sequence[str], graph: StoredGraph, folder: Path
) -> list[tuple[PreparedWeight, ...]]:
    """Write the weights of each layer and return where they are, in the order of the layer's graph.

    Args:
        layers: Of the network.
        stems: File names of the layers, without suffix.
        graph: Holds the weights.
        folder: Exists.
    """
    readers = Counter(name for layer in layers for name in layer.weights)
    shared = [name for name, count in readers.items() if count > 1]
    places: dict[str, PreparedWeight] = {}
    for number, name in enumerate(shared):
        places |= _write([name], graph, folder / f"shared-{number:03d}.weights")
    for layer, stem in zip(layers, stems, strict=True):
        own = [name for name in layer.weights if name not in places]
        if own:
            places |= _write(own, graph, folder / f"{stem}.weights")
    return [tuple(places[name] for name in layer.weights) for layer in layers]


def _write(names: Sequence[str], graph: StoredGraph, path: Path) -> dict[str, PreparedWeight]:
    import numpy as np

    places = {}
    with path.open("wb") as stream:
        file = AlignedFile(stream)
        for name in names:
            array: Any = graph.weights[name]
            offset = file.append(np.ascontiguousarray(array))
            places[name] = PreparedWeight(name, path.name, offset, str(array.dtype), tuple(map(int, array.shape)))
    return places
