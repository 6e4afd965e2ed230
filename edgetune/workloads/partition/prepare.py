"""Preparation of a folder from a model: written beside its target, then moved there in one step.

The folder contains the layers, files of the whole network, and the manifest, which is written last. The weights of a
layer are one file; a weight that several layers read is a file of its own. The whole network is there twice:

    whole-external.onnx + whole.weights   a process may map the weights, so little of its memory is private
    whole.onnx                            the usual form; ONNX Runtime copies its weights, and packs them again

Both have all dimensions fixed and hold the same values. ``write_external`` holds one weight at a time in memory.
"""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from edgetune.artifacts import file_operations
from edgetune.artifacts.files import file_hash, require_utf8, write_atomically
from edgetune.artifacts.output_file import partial_folder, sweep
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError
from edgetune.processes.families import peak_bytes, reset_peaks
from edgetune.version import __version__
from edgetune.workloads import shapes
from edgetune.workloads.dimensions import data_inputs, fix_dimensions, input_specs
from edgetune.workloads.graphs import known_shape
from edgetune.workloads.initial_weights import fill, has_data
from edgetune.workloads.model_storage import EXTERNAL_ABOVE_BYTES, check_constants, check_inputs, refuse_malformed
from edgetune.workloads.network_inputs import state_values
from edgetune.workloads.observed import Feed, observe
from edgetune.workloads.onnx_file import load_model, network_batch, network_values, with_batch
from edgetune.workloads.partition.check import CHECK_SHARE, PrepareOptions, largest_difference
from edgetune.workloads.partition.cut import CutLayer, cut_layers, layer_model, split_rows
from edgetune.workloads.partition.optimised import StoredGraph, optimise, refuse_bodies, runtime_version, stored_graph
from edgetune.workloads.prepared import (
    KIND,
    MANIFEST,
    VERSION,
    Prepared,
    PreparedLayer,
    PreparedWeight,
    StoredFile,
    TensorSpec,
    is_prepared,
    open_prepared,
    processor_kind,
)
from edgetune.workloads.workload import Workload

__all__ = ["PrepareOptions", "kept", "prepare"]


def kept(workload: Workload, options: PrepareOptions, target: Path) -> Prepared | None:
    """Return the network prepared in ``target`` from the same model with the same options; ``None`` without a folder.

    Layers that were not compared with the whole network are compared now.

    Args:
        workload: See ``prepare``.
        options: Options of the cut.
        target: The folder, which need not exist.

    Raises:
        InputError: the folder holds something else, which is not overwritten, or is damaged.
        DeviceError: ONNX Runtime is missing.
    """
    if not target.exists():
        return None
    _refuse_other(target)
    found = open_prepared(target)
    differing = [
        *(["the model"] if found.source_sha256 != workload.sha256 else []),
        *(["the batch size"] if found.batch_size != options.batch_size else []),
        *(key for key, value in options.document().items() if found.options.get(key) != value),
        *(key for key, value in _runtime().items() if found.runtime.get(key) != value),
    ]
    if differing:
        raise InputError(
            f"{target} was prepared otherwise: {', '.join(differing)}",
            "edgetune schedule prepare --fresh replaces it; -o DIR puts another beside it",
        )
    try:
        return found if found.compared else _compare(found, options.inputs)
    except OSError as error:
        raise _unwritable(target, error) from None


def prepare(
    workload: Workload,
    options: PrepareOptions,
    target: Path,
    option: str = "-o",
    *,
    check_within_bytes: int | None = None,
) -> Prepared:
    """Cut a network into layers, write them into a folder, replacing an earlier prepared one, and return them.

    Args:
        workload: A network of the zoo or an ONNX file.
        options: Options of the cut.
        target: The folder; it is put in place in one step, after all its files are written.
        option: The option that names another folder, for messages.
        check_within_bytes: Memory for the comparison with the whole network: where it takes more, it is left to
            ``kept``. ``None`` for no limit.

    Raises:
        InputError: the network cannot be cut, or the folder cannot be written or holds something else.
        DeviceError: ONNX Runtime is missing.
    """
    require_utf8(target)
    try:
        if target.exists():
            _refuse_other(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent, f".{target.name}.", ".partial")
        with partial_folder(target.parent, f".{target.name}.", ".partial", mode=0o777) as (partial, _):
            write_contents(partial, workload, options, _runtime(), check_within_bytes)
            for path in (*partial.iterdir(), partial):
                file_operations.sync_path(path)
            file_operations.put_folder(partial, target)
            file_operations.sync_path(target.parent)
    except OSError as error:
        raise _unwritable(target, error, option) from None
    return open_prepared(target)


def _unwritable(target: Path, error: OSError, option: str = "-o") -> InputError:
    hint = f"check permissions and free space (four times the weights), or name another folder with {option}"
    return InputError(f"{target} cannot be written: {error.strerror or error}", hint)


def _refuse_other(target: Path) -> None:
    if not is_prepared(target):
        raise InputError(f"{target} exists and is no prepared network", "choose another folder with -o")


def _runtime() -> dict[str, str]:
    return {"onnxruntime": runtime_version(), "processor": processor_kind()}


_LONGEST_NAME = 60
"""Most characters of an operator's name in a file name; file names are limited to 255 characters in all."""


