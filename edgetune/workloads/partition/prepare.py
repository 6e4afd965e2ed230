"""Preparation of a folder from a model: written beside its target, then moved there in one step.

The folder contains the layers, files of the whole network, and the manifest, which is written last.
"""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from edgetune.artifacts import file_operations
from edgetune.artifacts.files import file_hash, require_utf8, write_atomically
from edgetune.artifacts.output_file import partial_folder, sweep
from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError
from edgetune.processes.families import peak_bytes, reset_peaks
from edgetune.version import __version__
from edgetune.workloads.dimensions import data_inputs, input_specs
from edgetune.workloads.graphs import known_shape
from edgetune.workloads.model_storage import check_constants, check_inputs
from edgetune.workloads.observed import Feed, observe
from edgetune.workloads.onnx_file import with_batch
from edgetune.workloads.partition import weight_files
from edgetune.workloads.partition.check import CHECK_SHARE, PrepareOptions, largest_difference
from edgetune.workloads.partition.cut import CutLayer, cut_layers, layer_model, split_rows
from edgetune.workloads.partition.optimised import StoredGraph, optimise, refuse_bodies, runtime_version, stored_graph
from edgetune.workloads.partition.weight_files import write_weights
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
    fixed = weight_files.write_external(workload, folder, batch_size=options.batch_size, dimensions=options.dimensions)
    check_constants(fixed, workload.reference)
    check_inputs(data_inputs(fixed), workload.reference, batch_size=options.batch_size)
    forms = {"external": weight_files.EXTERNAL} | (
        {"default": weight_files.DEFAULT} if weight_files.write_default(folder) else {}
    )
    scratch = folder / "scratch"
    scratch.mkdir()
    graph = stored_graph(optimise(folder / weight_files.EXTERNAL, options.optimise, scratch), fixed, scratch)
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
