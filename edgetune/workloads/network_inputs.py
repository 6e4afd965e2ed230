"""Inputs of a network: arrays generated from its declared shapes and types, or the user's arrays from an ``.npz``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.artifacts.files import read_source
from edgetune.artifacts.npz import read_npz
from edgetune.errors import InputError, blaming
from edgetune.workloads.input_values import static_values
from edgetune.workloads.lazy import onnx
from edgetune.workloads.onnx_file import fixed_model, input_specs, network_batch, network_values
from edgetune.workloads.workload import InputValues, Workload

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Shape = tuple[int, ...]

_FROM_FILE = "give it with --inputs FILE.npz"
_STATED = "edgetune.values"
"""Key of a model's property with the values of its inputs."""


@dataclass(frozen=True, slots=True)
class InputFilling:
    """The generated values of one input.

    Args:
        name: Name of the input.
        shape, dtype: Shape and element type of its array.
        values: Range or rule of the values, in words.
        least, most: Bounds of integers and booleans; ``None`` for floats.
    """

    name: str
    shape: Shape
    dtype: str
    values: str
    least: int | None = None
    most: int | None = None


def random_inputs(model: onnx.ModelProto, values: Sequence[InputValues] | None = None, *, seed: int) -> Arrays:
    """Return one random array per input of ``model``, whose dimensions are fixed; see ``fillings``.

    Raises:
        InputError: a dimension is open, or an input cannot be generated.
    """
    generator = np.random.default_rng(seed)
    return {filling.name: drawn(filling, filling.shape, generator) for filling in fillings(model, values)}


def drawn(filling: InputFilling, shape: Shape, generator: np.random.Generator) -> Array:
    """Return a random array of an input."""
    if filling.least is None or filling.most is None:
        return np.asarray(generator.random(shape, dtype=np.float32)).astype(filling.dtype)
    return np.asarray(generator.integers(filling.least, filling.most + 1, shape)).astype(filling.dtype)


def feeds(
    workload: Workload,
    fixed: onnx.ModelProto,
    batch_size: int,
    dimensions: Mapping[str, int],
    *,
    inputs_file: str | None,
    seed: int,
) -> Arrays:
    """Return the inputs of a network at a batch size: the user's arrays from a file, or generated ones.

    Args:
        workload: The network.
        fixed: Its graph at this batch size.
        batch_size, dimensions: See ``fix_dimensions``.
        inputs_file, seed: The user's file, or ``None`` and the seed of generated arrays.

    Raises:
        InputError: see ``network_values``, ``random_inputs`` and ``read_inputs``.
    """
    if inputs_file is None:
        return random_inputs(fixed, network_values(workload, dimensions), seed=seed)
    return read_inputs(inputs_file, fixed, batch_size, dict(network_batch(workload, dimensions, batch_size).axes))


def fillings(model: onnx.ModelProto, values: Sequence[InputValues] | None = None) -> list[InputFilling]:
    """Return the values of each input of a network without the user's arrays.

    Floats are uniform in [0, 1), like a scaled image.

    Args:
        model: The model with fixed dimensions.
        values: Values of other inputs, as runs found them; ``None`` for those that the model states, see
            ``state_values``, and without these for those that its graph shows.

    Raises:
        InputError: a dimension is open, or an input is of a type that cannot be generated.
    """
    stated = next((entry.value for entry in model.metadata_props if entry.key == _STATED), None)
    if values is None:
        values = static_values(model) if stated is None else [InputValues(**each) for each in json.loads(stated)]
    known = {each.name: each for each in values}
    found = []
    for name, shape, type_name in input_specs(model):
        own = known.get(name)
        if own is not None:
            found.append(InputFilling(name, shape, type_name, own.words, own.least, own.most))
        elif np.dtype(type_name).kind == "f":
            found.append(InputFilling(name, shape, type_name, "uniform in [0, 1)"))
        else:
            raise InputError(f"input {name!r} is of type {type_name}, which edgetune cannot generate", _FROM_FILE)
    return found


def state_values(model: onnx.ModelProto, values: Sequence[InputValues]) -> None:
    """Store values of inputs in a model, for those that get the model alone."""
    model.metadata_props.add(key=_STATED, value=json.dumps([asdict(each) for each in values]))


def describe_inputs(
    workload: Workload, batch_size: int, dimensions: Mapping[str, int], inputs_file: str | None
) -> list[dict[str, Any]]:
    """Return the inputs of a network as plain data: name, type, shape with the batch marked, and values in words.

    Raises:
        InputError: see ``network_values`` and ``fillings``.
    """
    axes = dict(network_batch(workload, dimensions).axes)
    fixed = fixed_model(workload, batch_size, dimensions, weights=False)
    if inputs_file is None:
        found = fillings(fixed, network_values(workload, dimensions))
    else:
        found = [InputFilling(*spec, f"from {inputs_file}") for spec in input_specs(fixed)]
    return [
        {
            "name": each.name,
            "dtype": each.dtype,
            "shape": ["batch" if axes.get(each.name) == at else size for at, size in enumerate(each.shape)],
            "values": each.values,
        }
        for each in found
    ]


def read_inputs(path: str, model: onnx.ModelProto, batch_size: int, axes: Mapping[str, int] | None = None) -> Arrays:
    """Read the arrays of an ``.npz`` file and check them against the network's inputs.

    If the file has fewer samples than ``batch_size``, they repeat from the first, so that one file serves every batch
    size of a sweep.

    Args:
        path: The file.
        model: The network with its dimensions fixed.
        batch_size: Samples per minibatch.
        axes: The batch axis of each input that has one; ``None`` for the first axis of every input.

    Raises:
        InputError: the file cannot be read, an input is missing or unknown, or a shape or type does not fit.
    """
    return fit_inputs(path, input_specs(model), batch_size, axes)


def fit_inputs(
    path: str, inputs: Iterable[tuple[str, Shape, str]], batch_size: int, axes: Mapping[str, int] | None
) -> Arrays:
    """Return the arrays of an ``.npz`` file for inputs given by name, shape and NumPy type; see ``read_inputs``."""
    arrays = _load_npz(path)
    specs = {name: (shape, np.dtype(type_name)) for name, shape, type_name in inputs}
    missing, unknown = sorted(set(specs) - set(arrays)), sorted(set(arrays) - set(specs))
    if missing or unknown:
        wrong = [f"lacks {', '.join(missing)}"] if missing else []
        wrong += [f"has unknown {', '.join(unknown)}"] if unknown else []
        raise InputError(f"{path} {' and '.join(wrong)}", f"the network's inputs are {', '.join(sorted(specs))}")
    fitted = {}
    for name, (shape, dtype) in specs.items():
        axis = 0 if axes is None else axes.get(name)
        array = arrays[name]
        if axis is not None and array.ndim == len(shape) > axis and shape[axis] == batch_size and array.shape[axis]:
            array = np.take(array, np.arange(batch_size) % array.shape[axis], axis=axis)
        fitted[name] = _fitted(path, name, arrays[name], array, (shape, dtype))
    return fitted


def _fitted(path: str, name: str, given: Array, array: Array, spec: tuple[Shape, np.dtype[Any]]) -> Array:
    """Return ``array``, samples of ``given``, converted to the type that the network declares for the input."""
    shape, dtype = spec
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
    with blaming("cannot read inputs"):
        data = read_source(Path(path))
        if data.startswith(b"\x93NUMPY"):
            raise InputError(f"{path} holds a single array, not named ones", hint)
        return read_npz(data, name=path, hint=hint)
