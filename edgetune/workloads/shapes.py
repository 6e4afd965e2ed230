"""Shape inference through a graph with fixed input shapes, without reading its weights."""

from __future__ import annotations

import math
from collections.abc import Set
from contextlib import suppress
from typing import Any

from edgetune import limits
from edgetune.errors import InputError
from edgetune.workloads import graphs
from edgetune.workloads.control_flow import CONTROL_FLOW, EnclosingGraph, bodies, output_values
from edgetune.workloads.lazy import np, onnx
from edgetune.workloads.observed import NOTHING, Observation
from edgetune.workloads.operator_replacements import replace_runtime_operators

_SMALL_ELEMENTS = 1024
"""Initialisers up to this size may be shapes, axes or repeats, and keep their values during inference."""
_SMALL_FLOATS = 16
"""Floating-point constants up to this size may be scales of sizes, as in upsampling, and keep their values too."""
_NO_INPUTS_FOR_WEIGHTS = 4
"""The first version of ONNX's intermediate representation that requires no input for each initialiser."""
_MAX_ROUNDS = 500
"""Most rounds of folding shape arithmetic; each extends inference past the next reshape of a chain."""

_BYTES_PER_BYTE = 64
"""Memory that shape inference may always take, per byte of a model without weights."""


def infer(model: onnx.ModelProto, observed: Observation = NOTHING) -> onnx.ModelProto:
    """Store in ``model`` the shape of every tensor that can be inferred, and return it.

    An operator whose inputs contradict each other gets no shape; callers report it.

    Weights are not copied: inference runs on a skeleton in which large initialisers have a shape and no values. Where
    ONNX's inference stops at arithmetic on shapes, that arithmetic is evaluated and inference resumes. It also resumes
    past ONNX Runtime's own operators, past control flow with known bodies, and past operators whose result depends on
    the data, if a run observed it. Sizes that the file states for the results of operators count only where all this
    finds none: they are of the inputs that the file had when they were written.

    Args:
        model: The model; its ``value_info`` and the shapes of outputs change in place.
        observed: Observation of a run.

    Raises:
        InputError: the graph is malformed.
    """
    skeleton = _skeleton(model)
    caches = {name for node in model.graph.node if node.op_type == "GroupQueryAttention" for name in node.output}
    stated = _forget_sizes(skeleton.graph, caches)
    inferred = _infer(skeleton)
    for _ in range(_MAX_ROUNDS):
        known = known_shapes(inferred.graph)
        if all(name in known for node in inferred.graph.node for name in node.output if name):
            break
        progress = [_fold(skeleton, inferred), _follow_bodies(skeleton, inferred, observed)]
        progress.append(_see(skeleton, inferred, observed))
        if not any(progress):
            if not _store(skeleton.graph, [value for value in stated if value.name not in known]):
                break
            stated = []
        inferred = _infer(skeleton)
    made = {name for node in model.graph.node for name in node.output}
    weights = {weight.name for weight in model.graph.initializer}
    del model.graph.value_info[:]
    model.graph.value_info.extend(value for value in inferred.graph.value_info if value.name in made)
    model.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        for tensor in skeleton.graph.initializer
        if tensor.name not in weights  # folded
    )
    del model.graph.output[:]
    model.graph.output.extend(inferred.graph.output)
    return model


def _forget_sizes(graph: onnx.GraphProto, kept: Set[str]) -> list[onnx.ValueInfoProto]:
    """Clear the sizes that a file states for the results of operators, but not their ranks; return what it states.

    Args:
        graph: Changed in place.
        kept: Tensors that keep their sizes: a cache may be a buffer, and its size is only stated.
    """
    stated = []
    for value in (*graph.value_info, *graph.output):
        if value.name in kept:
            continue
        stated.append(onnx.ValueInfoProto())
        stated[-1].CopyFrom(value)
        for dim in value.type.tensor_type.shape.dim:
            dim.ClearField("dim_value")
    return stated


