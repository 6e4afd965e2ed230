"""Damage to ONNX graphs that leaves them protocol buffers: what an exporter with a fault, or an attacker, writes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from fuzzing.bytes_mutators import damaged_bytes
from fuzzing.values import HOSTILE

_DIMENSIONS = (0, -1, 1, 2, 3, 10**6, 2**31, 2**62, -(2**63))
_OPERATORS = (
    "Conv", "MatMul", "Gemm", "Reshape", "Concat", "Gather", "Loop", "If", "Scan", "Slice", "Expand", "Tile", "Range",
    "ConstantOfShape", "Constant", "NoSuchOp", "LSTM", "Attention", "Split", "Resize", "Pad", "Cast", "",
)  # fmt: skip


def damaged_onnx(rng: Random, data: bytes) -> bytes:
    """Return a model with one to three faults in its graph; sometimes with bytes changed."""
    if rng.random() < 0.12:
        return damaged_bytes(rng, data)
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        try:
            rng.choice(_FAULTS)(rng, model)
        except (ValueError, TypeError, IndexError):
            continue
    return bytes(model.SerializeToString())


def _any(rng: Random, values: Any) -> Any:
    return values[rng.randrange(len(values))]  # IndexError where there is none: no fault then


def _name(rng: Random) -> str:
    return rng.choice([word for word in HOSTILE if "\x00" not in word])


def _known(rng: Random, model: Any) -> str:
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    return str(rng.choice([*names, *(weight.name for weight in model.graph.initializer), ""]))


def _node_lost(rng: Random, model: Any) -> None:
    del model.graph.node[rng.randrange(len(model.graph.node))]


def _node_doubled(rng: Random, model: Any) -> None:
    for _ in range(rng.choice((1, 1, 500))):
        model.graph.node.append(_any(rng, model.graph.node))


def _other_input(rng: Random, model: Any) -> None:
    node = _any(rng, model.graph.node)
    node.input[rng.randrange(len(node.input))] = _known(rng, model)


def _more_inputs(rng: Random, model: Any) -> None:
    _any(rng, model.graph.node).input.extend([_known(rng, model)] * rng.choice((1, 3, 1000)))


def _fewer_inputs(rng: Random, model: Any) -> None:
    node = _any(rng, model.graph.node)
    del node.input[rng.randrange(len(node.input)) :]


def _other_output(rng: Random, model: Any) -> None:
    node = _any(rng, model.graph.node)
    node.output[rng.randrange(len(node.output))] = rng.choice((_known(rng, model), _name(rng)))


def _cycle(rng: Random, model: Any) -> None:
    node, other = _any(rng, model.graph.node), _any(rng, model.graph.node)
    node.input[0] = other.output[0]


def _other_operator(rng: Random, model: Any) -> None:
    _any(rng, model.graph.node).op_type = rng.choice(_OPERATORS)


def _other_domain(rng: Random, model: Any) -> None:
    _any(rng, model.graph.node).domain = rng.choice(("", "ai.onnx.ml", "com.microsoft", "unknown", _name(rng)))


def _named(rng: Random, model: Any) -> None:
    things = (*model.graph.node, *model.graph.initializer, *model.graph.input, *model.graph.output, model.graph)
    rng.choice(things).name = rng.choice((_name(rng), _known(rng, model)))


def _renamed(rng: Random, model: Any) -> None:
    """Call one tensor otherwise wherever it appears."""
    old, new = _known(rng, model), _name(rng)
    for node in model.graph.node:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                if name == old:
                    names[at] = new
    for thing in (*model.graph.initializer, *model.graph.input, *model.graph.output, *model.graph.value_info):
        if thing.name == old:
            thing.name = new


def _dimension(rng: Random, model: Any) -> None:
    info = _any(rng, (*model.graph.input, *model.graph.output, *model.graph.value_info))
    dimension = _any(rng, info.type.tensor_type.shape.dim)
    if rng.random() < 0.3:
        dimension.dim_param = rng.choice(("batch", "N", "a*b", "2*N+1", "", _name(rng)))
    else:
        dimension.dim_value = rng.choice(_DIMENSIONS)


def _rank(rng: Random, model: Any) -> None:
    shape = _any(rng, (*model.graph.input, *model.graph.output)).type.tensor_type.shape
    if rng.random() < 0.5:
        del shape.dim[rng.randrange(len(shape.dim)) :]
    else:
        for _ in range(rng.choice((1, 5, 100))):
            shape.dim.add().dim_value = rng.choice((1, 2, 1000))


def _element(rng: Random, model: Any) -> None:
    roll = rng.random()
    if roll < 0.5:
        _any(rng, (*model.graph.input, *model.graph.output)).type.tensor_type.elem_type = rng.randrange(-1, 40)
    else:
        _any(rng, model.graph.initializer).data_type = rng.randrange(-1, 40)


def _untyped(rng: Random, model: Any) -> None:
    _any(rng, (*model.graph.input, *model.graph.output)).ClearField("type")


def _weight(rng: Random, model: Any) -> None:
    weight = _any(rng, model.graph.initializer)
    roll = rng.random()
    if roll < 0.4:
        weight.dims[rng.randrange(len(weight.dims))] = rng.choice(_DIMENSIONS)
    elif roll < 0.6:
        weight.raw_data = damaged_bytes(rng, weight.raw_data)
    elif roll < 0.8:
        weight.data_location = 1
        entry = weight.external_data.add()
        entry.key, entry.value = (
            "location",
            rng.choice(("weights.bin", "../x", "/etc/passwd", "/dev/zero", "tiny.onnx")),
        )
    else:
        del weight.dims[:]


def _attribute(rng: Random, model: Any) -> None:
    from onnx import helper

    node = _any(rng, model.graph.node)
    names = [each.name for each in node.attribute] + ["axis", "perm", "pads", "kernel_shape", "to", "group", "body", ""]
    name = rng.choice(names)
    value = rng.choice(
        (0, -1, 2**62, -(2**63), 1.5, float("nan"), "x", b"\xff", [1, 2], [-1] * 9, [0], [1e308], ["a"], [2**62] * 4)
    )
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _attribute_lost(rng: Random, model: Any) -> None:
    node = _any(rng, model.graph.node)
    del node.attribute[rng.randrange(len(node.attribute))]


def _attribute_type(rng: Random, model: Any) -> None:
    _any(rng, _any(rng, model.graph.node).attribute).type = rng.randrange(0, 16)


def _nested(rng: Random, model: Any) -> None:
    """Make a graph the attribute of one of its nodes, a few levels deep."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        graph = model.graph.SerializeToString()  # a message cannot be copied into itself
        attribute = _any(rng, model.graph.node).attribute.add()
        attribute.name, attribute.type = rng.choice(("body", "then_branch", "else_branch")), 5
        attribute.g.ParseFromString(graph)
        if model.ByteSize() > 300_000:
            return