def write_contents(
    folder: Path, workload: Workload, options: PrepareOptions, runtime: dict[str, str], check_within_bytes: int | None
) -> Prepared:
    """Write layers and manifest into a folder, check that they compute the network, and return them.

    Args:
        folder: An existing, empty folder.
        workload: A network of the zoo or an ONNX file.
        options: Options of the cut.
        runtime: Version of ONNX Runtime and kind of processor.
        check_within_bytes: See ``prepare``.

    Raises:
        InputError: the network cannot be cut, or its layers do not compute the same as the network.
        DeviceError: ONNX Runtime is missing.
        OSError: the folder cannot be written.
    """
    fixed = write_external(workload, folder, batch_size=options.batch_size, dimensions=options.dimensions)
    check_constants(fixed, workload.reference)
    check_inputs(data_inputs(fixed), workload.reference, batch_size=options.batch_size)
    forms = {"external": EXTERNAL} | ({"default": DEFAULT} if write_default(folder) else {})
    scratch = folder / "scratch"
    scratch.mkdir()
    graph = stored_graph(optimise(folder / EXTERNAL, options.optimise, scratch), fixed, scratch)
    if not options.whole:
        refuse_bodies(graph)
        graph = graph if options.split_bytes is None else split_rows(graph, options.split_bytes)
    graph = replace(graph, seen=_sizes_in_a_run(graph, workload, options))
    layers = cut_layers(graph, whole=options.whole)
    slugs = [re.sub(r"[^A-Za-z0-9_.]+", "-", layer.name).strip("-.")[:_LONGEST_NAME] or "layer" for layer in layers]
    stems = [f"{index:03d}-{slug}" for index, slug in enumerate(slugs)]
    for layer, stem in zip(layers, stems, strict=True):
        (folder / f"{stem}.onnx").write_bytes(layer_model(layer, graph).SerializeToString())
    weights = write_weights(layers, stems, graph, folder)
    shutil.rmtree(scratch)
    document: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "tool": f"edgetune {__version__}",
        "network": workload.name,
        "source": {"reference": workload.reference, "sha256": workload.sha256},
        "batch_size": options.batch_size,
        "options": options.document(),
        "runtime": runtime,
        "inputs": [asdict(TensorSpec(name, dtype, shape)) for name, shape, dtype in input_specs(fixed)],
        "outputs": [asdict(_output(graph, value.name)) for value in graph.model.graph.output],
        "input_bytes": sum(graph.nbytes(name) or 0 for name, _, _ in input_specs(fixed)),
        "layers": [asdict(each) for each in _layers(layers, stems, weights)],
        "files": {
            path.name: asdict(StoredFile(path.stat().st_size, file_hash(path).hexdigest()))
            for path in sorted(folder.iterdir())
        },
        "whole": forms,
        "difference": None,
    }
    _write(document, folder)
    made = open_prepared(folder)
    fits = check_within_bytes is None or CHECK_SHARE * made.weight_bytes <= check_within_bytes
    return _compare(made, options.inputs) if fits else made


def _compare(prepared: Prepared, inputs: str | None) -> Prepared:
    """Compare the layers with the whole network, record the difference and the memory, and return them.

    Raises:
        InputError: see ``largest_difference``.
    """
    reset_peaks()
    difference = largest_difference(prepared, inputs)
    document = json.loads((prepared.folder / MANIFEST).read_bytes())
    _write({**document, "difference": difference, "check_peak_bytes": peak_bytes()}, prepared.folder)
    return open_prepared(prepared.folder)


def _write(document: dict[str, Any], folder: Path) -> None:
    write_atomically((json.dumps(plain(document), indent=1, ensure_ascii=False) + "\n").encode(), folder / MANIFEST)


def _sizes_in_a_run(graph: StoredGraph, workload: Workload, options: PrepareOptions) -> dict[str, onnx.ValueInfoProto]:
    """Return type and shape, observed in one run, of the outputs whose size depends on the data."""
    unsized = [value.name for value in graph.model.graph.output if graph.nbytes(value.name) is None]
    if not unsized:
        return {}
    workload = with_batch(workload, options.dimensions, options.batch_size)
    seen, _ = observe(workload, batch_size=options.batch_size, dimensions=options.dimensions, feed=Feed(options.inputs))
    found = {name: seen.value(name) for name in unsized}
    return {name: value for name, value in found.items() if value is not None}


def _layers(
    layers: Sequence[CutLayer], stems: Sequence[str], weights: Sequence[tuple[PreparedWeight, ...]]
) -> Iterator[PreparedLayer]:
    """Yield the layers; the index is appended to names that occur more than once."""
    names = [layer.name for layer in layers]
    for index, (layer, stem, own) in enumerate(zip(layers, stems, weights, strict=True)):
        yield PreparedLayer(
            layer.name if names.count(layer.name) == 1 else f"{layer.name}#{index}", layer.kind, f"{stem}.onnx", own,
            layer.inputs, layer.outputs, layer.after, sum(weight.end - weight.offset for weight in own),
            layer.output_bytes, layer.scratch_bytes,
        )  # fmt: skip


def _output(graph: StoredGraph, name: str) -> TensorSpec:
    value = graph.sized(name) or onnx.ValueInfoProto()
    dtype = str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    return TensorSpec(name, dtype, known_shape(value) or ())


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
