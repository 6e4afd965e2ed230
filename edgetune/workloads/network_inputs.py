"""What a network is fed: random arrays of the shapes and types it declares, or the user's own from an ``.npz`` file."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetune.errors import InputError
from edgetune.workloads.onnx_file import input_specs

if TYPE_CHECKING:
    from onnx import ModelProto

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Shape = tuple[int, ...]

_FOLLOWED = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
"""Operators that hand an index on to a lookup unchanged."""


def random_inputs(model: ModelProto, *, seed: int) -> Arrays:
    """Return one random array per input of ``model``, whose dimensions are fixed.

    Floats are uniform in [0, 1), like an image scaled to it. Integers are indices as often as not: below the number of
    rows of the table they look up where the graph shows it, else 0 or 1, which every lookup table and mask accepts.

    Raises:
        InputError: a dimension is open, or an input is of a type that cannot be made up.
    """
    generator = np.random.default_rng(seed)
    arrays: Arrays = {}
    for name, shape, type_name in input_specs(model):
        dtype = np.dtype(type_name)
        if dtype.kind == "f":
            arrays[name] = generator.random(shape, dtype=np.float32).astype(dtype)
        elif dtype.kind == "b":
            arrays[name] = generator.integers(0, 2, shape).astype(np.bool_)
        elif dtype.kind in "iu":
            arrays[name] = generator.integers(0, _index_bound(model, name), shape).astype(dtype)
        else:
            raise InputError(
                f"input {name!r} is of type {type_name}, which cannot be made up", "give it with --inputs FILE.npz"
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


def read_inputs(path: str, model: ModelProto, batch_size: int) -> Arrays:
    """Read the arrays of an ``.npz`` file and check them against the network's inputs.

    Samples are taken in turn, again from the first when there are fewer than ``batch_size``, so that one file serves
    every batch size of a sweep.

    Args:
        path: The file.
        model: The network with its dimensions fixed.
        batch_size: Samples per minibatch.

    Raises:
        InputError: the file cannot be read, an input is missing, one is unknown, or a shape or type does not fit.
    """
    arrays = _load_npz(path)
    specs = {name: (shape, np.dtype(type_name)) for name, shape, type_name in input_specs(model)}
    missing, unknown = sorted(set(specs) - set(arrays)), sorted(set(arrays) - set(specs))
    if missing or unknown:
        wrong = [f"lacks {', '.join(missing)}"] if missing else []
        wrong += [f"has unknown {', '.join(unknown)}"] if unknown else []
        raise InputError(f"{path} {' and '.join(wrong)}", f"the network's inputs are {', '.join(sorted(specs))}")
    return {name: _fitted(path, name, arrays[name], specs[name], batch_size) for name in specs}


def _fitted(path: str, name: str, array: Array, spec: tuple[Shape, np.dtype[Any]], batch_size: int) -> Array:
    """Return ``array`` with the shape and type that the network declares for input ``name``."""
    shape, dtype = spec
    given = array
    if shape[:1] == (batch_size,) and array.ndim > 0 and 0 < len(array) != batch_size:
        array = array[np.arange(batch_size) % len(array)]
    if array.shape != shape or not np.can_cast(array.dtype, dtype, casting="same_kind"):
        raise InputError(
            f"{path}: {name} is {given.dtype} {_shape(given.shape)}, the network wants {dtype} {_shape(shape)}",
            "store each input with the type and shape that the network declares",
        )
    return np.ascontiguousarray(array, dtype=dtype)


def _shape(sizes: Shape) -> str:
    return "x".join(map(str, sizes)) or "scalar"


def _load_npz(path: str) -> Arrays:
    hint = "write it with numpy.savez(FILE, name=array)"
    try:
        with open(path, "rb") as file:  # opened here, because numpy leaves it open when it is no archive
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.lib.npyio.NpzFile):
                return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read inputs from {path}: {' '.join(str(error).split())}", hint) from None
    raise InputError(f"{path} holds a single array, not named ones", hint)
