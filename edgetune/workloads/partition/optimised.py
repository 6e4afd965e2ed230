"""Optimisation of the whole network by ONNX Runtime before the cut.

A session does not treat weights that are fed as inputs as constants: it cannot fold batch normalisations into
convolutions or lay out weights for the processor. Optimised before the cut, each layer runs as fast as in the whole
model. Measured (one thread, AMD EPYC with AVX-512, ONNX Runtime 1.31): MobileNetV2 with weights as inputs takes 16.8 ms
from standard operators and 4.0 ms after these optimisations; with its weights inside, 3.8 ms.

On a processor without half-precision arithmetic, level ``all`` stores half-precision weights in single precision, in
twice the bytes; ``extended`` keeps them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_tensor

from edgetune.errors import InputError
from edgetune.workloads.graphs import known_shape, needed_nodes, nested_bodies, tensor_bytes
from edgetune.workloads.ort_session import cannot_load, require_onnxruntime, session_options

_FED_KINDS = "biuf"
"""NumPy type kinds that a caller can feed; tensors of others (text, 4 bits, bfloat16) stay inside the graph."""


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """A network with its weights in files, as input of a cut.

    Args:
        model: Its operators, inputs, outputs and operator sets; initialisers are read from the two fields below.
        weights: Memory-mapped arrays, by name.
        constants: Initialisers that stay inside the graph, by name.
        values: Type and shape of each tensor, where known, by name.
        seen: Type and observed shape of outputs of the network whose size depends on the data. They determine how much
            memory to reserve; graphs of layers do not declare them, since they would reject other data.
    """

    model: onnx.ModelProto
    weights: Mapping[str, Any]
    constants: Mapping[str, onnx.TensorProto]
    values: Mapping[str, onnx.ValueInfoProto]
    seen: Mapping[str, onnx.ValueInfoProto] = field(default_factory=dict)

    def nbytes(self, name: str) -> int | None:
        """Return the bytes of a tensor; ``None`` if it is no tensor or its size is unknown."""
        return bytes_of(self.values.get(name))

    def sized(self, name: str) -> onnx.ValueInfoProto | None:
        """Return type and shape of a layer's output; where the size depends on the data, those observed in a run."""
        return self.seen.get(name) or self.values.get(name)


def bytes_of(value: onnx.ValueInfoProto | None) -> int | None:
    """Return the bytes of a value; ``None`` if it is no tensor or its size is unknown."""
    shape = None if value is None or not _is_known(value) else known_shape(value)
    return None if value is None or shape is None else tensor_bytes(value.type.tensor_type.elem_type, shape)


def stored_graph(model: onnx.ModelProto, inferred: onnx.ModelProto, folder: Path) -> StoredGraph:
    """Return a graph with its weights mapped from their files.

    Args:
        model: The optimised model, its larger initialisers in files.
        inferred: The model before optimisation, with shapes; tensors of one name have one shape.
        folder: Folder of those files.

    Raises:
        InputError: the network has no outputs, or one of them is a constant or an input.
    """
    values: dict[str, onnx.ValueInfoProto] = {}
    for each in (inferred.graph, model.graph):
        for value in (*each.value_info, *each.input, *each.output):
            if value.name not in values or _is_known(value):
                values[value.name] = value
    weights: dict[str, Any] = {}
    constants: dict[str, onnx.TensorProto] = {}
    for tensor in model.graph.initializer:
        array = _array(tensor, folder)
        if array.nbytes >= SMALL_BYTES and array.dtype.kind in _FED_KINDS:
            weights[tensor.name] = array
        else:
            embed(tensor, folder)
            constants[tensor.name] = tensor
    if not model.graph.output:
        raise InputError("the network has no outputs", "export it again")
    for output in model.graph.output:
        if not any(output.name in node.output for node in model.graph.node):
            raise InputError(
                f"output {output.name!r} of the network is made by no operator: it is an input or a constant",
                "export the network without this output",
            )
    nodes = needed_nodes(model.graph.node, [output.name for output in model.graph.output])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return StoredGraph(model, weights, constants, values)


def refuse_bodies(graph: StoredGraph) -> None:
    """Refuse control flow with weights in its bodies, which a cut cannot extract.

    Raises:
        InputError: a body holds weights; the message names the operator.
    """
    for node in graph.model.graph.node:
        inside = [tensor for body in nested_bodies([node]) for tensor in body.initializer]
        sizes = [tensor_bytes(tensor.data_type, tensor.dims) for tensor in inside]
        held_bytes = sum(size for size in sizes if size >= SMALL_BYTES)  # small constants are no weights
        if held_bytes:
            raise InputError(
                f"operator {node.name or node.output[0]!r} ({node.op_type}) holds weights of {held_bytes} bytes in its "
                "body, where the network cannot be cut",
                "edgetune schedule prepare --whole makes one layer of the whole network",
            )


