"""What a network is fed: random arrays of the shapes and types it declares, or the user's own from an ``.npz`` file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetune.errors import InputError

if TYPE_CHECKING:
    from onnx import ModelProto

Arrays = dict[str, "np.ndarray[Any, np.dtype[Any]]"]
Shape = tuple[int, ...]

_FOLLOWED = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
"""Operators that hand an index on to a lookup unchanged."""


def declared_inputs(model: ModelProto) -> dict[str, tuple[np.dtype[Any], tuple[int | None, ...]]]:
    """Return type and shape of each input the caller must feed (initialisers are not), unknown dimensions ``None``.

    Raises:
        InputError: an input is not a tensor, has no declared rank, or a type that numpy does not have.
    """
    from onnx import helper

    weights = {tensor.name for tensor in model.graph.initializer}
    found: dict[str, tuple[np.dtype[Any], tuple[int | None, ...]]] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
            raise InputError(
                f"input {value.name!r} has no declared shape, so no input can be made up for it",
                "export the network with shapes, or run onnx.shape_inference on it",
            )
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
        found[value.name] = (dtype, sizes)
    return found


def random_inputs(model: ModelProto, *, seed: int) -> Arrays:
    """Return one random array per input of ``model``, whose dimensions must all be fixed.

    Floats are uniform in [0, 1), like an image scaled to it. Integers are indices as often as not: below the number of
    rows of the table they look up where the graph shows it, else 0 or 1, which every lookup table and mask accepts.

    Raises:
        InputError: a dimension is not fixed, or an input is text.
    """
    generator = np.random.default_rng(seed)
    arrays: Arrays = {}
    for name, (dtype, sizes) in declared_inputs(model).items():
        if any(size is None for size in sizes):
            raise InputError(f"input {name!r} has dimensions {sizes} that nobody fixed", "give them with --dim NAME=N")
        shape = tuple(size for size in sizes if size is not None)
        if dtype.kind == "f":
            arrays[name] = generator.random(shape, dtype=np.float32).astype(dtype)
        elif dtype.kind == "b":
            arrays[name] = generator.integers(0, 2, shape).astype(np.bool_)
        elif dtype.kind in "iu":
            arrays[name] = generator.integers(0, _index_bound(model, name), shape).astype(dtype)
        else:
            raise InputError(
                f"input {name!r} is of type {dtype}, which cannot be made up", "give it with --inputs FILE.npz"
            )
    return arrays


def _index_bound(model: ModelProto, name: str) -> int:
    """Return the number of rows of the smallest table that input ``name`` looks up, or 2."""
    tables = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    names, bounds = {name}, []
    for node in model.graph.node:  # nodes are in topological order
        if node.op_type == "Gather" and len(node.input) == 2 and node.input[1] in names:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            shape = tables.get(node.input[0], ())
            bounds.append(shape[axis] if -len(shape) <= axis < len(shape) else 2)
        elif node.input and node.input[0] in names and node.op_type in _FOLLOWED:
            names.update(node.output)
        elif names & set(node.input):
            bounds.append(2)
    return max(1, min(bounds, default=2))


def read_inputs(path: str, model: ModelProto, batch_size: int, batched: Mapping[str, bool]) -> Arrays:
    """Read the arrays of an ``.npz`` file and check them against the network's inputs.

    Samples are taken in turn, again from the first when there are fewer than ``batch_size``, so that one file serves
    every batch size of a sweep.

    Args:
        path: The file.
        model: The network with its dimensions fixed.
        batch_size: Samples per minibatch.
        batched: Whether the first dimension of each input is the batch.

    Raises:
        InputError: the file cannot be read, an input is missing, one is unknown, or a shape or type does not fit.
    """
    arrays = _load_npz(path)
    declared = declared_inputs(model)
    missing, unknown = sorted(set(declared) - set(arrays)), sorted(set(arrays) - set(declared))
    if missing or unknown:
        wrong = [f"lacks {', '.join(missing)}"] if missing else []
        wrong += [f"has unknown {', '.join(unknown)}"] if unknown else []
        raise InputError(f"{path} {' and '.join(wrong)}", f"the network's inputs are {', '.join(sorted(declared))}")
    fitted: Arrays = {}
    for name, (dtype, sizes) in declared.items():
        array = arrays[name]
        if batched.get(name) and array.ndim > 0 and len(array) > 0 and len(array) != batch_size:
            array = array[np.arange(batch_size) % len(array)]
        fits = array.ndim == len(sizes) and all(n is None or n == m for n, m in zip(sizes, array.shape, strict=True))
        if not fits or not np.can_cast(array.dtype, dtype, casting="same_kind"):
            want = "x".join("?" if n is None else str(n) for n in sizes)
            have = "x".join(map(str, arrays[name].shape))
            raise InputError(
                f"{path}: {name} is {arrays[name].dtype} {have}, the network wants {dtype} {want}",
                "store each input with the type and shape that the network declares",
            )
        fitted[name] = np.ascontiguousarray(array, dtype=dtype)
    return fitted


def _load_npz(path: str) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as stored:
            if not hasattr(stored, "files"):
                raise InputError(
                    f"{path} holds a single array, not named ones", "write it with numpy.savez(FILE, name=array)"
                )
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"cannot read inputs from {path}: {reason}", "write it with numpy.savez(FILE, name=array)"
        ) from None
