"""Inputs of a network: arrays generated from its declared shapes and types, or the user's arrays from an ``.npz``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.artifacts.files import read_source
from edgetune.artifacts.npz import read_npz
from edgetune.errors import InputError, blaming
from edgetune.workloads.input_values import FROM_FILE, static_values
from edgetune.workloads.lazy import onnx
from edgetune.workloads.onnx_file import fixed_model, input_specs, network_batch, network_values
from edgetune.workloads.workload import InputValues, Workload

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Shape = tuple[int, ...]

_STATED = "edgetune.values"
"""Key of a model's property with the values of its inputs."""


def random_inputs(model: onnx.ModelProto, values: Sequence[InputValues] | None = None, *, seed: int) -> Arrays:
    """Return one random array per input of ``model``, whose dimensions are fixed; see ``fillings``.

    Raises:
        InputError: a dimension is open, or an input cannot be generated.
    """
    generator, found = np.random.default_rng(seed), fillings(model, values)
    return {name: drawn(found[name], shape, dtype, generator) for name, shape, dtype in input_specs(model)}


def drawn(values: InputValues | None, shape: Shape, dtype: str, generator: np.random.Generator) -> Array:
    """Return a random array of an input; ``values`` are those of ``fillings``."""
    if values is None:
        return np.asarray(generator.random(shape, dtype=np.float32)).astype(dtype)
    return np.asarray(generator.integers(values.least, values.most + 1, shape)).astype(dtype)


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


def fillings(model: onnx.ModelProto, values: Sequence[InputValues] | None = None) -> dict[str, InputValues | None]:
    """Return the values of each input of a network without the user's arrays.

    Floats, ``None``, are uniform in [0, 1), like a scaled image.

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
    specs = input_specs(model)
    for name, _, type_name in specs:
        if name not in known and np.dtype(type_name).kind != "f":
            raise InputError(f"input {name!r} is of type {type_name}, which edgetune cannot generate", FROM_FILE)
    return {name: known.get(name) for name, _, _ in specs}


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
    found = fillings(fixed, network_values(workload, dimensions)) if inputs_file is None else {}
    others = f"from {inputs_file}" if inputs_file else "uniform in [0, 1)"
    return [
        {
            "name": name,
            "dtype": dtype,
            "shape": ["batch" if axes.get(name) == at else size for at, size in enumerate(shape)],
            "values": others if (values := found.get(name)) is None else values.words,
        }
        for name, shape, dtype in input_specs(fixed)
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


def made_inputs(
    inputs: Sequence[tuple[str, Shape, str]],
    batch_size: int,
    axes: Mapping[str, int],
    inputs_file: str | None,
    seed: int,
) -> Arrays:
    """Return the arrays of inputs without a graph: those of the user, or floats in [0, 1) and whole numbers 0 or 1.

    Args:
        inputs: Name, shape and NumPy type of each.
        batch_size, axes, inputs_file: See ``read_inputs``; ``None`` for generated arrays.
        seed: Seed of generated arrays.

    Raises:
        InputError: the user's arrays do not fit.
    """
    if inputs_file is not None:
        return fit_inputs(inputs_file, inputs, batch_size, axes)
    generator = np.random.default_rng(seed)
    kinds = {name: None if np.dtype(dtype).kind in "fc" else InputValues(name, "", 0, 1) for name, _, dtype in inputs}
    return {name: drawn(kinds[name], shape, dtype, generator) for name, shape, dtype in inputs}


def fit_inputs(
    path: str, inputs: Iterable[tuple[str, Shape, str]], batch_size: int, axes: Mapping[str, int] | None
) -> Arrays:
    """Return the arrays of an ``.npz`` file for inputs given by name, shape and NumPy type; see ``read_inputs``."""
    hint = "write it with numpy.savez(FILE, name=array)"
    with blaming("cannot read inputs"):
        data = read_source(Path(path))
        if data.startswith(b"\x93NUMPY"):
            raise InputError(f"{path} holds a single array, not named ones", hint)
        arrays = read_npz(data, name=path, hint=hint)
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
        if array.shape != shape or not np.can_cast(array.dtype, dtype, casting="same_kind"):
            given, wanted = ("x".join(map(str, sizes)) or "scalar" for sizes in (arrays[name].shape, shape))
            raise InputError(
                f"{path}: {name} is {array.dtype} {given}, the network wants {dtype} {wanted}",
                "store each input with the type and shape that the network declares",
            )
        fitted[name] = np.ascontiguousarray(array, dtype=dtype)
    return fitted
