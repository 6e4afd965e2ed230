"""Storage of models: checks of external weight files, and atomic writing of models.

A model is untrusted input. Its external locations are paths that this program opens, so an absolute path, a path with
``..`` or a symbolic link could read any file of the user. External weights must be inside the model's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetune import limits
from edgetune.artifacts.file_names import require_utf8
from edgetune.artifacts.files import writing
from edgetune.errors import InputError
from edgetune.workloads.graphs import nested_bodies, nested_nodes, tensor_bytes
from edgetune.workloads.lazy import onnx

_READ_OVER = 8
"""Number of times that a file of weights may always be read, for tensors that share values."""


_PACKED = ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")


@dataclass(frozen=True, slots=True)
class External:
    """The place of one tensor's values in a file.

    Args:
        tensor: Name of the tensor.
        location: Path in the model.
        offset_bytes, length_bytes: The part of the file; a length of 0 means up to the end.
        needed_bytes: Bytes by the tensor's shape and type; 0 if unknown.
    """

    tensor: str
    location: str
    offset_bytes: int
    length_bytes: int
    needed_bytes: int


def external_tensors(model: onnx.ModelProto) -> list[External]:
    """Return every tensor of the model whose values are in another file.

    Raises:
        InputError: an entry has no location or an invalid number.
    """
    return [_entry(t) for t in _all_tensors(model) if t.data_location == onnx.TensorProto.EXTERNAL]


def check_external(model: onnx.ModelProto, folder: Path) -> list[Path]:
    """Return the external files of a model after checking that each is inside ``folder``, exists and is long enough.

    Raises:
        InputError: a location is outside the folder, missing, no file, or shorter than its tensor; or too many tensors
            share the same part of a file.
    """
    files: dict[str, Path] = {}
    read_bytes = 0
    for entry in external_tensors(model):
        path = files.get(entry.location) or _inside(entry, folder)
        files[entry.location] = path
        size_bytes = path.stat().st_size
        end = entry.offset_bytes + max(entry.length_bytes, entry.needed_bytes)
        if end > size_bytes:
            raise InputError(
                f"external weights of {entry.tensor!r} are cut short: {path} has {size_bytes} bytes, {end} are needed",
                "copy the file again, or export the model again",
            )
        read_bytes += max(entry.length_bytes or size_bytes - entry.offset_bytes, entry.needed_bytes)
    found = sorted(set(files.values()))
    enough = _READ_OVER * sum(path.stat().st_size for path in found)
    limits.check("weight_bytes", read_bytes, "the external weights of the model", at_least=enough)
    return found


def _inside(entry: External, folder: Path) -> Path:
    root = folder.resolve()
    written = Path(entry.location)
    try:
        path = (root / written).resolve()
        found = path.is_file()
    except (OSError, RuntimeError) as error:  # a cycle of links, a name that is too long
        raise InputError(
            f"external weights of {entry.tensor!r} cannot be reached: {error}", "export the model again"
        ) from None
    if written.is_absolute() or not path.is_relative_to(root):
        raise InputError(
            f"external weights of {entry.tensor!r} lie outside the model's folder: {entry.location}",
            f"refused: a model may only read files below {folder}; move the weights there and export again",
        )
    if not found:
        raise InputError(
            f"external weights of {entry.tensor!r} are missing: {path}",
            "put the file beside the model, as it was exported",
        )
    return path


def _entry(tensor: onnx.TensorProto) -> External:
    values = {item.key: item.value for item in tensor.external_data}
    location = values.get("location", "")
    try:
        offset_bytes, length_bytes = int(values.get("offset", 0)), int(values.get("length", 0))
    except ValueError:
        offset_bytes = -1
    if not location or "\0" in location or offset_bytes < 0 or length_bytes < 0:
        raise InputError(
            f"external weights of {tensor.name!r} have no valid location, offset or length",
            "the model is malformed; export it again",
        )
    return External(tensor.name, location, offset_bytes, length_bytes, _needed_bytes(tensor))


def _needed_bytes(tensor: onnx.TensorProto) -> int:
    # Packed types take half a byte or less, which NumPy lacks; their length entry is checked instead.
    try:
        packed = onnx.TensorProto.DataType.Name(tensor.data_type) in _PACKED
        return 0 if packed else tensor_bytes(tensor.data_type, tensor.dims)
    except (KeyError, TypeError, ValueError):
        return 0


def _all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for graph in (model.graph, *nested_bodies(nodes)):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nested_nodes(nodes):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


EXTERNAL_ABOVE_BYTES = 1_500_000_000
"""Protobuf refuses messages of 2 GiB; above this size the weights go into a second file."""


_HINT = "check the folder, its permissions and the free space"


def save_model(model: onnx.ModelProto, path: Path) -> Path:
    """Write a model through a temporary folder and return its path; large weights go into ``<file>.data``.

    Args:
        model: The model; if it is large, its weights are moved out of it.
        path: The file to write or replace.

    Raises:
        InputError: the file cannot be written; an existing file is unchanged.
    """
    with writing(path, _HINT) as output, output.written_by_path() as partial:
        weights = f"{path.name}.data"
        if model.ByteSize() > EXTERNAL_ABOVE_BYTES:
            require_utf8(path)
            onnx.save_model(model, partial, save_as_external_data=True, location=weights)
            with writing(path.with_name(weights), _HINT) as data, data.written_by_path() as whole:
                (partial.parent / weights).replace(whole)
        else:
            onnx.save_model(model, partial)
    return output.path
