"""The weights of a network as files: one per layer, and one for each weight that several layers read.

Writing of the whole network as two ONNX files: weights beside the graph, and weights inside it.

    whole-external.onnx + whole.weights   a process may map the weights, so little of its memory is private
    whole.onnx                            the usual form; ONNX Runtime copies its weights, and packs them again

Both have all dimensions fixed and hold the same values. ``write_external`` holds one weight at a time in memory.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from onnx import numpy_helper

from edgetune.errors import InputError
from edgetune.workloads import shapes
from edgetune.workloads.dimensions import fix_dimensions
from edgetune.workloads.initial_weights import fill, has_data
from edgetune.workloads.model_storage import EXTERNAL_ABOVE_BYTES, refuse_malformed
from edgetune.workloads.network_inputs import state_values
from edgetune.workloads.onnx_file import load_model, network_batch, network_values
from edgetune.workloads.partition.cut import CutLayer
from edgetune.workloads.partition.optimised import StoredGraph
from edgetune.workloads.prepared import PreparedWeight
from edgetune.workloads.workload import Workload

ALIGNMENT_BYTES = 64
"""Alignment of each tensor: a cache line, and the width of the widest vector loads (AVX-512)."""


def _append(stream: IO[bytes], data: Any) -> int:
    """Write the bytes of one tensor, or a contiguous array, to a file and return their offset.

    The file is written from its start; a mapped file starts on a page boundary.
    """
    stream.write(bytes(-stream.tell() % ALIGNMENT_BYTES))
    offset_bytes = stream.tell()
    stream.write(data)
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
        for name in names:
            array: Any = graph.weights[name]
            offset = _append(stream, np.ascontiguousarray(array))
            places[name] = PreparedWeight(name, path.name, offset, str(array.dtype), tuple(map(int, array.shape)))
    return places


DEFAULT, EXTERNAL, WEIGHTS = "whole.onnx", "whole-external.onnx", "whole.weights"


def write_external(
    workload: Workload, folder: Path, *, batch_size: int, dimensions: Mapping[str, int]
) -> onnx.ModelProto:
    """Write ``whole-external.onnx`` and, unless all is small, ``whole.weights``; return the graph with its shapes.

    Args:
        workload: A network of the zoo (its weights are drawn from seed 0) or an ONNX file.
        folder: An existing folder.
        batch_size: Samples per minibatch.
        dimensions: See ``fix_dimensions``.

    Raises:
        InputError: the workload has no graph, or its dimensions cannot be fixed.
    """
    declared = load_model(workload, weights=False)
    model = fix_dimensions(
        shapes.without_weights(declared),
        batch_size=batch_size,
        dimensions=dimensions,
        batch=network_batch(workload, dimensions, batch_size),
    )
    try:
        values = network_values(workload, dimensions)
    except InputError:  # a run refuses the input that nobody can make
        state_values(model, ())
    else:
        if values:
            state_values(model, values)
    stored = {tensor.name: tensor for tensor in declared.graph.initializer}
    source = workload.path.parent.resolve() if workload.path is not None else Path()
    with (folder / WEIGHTS).open("wb") as stream, refuse_malformed(f"the weights of {workload.reference}"):
        for tensor in model.graph.initializer:
            if tensor.name in stored and not (has_data(tensor) or tensor.string_data):
                _move(stored[tensor.name], tensor, source, stream)
        is_empty = not stream.tell()
    if is_empty:
        (folder / WEIGHTS).unlink()
    (folder / EXTERNAL).write_bytes(model.SerializeToString())
    return model


def write_default(folder: Path) -> bool:
    """Write ``whole.onnx`` from ``whole-external.onnx`` unless it would be too large; return whether it was written."""
    weights = folder / WEIGHTS
    if weights.exists() and weights.stat().st_size > EXTERNAL_ABOVE_BYTES:
        return False
    (folder / DEFAULT).write_bytes(onnx.load(str(folder / EXTERNAL)).SerializeToString())
    return True


def _move(tensor: onnx.TensorProto, entry: onnx.TensorProto, source: Path, stream: IO[bytes]) -> None:
    """Write a weight into the file and make ``entry`` refer to it; text, which has no raw bytes, stays in the graph."""
    if tensor.data_type == onnx.TensorProto.STRING:
        entry.CopyFrom(tensor)
        return
    filled = onnx.TensorProto()
    filled.CopyFrom(tensor)
    if not has_data(tensor):
        fill(filled, 0)
    inside = filled.raw_data and filled.data_location != onnx.TensorProto.EXTERNAL
    data = (filled if inside else numpy_helper.from_array(numpy_helper.to_array(filled, str(source)))).raw_data
    offset_bytes = _append(stream, data)
    entry.data_location = onnx.TensorProto.EXTERNAL
    del entry.external_data[:]
    for key, value in (("location", WEIGHTS), ("offset", offset_bytes), ("length", len(data))):
        entry.external_data.add(key=key, value=str(value))