def known_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor whose shape is fully known, initialisers included."""
    found = {weight.name: tuple(int(size) for size in weight.dims) for weight in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if (shape := graphs.known_shape(value)) is not None:
            found[value.name] = shape
    return found


def surroundings(model: onnx.ModelProto, observed: Observation = NOTHING) -> EnclosingGraph:
    """Return the enclosing graph of the bodies of a model's control flow.

    Args:
        model: The model with inferred shapes.
        observed: See ``infer``.

    Raises:
        InputError: the graph is malformed.
    """
    skeleton = _skeleton(model)
    inferred = _infer(skeleton)
    for _ in range(_MAX_ROUNDS):
        if not _fold(skeleton, inferred):
            break
        inferred = _infer(skeleton)
    return _surroundings(skeleton, model, observed)


def _surroundings(skeleton: onnx.ModelProto, inferred: onnx.ModelProto, seen: Observation) -> EnclosingGraph:
    graph = inferred.graph
    values = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    for weight in (*graph.initializer, *skeleton.graph.initializer):
        values[weight.name] = onnx.helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims))
    constants = small_constants(skeleton.graph)
    return EnclosingGraph(values, constants, inferred.opset_import, inferred.ir_version, infer, seen)


def _see(skeleton: onnx.ModelProto, inferred: onnx.ModelProto, seen: Observation) -> bool:
    """Store the observed shapes of tensors whose shape is unknown otherwise; return whether any were stored."""
    known = known_shapes(inferred.graph)
    names = [name for node in skeleton.graph.node for name in node.output if name and name not in known]
    kinds = {
        value.name: value.type.tensor_type.elem_type for value in (*inferred.graph.value_info, *inferred.graph.output)
    }
    stored = [value for value in map(seen.value, names) if value is not None]
    for value in stored:  # a processor without half precision reports single precision
        value.type.tensor_type.elem_type = kinds.get(value.name) or value.type.tensor_type.elem_type
    return _store(skeleton.graph, stored)


def _follow_bodies(skeleton: onnx.ModelProto, inferred: onnx.ModelProto, seen: Observation) -> bool:
    """Store the shapes that the bodies of control flow determine; return whether any were stored."""
    known = known_shapes(inferred.graph)
    stored: list[onnx.ValueInfoProto] = []
    for node in skeleton.graph.node:
        if node.op_type in CONTROL_FLOW and not node.domain and any(o and o not in known for o in node.output):
            around = _surroundings(skeleton, inferred, seen)
            found = output_values(node, bodies(node, around))
            stored += [value for value in found if value.name not in known and seen.value(value.name) is None]
    return _store(skeleton.graph, stored)


def _store(graph: onnx.GraphProto, values: list[onnx.ValueInfoProto]) -> bool:
    """Replace types and shapes of tensors in a graph; return whether any changed."""
    news = {value.name: value for value in values}
    said = {value.name: value for value in (*graph.value_info, *graph.output)}
    if all(name in said and said[name].type == value.type for name, value in news.items()):
        return False
    for old in graph.output:
        if old.name in news:
            old.type.CopyFrom(news.pop(old.name).type)
    kept = [value for value in graph.value_info if value.name not in news]
    del graph.value_info[:]
    graph.value_info.extend([*kept, *news.values()])
    return True


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model whose large weights have a shape and no values, enough for inference and costs.

    Small weights may be shapes, axes or repeats and keep their values.
    """
    source, light = model.graph, onnx.ModelProto(ir_version=model.ir_version)
    for name in ("opset_import", "functions", "metadata_props"):
        getattr(light, name).extend(getattr(model, name))
    graph = light.graph
    graph.name = source.name or "graph"
    for name in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(graph, name).extend(getattr(source, name))
    for weight in source.initializer:
        if math.prod(weight.dims) <= _SMALL_ELEMENTS and weight.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(weight)
        else:
            graph.initializer.append(onnx.TensorProto(name=weight.name, dims=weight.dims, data_type=weight.data_type))
    return light


def _infer(skeleton: onnx.ModelProto) -> onnx.ModelProto:
    most_bytes = max(limits.limit("shape_bytes"), _BYTES_PER_BYTE * skeleton.ByteSize())
    try:
        with limits.bounded_memory(most_bytes):
            return onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
    except MemoryError:  # inference computes the values of Range, Concat, ... of any size
        raise limits.beyond("shape_bytes", "the inference of shapes") from None
    except Exception as error:  # onnx raises its own C++ errors, and bare RuntimeError or ValueError
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise InputError(
            f"the shapes of the model do not fit together: {lines[-1] if lines else type(error).__name__}",
            "check the model with onnx.checker, or export it again",
        ) from None