def _array(tensor: onnx.TensorProto, folder: Path) -> Any:
    """Return the values of an initialiser, memory-mapped if they are in a file."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    entry = {item.key: item.value for item in tensor.external_data}
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if dtype.kind not in _FED_KINDS:
        return numpy_helper.to_array(tensor, str(folder))
    shape, offset_bytes = tuple(tensor.dims), int(entry.get("offset", 0))
    return np.memmap(folder / entry["location"], dtype, "r", offset_bytes, shape)


def _is_known(value: onnx.ValueInfoProto) -> bool:
    """Whether a value is a tensor whose type and size are known."""
    return bool(value.type.tensor_type.elem_type) and known_shape(value) is not None


Level = Literal["basic", "extended", "all"]
"""ONNX Runtime's names: standard operators only; its own operators too; layouts for this kind of processor too."""
LEVELS: tuple[Level, ...] = get_args(Level)

SMALL_BYTES = 1024
"""Smaller constants stay inside the graph: shapes, axes, scales and small weights."""

_GRAPH, _WEIGHTS = "optimised.onnx", "optimised.weights"


def optimise(source: Path, level: Level, scratch: Path) -> onnx.ModelProto:
    """Return the optimised graph with its shapes; its larger constants are in ``optimised.weights`` in ``scratch``.

    Args:
        source: The whole model, dimensions fixed.
        level: Optimisation level.
        scratch: A folder to write into.

    Raises:
        DeviceError: ONNX Runtime is missing.
        InputError: ONNX Runtime cannot load the model.
    """
    options = session_options(level, threads=1)
    options.optimized_model_filepath = str(scratch / _GRAPH)
    for key, value in (
        ("optimized_model_external_initializers_file_name", _WEIGHTS),
        ("optimized_model_external_initializers_min_size_in_bytes", str(SMALL_BYTES)),
        ("disable_prepacking", "1"),  # the session never runs
    ):
        options.add_session_config_entry(f"session.{key}", value)
    _load(
        str(source), options, "", "check the model with onnx.checker, and its opset against the version of onnxruntime"
    )
    model = onnx.load(str(scratch / _GRAPH), load_external_data=False)
    for body in nested_bodies(model.graph.node):  # initialisers of a body cannot be fed
        names = [tensor.name for tensor in body.initializer]
        for place in reversed([place for place, name in enumerate(names) if name in names[:place]]):
            del body.initializer[place]  # ONNX Runtime 1.23 writes each twice
        for tensor in body.initializer:
            embed(tensor, scratch)
    found = _types(model)
    del model.graph.value_info[:]
    model.graph.value_info.extend(found)
    return model


def embed(tensor: onnx.TensorProto, folder: Path) -> None:
    """Load the values of an initialiser into the graph if they are in a file of ``folder``."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        load_external_data_for_tensor(tensor, str(folder))
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _types(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return type and shape of every tensor that operators compute, as ONNX Runtime infers them.

    ONNX Runtime saves no shapes of tensors that it created, but reports those of outputs. So every tensor is declared
    an output, and each weight in a file an input.
    """
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    graph = shown.graph
    declared = {value.name for value in (*graph.input, *graph.output)}
    inside = [each for each in graph.initializer if each.data_location != onnx.TensorProto.EXTERNAL]
    graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, list(each.dims))
        for each in graph.initializer
        if each.data_location == onnx.TensorProto.EXTERNAL and each.name not in declared
    )
    del graph.initializer[:]
    graph.initializer.extend(inside)
    made = [name for node in graph.node for name in node.output if name]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in declared)
    step, hint = (
        " once optimised, with all outputs declared",
        "the model is in order: report this error, and try edgetune schedule prepare --optimise basic",
    )
    session = _load(shown.SerializeToString(), session_options("disabled", threads=1), step, hint)
    found = []
    for each in (each for each in session.get_outputs() if each.name not in declared):
        kind = re.fullmatch(r"tensor\((\w+)\)", each.type)
        dims = [size if isinstance(size, int) else None for size in each.shape]
        found.append(
            onnx.ValueInfoProto(name=each.name)  # a sequence or an unknown value
            if kind is None
            else helper.make_tensor_value_info(each.name, TensorProto.DataType.Value(kind[1].upper()), dims)
        )
    return found


def _load(source: str | bytes, options: Any, step: str, hint: str) -> Any:
    ort = require_onnxruntime(("CPUExecutionProvider",))
    try:
        return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exception types share no base class but Exception
        raise cannot_load(f"the network{step}", error, hint) from None


def runtime_version() -> str:
    """Return the version of the installed ONNX Runtime.

    Raises:
        DeviceError: ONNX Runtime is missing.
    """
    return str(require_onnxruntime(("CPUExecutionProvider",)).__version__)
