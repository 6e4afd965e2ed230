"""Inputs of a network: arrays generated from its declared shapes and types, or the user's arrays from an ``.npz``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.artifacts.files import read_source
from edgetune.artifacts.npz import read_npz
from edgetune.errors import InputError, blaming
from edgetune.workloads.input_uses import InputUse, uses
from edgetune.workloads.lazy import onnx
from edgetune.workloads.onnx_file import fixed_model, input_specs, network_batch
from edgetune.workloads.workload import Workload

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Shape = tuple[int, ...]

_FROM_FILE = "give it with --inputs FILE.npz"


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


def random_inputs(model: onnx.ModelProto, *, seed: int) -> Arrays:
    """Return one random array per input of ``model``, whose dimensions are fixed; see ``fillings``.

    Raises:
        InputError: a dimension is open, or an input cannot be generated.
    """
    generator = np.random.default_rng(seed)
    arrays: Arrays = {}
    for filling in fillings(model):
        dtype = np.dtype(filling.dtype)
        if filling.least is None or filling.most is None:
            arrays[filling.name] = generator.random(filling.shape, dtype=np.float32).astype(dtype)
        else:
            drawn = generator.integers(filling.least, filling.most + 1, filling.shape)
            arrays[filling.name] = np.asarray(drawn).astype(dtype)
    return arrays


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
        InputError: see ``random_inputs`` and ``read_inputs``.
    """
    if inputs_file is None:
        return random_inputs(fixed, seed=seed)
    return read_inputs(inputs_file, fixed, batch_size, dict(network_batch(workload, dimensions).axes))


def fillings(model: onnx.ModelProto) -> list[InputFilling]:
    """Return the values of each input of a network without the user's arrays.

    Floats are uniform in [0, 1), like a scaled image. Integers follow from their use in the graph, see ``input_uses``:
    indices within the indexed rows, lengths of the whole sequence, the largest trip count that the graph allows;
    otherwise 0 or 1, which every mask accepts.

    Raises:
        InputError: a dimension is open, or an input is a size or a trip count that the graph does not bound.
    """
    found = []
    for name, shape, type_name in input_specs(model):
        kind = np.dtype(type_name).kind
        if kind == "f":
            if len(shape) <= 1:
                found_uses = uses(model, name)
                _refuse_sizes(name, found_uses)
                _choice(name, shape, found_uses)
            found.append(InputFilling(name, shape, type_name, "uniform in [0, 1)"))
        elif kind in "biu":
            values, least, most = _whole_numbers(model, name, shape, flag=kind == "b")
            found.append(InputFilling(name, shape, type_name, values, least, most if kind != "b" else min(most, 1)))
        else:
            raise InputError(f"input {name!r} is of type {type_name}, which edgetune cannot generate", _FROM_FILE)
    return found


def _whole_numbers(model: onnx.ModelProto, name: str, shape: Shape, *, flag: bool) -> tuple[str, int, int]:
    """Return the values of an integer or boolean input in words, the least and the most.

    Raises:
        InputError: the input is a size or a trip count that the graph does not bound.
    """
    found = uses(model, name)
    _refuse_sizes(name, found)
    if not flag and (chosen := _choice(name, shape, found)) is not None:
        return chosen
    for role, words in (("trips", "the most trips that the graph allows"), ("length", "the whole sequence")):
        counts = [use.most for use in found if use.role == role and use.most is not None]
        if counts:
            return f"{min(counts)}, {words}", min(counts), min(counts)
    if any(use.role == "condition" for use in found):
        return "true", 1, 1
    tables = [use for use in found if use.role == "index" and use.most is not None and use.most >= use.least]
    if not tables:
        return "0 or 1", 0, 1
    narrowest = min(tables, key=lambda use: use.most or 0)
    least, most = max(use.least for use in tables), narrowest.most or 0
    return f"whole numbers from {least} to {most}, {narrowest.where}", min(least, most), most


def _choice(name: str, shape: Shape, found: list[InputUse]) -> tuple[str, int, int] | None:
    """Return the filling of a number that selects a branch: the constant that it is compared with.

    Raises:
        InputError: the number selects a branch, and the graph compares it with no constant or with several.
    """
    choices = [use for use in found if use.role == "choice"] if len(shape) <= 1 and math.prod(shape) == 1 else []
    if not choices:
        return None
    compared = choices[0].most
    if compared is None or any(use.most != compared for use in choices):
        raise _undecided(name, choices[0])
    return f"{compared}, with which it is compared for {choices[0].where}", compared, compared


def _refuse_sizes(name: str, found: list[InputUse]) -> None:
    for use in found:
        if use.role == "size" or (use.role in ("trips", "length") and not use.most):
            raise _undecided(name, use)


def _undecided(name: str, use: InputUse) -> InputError:
    return InputError(
        f"input {name!r} decides how much is computed ({use.where}), and the graph does not say how much", _FROM_FILE
    )


def describe_inputs(
    workload: Workload, batch_size: int, dimensions: Mapping[str, int], inputs_file: str | None
) -> list[dict[str, Any]]:
    """Return the inputs of a network as plain data: name, type, shape with the batch marked, and values in words.

    Raises:
        InputError: see ``fillings``.
    """
    axes = dict(network_batch(workload, dimensions).axes)
    fixed = fixed_model(workload, batch_size, dimensions, weights=False)
    if inputs_file is None:
        found = fillings(fixed)
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