def _skeleton(model: onnx.ModelProto) -> onnx.ModelProto:
    skeleton = without_weights(model)
    skeleton.ir_version = max(skeleton.ir_version, _NO_INPUTS_FOR_WEIGHTS)  # folded values are no inputs
    nodes, weights = replace_runtime_operators(model.graph.node, known_shapes(model.graph))
    del skeleton.graph.node[:]
    skeleton.graph.node.extend(nodes)
    skeleton.graph.initializer.extend(weights)
    return skeleton


def _fold(skeleton: onnx.ModelProto, inferred: onnx.ModelProto) -> bool:
    """Replace tensors computed from shapes and small constants by initialisers; return whether any were replaced.

    Only small integers, booleans and few floats are folded: arithmetic on shapes, no layers.
    """
    shapes = known_shapes(inferred.graph)
    values = small_constants(skeleton.graph)
    opsets = {entry.domain: entry.version for entry in skeleton.opset_import}
    kept, folded = [], []
    for node in skeleton.graph.node:
        result: list[Any] = []
        if node.op_type == "Shape" and node.input[0] in shapes:
            bounds, shape = graphs.attributes(node), shapes[node.input[0]]
            result = [np.array(shape[bounds.get("start", 0) : bounds.get("end", len(shape))], dtype=np.int64)]
        elif _is_foldable(node) and all(name in values for name in node.input if name):
            feeds = {name: values[name] for name in node.input if name}
            if _stays_small(node.op_type, list(feeds.values())):
                with suppress(Exception):  # an operator the reference lacks: its readers stay unknown
                    result = onnx.reference.ReferenceEvaluator(node, opsets=opsets).run(None, feeds)
        if not result or not all(map(_is_small, result)):
            kept.append(node)
            continue
        if any(isinstance(value, list) for value in result):  # a sequence is no initialiser, but its readers may fold
            values.update(zip(node.output, result, strict=False))
            kept.append(node)
            continue
        for name, value in zip(node.output, result, strict=False):
            if name:
                values[name] = value
                folded.append(onnx.numpy_helper.from_array(value, name))
    if not folded:
        return False
    outputs = {value.name for value in skeleton.graph.output}
    del skeleton.graph.node[:]
    skeleton.graph.node.extend(kept)
    skeleton.graph.initializer.extend(tensor for tensor in folded if tensor.name not in outputs)
    return True


def _is_foldable(node: onnx.NodeProto) -> bool:
    """Return whether the outputs of a node depend on the values of its inputs alone."""
    return bool(node.input) and node.domain == "" and not graphs.bodies(node) and not node.op_type.startswith("Random")


def _stays_small(op: str, inputs: list[Any]) -> bool:
    """Return whether the output of an operator is small: a few bytes of input may produce terabytes."""
    if op in ("ConstantOfShape", "Expand", "Tile"):
        repeats = np.size(inputs[0]) if op == "Tile" else 1
        return bool(repeats * math.prod(abs(int(size)) for size in np.ravel(inputs[-1])) <= _SMALL_ELEMENTS)
    if op == "Range":
        start, limit, step = (float(np.ravel(value)[0]) for value in inputs)
        return step != 0 and abs((limit - start) / step) <= _SMALL_ELEMENTS
    return op not in ("OneHot", "Pad", "Resize", "EyeLike", "BlackmanWindow", "HannWindow", "HammingWindow")


def _is_small(value: Any) -> bool:
    """Return whether a computed value is a small array, or a sequence of a few small arrays."""
    if isinstance(value, list):
        return len(value) <= _SMALL_ELEMENTS and all(isinstance(each, np.ndarray) and _is_small(each) for each in value)
    return isinstance(value, (np.ndarray, np.generic)) and value.size <= _SMALL_ELEMENTS


def small_constants(graph: onnx.GraphProto) -> dict[str, Any]:
    """Return the small constants of a graph, by tensor name: integers and booleans, and very few floats."""
    tensors = [(weight.name, weight) for weight in graph.initializer]
    for node in graph.node:
        if node.op_type == "Constant":
            tensors += [(node.output[0], attribute.t) for attribute in node.attribute if attribute.name == "value"]
    found = {}
    for name, tensor in tensors:
        held = (tensor.raw_data, tensor.int64_data, tensor.int32_data, tensor.uint64_data, tensor.float_data)
        if (any(held) or 0 in tensor.dims) and math.prod(tensor.dims) <= _SMALL_ELEMENTS:
            value = onnx.numpy_helper.to_array(tensor)
            if value.dtype.kind in "iub" or (value.dtype.kind == "f" and value.size <= _SMALL_FLOATS):
                found[name] = value
    return found