def _function(rng: Random, model: Any) -> None:
    """Add a function that calls itself, or another that does."""
    node = _any(rng, model.graph.node)
    function = model.functions.add()
    function.name, function.domain = node.op_type, node.domain or "local"
    node.domain = function.domain
    function.input.extend(node.input)
    function.output.extend(node.output)
    function.node.append(node)
    if rng.random() < 0.5:
        model.opset_import.add().domain = function.domain


def _opsets(rng: Random, model: Any) -> None:
    if rng.random() < 0.4:
        del model.opset_import[:]
    else:
        opset = model.opset_import.add()
        opset.domain, opset.version = (
            rng.choice(("", "unknown", "ai.onnx.ml")),
            rng.choice((0, 1, 6, 17, 99, -1, 2**40)),
        )


def _version(rng: Random, model: Any) -> None:
    model.ir_version = rng.choice((0, 1, 3, 8, 99, -1, 2**40))


def _ends(rng: Random, model: Any) -> None:
    values = rng.choice((model.graph.input, model.graph.output))
    if rng.random() < 0.5:
        del values[rng.randrange(len(values))]
    else:
        values.append(_any(rng, (*model.graph.input, *model.graph.output)))


def _weights_lost(rng: Random, model: Any) -> None:
    del model.graph.initializer[rng.randrange(len(model.graph.initializer))]


def _no_graph(rng: Random, model: Any) -> None:
    model.ClearField("graph")


def _shuffled(rng: Random, model: Any) -> None:
    nodes = list(model.graph.node)
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


_FAULTS: tuple[Callable[[Random, Any], None], ...] = (
    _node_lost, _node_doubled, _other_input, _other_input, _more_inputs, _fewer_inputs, _other_output, _cycle,
    _other_operator, _other_operator, _other_domain, _named, _renamed, _dimension, _dimension, _dimension, _rank,
    _element, _untyped, _weight, _weight, _attribute, _attribute, _attribute, _attribute_lost, _attribute_type, _nested,
    _function, _opsets, _version, _ends, _weights_lost, _no_graph, _shuffled,
)  # fmt: skip
